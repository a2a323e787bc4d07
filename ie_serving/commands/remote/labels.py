"""`ie_serving labels list MODEL`, `ie_serving labels set MODEL LABEL=VERSION ...`.

Labels that are not named stay; `LABEL=` removes one. The server applies all changes or none, and
accepts only versions that are AVAILABLE, unless it was started to allow others.
"""

import argparse
import json
from collections.abc import Mapping

from ie_serving.commands.remote import server_address
from ie_serving.commands.remote.failures import CommandMisused, ServerRefused
from ie_serving.commands.remote.models import named
from ie_serving.commands.remote.rest import RestPort
from ie_serving.wire.clients import model_path


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of this command."""
    what = parser.add_subparsers(dest="what", required=True, metavar="{list,set}")
    shown = what.add_parser("list", help="show the labels of a model", allow_abbrev=False)
    changed = what.add_parser("set", help="set, move or remove labels", allow_abbrev=False)
    for each in (shown, changed):
        server_address.add_model(each)
    changed.add_argument("labels", nargs="+", metavar="LABEL=VERSION", help="LABEL= removes one")
    for each in (shown, changed):
        each.add_argument("--json", action="store_true", help="print one line of JSON")
        server_address.add_flags(each)


def run(given: argparse.Namespace, address: server_address.ServerAddress) -> int:
    """Show labels, or change them and show the changes. Raises: CommandFailure."""
    if given.what == "set" and given.model_name and given.model:
        given.labels.insert(0, given.model)  # argparse took the first label for MODEL
        given.model = None
    model = server_address.model_of(given)
    rest = RestPort(address)
    path = f"{model_path(model)}/details"
    changes = _changes(given.labels) if given.what == "set" else {}
    try:
        before = rest.json(path)
        after = before
        if changes:
            after = rest.post(f"{model_path(model)}:labels", {"labels": changes})
    except ServerRefused as error:
        if error.lacks_route:
            raise ServerRefused(
                f"{address.url} has no route for labels alone: another server of this API takes"
                " them by `ie_serving reload --config FILE`, whose file has all of its models"
            ) from None
        raise named(rest, model, error) from None
    if given.json:
        print(json.dumps(after))
    elif changes:
        print("\n".join(_label_changes(before, after)) or "nothing has changed")
    else:
        print("\n".join(_lines(after)) or f"model {model} has no labels")
    return 0


def _changes(words: list[str]) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    for word in words:
        # The last one: a label may hold any character.
        label, equals, number = word.rpartition("=")
        is_number = number.isascii() and number.isdecimal() and len(number) < 19
        if not equals or not label or not (is_number or not number):
            raise CommandMisused(
                f"{word!r} is no label with its version; expected one such as stable=3"
            )
        if label in found:
            raise CommandMisused(f'label "{label}" is named twice; name it once')
        found[label] = int(number) if number else None
    return found


def _all(details: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    return {**details["waiting_labels"], **details["labels"]}


def _lines(details: Mapping[str, Mapping[str, int]]) -> list[str]:
    waiting = details["waiting_labels"]
    lines = [f"{label}={number}" for label, number in details["labels"].items()]
    lines += [f"{label}={number} (waits for this version)" for label, number in waiting.items()]
    return sorted(lines)


def _label_changes(
    before: Mapping[str, Mapping[str, int]], after: Mapping[str, Mapping[str, int]]
) -> list[str]:
    old, new = _all(before), _all(after)
    return [
        f"{label}: {old.get(label, 'none')} -> {new.get(label, 'removed')}"
        for label in sorted({*old, *new})
        if old.get(label) != new.get(label)
    ]
