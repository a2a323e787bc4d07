"""`ie_serving poll MODEL`: the server lists the repository of a model now, not at its next poll."""

import argparse
import json

from ie_serving.commands.remote import place
from ie_serving.commands.remote.failures import Refused
from ie_serving.commands.remote.models import named, one_model
from ie_serving.commands.remote.rest import Rest
from ie_serving.commands.remote.status import table
from ie_serving.wire.clients.paths import model_path


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of this command."""
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("--json", action="store_true", help="print what the server answers")
    place.add_flags(parser)


def run(given: argparse.Namespace, where: place.ServerAddress) -> int:
    """Poll; show the states that follow. Raises: Failure."""
    rest = Rest(where)
    try:
        answer = rest.post(f"{model_path(given.model)}:poll", {})
    except Refused as error:
        raise named(rest, given.model, error) from None
    print(json.dumps(answer) if given.json else table([one_model(rest, given.model)]))
    return 0
