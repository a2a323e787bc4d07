"""Translates a request of the Open Inference Protocol to the inputs of a signature.

The protocol has no signatures: `serving_default` is run. A request has parameters instead; those
about sequences become the two control inputs of a model with state.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from ie_serving.core.values.errors import InvalidRequest, InvalidTensor
from ie_serving.core.values.fit import castable
from ie_serving.core.values.tensors import Array, DataType, Signature
from ie_serving.wire.kserve.datatypes import NAME_OF

SEQUENCE_ID: Final = "sequence_id"
SEQUENCE_START: Final = "sequence_start"
SEQUENCE_END: Final = "sequence_end"
CONTROL: Final = "sequence_control_input"
"""Inputs of a model that keeps state, by the words of OpenVINO Model Server; the first name is that
of an input, an output and a parameter."""
SENT: Final = (DataType.STRING, DataType.BF16)
"""Element types of untyped inputs whose bytes may be no array: then they stay as they were sent."""
_START: Final = 1
_END: Final = 2
"""Values of `CONTROL`; their sum is a sequence of one request."""
_MOST: Final = (1 << 64) - 1


def unique(names: Iterable[str], what: str) -> tuple[str, ...]:
    """Give names, and refuse repeated ones; the error names `what`. Raises: InvalidRequest."""
    found: dict[str, None] = {}
    for name in names:
        if name in found:
            raise InvalidRequest(
                f'{what} "{name[:200]}" is there more than once: send each name once'
            )
        found[name] = None
    return tuple(found)


def check_datatype(signature: Signature, name: str, dtype: DataType) -> None:
    """Refuse an element type that the input does not take.

    As over TensorFlow Serving's API, numbers of another type are taken where the values survive:
    `core.values.fit` later finds values that the model refuses, and inputs that the signature does
    not have.

    Raises:
        InvalidTensor: naming both types.
    """
    spec = signature.inputs.get(name)
    if spec is None or dtype is spec.dtype or (dtype is DataType.STRING and spec.image):
        return
    if spec.untyped and dtype is not DataType.BF16:  # whose bytes no array has
        return
    if not castable(dtype.numpy, spec.dtype.numpy):
        raise InvalidTensor(
            f'input "{name}" has datatype {NAME_OF[dtype]}; the model expects {NAME_OF[spec.dtype]}'
        )


def sequence_inputs(
    signature: Signature, parameters: Mapping[str, object], given: Mapping[str, Array]
) -> dict[str, Array]:
    """Give the inputs that stand for a request's sequence parameters.

    Args:
        signature: signature of the model.
        parameters: parameters of the request.
        given: inputs that it has as tensors.

    Returns:
        Nothing where the request is not of a sequence.

    Raises:
        InvalidRequest: the model keeps no sequences, or a parameter is invalid.
    """
    if not parameters.keys() & {SEQUENCE_ID, SEQUENCE_START, SEQUENCE_END}:
        return {}
    number = parameters.get(SEQUENCE_ID, 0)
    start = _flag(parameters, SEQUENCE_START)
    end = _flag(parameters, SEQUENCE_END)
    # Some clients send these values with every request: they mean no sequence.
    if number in (0, "") and not start and not end:
        return {}
    if CONTROL not in signature.inputs:
        raise InvalidRequest(
            f"the parameters {SEQUENCE_ID}, {SEQUENCE_START} and {SEQUENCE_END} are for models that"
            " keep state between requests, and this one keeps none: leave them out"
        )
    if {SEQUENCE_ID, CONTROL} & given.keys():
        raise InvalidRequest(
            f'the sequence is given twice: by parameters, and by inputs "{SEQUENCE_ID}" or'
            f' "{CONTROL}"'
        )
    control = (_START if start else 0) + (_END if end else 0)
    return {
        SEQUENCE_ID: np.array([_number(number)], np.uint64),
        CONTROL: np.array([control], np.uint32),
    }


def _flag(parameters: Mapping[str, object], name: str) -> bool:
    value = parameters.get(name, False)
    if not isinstance(value, bool):
        raise InvalidRequest(f"parameter {name} is {str(value)[:40]!r}; expected true or false")
    return value


def _number(value: object) -> int:
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= 20:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MOST:
        raise InvalidRequest(
            f"parameter {SEQUENCE_ID} is {str(value)[:40]!r}; expected a number below 2^64"
        )
    return value
