"""Outputs -> replies of `POST /predict/...`: JSON by name, a list of texts, or plain bytes."""

import base64
from collections.abc import Mapping

from ie_serving.core.errors import InvalidRequest
from ie_serving.core.tensors import Array
from ie_serving.wire.json.pretty import DENSE, encoded, quoted_text, value_of
from ie_serving.wire.kibernetika.request import Form


def encode(outputs: Mapping[str, Array], form: Form) -> bytes:
    """Encode a reply.

    Args:
        outputs: arrays by name; not kept.
        form: what is asked for.

    Raises:
        InvalidRequest: the outputs have no such form.
    """
    if form is Form.RAW:
        return _one(outputs)
    if form is Form.TEXTS:
        texts = [_text(name, each) for name, array in outputs.items() for each in _flat(array)]
        return encoded(DENSE.array([quoted_text(each) for each in texts], 0))
    values = {name: value_of(array, DENSE, _quoted) for name, array in outputs.items()}
    return encoded(DENSE.object(values, 0))


def _one(outputs: Mapping[str, Array]) -> bytes:
    """Give the bytes of the one output there is."""
    if len(outputs) != 1:
        raise InvalidRequest(
            f"out_mime_type asks for one output, and there are {', '.join(outputs) or 'none'}: name"
            " one in out_filter"
        )
    ((name, array),) = outputs.items()
    values = _flat(array)
    if len(values) != 1 or not isinstance(values[0], bytes):
        raise InvalidRequest(f'output "{name}" is not the bytes of one file: ask for it as JSON')
    return values[0]


def _flat(array: Array) -> list[object]:
    return list(array.ravel().tolist())


def _text(name: str, value: object) -> str:
    if not isinstance(value, bytes):
        raise InvalidRequest(f'output "{name}" holds no texts: ask for it as JSON')
    return value.decode("utf-8", "replace")


def _quoted(value: bytes) -> str:
    """Write a string; bytes that are no text as TensorFlow Serving's REST API does."""
    try:
        return quoted_text(value.decode())
    except UnicodeDecodeError:
        return DENSE.object({"b64": f'"{base64.b64encode(value).decode()}"'}, 0)
