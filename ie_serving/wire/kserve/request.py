"""Reads REST bodies of an inference: JSON, followed by raw tensors where a header has its length.

Numbers in JSON are read by the readers of TensorFlow Serving's bodies (`wire/json/request.py`): by
the second, straight from simdjson's buffers, where an input is a plain list, flat or nested by its
shape; otherwise by the third, which names the faulty element.

Source: Open Inference Protocol v2; Triton's "Binary Tensor Data Extension".
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import orjson
import simdjson

from ie_serving.core.values.errors import InvalidRequest, InvalidTensor
from ie_serving.core.values.requests import Decoded
from ie_serving.core.values.tensors import Array, Signature
from ie_serving.wire.json.buffers import Lazy, count_brackets, parse_strictly
from ie_serving.wire.json.document import object_of, parse_object
from ie_serving.wire.json.slices import Cuts
from ie_serving.wire.kserve import json_layouts
from ie_serving.wire.kserve.inputs import check_datatype, sequence_inputs, unique
from ie_serving.wire.kserve.members import entries, parameters_of, text_of
from ie_serving.wire.kserve.regions import OFF, Regions
from ie_serving.wire.kserve.sliced import sliced
from ie_serving.wire.kserve.tensors import (
    RawTail,
    Tensor,
    as_declared,
    read_quickly,
    read_tensors,
    tensor_of,
)
from ie_serving.wire.kserve.wanted import Wanted, wanted_outputs
from ie_serving.wire.protobuf.fields import Unclear

Body = bytes | memoryview
LARGE_TEXT: Final = 32 * 1024
"""Bytes of JSON from which `parse_at_once` looks whether reading its members takes long."""
SLICED: Final = 1 << 20
"""Bytes of JSON from which it is parsed in a thread: simdjson takes 3 ms for as many."""
FEW_LISTS: Final = 1000
"""Lists up to which measuring their lengths takes 0.2 ms."""
FEW_MEMBERS: Final = 16
"""Members of an object, and entries of a list of tensors, that are read in no time."""


class InferBody:
    """The body of an inference whose syntax is checked, its tensors not yet decoded.

    Attributes:
        id: that the reply repeats, in JSON; None where the request has none.
        wanted: which outputs, and how they are written.
        outputs: aliases of the outputs to return; empty for all.
    """

    __slots__ = (
        "_arrays",
        "_others",
        "_parameters",
        "_tensors",
        "_text",
        "id",
        "outputs",
        "wanted",
    )

    def __init__(
        self, text: bytes, document: Lazy, tensors: Sequence[Tensor], regions: Regions
    ) -> None:
        keys = list(document)
        self.id = _id(document) if "id" in keys else None
        self._parameters = parameters_of(document, keys, "the request")
        outputs = entries(document, "outputs") if "outputs" in keys else ()
        self.wanted: Wanted = wanted_outputs(outputs, self._parameters, regions)
        self.outputs = self.wanted.names
        self._text = text
        self._tensors: Sequence[Tensor] = tensors
        # The lists of the body beside the data: inputs, outputs and shapes.
        self._others = 1 + ("outputs" in keys) + len(tensors)
        self._arrays: dict[str, Array] | None = None

    def again(self, values: Lazy, text: bytes) -> "InferBody":
        """Give a request like this one, but for the values of its only input."""
        made = InferBody.__new__(InferBody)
        made.id, made.wanted, made.outputs = self.id, self.wanted, self.outputs
        made._parameters = self._parameters
        made._text, made._others, made._arrays = text, 0, None
        name, dtype, shape, _, raw, base64 = self._tensors[0]
        made._tensors = (Tensor(name, dtype, shape, values, raw, base64),)
        return made

    def without_values(self) -> "InferBody | None":
        """Give what may be kept for `again`; None where more differs than the values."""
        if len(self._tensors) != 1 or self._tensors[0].raw is not None or self.wanted.placing:
            return None
        return self.again(None, b"")

    @property
    def raw_size(self) -> int:
        """Bytes of the inputs that are raw: behind the JSON, or in regions."""
        return sum(len(each.raw) for each in self._tensors if each.raw is not None)

    def decode(self, signature: Signature) -> Decoded:
        """Decode all inputs.

        Returns:
            Arrays by input name, dtypes and shapes as the request declares them; those that are raw
            may be views of the body. And the form of the reply.

        Raises:
            InvalidRequest: values are none of their datatype or shape.
        """
        try:
            for tensor in self._tensors:
                check_datatype(signature, tensor.name, tensor.dtype)
            if self._arrays is None:
                self._keep(read_tensors(self._tensors, self._text, self._others))
        except InvalidTensor:
            sent = self._sent(signature)
            if not sent:
                raise
            rest = [each for each in self._tensors if each.name not in sent]
            self._keep(sent | read_tensors(rest, self._text, self._others))
        return self._with_sequence(signature), self.wanted.placing or self.wanted.form

    def decode_at_once(self, signature: Signature) -> Decoded | None:
        """Decode as `decode` does, if that takes a millisecond for each megabyte at most."""
        if self._arrays is None:
            if len(self._text) >= SLICED or count_brackets(self._text) > FEW_LISTS:
                return None
            arrays = read_quickly(self._tensors, self._text, self._others)
            if arrays is None:
                return None
            self._keep(arrays)
        return self.decode(signature)

    def _sent(self, signature: Signature) -> dict[str, Array]:
        """Give those untyped inputs as they were sent whose bytes need be no array."""
        names = [name for name, spec in signature.inputs.items() if spec.untyped]
        found = {each.name: each.sent for each in self._tensors if each.name in names}
        return {name: sent.array for name, sent in found.items() if sent is not None}

    # The data plane may decode again, for another version. simdjson's objects are not kept: while
    # they exist, the next request of this thread would need another parser.
    def _keep(self, arrays: dict[str, Array]) -> None:
        self._arrays = arrays
        self._tensors = [each._replace(data=None) for each in self._tensors]

    def _with_sequence(self, signature: Signature) -> dict[str, Array]:
        arrays = self._arrays or {}
        if not self._parameters:
            return arrays
        return {**arrays, **sequence_inputs(signature, self._parameters, arrays)}


class SlicedInferBody(InferBody):
    """A body whose only input has data that is read in slices."""

    def __init__(
        self,
        whole: bytes,
        rest: bytes,
        document: Lazy,
        tensors: Sequence[Tensor],
        cuts: Cuts,
        regions: Regions,
    ) -> None:
        super().__init__(rest, document, tensors, regions)
        self._whole = whole
        self._cuts = cuts
        self._regions = regions

    def decode(self, signature: Signature) -> Decoded:
        """See `InferBody`."""
        if self._arrays is None:
            (tensor,) = self._tensors
            array = self._cuts.read(tensor.dtype)
            if array is None:
                # From the beginning: only unusual bodies pay for the slices as well.
                whole = parse_object(self._whole)
                return _body(self._whole, whole, None, self._regions).decode(signature)
            self._keep({tensor.name: as_declared(array, tensor)})
        return super().decode(signature)

    def decode_at_once(self, _: Signature) -> None:
        """Never do so: it is worth a thread."""


def parse_at_once(body: Body, length: int | None, regions: Regions = OFF) -> InferBody | None:
    """Do as `parse_infer`, except for bodies that block the event loop for over 2 ms.

    Returns:
        None for such a body, and where `regions` raise Unclear.
    """
    text = bytes(body if length is None else body[:length])
    if len(text) >= SLICED:
        return None
    found = json_layouts.cut(text) if length is None and len(text) <= LARGE_TEXT else None
    known = _known.get(found.around) if found else None
    if found and known and (values := json_layouts.values_of(found)) is not None:
        return known.again(values, found.values)
    document = parse_strictly(text)
    if len(text) > LARGE_TEXT and (document is None or not _is_plain(document)):
        return None
    try:
        made = _body(text, object_of(document, text), _tail(body, length), regions)
    except Unclear:
        return None
    if found and made.id is None and document is not None and json_layouts.is_plain(found):
        _remember(found, made)
    return made


_known: Final[dict[tuple[bytes, bytes], InferBody]] = {}
"""Requests without their values, by the text around these."""


def _remember(found: json_layouts.Cut, made: InferBody) -> None:
    if (kept := made.without_values()) is not None:
        if len(_known) >= json_layouts.MOST:
            _known.clear()
        _known[found.around] = kept


def parse_infer(body: Body, length: int | None, regions: Regions = OFF) -> InferBody:
    """Check the syntax of a body.

    Args:
        body: all of it.
        length: bytes of JSON at its beginning; None where it has nothing else.
        regions: of shared memory; inputs that lie there are copied.

    Raises:
        InvalidRequest: it is none of the protocol.
        NotFound, NotSupported: as `regions.read`.
    """
    text = bytes(body if length is None else body[:length])
    found = sliced(text) if length is None and len(text) >= SLICED else None
    if found is None:
        return _body(text, parse_object(text), _tail(body, length), regions)
    document, rest, cuts = found
    tensors = _tensors(document, None, regions)
    return SlicedInferBody(text, rest, document, tensors, cuts, regions)


def _tail(body: Body, length: int | None) -> RawTail | None:
    return None if length is None else RawTail(memoryview(body)[length:])


def _body(text: bytes, document: Lazy, tail: RawTail | None, regions: Regions) -> InferBody:
    return InferBody(text, document, _tensors(document, tail, regions), regions)


def _tensors(document: Lazy, tail: RawTail | None, regions: Regions) -> Sequence[Tensor]:
    if "inputs" not in list(document):
        raise InvalidRequest('the request has no "inputs"')
    given = entries(document, "inputs")
    only = len(given) == 1
    tensors = [tensor_of(each, tail, regions, only=only) for each in given]
    unique((each.name for each in tensors), "input")
    if tail is not None:
        tail.check_end()
    return tensors


def _id(document: Lazy) -> bytes:
    try:
        return orjson.dumps(text_of(document, "id", "the request"))
    except TypeError:  # bytes that are not UTF-8
        raise InvalidRequest('"id" is no text in UTF-8') from None


def _is_plain(document: Lazy) -> bool:
    """Tell whether a document has few members everywhere but in the data of its tensors."""
    if type(document) is not simdjson.Object or len(document) > FEW_MEMBERS:
        return False
    members: Mapping[str, Callable[[Lazy], bool]] = {
        "inputs": _are_few,
        "outputs": _are_few,
        "parameters": _is_small,
    }
    return all(members[key](document[key]) for key in list(document) if key in members)


def _are_few(values: Lazy) -> bool:
    if type(values) is not simdjson.Array or len(values) > FEW_MEMBERS:
        return False
    return all(type(each) is simdjson.Object and _is_entry(each) for each in values)


def _is_entry(value: Lazy) -> bool:
    if len(value) > FEW_MEMBERS:
        return False
    return all(_is_small(value[key]) for key in list(value) if key in ("shape", "parameters"))


def _is_small(value: Lazy) -> bool:
    return type(value) not in (simdjson.Object, simdjson.Array) or len(value) <= 2 * FEW_MEMBERS
