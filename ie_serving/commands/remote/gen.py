"""`ie_serving gen`: prints a client program, or a request, for a model on a running server.

ie_serving gen client --lang python --model_name resnet --url http://localhost:8000 > client.py
ie_serving gen request --model_name resnet --url http://localhost:8000 | curl -d @- ...
"""

import argparse

from ie_serving.commands.remote import server_address
from ie_serving.commands.remote.arrays import known_signatures
from ie_serving.commands.remote.failures import CommandMisused
from ie_serving.commands.remote.metadata import metadata_of
from ie_serving.commands.remote.rest import RestPort
from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.requests import ModelSpec
from ie_serving.wire.clients import sample


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of this command."""
    asked = parser.add_subparsers(dest="what", required=True, metavar="{client,request}")
    client = asked.add_parser(
        "client", help="print a program that asks the model", allow_abbrev=False
    )
    client.add_argument(
        "--lang",
        required=True,
        choices=[*sample.WRITERS],
        metavar="LANG",
        help=f"one of {', '.join(sample.WRITERS)}; it needs the language alone, or curl",
    )
    request = asked.add_parser(
        "request", help="print the body of a request to the model", allow_abbrev=False
    )
    for each in (client, request):
        server_address.add_model(each)
        server_address.add_version(each)
        each.add_argument("--signature_name", default="", metavar="TEXT", help="(serving_default)")
        server_address.add_flags(each)


def run(given: argparse.Namespace, address: server_address.ServerAddress) -> int:
    """Print the program or the body. Raises: CommandFailure."""
    model = ModelSpec(server_address.model_of(given), given.version, None, given.signature_name)
    document = metadata_of(RestPort(address), model.name, model.version, None)
    # A request needs no outputs, so a signature may have any.
    known = known_signatures(address, document["metadata"], with_outputs=False)
    try:
        made = sample.predict(sample.checked_url(address.url), model, known)
    except InvalidRequest as error:
        raise CommandMisused(str(error)) from None
    print(sample.program(given.lang, made) if given.what == "client" else sample.text_of(made.body))
    return 0
