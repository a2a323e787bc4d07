"""`ie_serving poll MODEL`: the server lists the repository of a model now, not at its next poll."""

import argparse
import json

from ie_serving.commands.remote import server_address
from ie_serving.commands.remote.failures import ServerRefused
from ie_serving.commands.remote.models import named, one_model
from ie_serving.commands.remote.rest import RestPort
from ie_serving.commands.remote.status import table
from ie_serving.wire.clients import model_path


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of this command."""
    server_address.add_model(parser)
    parser.add_argument("--json", action="store_true", help="print what the server answers")
    server_address.add_flags(parser)


def run(given: argparse.Namespace, address: server_address.ServerAddress) -> int:
    """Poll, then show the new states. Raises: CommandFailure."""
    model = server_address.model_of(given)
    rest = RestPort(address)
    try:
        reply = rest.post(f"{model_path(model)}:poll", {})
    except ServerRefused as error:
        raise named(rest, model, error) from None
    print(json.dumps(reply) if given.json else table([one_model(rest, model)]))
    return 0
