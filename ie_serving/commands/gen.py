"""`ie_serving gen`: prints a client program, or a request, for a model on a running server.

ie_serving gen client --lang python --model_name resnet --url http://localhost:8000 > client.py
ie_serving gen request --model_name resnet --url http://localhost:8000 | curl -d @- ...
"""

import argparse
import http.client
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Final

from ie_serving.commands.remote.failures import Misused, NoAnswer, Refused
from ie_serving.commands.remote.place import (
    DEFAULT_URL,
    URL,
    add_model,
    add_version,
    local_address,
    model_of,
)
from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.requests import ModelSpec
from ie_serving.wire.clients import sample
from ie_serving.wire.clients.sample import text_of
from ie_serving.wire.clients.served_signatures import signatures_at

COMMAND: Final = "gen"
PATIENCE_S: Final = 30.0
"""Seconds within which a server has to send its metadata, which it has in memory."""
MOST_METADATA: Final = 64 << 20
"""Most bytes of metadata that are read, 64 MB: a thousand signatures take less than 1 MB."""


def run(argv: Sequence[str], environ: Mapping[str, str]) -> str:
    """Give the program or the request as text.

    Args:
        argv: without the program's name.
        environ: its AUTHORIZATION is sent to the server as the header of this name.

    Raises:
        ServingError: the request cannot be made up, or a certificate cannot be used.
        Failure: the server cannot be reached, or refuses.
        SystemExit: `--help`, an unknown language, or flags that do not belong here.
    """
    given = parser().parse_args(argv[1:])
    try:
        name = model_of(given)
    except Misused as error:
        parser().error(str(error))
    headers = {"Authorization": environ["AUTHORIZATION"]} if environ.get("AUTHORIZATION") else {}
    address = given.url or environ.get(URL) or local_address(environ)
    url = sample.checked_url(address if "://" in address else f"http://{address}")
    model = ModelSpec(name, given.version, None, given.signature_name)
    secured = _context(given.ca, given.cert, given.key)
    known = signatures_at(url, model, lambda place: _get(place, headers, secured))
    made = sample.predict(url, model, known)
    if given.what == "request":
        return text_of(made.body)
    return sample.program(given.lang, made)


def parser() -> argparse.ArgumentParser:
    """Give the parser of the command line after the command."""
    made = argparse.ArgumentParser(prog=f"ie_serving {COMMAND}", allow_abbrev=False)
    asked = made.add_subparsers(dest="what", required=True, metavar="{client,request}")
    client = asked.add_parser("client", help="print a program that asks the model")
    client.add_argument(
        "--lang",
        required=True,
        choices=[*sample.WRITERS],
        metavar="LANG",
        help=f"one of {', '.join(sample.WRITERS)}; it needs the language alone, or curl",
    )
    request = asked.add_parser("request", help="print the body of a request to the model")
    for each in (client, request):
        add_model(each)
        each.add_argument(
            "--url",
            metavar="ADDRESS",
            help=f"HOST:PORT or http(s)://HOST:PORT of the server's REST port ({URL}, else the"
            f" server that this user runs on this machine, else {DEFAULT_URL}); the variable"
            " AUTHORIZATION is sent as the header of this name, such as 'Bearer KEY'",
        )
        each.add_argument(
            "--ca", metavar="FILE", help="authority of its certificate (the system's)"
        )
        each.add_argument("--cert", metavar="FILE", help="certificate that is shown to it")
        each.add_argument("--key", metavar="FILE", help="its private key (that of --cert)")
        add_version(each)
        each.add_argument("--signature_name", default="", metavar="TEXT", help="(serving_default)")
    return made


def _context(ca: str | None, certificate: str | None, key: str | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca)
        if certificate:
            context.load_cert_chain(certificate, key)
    except OSError as error:
        named = ", ".join(filter(None, (ca, certificate, key)))
        raise InvalidRequest(
            f"{named}: {error.strerror or error}: --ca and --cert take PEM files of certificates,"
            " --key one of the private key that belongs to --cert"
        ) from error
    return context


def _get(place: str, headers: Mapping[str, str], secured: ssl.SSLContext) -> bytes:
    try:
        request = urllib.request.Request(place, headers=dict(headers))
        with urllib.request.urlopen(request, timeout=PATIENCE_S, context=secured) as reply:
            return bytes(reply.read(MOST_METADATA))
    except urllib.error.HTTPError as error:
        raise Refused(f"{place} answers {error.code}: {_cause(error)}", error.code) from error
    except (OSError, http.client.HTTPException) as error:
        cause = error.reason if isinstance(error, urllib.error.URLError) else error
        said = getattr(cause, "strerror", None) or cause
        raise NoAnswer(
            f"{place} cannot be asked: {said}: start the server, or name its REST port by --url"
        ) from error


def _cause(error: urllib.error.HTTPError) -> str:
    text = error.read(4096).decode("utf-8", "replace")
    try:
        return str(json.loads(text)["error"])
    except (ValueError, LookupError, TypeError):
        return text
