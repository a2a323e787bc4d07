"""Makes the request that a generated program sends: its URL and its body. Pure."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.requests import ModelSpec
from ie_serving.core.values.tensors import SERVING_DEFAULT, Signature
from ie_serving.wire.clients.paths import model_path
from ie_serving.wire.clients.sample import Pieces, chosen, inlined, inputs

_URL = re.compile(r"https?://[A-Za-z0-9._~:\[\]%/@-]+")
"""URLs that need no quoting in a program: no quotation marks, blanks or line ends."""


@dataclass(frozen=True)
class JsonPost:
    """One POST of JSON.

    Attributes:
        url: the whole one.
        body: JSON of ASCII characters.
    """

    url: str
    body: Pieces


def checked_url(url: str) -> str:
    """Give the address of a server without a slash at its end.

    Raises:
        InvalidRequest: it is none.
    """
    if not _URL.fullmatch(url):
        raise InvalidRequest(
            f"{url[:80]!r} is no address of a server; expected one such as http://localhost:8000"
        )
    return url.rstrip("/")


def predict(url: str, model: ModelSpec, signatures: Mapping[str, Signature]) -> JsonPost:
    """Make the call of `:predict` for the signature that `model` names.

    Args:
        url: address of the server, as `checked_url` gives it.
        model: which servable; its `signature` may be empty.
        signatures: of the version that answers.

    Raises:
        InvalidRequest: no such signature, or its inputs cannot be generated.
    """
    signature = chosen(model.name, signatures, model.signature)
    # Columns, since inputs need not have the same number of rows. One row is cheapest to try.
    start = '{"inputs": '
    if signature.name != SERVING_DEFAULT:
        start = f'{{"signature_name": {json.dumps(signature.name)}, "inputs": '
    body = inlined([start, *inputs(signature.inputs, open_size=1), "}"])
    return JsonPost(f"{url}{path_of(model)}:predict", body)


def path_of(model: ModelSpec) -> str:
    """Give the path of a model, version or label in TensorFlow Serving's REST API."""
    return model_path(model.name, model.version, model.label)
