"""Steps that convert tensors to text, or JSON to tensors, or name a model's numbers.

Text comes by JSON and templates; names are labels of classes and names of columns.
"""

import base64
import json
import re
from collections.abc import Iterator

import numpy as np

from ie_serving.core.values.errors import InvalidTensor, RequestTooLarge
from ie_serving.core.values.tensors import Array, Arrays, DataType, Specs, TensorSpec, tensor
from ie_serving.engines.steps.declaration import fixed


def classifier_output(
    probs: Array, *, labels: tuple[str, ...], top_n: int, softmax: bool
) -> Arrays:
    """Give the best classes of each row; see `registry.TABLE`."""
    if probs.ndim < 1 or not probs.shape[-1]:
        raise InvalidTensor(f"probs has shape {list(probs.shape)}; expected classes at the end")
    if probs.shape[-1] < top_n:
        raise InvalidTensor(
            f"probs has {probs.shape[-1]} classes, fewer than top_n, {top_n}: lower top_n"
        )
    if labels and len(labels) != probs.shape[-1]:
        raise InvalidTensor(
            f"probs has {probs.shape[-1]} classes, and there are {len(labels)} labels: give one for"
            " each class"
        )
    values = probabilities(probs) if softmax else probs
    # NaN of either sign sorts last, so it is never the best.
    index = np.argsort(-values, axis=-1, kind="stable")[..., :top_n]
    best = np.take_along_axis(values, index, axis=-1)
    return {"label": named(index, labels), "index": index.astype(np.int64), "prob": best}


def classifier_specs(inputs: Specs, *, top_n: int, **_: object) -> Specs:
    """Give the specs of `classifier_output`'s outputs."""
    probs = inputs["probs"]
    shape = None if probs.shape is None else (*probs.shape[:-1], top_n)
    found = [
        tensor("label", DataType.STRING),
        tensor("index", DataType.INT64),
        tensor("prob", probs.dtype),
    ]
    return {spec.name: _of_shape(spec, shape) for spec in found}


def regression_output(values: Array, *, names: dict[str, int]) -> Arrays:
    """Give columns by name; see `registry.TABLE`."""
    most = max(names.values())
    if values.ndim < 1 or values.shape[-1] <= most:
        raise InvalidTensor(f"values has shape {list(values.shape)}; column {most} is asked for")
    return {name: values[..., at].copy() for name, at in names.items()}


def regression_specs(inputs: Specs, *, names: dict[str, int]) -> Specs:
    """Give the specs of `regression_output`'s outputs."""
    values = inputs["values"]
    shape = None if values.shape is None else values.shape[:-1]
    return {name: _of_shape(tensor(name, values.dtype), shape) for name in names}


def _of_shape(spec: TensorSpec, shape: tuple[int, ...] | None) -> TensorSpec:
    return TensorSpec(spec.name, spec.dtype, shape, spec.tensor)


def probabilities(values: Array) -> Array:
    """Give the softmax of `values` along the last dimension."""
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def named(classes: Array, labels: tuple[str, ...]) -> Array:
    """Give the name of each class as bytes: its label, or its number if it has none."""
    known = {at: label.encode() for at, label in enumerate(labels)}
    found = np.empty(classes.shape, np.object_)
    found.reshape(-1)[:] = [known.get(at, b"%d" % at) for at in classes.reshape(-1).tolist()]
    return found


MOST_ELEMENTS = 1_000_000
"""Most elements that become text; more are refused. Each takes some 20 bytes and 0.5 us."""

FIELD = re.compile(r"\{(\w+)(?::([^{}]*))?\}|\{\{|\}\}")
"""`{name}` or `{name:.2f}`; a doubled brace stands for one."""

TEXT = fixed(tensor("text", DataType.STRING))


def to_json(inputs: Arrays, *, indent: int) -> Arrays:
    """Write tensors as one JSON object; see `registry.TABLE`."""
    _check_size(inputs)
    found = {name: _json_list(array) for name, array in inputs.items()}
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
    value = _json_list(inputs[name])
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


def _json_list(array: Array) -> object:
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
