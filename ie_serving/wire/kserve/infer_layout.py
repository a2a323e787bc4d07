"""Reads ModelInferRequests that repeat an earlier one in all but values and id: see `Layout`."""

from collections.abc import Mapping
from functools import partial

import numpy as np

from ie_serving.core.values.tensors import Array, DataType, Signature
from ie_serving.wire.kserve.datatypes import BY_NAME
from ie_serving.wire.kserve.infer_fields import Walked, walk
from ie_serving.wire.kserve.infer_request import ModelInfer, SpecOf, parse_soon
from ie_serving.wire.kserve.inputs import check_datatype
from ie_serving.wire.kserve.regions import OFF, Regions, SmallParts
from ie_serving.wire.protobuf.fields import Buffer
from ie_serving.wire.tfs.predict_layout import (
    Layout,
    RepeatedParser,
    TensorPlace,
    between,
    in_place,
)


class InferLayout(Layout[ModelInfer]):
    """See `Layout`.

    Args of the constructor:
        payload: of a request.
        request: its parsed message.
        walked: the places of its fields.
        tensors: its inputs, whose values are all in place.
    """

    __slots__ = ("_classes", "_dtypes", "_form", "_id", "_model", "_outputs", "_same", "_tensors")

    def __init__(
        self, payload: Buffer, request: ModelInfer, walked: Walked, tensors: list[TensorPlace]
    ) -> None:
        self._model = request.model
        self._outputs = request.output_filter
        self._form = request.form
        self._classes = request.classes
        self._dtypes: Mapping[str, DataType] = {
            each.rest.name: BY_NAME[each.rest.datatype] for each in walked.tensors
        }
        self._tensors = tensors
        # Its length must stay the same, its text may differ.
        self._id = walked.id
        texts = [(walked.id.value, walked.id.end)] if walked.id else []
        places = [*((each.start, each.end) for each in tensors), *texts]
        self._same = list(between(payload, sorted(places)))

    def read(self, payload: Buffer) -> ModelInfer | None:
        """See `Layout`."""
        for start, end, same in self._same:
            if payload[start:end] != same:
                return None
        id, field = b"", self._id
        if field is not None:
            id = bytes(payload[field.start : field.end])
            if not id.isascii():  # protobuf finds out whether it is UTF-8
                return None
        decode = partial(self._decode, payload)
        size = len(payload)
        return ModelInfer(
            self._model, "", decode, size, decode, self._outputs, None, id, self._classes
        )

    def _decode(self, payload: Buffer, signature: Signature) -> tuple[dict[str, Array], object]:
        arrays: dict[str, Array] = {}
        specs, dtypes = signature.inputs, self._dtypes
        for name, dtype, shape, start, _ in self._tensors:  # as for Predict
            spec = specs.get(name)
            if spec is not None and spec.dtype is not dtypes[name]:
                check_datatype(signature, name, dtypes[name])
            arrays[name] = np.ndarray(shape, dtype, payload, start)
        return arrays, self._form


class InferParser(RepeatedParser[ModelInfer]):
    """Parses ModelInferRequests, and remembers how those lie that come more than once."""

    def __init__(self, spec_of: SpecOf, regions: Regions = OFF) -> None:
        super().__init__()
        self._spec_of = spec_of
        self._regions = SmallParts(regions)

    def parse_anew(self, payload: Buffer) -> ModelInfer:
        """See `RepeatedParser`. Raises: as `infer_request.parse_soon`."""
        return parse_soon(self._spec_of, payload, self._regions)

    def layout_of(self, payload: Buffer, request: ModelInfer) -> InferLayout:
        """See `RepeatedParser`."""
        walked = walk(memoryview(payload))
        found = ((each.rest.name, each) for each in walked.tensors)
        return InferLayout(payload, request, walked, in_place(payload, request, found))
