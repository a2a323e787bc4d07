"""`ie_serving metadata MODEL`: the signatures of a version.

digits, version 2
  serving_default  tensorflow/serving/predict
    input   image          DT_FLOAT  (-1, 64)
    output  probabilities  DT_FLOAT  (-1, 10)
"""

import argparse
import json
from collections.abc import Iterator, Mapping
from typing import Any

from ie_serving.commands.remote import server_address
from ie_serving.commands.remote.failures import ServerRefused, ServerSilent
from ie_serving.commands.remote.models import named
from ie_serving.commands.remote.rest import RestPort
from ie_serving.wire.clients import model_path


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of this command."""
    server_address.add_model(parser)
    which = parser.add_mutually_exclusive_group()
    server_address.add_version(which)
    which.add_argument("--label", metavar="TEXT", help="the version with this label")
    parser.add_argument("--json", action="store_true", help="print what the server answers")
    server_address.add_flags(parser)


def run(given: argparse.Namespace, address: server_address.ServerAddress) -> int:
    """Show the signatures. Raises: CommandFailure."""
    model = server_address.model_of(given)
    document = metadata_of(RestPort(address), model, given.version, given.label)
    print(json.dumps(document) if given.json else "\n".join(_lines(model, document)))
    return 0


def metadata_of(
    rest: RestPort, model: str, version: int | None, label: str | None
) -> Mapping[str, Any]:
    """Give the metadata of a version as the server's JSON. Raises: CommandFailure."""
    try:
        document = rest.json(f"{model_path(model, version, label)}/metadata")
    except ServerRefused as error:
        raise named(rest, model, error) from None
    if not isinstance(document, dict) or "metadata" not in document:
        raise ServerSilent(
            f"{rest.address.url} answers something else than metadata: give the REST port of a"
            " server of TensorFlow Serving's API"
        )
    return document


def _lines(model: str, document: Mapping[str, Any]) -> Iterator[str]:
    # Both forms of this JSON: TensorFlow Serving's, and protobuf's own with names in camel case.
    spec = document.get("model_spec", document.get("modelSpec", {}))
    yield f"{model}, version {spec.get('version', '?')}"
    held = document["metadata"].get("signature_def", {})
    for name, each in sorted(held.get("signature_def", held.get("signatureDef", {})).items()):
        yield f"  {name}  {each.get('method_name', each.get('methodName', ''))}"
        rows = [("input", *_row(*item)) for item in sorted(each.get("inputs", {}).items())]
        rows += [("output", *_row(*item)) for item in sorted(each.get("outputs", {}).items())]
        widths = [max(len(row[column]) for row in rows) for column in range(4)] if rows else []
        for row in rows:
            cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
            yield f"    {'  '.join(cells)}".rstrip()


def _row(alias: str, info: Mapping[str, Any]) -> tuple[str, str, str]:
    shape = info.get("tensor_shape", info.get("tensorShape", {}))
    if shape.get("unknown_rank", shape.get("unknownRank", False)):
        return alias, info.get("dtype", ""), "any shape"
    sizes = [str(dim.get("size", 0)) for dim in shape.get("dim", [])]
    return alias, info.get("dtype", ""), f"({', '.join(sizes)})"
