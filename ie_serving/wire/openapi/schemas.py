"""JSON schemas of the requests and replies of a signature, in both REST APIs. Pure.

OpenAPI 3.0 has a dialect of JSON Schema of its own: one type for each value, no `const`.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ie_serving.core.values.tensors import SERVING_DEFAULT, DataType, Signature, Specs, TensorSpec
from ie_serving.wire.kserve.datatypes import NAME_OF
from ie_serving.wire.kserve.model_metadata import ANY_RANK

Schema = dict[str, Any]

BASE64: Final[Schema] = {
    "type": "object",
    "properties": {"b64": {"type": "string", "format": "byte"}},
    "required": ["b64"],
}
"""Bytes in JSON, such as of an encoded image."""
_FORMATS: Final = {
    DataType.FP32: "float",
    DataType.FP64: "double",
    DataType.INT32: "int32",
    DataType.INT64: "int64",
}


def predict_request(signature: Signature) -> Schema:
    """Return the schema of a `:predict` in columns."""
    named = signature.name != SERVING_DEFAULT
    inputs = _object({name: tensor_schema(spec) for name, spec in signature.inputs.items()})
    inputs["required"] = [name for name in signature.inputs if not _may_omit(name, signature)]
    if not inputs["required"]:
        del inputs["required"]
    made = _object({**_name_of(signature), "inputs": inputs})
    made["required"] = ["signature_name", "inputs"] if named else ["inputs"]
    made["description"] = (
        "Inputs in columns, by name. `instances`, a list of rows as in TensorFlow Serving, is taken"
        " as well; the reply has `predictions` then."
    )
    return made


def predict_reply(signature: Signature) -> Schema:
    """Return the schema of the reply to a `:predict` in columns: one output has no name there."""
    outputs = list(signature.outputs.values())
    if signature.gives_any:
        return _object({"outputs": {}})
    several = _object({each.name: tensor_schema(each) for each in outputs})
    return _object({"outputs": tensor_schema(outputs[0]) if len(outputs) == 1 else several})


def examples_request(signature: Signature) -> Schema:
    """Return the schema of a `:classify` or `:regress`."""
    binding = signature.examples
    features: Specs = {}
    if binding is not None:
        features = {binding.features[name]: each for name, each in binding.base.inputs.items()}
    example = _object({name: _feature(spec) for name, spec in features.items()})
    made = _object(
        {
            **_name_of(signature),
            "context": {"type": "object", "description": "Features that all examples have."},
            "examples": {"type": "array", "minItems": 1, "items": example},
        }
    )
    named = signature.name != SERVING_DEFAULT
    made["required"] = ["signature_name", "examples"] if named else ["examples"]
    return made


def examples_reply() -> Schema:
    """Return the schema of the reply to a `:classify` or `:regress`."""
    return _object({"results": {"type": "array", "items": {}}})


def infer_request(signature: Signature) -> Schema:
    """Return the schema of an inference of the Open Inference Protocol."""
    given = [_infer_tensor(spec, image=True) for spec in signature.inputs.values()]
    inputs: Schema = {"type": "array", "items": _one_of(given)}
    if not signature.takes_any:
        omitted = sum(_may_omit(name, signature) for name in signature.inputs)
        inputs |= {"minItems": len(given) - omitted, "maxItems": len(given)}
    made = _object({"id": {"type": "string"}, "parameters": {"type": "object"}, "inputs": inputs})
    made["properties"]["outputs"] = {
        "type": "array",
        "items": _object({"name": {"type": "string"}, "parameters": {"type": "object"}}),
        "description": "The wanted outputs; all without it.",
    }
    made["required"] = ["inputs"]
    return made


def infer_reply(signature: Signature) -> Schema:
    """Return the schema of the reply to an inference of the Open Inference Protocol."""
    outputs = [_infer_tensor(spec) for spec in signature.outputs.values()]
    made = _object(
        {
            "model_name": {"type": "string"},
            "model_version": {"type": "string"},
            "outputs": {"type": "array", "items": _one_of(outputs)},
        }
    )
    made["required"] = ["model_name", "model_version", "outputs"]
    return made


def tensor_schema(spec: TensorSpec) -> Schema:
    """Return the schema of a tensor as nested lists, or as encoded images where it takes these."""
    if spec.shape is None:
        return {"description": str(spec)}
    made = element(spec.dtype)
    for size in reversed(spec.shape):
        made = {"type": "array", "items": made}
        if size >= 0:
            made |= {"minItems": size, "maxItems": size}
    if spec.image is None:
        return made
    images = {"type": "array", "items": BASE64, "description": spec.image.described()}
    return {"anyOf": [made, images]}


def element(dtype: DataType) -> Schema:
    """Return the schema of one element."""
    if dtype is DataType.STRING:
        return {"anyOf": [{"type": "string"}, BASE64]}
    if dtype is DataType.BOOL:
        return {"type": "boolean"}
    made: Schema = {"type": "number" if dtype.numpy.kind == "f" else "integer"}
    if dtype in _FORMATS:
        made["format"] = _FORMATS[dtype]
    elif dtype.numpy.kind != "f":
        bounds = np.iinfo(dtype.numpy)
        made |= {"minimum": int(bounds.min), "maximum": int(bounds.max)}
    return made


def _infer_tensor(spec: TensorSpec, *, image: bool = False) -> Schema:
    words = [NAME_OF[spec.dtype]]
    if image and spec.image:
        words.append(NAME_OF[DataType.STRING])
    shape: Schema = {"type": "array", "items": {"type": "integer", "minimum": 0}}
    sizes = ANY_RANK if spec.shape is None else spec.shape
    if spec.shape is not None and len(words) == 1:
        shape |= {"minItems": len(sizes), "maxItems": len(sizes)}
    shape["description"] = ", ".join(map(str, sizes))
    made = _object(
        {
            "name": {"type": "string", "enum": [spec.name]},
            "datatype": {"type": "string"} if spec.untyped else {"type": "string", "enum": words},
            "shape": shape,
            "data": {"type": "array", "items": {}},
            "parameters": {"type": "object"},
        }
    )
    made["required"] = ["name", "shape", "datatype"]
    return made


def _feature(spec: TensorSpec) -> Schema:
    one = element(spec.dtype)
    return {"anyOf": [one, {"type": "array", "items": one}]}


def _name_of(signature: Signature) -> Schema:
    return {"signature_name": {"type": "string", "enum": [signature.name]}}


def _may_omit(name: str, signature: Signature) -> bool:
    return name in signature.defaults or signature.inputs[name].optional


def _object(properties: Mapping[str, Schema]) -> Schema:
    return {"type": "object", "properties": dict(properties)}


def _one_of(schemas: list[Schema]) -> Schema:
    if not schemas:
        return {"type": "object"}
    return schemas[0] if len(schemas) == 1 else {"oneOf": schemas}
