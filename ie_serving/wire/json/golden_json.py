"""Reads `golden.json`: requests with their replies, both as the bodies of a REST Predict.

    {"rtol": 1e-3, "atol": 1e-5, "requests": [
        {"request": {"instances": [[1.0, 2.0]]}, "response": {"predictions": [[2.0, 3.0]]}}]}

`rtol` and `atol` are optional, and may be set in a single request as well.
"""

import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import BinaryIO

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.requests import ATOL, RTOL, GoldenRequest, InferRequest, ModelSpec
from ie_serving.core.values.tensors import Array, Signature
from ie_serving.wire.json.inputs import decode_columns, decode_rows
from ie_serving.wire.json.rapidjson.document import JsonValue, parse_file
from ie_serving.wire.json.request import PredictBody, body_of
from ie_serving.wire.json.tensor import is_named

PREDICTIONS = "predictions"
OUTPUTS = "outputs"
_TOLERANCES: Mapping[str, float] = {"rtol": RTOL, "atol": ATOL}

LARGEST_BYTES = 1 << 26
"""Largest size of a file. It is parsed at once: 64 MB may take some gigabytes as Python's lists."""


def read_golden(file: BinaryIO) -> Iterator[GoldenRequest]:
    """Read a file.

    Raises:
        InvalidRequest: naming the place and the expected form.
    """
    content = file.read(LARGEST_BYTES + 1)
    if len(content) > LARGEST_BYTES:
        raise InvalidRequest(
            f"it is larger than {LARGEST_BYTES >> 20} MB: write golden.tfrecord instead, which is"
            " read record by record"
        )
    document = parse_file(content)
    _check_keys("the file", document, {"requests", *_TOLERANCES}, {"requests"})
    if not isinstance(document["requests"], list):
        raise InvalidRequest('"requests" must be a list')
    for number, entry in enumerate(document["requests"]):
        yield _golden(f"requests[{number}]", entry, document)


def _golden(place: str, entry: JsonValue, document: Mapping[str, JsonValue]) -> GoldenRequest:
    _check_keys(place, entry, {"request", "response", *_TOLERANCES}, {"request", "response"})
    for part in ("request", "response"):
        if not is_named(entry[part]):
            raise InvalidRequest(f"{place}.{part} must be an object: the body of a REST Predict")
    tolerances = [_tolerance(place, name, entry, document) for name in _TOLERANCES]
    body = body_of(b"", entry["request"])
    request = InferRequest(ModelSpec(""), body.signature_name, partial(_decode, body), 0)
    return GoldenRequest(place, request, partial(_expected, entry["response"]), *tolerances)


def _check_keys(place: str, value: JsonValue, known: set[str], needed: set[str]) -> None:
    if not is_named(value) or not needed <= value.keys() <= known:
        raise InvalidRequest(
            f"{place} must be an object with {' and '.join(sorted(needed))}, and of other keys only"
            f" {', '.join(sorted(known - needed))}"
        )


def _tolerance(
    place: str, name: str, entry: Mapping[str, JsonValue], document: Mapping[str, JsonValue]
) -> float:
    value = entry.get(name, document.get(name, _TOLERANCES[name]))
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise InvalidRequest(f"{place}: {name} must be a finite number that is not negative")
    return float(value)


def _decode(body: PredictBody, signature: Signature) -> tuple[Mapping[str, Array], None]:
    return body.decode(signature)[0], None


def _expected(response: Mapping[str, JsonValue], signature: Signature) -> Mapping[str, Array]:
    """Decode the outputs that a reply holds. Raises: InvalidRequest, which names the response."""
    try:
        return _decoded(response, signature)
    except InvalidRequest as error:
        raise InvalidRequest(f"its response: {error}") from error


def _decoded(response: Mapping[str, JsonValue], signature: Signature) -> Mapping[str, Array]:
    if len(response) != 1 or not response.keys() <= {PREDICTIONS, OUTPUTS}:
        raise InvalidRequest(f'it must have the one key "{PREDICTIONS}" or "{OUTPUTS}"')
    ((key, value),) = response.items()
    if key == OUTPUTS:
        return decode_columns(
            value, {a: signature.outputs[a].dtype for a in _output_names(value, signature)}
        )
    if not isinstance(value, list) or not value:
        raise InvalidRequest(f'"{PREDICTIONS}" must be a list with an entry for each row')
    return decode_rows(
        value, {a: signature.outputs[a].dtype for a in _output_names(value[0], signature)}
    )


def _output_names(value: JsonValue, signature: Signature) -> list[str]:
    """Give the aliases of the outputs that a reply, or a row of one, holds."""
    known = ", ".join(sorted(signature.outputs))
    if is_named(value):
        if not value.keys() <= signature.outputs.keys():
            raise InvalidRequest(f"it names {', '.join(value)}; the model gives {known}")
        if not value:
            raise InvalidRequest(f"it names no output; the model gives {known}")
        return list(value)
    if len(signature.outputs) > 1:
        raise InvalidRequest(f"it must name its outputs; the model gives {known}")
    return list(signature.outputs)
