"""`ie_serving reload`: the server reads its configuration file and lists its repositories now.

With `--config FILE` it gets another configuration instead, all or nothing, by
HandleReloadConfigRequest of the gRPC port. The file is read here, of any kind that the server
itself reads; paths in it are those of the server.
"""

import argparse
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from ie_serving.commands.remote import place
from ie_serving.commands.remote.models import Model, all_models
from ie_serving.commands.remote.rest import Rest
from ie_serving.telemetry.log.progress import Progress

States = Mapping[str, Mapping[str, str]]
"""By model: of each version, by `version 3`, and of each label, by `label stable`."""
UNCHANGED: Final = "no model, state or label has changed"
AS_FAR_AS_TOLD: Final = "no model or state has changed; labels are not told over gRPC"
PATIENCE_S: Final = 600.0
"""Seconds without an answer by default: a reload answers when what is new has loaded."""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of this command."""
    parser.add_argument(
        "--config", metavar="FILE", help="give the server this one; --url is that of the gRPC port"
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    place.add_flags(parser)
    parser.set_defaults(timeout_seconds=PATIENCE_S)


def run(given: argparse.Namespace, where: place.ServerAddress) -> int:
    """Reload; say what has changed. Raises: Failure."""
    began = time.monotonic()
    if given.config:
        from ie_serving.commands.remote.given_config import (
            reload_with,  # configuration, protobuf and gRPC
        )

        with Progress("waiting until what is new serves", unit=""):
            before, after = reload_with(given.config, where)
    else:
        with Progress("waiting until what is new serves", unit=""):
            before, after = _reloaded(Rest(where))
    changes = list(changed(before, after))
    if given.json:
        print(json.dumps({"changed": changes, "models": after}))
    else:
        took_s = time.monotonic() - began
        print(
            "\n".join(
                [
                    *(changes or [AS_FAR_AS_TOLD if given.config else UNCHANGED]),
                    f"done in {took_s:.1f} s",
                ]
            )
        )
    return 0


def _reloaded(rest: Rest) -> tuple[States, States]:
    before = states_of(all_models(rest))
    rest.ask("POST", "/v1/config/reload", b"")
    return before, states_of(all_models(rest))


def states_of(models: Iterable[Model]) -> States:
    """Give what a reload may change, in words."""
    return {
        model.name: {
            **{f"version {each.number}": each.state for each in model.versions},
            **{
                f"label {label}": str(each.number)
                for each in model.versions
                for label in each.labels
            },
            **{f"label {label}": f"{number}, waiting" for label, number in model.waiting.items()},
        }
        for model in models
    }


def changed(before: States, after: States) -> Iterator[str]:
    """Say what is not as it was, a line each."""
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if new is None:
            yield f"model {name}: removed"
            continue
        if old is None:
            yield f"model {name}: added"
        for what in sorted({*(old or {}), *new}):
            was, is_now = (old or {}).get(what, "none"), new.get(what, "none")
            if was != is_now:
                yield f"model {name}, {what}: {was} -> {is_now}"
