"""The OpenAPI document of the REST routes of served models, with example bodies. Pure.

Version 3.0.3, not 3.1: every viewer, generator and gateway reads it, and no schema here needs more.
A version has its schemas and examples once, in `components`; each path refers to them.

`wire/clients/sample.py` makes the values of an example body, as for generated programs. A body is
None where the server knows no valid one: an input of any dtype, or too many elements.
"""

import base64
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import numpy as np
import orjson

from ie_serving.core.values.requests import FeatureValues, ModelSpec
from ie_serving.core.values.signatures import EXAMPLES
from ie_serving.core.values.tensors import SERVING_DEFAULT, DataType, Signature, TensorSpec
from ie_serving.wire.clients import model_path
from ie_serving.wire.clients.sample import NestedValue, filled
from ie_serving.wire.image import encoded
from ie_serving.wire.kserve.datatypes import NAME_OF
from ie_serving.wire.openapi import schemas
from ie_serving.wire.openapi.schemas import Schema
from ie_serving.wire.tfs.classify_regress import serialize_examples

_SIDE: Final = 64
"""Rows and columns of the example image, which the server resizes: models of any size run on it."""
_PNG: Final = "png"

MOST_ELEMENTS: Final = 1_000_000
"""Elements of all examples together, 4 MB of JSON in each of both APIs."""
MOST_OF_ONE: Final = 200_000
"""Elements of one example, more than a picture of 224 x 224 has."""
PREDICT, CLASSIFY, REGRESS, INFER = "predict", "classify", "regress", "infer"
JSON: Final = "application/json"
ERROR: Final = {"$ref": "#/components/responses/Error"}
SCHEMES: Final[Mapping[str, Schema]] = {
    "key": {"type": "http", "scheme": "bearer"},
    "keyHeader": {"type": "apiKey", "in": "header", "name": "x-api-key"},
    "user": {"type": "http", "scheme": "basic"},
}
"""Ways in which callers may authenticate, where the server asks."""
SignaturesOfPath = Mapping[str, Sequence[Signature]]
"""The signatures that each verb of TensorFlow Serving's API can call."""
SUMMARIES: Final = {
    PREDICT: "Run the model (TensorFlow Serving)",
    CLASSIFY: "Classify Examples (TensorFlow Serving)",
    REGRESS: "Regress Examples (TensorFlow Serving)",
    INFER: "Run the model (Open Inference Protocol)",
}


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
    return _request_body(signature, "inputs", _members(values))


def examples(signature: Signature, most: int) -> str | None:
    """Return the body of a `:classify` or `:regress`. Arguments: see `predict`.

    It is None also where the features are unknown.
    """
    if signature.examples is None or not _is_known(signature, most):
        return None
    return _request_body(
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


def _sample(spec: TensorSpec) -> NestedValue:
    """Return one value and the sizes of its lists; an image stands for its pixels."""
    if spec.image is None:
        return filled(spec, 1)
    axis = spec.image.layout.index("N")
    return NestedValue(_b64(_image(spec.image.channels)), filled(spec, 1).sizes[axis : axis + 1])


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
    return str(NestedValue(value, sizes))


def _features(signature: Signature) -> Mapping[str, FeatureValues]:
    binding = signature.examples
    assert binding
    return {binding.features[name]: _feature(spec) for name, spec in binding.base.inputs.items()}


def _feature(spec: TensorSpec) -> FeatureValues:
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


def _request_body(signature: Signature, key: str, value: str) -> str:
    name = (
        {} if signature.name == SERVING_DEFAULT else {"signature_name": json.dumps(signature.name)}
    )
    return _members({**name, key: value})


class Target(NamedTuple):
    """Paths that lead to one version of a model.

    Attributes:
        model: names the version, a label, or neither for the default.
        version: the number of the version that answers.
        calls: signatures of a path, a `SignaturesOfPath`.
    """

    model: ModelSpec
    version: int
    calls: SignaturesOfPath


def document(targets: Sequence[Target], *, release: str, asks_callers: bool) -> bytes:
    """Write the document.

    Args:
        targets: the paths to describe.
        release: release of the server.
        asks_callers: requests need credentials.
    """
    calls = sum(len(each) for target in targets for each in target.calls.values()) or 1
    written = _Document(min(MOST_OF_ONE, MOST_ELEMENTS // calls))
    for target in targets:
        written.add(target)
    components: Schema = {
        "schemas": {"Error": _error(), **written.schemas},
        "requestBodies": written.bodies,
        "responses": {"Error": _reply("Refused, or failed", "Error"), **written.replies},
    }
    made: Schema = {
        "openapi": "3.0.3",
        "info": {
            "title": "ie_serving",
            "version": release,
            "description": "TensorFlow Serving's REST API and the Open Inference Protocol v2, for"
            " the models that this server serves now.",
        },
        "servers": [{"url": "."}],  # where the document lies, also behind a proxy
        "tags": [{"name": name} for name in dict.fromkeys(each.model.name for each in targets)],
        "paths": written.paths,
        "components": components,
    }
    if asks_callers:
        components["securitySchemes"] = SCHEMES
        made["security"] = [{name: []} for name in SCHEMES]
    return orjson.dumps(made)


class _Document:
    """Collects paths, and the components that they refer to.

    Args of the constructor:
        most: elements of an example.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.paths: dict[str, Schema] = {}
        self.schemas: dict[str, Schema] = {}
        self.bodies: dict[str, Schema] = {}
        self.replies: dict[str, Schema] = {}
        self._keys: dict[tuple[str, int, str], str] = {}
        self._taken: set[str] = set()

    def add(self, target: Target) -> None:
        """Describe all paths of a target."""
        model = target.model
        path = model_path(model.name, model.version, model.label)
        self._get(path, model, "status", "States of the versions")
        self._get(f"{path}/metadata", model, "metadata", "Inputs and outputs of each signature")
        for verb, called in target.calls.items():
            if called:
                self._post(f"{path}:{verb}", target, verb, called)
        v2 = f"/v2/models/{quote(model.name, safe='')}"
        if chosen := model.label or model.version:
            v2 = f"{v2}/versions/{quote(str(chosen), safe='')}"
        default = [each for each in target.calls[PREDICT] if each.name == SERVING_DEFAULT]
        self._get(f"{v2}/ready", model, "ready", "Whether it answers")
        if default:
            self._get(v2, model, "describe", "Versions, inputs and outputs")
            self._post(f"{v2}/infer", target, INFER, default)

    def _get(self, path: str, model: ModelSpec, verb: str, summary: str) -> None:
        reply = {"description": summary, "content": {JSON: {"schema": {"type": "object"}}}}
        self._operation(path, "get", model, verb, {"summary": summary}, reply)

    def _post(self, path: str, target: Target, verb: str, called: Sequence[Signature]) -> None:
        key = self._component(target, verb, called)
        body = {"requestBody": {"$ref": f"#/components/requestBodies/{key}"}}
        reply = {"$ref": f"#/components/responses/{key}"}
        self._operation(
            path, "post", target.model, verb, {"summary": SUMMARIES[verb], **body}, reply
        )

    def _operation(
        self, path: str, method: str, model: ModelSpec, verb: str, more: Schema, reply: Schema
    ) -> None:
        chosen = (each for each in (model.version, model.label) if each is not None)
        self.paths[path] = {
            method: {
                "operationId": self._free("_".join([verb, model.name, *map(str, chosen)])),
                "tags": [model.name],
                **more,
                "responses": {"200": reply, "default": ERROR},
            }
        }

    def _component(self, target: Target, verb: str, called: Sequence[Signature]) -> str:
        """Return the name of the body and the reply of a version's verb."""
        version = (target.model.name, target.version, verb)
        if version in self._keys:
            return self._keys[version]
        key = self._keys[version] = self._free(f"{target.model.name}.{target.version}.{verb}")
        form = FORMS[verb]
        requests = [self._schema(f"{key}.{each.name}", form.request(each)) for each in called]
        replies = [self._schema(f"{key}.{each.name}.reply", form.reply(each)) for each in called]
        written = {each.name: form.body(each, self._most) for each in called}
        shown = {name: {"value": orjson.Fragment(body)} for name, body in written.items() if body}
        content: Schema = {"schema": _any_of(requests)}
        if shown:
            content["examples"] = shown
        self.bodies[key] = {"required": True, "content": {JSON: content}}
        if missing := [name for name, body in written.items() if not body]:
            self.bodies[key]["description"] = (
                f"No example of {', '.join(missing)}: it has too many elements for one, or the"
                " server does not know what it takes."
            )
        self.replies[key] = {
            "description": "The outputs",
            "content": {JSON: {"schema": _any_of(replies)}},
        }
        return key

    def _schema(self, name: str, schema: Schema) -> Schema:
        key = self._free(name)
        self.schemas[key] = schema
        return {"$ref": f"#/components/schemas/{key}"}

    def _free(self, name: str) -> str:
        """Return an unused name in the characters that components may have."""
        plain = re.sub(r"[^A-Za-z0-9._-]", "_", name)
        found, number = plain, 1
        while found in self._taken:
            number += 1
            found = f"{plain}_{number}"
        self._taken.add(found)
        return found


class _RequestForm(NamedTuple):
    """The form of one kind of request."""

    request: Callable[[Signature], Schema]
    reply: Callable[[Signature], Schema]
    body: Callable[[Signature, int], str | None]


_EXAMPLES: Final = _RequestForm(
    schemas.examples_request, lambda _: schemas.examples_reply(), examples
)
FORMS: Final[Mapping[str, _RequestForm]] = {
    PREDICT: _RequestForm(schemas.predict_request, schemas.predict_reply, predict),
    CLASSIFY: _EXAMPLES,
    REGRESS: _EXAMPLES,
    INFER: _RequestForm(schemas.infer_request, schemas.infer_reply, infer),
}


def _any_of(found: Iterable[Schema]) -> Schema:
    several = list(found)
    return several[0] if len(several) == 1 else {"anyOf": several}


def _error() -> Schema:
    return {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}


def _reply(description: str, schema: str) -> dict[str, Any]:
    found = {"schema": {"$ref": f"#/components/schemas/{schema}"}}
    return {"description": description, "content": {JSON: found}}
