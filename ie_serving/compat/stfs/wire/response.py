"""Outputs -> the reply of `POST /` of simple_tensorflow_serving: an object with each by its name.

Source: its documentation and code, version 0.8.2.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
import orjson

from ie_serving.core.values.tensors import Array, Arrays, DataType, Specs, TensorSpec
from ie_serving.wire.json.pretty import DENSE, encoded, quoted_text, write_value
from ie_serving.wire.json.response import is_finite, known

PREDICT: Final = "predict"
PROBABILITIES: Final = "predict_proba"
LOGARITHMS: Final = "predict_log_proba"

PMML: Final = "pmml"
"""Platform whose reply has everything within one object."""

NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "scikitlearn": {"label": PREDICT, "y": PREDICT, "probabilities": PROBABILITIES},
    "xgboost": {"y": "result"},
}
"""What the outputs of the drivers are called there, by platform; others keep their names."""


def encode(outputs: Arrays, specs: Specs, platform: str) -> bytes:
    """Write a reply.

    Args:
        outputs: arrays by name; not kept.
        specs: the signature's outputs.
        platform: of the model.
    """
    if platform == PMML:
        # One record was asked, and its values are the answer.
        own = {
            name: array[0, ...] if array.shape[:1] == (1,) else array
            for name, array in outputs.items()
        }
        return b'{"result": %b}' % encode(own, specs, "")
    names = NAMES.get(platform, {})
    members = []
    for name, array in outputs.items():
        shown = names.get(name, name)
        members.append(_member(shown, _value(array, specs[name])))
        if shown == PROBABILITIES:
            members.append(_member(LOGARITHMS, _value(_logarithms(array), specs[name])))
    return b"{%b}" % b", ".join(members)


def _member(name: str, value: bytes) -> bytes:
    return encoded(quoted_text(name)) + b": " + value


def _value(array: Array, spec: TensorSpec) -> bytes:
    if spec.dtype is DataType.STRING or not is_finite(array):
        return encoded(write_value(array, spec, DENSE))
    return orjson.dumps(
        np.ascontiguousarray(array) if array.ndim else known(array)[()], option=_NUMPY
    )


def _logarithms(array: Array) -> Array:
    with np.errstate(divide="ignore"):  # of 0 it is -Infinity, as in scikit-learn
        logarithms: Array = np.log(array)
    return logarithms


_NUMPY: Final = orjson.OPT_SERIALIZE_NUMPY
