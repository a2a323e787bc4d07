"""Example bodies of requests: `wire/clients/sample.py` makes the values, as for generated programs.

A body is None where the server knows no valid one: an input of any dtype, or too many elements.
"""

import base64
import json
import math
from collections.abc import Mapping
from functools import cache
from typing import Final

import numpy as np

from ie_serving.core.values.requests import Feature
from ie_serving.core.values.signatures import EXAMPLES
from ie_serving.core.values.tensors import SERVING_DEFAULT, DataType, Signature, TensorSpec
from ie_serving.wire.clients.sample import Filled, filled
from ie_serving.wire.image.encode import encoded
from ie_serving.wire.kserve.datatypes import NAME_OF
from ie_serving.wire.tfs.example import serialize_examples

_SIDE: Final = 64
"""Rows and columns of the example image, which the server resizes: models of any size run on it."""
_PNG: Final = "png"


def predict(signature: Signature, most: int) -> str | None:
    """Return the body of a `:predict` in columns.

    Args:
        signature: the signature to call.
        most: elements of all inputs up to which there is an example.
    """
    if not _is_known(signature, most):
        return None
    if signature.examples:
        values = {EXAMPLES: _in_lists(_b64(_serialized(signature)), (1,))}
    else:
        values = {name: _tensor(spec) for name, spec in signature.inputs.items()}
    return _named(signature, "inputs", _members(values))


def examples(signature: Signature, most: int) -> str | None:
    """Return the body of a `:classify` or `:regress`. Arguments: see `predict`.

    It is None also where the features are unknown.
    """
    if signature.examples is None or not _is_known(signature, most):
        return None
    return _named(
        signature, "examples", f"[{json.dumps(_features(signature), default=bytes.decode)}]"
    )


def infer(signature: Signature, most: int) -> str | None:
    """Return the body of an inference of the Open Inference Protocol. Arguments: see `predict`."""
    if not _is_known(signature, most):
        return None
    if signature.examples:
        one = _b64(_serialized(signature))
        return f'{{"inputs": [{_infer_tensor(EXAMPLES, "BYTES", (1,), one)}]}}'
    return f'{{"inputs": [{", ".join(map(_infer_input, signature.inputs.values()))}]}}'


def _is_known(signature: Signature, most: int) -> bool:
    filled_in = signature.examples.base if signature.examples else signature
    specs = filled_in.inputs.values()
    if signature.takes_any or any(spec.untyped for spec in specs):
        return False
    return sum(math.prod(_sample(spec).sizes) for spec in specs) <= most


def _sample(spec: TensorSpec) -> Filled:
    """Return one value and the sizes of its lists; an image stands for its pixels."""
    if spec.image is None:
        return filled(spec, 1)
    axis = spec.image.layout.index("N")
    return Filled(_b64(_image(spec.image.channels)), filled(spec, 1).sizes[axis : axis + 1])


def _tensor(spec: TensorSpec) -> str:
    return str(_sample(spec))


def _infer_input(spec: TensorSpec) -> str:
    sample = _sample(spec)
    datatype = NAME_OF[DataType.STRING if spec.image else spec.dtype]
    return _infer_tensor(spec.name, datatype, sample.sizes, sample.value)


def _infer_tensor(name: str, datatype: str, sizes: tuple[int, ...], value: str) -> str:
    data = _in_lists(value, (math.prod(sizes),))
    return (
        f'{{"name": {json.dumps(name)}, "shape": {list(sizes)}, "datatype": "{datatype}",'
        f' "data": {data}}}'
    )


def _in_lists(value: str, sizes: tuple[int, ...]) -> str:
    return str(Filled(value, sizes))


def _features(signature: Signature) -> Mapping[str, Feature]:
    binding = signature.examples
    assert binding
    return {binding.features[name]: _feature(spec) for name, spec in binding.base.inputs.items()}


def _feature(spec: TensorSpec) -> Feature:
    count = math.prod(filled(spec, 1).sizes)
    if spec.dtype is DataType.STRING:
        return [b""] * count
    return [1.0] * count if spec.dtype.numpy.kind == "f" else [1] * count


def _serialized(signature: Signature) -> bytes:
    return serialize_examples([_features(signature)])[0]


def _b64(content: bytes) -> str:
    return f'{{"b64": "{base64.b64encode(content).decode()}"}}'


@cache
def _image(channels: int) -> bytes:
    return encoded(np.zeros((_SIDE, _SIDE, channels), np.uint8), _PNG)


def _members(values: Mapping[str, str]) -> str:
    return f"{{{', '.join(f'{json.dumps(name)}: {value}' for name, value in values.items())}}}"


def _named(signature: Signature, key: str, value: str) -> str:
    name = (
        {} if signature.name == SERVING_DEFAULT else {"signature_name": json.dumps(signature.name)}
    )
    return _members({**name, key: value})
