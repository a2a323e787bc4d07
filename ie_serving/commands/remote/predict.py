"""`ie_serving predict --model_name M --file FILE`: sends one request, and prints the reply.

JSON goes to the server unchanged, and its reply is printed unchanged. Arrays, tables and images
become a request; `--output FILE.npy` makes arrays of the reply. Over gRPC dtypes are exact.
"""

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ie_serving.commands.remote import server_address
from ie_serving.commands.remote.failures import CommandMisused, ServerRefused
from ie_serving.commands.remote.given_inputs import FORMATS, STANDARD, read
from ie_serving.commands.remote.given_request import GivenRequest
from ie_serving.commands.remote.models import named
from ie_serving.commands.remote.rest import RestPort
from ie_serving.telemetry.log.progress import ProgressLine, in_pieces
from ie_serving.wire.clients import model_path

if TYPE_CHECKING:  # numpy is imported where arrays are
    from ie_serving.commands.remote.grpc_predict import NamedArrays

ARRAYS: Final = (".npy", ".npz")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of this command."""
    add = parser.add_argument
    server_address.add_model(parser)
    which = parser.add_mutually_exclusive_group()
    server_address.add_version(which)
    which.add_argument("--label", metavar="TEXT", help="the version with this label")
    add("--signature", default="", metavar="TEXT", help="(serving_default)")
    add("--file", default=STANDARD, help="the request; - is standard input (-)")
    add("--format", choices=FORMATS, help="of the file (by its name; json for standard input)")
    add("--input", default="", metavar="TEXT", help="input that an array, table or image is for")
    add("--output", default=STANDARD, help="file for the answer: .json, .npy or .npz (- as JSON)")
    server_address.add_flags(parser)


def run(given: argparse.Namespace, address: server_address.ServerAddress) -> int:
    """Send the request, and write the reply. Raises: CommandFailure."""
    given.model_name = server_address.model_of(given)
    suffix = Path(given.output).suffix.lower()
    if given.output != STANDARD and suffix not in (".json", *ARRAYS):
        raise CommandMisused(
            f"--output {given.output}: expected a name that ends with .json, .npy or .npz"
        )
    asked = read(given.file, given.format, given.input, given.signature)
    reply = (
        _over_grpc(given, address, asked) if address.is_grpc else _over_rest(given, address, asked)
    )
    _write(given.output, reply)
    return 0


def _over_rest(
    given: argparse.Namespace, address: server_address.ServerAddress, asked: GivenRequest
) -> "bytes | NamedArrays":
    rest = RestPort(address)
    body = asked.body
    if body is None:
        from ie_serving.commands.remote.arrays import json_body

        body = json_body(asked.arrays, given.signature)
    path = f"{model_path(given.model_name, given.version, given.label)}:predict"
    length = {"Content-Length": str(len(body))}
    try:
        with ProgressLine("sending", len(body)) as progress:
            pieces = in_pieces(body, progress)
            reply = rest.ask("POST", path, pieces, length, partial(_received, progress)).body
    except ServerRefused as error:
        raise named(rest, given.model_name, error) from None
    if not given.output.endswith(ARRAYS):
        return reply
    from ie_serving.commands.remote.arrays import from_json, signature_over_rest

    signature = signature_over_rest(rest, given)
    return from_json(reply, signature)


def _received(progress: ProgressLine, done: int, total: int | None) -> None:
    progress.say("receiving")
    progress.show(done, total)


def _over_grpc(
    given: argparse.Namespace, address: server_address.ServerAddress, asked: GivenRequest
) -> "bytes | NamedArrays":
    from ie_serving.commands.remote.arrays import ask_over_grpc

    with ProgressLine("waiting for the answer", unit=""):
        return ask_over_grpc(given, address, asked, as_json=not given.output.endswith(ARRAYS))


def _write(output: str, reply: "bytes | NamedArrays") -> None:
    if not isinstance(reply, bytes):
        from ie_serving.commands.remote.arrays import save

        save(output, reply)
        return
    text = reply if reply.endswith(b"\n") else reply + b"\n"
    if output == STANDARD:
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()
        return
    try:
        Path(output).write_bytes(text)
    except OSError as error:
        raise CommandMisused(f"--output {output} cannot be written: {error.strerror}") from None
