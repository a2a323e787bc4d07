"""`ie_serving reload`: the server reads its configuration file and lists its repositories now.

With `--config FILE` it gets another configuration instead, all or nothing, by
HandleReloadConfigRequest of the gRPC port. The file is read here, of any kind that the server
itself reads; paths in it are those of the server.
"""

import argparse
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ie_serving.remote import place
from ie_serving.remote.failures import Unreachable
from ie_serving.remote.rest import Rest
from ie_serving.telemetry.progress import Progress

States = Mapping[str, Mapping[int, str]]
"""By model and version."""
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


def run(given: argparse.Namespace, where: place.Place) -> int:
    """Reload; say what has changed. Raises: Failure."""
    began = time.monotonic()
    if given.config:
        from ie_serving.remote.given_config import reload_with  # configuration, protobuf and gRPC

        with Progress("waiting until what is new serves", unit=""):
            before, after = reload_with(given.config, where)
    else:
        with Progress("waiting until what is new serves", unit=""):
            before, after = _reloaded(Rest(where))
    changes = list(changed(before, after))
    if given.json:
        print(json.dumps({"changed": changes, "models": _by_text(after)}))
    else:
        took_s = time.monotonic() - began
        print("\n".join([*(changes or ["nothing has changed"]), f"done in {took_s:.1f} s"]))
    return 0


def _by_text(states: States) -> dict[str, dict[str, str]]:
    return {name: {str(n): state for n, state in each.items()} for name, each in states.items()}


def _reloaded(rest: Rest) -> tuple[States, States]:
    before = states_of(rest.json("/v1/config"))
    return before, states_of(rest.post("/v1/config/reload", {}))


def states_of(document: Any) -> States:  # noqa: ANN401  any JSON
    """Read the states of all models. Raises: Unreachable."""
    try:
        return {
            name: {int(v["version"]): str(v["state"]) for v in model["model_version_status"]}
            for name, model in document.items()
        }
    except (LookupError, TypeError, ValueError, AttributeError):
        raise Unreachable("the server answers something else than the states of models") from None


def changed(before: States, after: States) -> Iterator[str]:
    """Say what is not as it was, a line each."""
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if new is None:
            yield f"model {name}: removed"
            continue
        if old is None:
            yield f"model {name}: added"
        for number in sorted({*(old or {}), *new}):
            was, is_now = (old or {}).get(number, "none"), new.get(number, "none")
            if was != is_now:
                yield f"model {name}, version {number}: {was} -> {is_now}"
