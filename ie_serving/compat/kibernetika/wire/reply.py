"""Outputs -> replies of `POST /predict/...`: JSON by name, a list of texts, or plain bytes."""

import base64

from ie_serving.core.values.tensors import Arrays
from ie_serving.wire.form.form_reply import Form, encode_raw, encode_texts
from ie_serving.wire.json.pretty import DENSE, encoded, quoted_text, value_of


def encode(outputs: Arrays, form: Form) -> bytes:
    """Encode a reply.

    Args:
        outputs: arrays by name; not kept.
        form: of the request.

    Raises:
        InvalidRequest: the outputs have no such form.
    """
    if form is Form.RAW:
        return encode_raw(outputs)
    if form is Form.TEXTS:
        return encode_texts(outputs)
    values = {name: value_of(array, DENSE, _quoted) for name, array in outputs.items()}
    return encoded(DENSE.object(values, 0))


def _quoted(value: bytes) -> str:
    """Write a string; bytes that are no text as TensorFlow Serving's REST API does."""
    try:
        return quoted_text(value.decode())
    except UnicodeDecodeError:
        return DENSE.object({"b64": f'"{base64.b64encode(value).decode()}"'}, 0)
