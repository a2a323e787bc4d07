"""Reads the signatures of a served model from the REST metadata of any server of this API.

Both forms of its JSON are read: TensorFlow Serving's, and protobuf's own with names in camel case,
which leaves out default values.
"""

from collections.abc import Mapping
from typing import Any, Final

from ie_serving.core.values.tensors import DataType, Signature, TensorSpec

_BY_WIRE_NAME: Final = {dtype.wire_name: dtype for dtype in DataType}


def signatures_in(held: Mapping[str, Any], *, with_outputs: bool = True) -> dict[str, Signature]:
    """Read a SignatureDefMap; only names, dtypes and shapes are known.

    Signatures with a tensor of another dtype than requests have are left out: Keras exports one
    that initializes the model, whose output is no tensor and has DT_INVALID.

    Args:
        held: its JSON.
        with_outputs: read outputs, too; requests do not need them.

    Raises:
        ValueError, LookupError, TypeError, AttributeError: it is no SignatureDefMap.
    """
    named = held.get("signature_def", held.get("signatureDef", {}))
    found = {}
    for name, each in named.items():
        inputs = each.get("inputs", {})
        outputs = each.get("outputs", {}) if with_outputs else {}
        if all(_dtype(info) for info in (*inputs.values(), *outputs.values())):
            found[name] = Signature(name, _specs(inputs), _specs(outputs))
    return found


def _specs(infos: Mapping[str, Any]) -> dict[str, TensorSpec]:
    return {
        name: TensorSpec(name, dtype, _shape(info), "")
        for name, info in infos.items()
        if (dtype := _dtype(info))
    }


def _dtype(info: Mapping[str, Any]) -> DataType | None:
    return _BY_WIRE_NAME.get(info.get("dtype", ""))


def _shape(info: Mapping[str, Any]) -> tuple[int, ...] | None:
    shape = info.get("tensor_shape", info.get("tensorShape"))
    if shape is None or shape.get("unknown_rank", shape.get("unknownRank", False)):
        return None
    return tuple(int(dim.get("size", 0)) for dim in shape.get("dim", []))
