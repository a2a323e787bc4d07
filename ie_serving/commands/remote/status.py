"""`ie_serving status [MODEL]`: shows the versions that serve, and why others do not.

    MODEL   VERSION  STATE      LABELS  MEMORY   CAUSE
    digits  2*       AVAILABLE          1.2 MB
    digits  1        AVAILABLE  stable  1.1 MB

`*` marks the version that answers requests without a version.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ie_serving.commands.remote import server_address
from ie_serving.commands.remote.failures import (
    REFUSED,
    CommandMisused,
    ServerRefused,
    ServerSilent,
    TimeLimitReached,
)
from ie_serving.commands.remote.models import (
    NONE_SEEN,
    Model,
    ShownVersion,
    all_models,
    budget,
    one_model,
)
from ie_serving.commands.remote.rest import RestPort
from ie_serving.telemetry.log.progress import ProgressLine

PAUSE_S: Final = 0.2
"""Seconds between two requests of `--wait`: a load takes longer, and a request costs 1 ms."""
CLEAR: Final = "\x1b[H\x1b[2J"
"""Moves to the upper left corner of a terminal and clears it."""
COLUMNS: Final = ("MODEL", "VERSION", "STATE", "LABELS", "MEMORY", "CAUSE")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of this command."""
    server_address.add_model(parser, "this model alone")
    parser.epilog = (
        "exit code: 0 all that is asked for is AVAILABLE or on demand, 1 it is not, 2 wrong usage,"
        " 3 no answer, 4 --wait was in vain"
    )
    which = parser.add_mutually_exclusive_group()
    server_address.add_version(which, "this version of MODEL alone")
    which.add_argument("--label", metavar="TEXT", help="the version of MODEL with this label")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    parser.add_argument("--wait", action="store_true", help="wait until it is AVAILABLE")
    parser.add_argument("--timeout", type=float, metavar="S", help="seconds of --wait (60)")
    parser.add_argument(
        "--watch",
        nargs="?",
        type=float,
        const=2.0,
        metavar="S",
        help="show it again every S seconds (2) until Ctrl-C; into a pipe only what has changed",
    )
    server_address.add_flags(parser)


def run(given: argparse.Namespace, address: server_address.ServerAddress) -> int:
    """Show the states; give the exit code. Raises: CommandFailure."""
    if given.model_name:
        given.model = server_address.model_of(given)
    _check(given)
    rest = RestPort(address)
    if given.wait:
        with ProgressLine("waiting until all of it is AVAILABLE", unit=""):
            models = _awaited(given, rest)
    elif given.watch is not None:
        _watch(given, rest)
        return 0
    else:
        models = _chosen_models(given, rest)
    print(_status_text(given, models))
    if not given.json and any(v.is_on_demand for each in models for v in each.versions):
        print(_on_demand(models, budget(rest)))
    return 0 if _all_serve(models) else REFUSED


def _check(given: argparse.Namespace) -> None:
    if (given.version is not None or given.label) and not given.model:
        raise CommandMisused("--version and --label belong to a MODEL: name it")
    if given.wait and given.watch is not None:
        raise CommandMisused(
            "--wait ends with what it waits for, and --watch does not end: give one"
        )
    if given.timeout is not None and not given.wait:
        raise CommandMisused(
            "--timeout belongs to --wait; the patience of one request is --timeout_seconds"
        )
    if given.watch is not None and not 0.1 <= given.watch <= 86400:
        raise CommandMisused(f"--watch is {given.watch:g}; expected 0.1 to 86400 seconds")


def _chosen_models(given: argparse.Namespace, rest: RestPort) -> list[Model]:
    if not given.model:
        return all_models(rest)
    model = one_model(rest, given.model)
    return [replace(model, versions=tuple(_chosen(given, model)))]


def _chosen(given: argparse.Namespace, model: Model) -> Sequence[ShownVersion]:
    if given.version is not None:
        found = [each for each in model.versions if each.number == given.version]
    elif given.label:
        found = [each for each in model.versions if given.label in each.labels]
    else:
        return model.versions
    if not found:
        raise ServerRefused(_lacks(given, model), 404)
    return found


def _lacks(given: argparse.Namespace, model: Model) -> str:
    if given.label in model.waiting:
        return (
            f'label "{given.label}" of model {model.name} waits for version'
            f" {model.waiting[given.label]}, which is not AVAILABLE"
        )
    known = ", ".join(
        str(each.number) if given.label is None else label
        for each in model.versions
        for label in (each.labels if given.label else ("",))
    )
    what = f'label "{given.label}"' if given.label else f"version {given.version}"
    return f"model {model.name} has no {what}; it has {known or 'none'}"


def _all_serve(models: Sequence[Model]) -> bool:
    return all(each.serves for each in models)


def _awaited(given: argparse.Namespace, rest: RestPort) -> list[Model]:
    """Ask until every model serves. Wait for a starting server as for a loading version."""
    patience_s = 60.0 if given.timeout is None else given.timeout
    until = time.monotonic() + patience_s
    while True:
        try:
            models = _chosen_models(given, rest)
            if models and _all_serve(models):
                return models
            last = "; ".join(_lacking(models)) or "the server has no models"
        except (ServerRefused, ServerSilent) as error:
            # Waiting does not correct wrong credentials or a wrong address.
            if isinstance(error, ServerRefused) and error.status not in (404, 429, 503):
                raise
            last = str(error)
        if time.monotonic() + PAUSE_S > until:
            raise TimeLimitReached(f"not AVAILABLE within {patience_s:g} s: {last}")
        time.sleep(PAUSE_S)


def _lacking(models: Sequence[Model]) -> Iterator[str]:
    for model in models:
        if not model.serves:
            states = [f"version {v.number} is {v.state} {v.cause}".strip() for v in model.versions]
            yield f"model {model.name}: {', '.join(states) or model.trouble or NONE_SEEN}"


def _watch(given: argparse.Namespace, rest: RestPort) -> None:
    terminal = sys.stdout.isatty()
    before = ""
    while True:
        try:
            text = _status_text(given, _chosen_models(given, rest))
        except (ServerRefused, ServerSilent) as error:
            # The server may come back, and `--watch` should show the end of a restart as well.
            text = json.dumps({"error": str(error)}) if given.json else str(error)
        if terminal and not given.json:
            print(f"{CLEAR}{text}", flush=True)
        elif text != before:
            print(text, flush=True)
        before = text
        time.sleep(given.watch)


def _status_text(given: argparse.Namespace, models: Sequence[Model]) -> str:
    write: Callable[[Sequence[Model]], str] = _document if given.json else table
    return write(models)


def _document(models: Sequence[Model]) -> str:
    document: dict[str, Any] = {
        each.name: {
            "serves": each.serves,
            "versions": [
                {
                    "version": v.number,
                    "state": v.state,
                    "cause": v.cause,
                    "labels": list(v.labels),
                    "default": v.is_default,
                    "memory_bytes": v.memory,
                    "precisions": dict(v.precisions),
                }
                for v in each.versions
            ],
            "waiting_labels": dict(each.waiting),
            "settings_not_applied": each.not_applied,
            "listing_failed": each.trouble,
        }
        for each in models
    }
    found = {"models": document, "configuration_not_applied": _configuration(models)}
    return json.dumps(found, ensure_ascii=False)


def _configuration(models: Sequence[Model]) -> str:
    """Give why the server's configuration file is not applied, which every model tells."""
    return next((each.configuration for each in models if each.configuration), "")


def table(models: Sequence[Model]) -> str:
    """Write models as a table for people."""
    rows = [COLUMNS, *(row for each in models for row in _rows(each))]
    if len(rows) == 1:
        return "no models are configured"
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    if fault := _configuration(models):
        lines.append(f"configuration not applied, the one before stays: {' '.join(fault.split())}")
    return "\n".join(lines)


def _on_demand(models: Sequence[Model], held: Mapping[str, int]) -> str:
    """Tell how many models are not loaded, and of their budget."""
    waiting = sum(any(v.is_on_demand for v in each.versions) for each in models)
    said = f"{len(models) - waiting} of {len(models)} models loaded, the others on demand"
    if not held:
        return said
    whose = f" by the worker asked, one of {held['workers']}" if held["workers"] > 1 else ""
    return f"{said}; {_size(held['held'])} held of a budget of {_size(held['limit'])}{whose}"


def _rows(model: Model) -> Iterator[tuple[str, ...]]:
    if not model.versions:
        yield (model.name, "-", "-", "", "", " ".join(model.trouble.split()) or NONE_SEEN)
    for version in model.versions:
        yield (
            model.name,
            f"{version.number}{'*' if version.is_default else ''}",
            version.state,
            ",".join(version.labels),
            _size(version.memory),
            " ".join(version.cause.split()),
        )
    if model.trouble and model.versions:
        stay = "listing failed, served versions stay"
        what = stay if model.serves else "no version can be found"
        yield (model.name, "-", "-", "", "", f"{what}: {' '.join(model.trouble.split())}")
    if model.not_applied:
        yield (model.name, "-", "-", "", "", f"settings not applied: {model.not_applied}")
    for label, number in sorted(model.waiting.items()):
        yield (model.name, str(number), "-", label, "", "the label waits for this version")


def _size(memory: int | None) -> str:
    if memory is None:
        return ""
    value, unit = float(memory), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(value) < 1000 or unit == "TB":
            break
        value /= 1000
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
