"""Steps that convert tensors to text, by JSON and templates, and JSON to tensors."""

import base64
import json
import re
from collections.abc import Iterator

import numpy as np

from ie_serving.core.values.errors import InvalidTensor, RequestTooLarge
from ie_serving.core.values.tensors import Array, Arrays, DataType
from ie_serving.engines.steps.declaration import fixed, tensor

MOST_ELEMENTS = 1_000_000
"""Most elements that become text; more are refused. Each takes some 20 bytes and 0.5 us."""

FIELD = re.compile(r"\{(\w+)(?::([^{}]*))?\}|\{\{|\}\}")
"""`{name}` or `{name:.2f}`; a doubled brace stands for one."""

TEXT = fixed(tensor("text", DataType.STRING))


def to_json(inputs: Arrays, *, indent: int) -> Arrays:
    """Write tensors as one JSON object; see `registry.TABLE`."""
    _check_size(inputs)
    found = {name: _plain(array) for name, array in inputs.items()}
    # Python's JSON would write NaN and infinity as words, as JSON does not allow: null instead.
    text = json.dumps(_without_nan(found), ensure_ascii=False, indent=indent or None)
    return _text(text)


def template(inputs: Arrays, *, text: str) -> Arrays:
    """Fill in a template; see `registry.TABLE`."""
    _check_size(inputs)
    return _text(FIELD.sub(lambda found: _filled(found, inputs), text))


def wrong_template(*, text: str) -> str:
    """Give the fault of a template; empty for none."""
    left = FIELD.sub("", text)
    return f'text: a lone brace in "{text[:80]}"; write it twice' if set("{}") & {*left} else ""


def _filled(found: "re.Match[str]", inputs: Arrays) -> str:
    name, form = found[1], found[2] or ""
    if name is None:
        return found[0][0]
    if name not in inputs:
        raise InvalidTensor(f"the text has {{{name}}}; there is {', '.join(inputs) or 'nothing'}")
    value = _plain(inputs[name])
    try:
        several = value if isinstance(value, list) else [value]
        return ", ".join(format(each, form) for each in _flat(several))
    except (TypeError, ValueError) as error:
        raise InvalidTensor(f"{found[0]} does not fit what came: {error}") from None


def _flat(values: list[object]) -> Iterator[object]:
    for each in values:
        if isinstance(each, list):
            yield from _flat(each)
        else:
            yield each


def _check_size(inputs: Arrays) -> None:
    size = sum(array.size for array in inputs.values())
    if size > MOST_ELEMENTS:
        raise RequestTooLarge(f"{size} elements; at most {MOST_ELEMENTS} become text")


def _plain(array: Array) -> object:
    if array.dtype.kind != "O":
        return array.tolist()
    texts = np.empty(array.shape, np.object_)
    texts.reshape(-1)[:] = [_words(each) for each in array.reshape(-1)]
    return texts.tolist()


def _words(data: bytes) -> object:
    """Give bytes as text, or as `{"b64": ...}` if not UTF-8, as the REST interface does."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(data).decode()}


def _without_nan(value: object) -> object:
    if isinstance(value, dict):
        return {name: _without_nan(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_without_nan(each) for each in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _text(text: str) -> Arrays:
    return {"text": np.array(text.encode(), np.object_)}
