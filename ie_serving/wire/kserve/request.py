"""Reads REST bodies of an inference: JSON, followed by raw tensors where a header has its length.

Numbers in JSON are read by the readers of TensorFlow Serving's bodies (`wire/json/request.py`): by
the second, straight from simdjson's buffers, where an input is a plain list, flat or nested by its
shape; otherwise by the third, which names the faulty element.

Source: Open Inference Protocol v2; Triton's "Binary Tensor Data Extension".

`parse_at_once` remembers small requests in JSON by all their text but the values of their only
input. A client's requests mostly differ in these numbers alone. The text around them is compared
with that of earlier requests, and only the numbers are parsed.

`SlicedInferBody` reads a large body of one input of numbers in slices, so that the interpreter is
held for a short time only; `wire/json/slices.py` says why and how. Here the list is the `data` of
the only input. It is cut out of the body: the rest is small, and is read like any other body, with
an empty list in its place. Both together are exactly the body, since a list of slices that are each
JSON is JSON, and so is the rest with that list in it. Unusual bodies are left to the reader of
whole bodies.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import orjson
import simdjson

from ie_serving.core.values.errors import InvalidRequest, InvalidTensor
from ie_serving.core.values.requests import Decoded
from ie_serving.core.values.tensors import Array, Signature
from ie_serving.wire.json.buffers import Lazy, count_brackets, parse_strictly
from ie_serving.wire.json.document import object_of, parse_object
from ie_serving.wire.json.slices import SlicedList, pattern
from ie_serving.wire.json.tensor import MAX_RANK
from ie_serving.wire.kserve.inputs import check_datatype, sequence_inputs, unique
from ie_serving.wire.kserve.regions import OFF, Regions
from ie_serving.wire.kserve.request_members import (
    RequestedOutputs,
    entries,
    parameters_of,
    text_of,
    wanted_outputs,
)
from ie_serving.wire.kserve.tensors import (
    InputTensor,
    RawTail,
    as_declared,
    read_quickly,
    read_tensors,
    tensor_of,
)
from ie_serving.wire.protobuf.fields import UnusualField

DATA: Final = b'"data"'
LONGEST: Final = 1024
"""Bytes around the values up to which a request is remembered: names, shape, parameters."""
MOST: Final = 64
"""Remembered requests, 2 KB each; a further one empties the memory, as clients choose them. None
has an id: most clients that send one send another with each request."""

BodyBytes = bytes | memoryview
LARGE_TEXT: Final = 32 * 1024
"""Bytes of JSON from which `parse_at_once` looks whether reading its members takes long."""
SLICED: Final = 1 << 20
"""Bytes of JSON from which it is parsed in a thread: simdjson takes 3 ms for as many."""
FEW_LISTS: Final = 1000
"""Lists up to which measuring their lengths takes 0.2 ms."""
FEW_MEMBERS: Final = 16
"""Members of an object, and entries of a list of tensors, that are read in no time."""
_DATA: Final = pattern(rb'"data" : \[(?=(?P<depth> (?:\[ ){0,%d}))' % MAX_RANK)
_LATEST: Final = 4096
"""Bytes of a body among which its data begins; and from its end among which it ends."""
_MOST_ENDS: Final = 16
"""Brackets from the end that are tried: behind the data are those of other lists."""


class CutText(NamedTuple):
    """A text, cut at the values.

    Attributes:
        around: bytes before the values, and bytes behind them.
        values: the list.
    """

    around: tuple[bytes, bytes]
    values: bytes


def cut(text: bytes) -> CutText | None:
    """Cut a text at the first list of its first member `data`; None if there is none, or no use."""
    name = text.find(DATA, 0, LONGEST)
    start = text.find(b"[", name, LONGEST)
    end = text.find(b"]", start) + 1
    if name < 0 or start < 0 or end == 0 or start + len(text) - end > LONGEST:
        return None
    return CutText((text[:start], text[end:]), text[start:end])


def is_plain(found: CutText) -> bool:
    """Tell whether the text around the values of a valid request may be remembered.

    The list has to be the whole value of the request's only member of this name: the name stands
    once, and no escape hides another quote or name; the list has no lists or strings within it,
    where the cut could have ended.
    """
    before, behind = found.around
    name = before.rpartition(DATA)
    once = before.count(DATA) == 1 and DATA not in behind and name[2].strip() == b":"
    whole = found.values.count(b"[") == 1 and b'"' not in found.values
    return once and whole and b"\\" not in before and b"\\" not in behind


def values_of(found: CutText) -> Lazy:
    """Parse the values; None where they are no JSON alone, such as the first of nested lists."""
    return parse_strictly(found.values)


class InferBody:
    """The body of an inference whose syntax is checked, its tensors not yet decoded.

    Attributes:
        id: id that the reply repeats, in JSON; None where the request has none.
        wanted: requested outputs, and their encoding.
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
        self, text: bytes, document: Lazy, tensors: Sequence[InputTensor], regions: Regions
    ) -> None:
        keys = list(document)
        self.id = _id(document) if "id" in keys else None
        self._parameters = parameters_of(document, keys, "the request")
        outputs = entries(document, "outputs") if "outputs" in keys else ()
        self.wanted: RequestedOutputs = wanted_outputs(outputs, self._parameters, regions)
        self.outputs = self.wanted.names
        self._text = text
        self._tensors: Sequence[InputTensor] = tensors
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
        made._tensors = (InputTensor(name, dtype, shape, values, raw, base64),)
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
        tensors: Sequence[InputTensor],
        cuts: SlicedList,
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
                # The whole body is read again: only unusual bodies pay for both.
                whole = parse_object(self._whole)
                return infer_body(self._whole, whole, None, self._regions).decode(signature)
            self._keep({tensor.name: as_declared(array, tensor)})
        return super().decode(signature)

    def decode_at_once(self, _: Signature) -> None:
        """Never do so: it is worth a thread."""


def parse_at_once(body: BodyBytes, length: int | None, regions: Regions = OFF) -> InferBody | None:
    """Do as `parse_infer`, except for bodies that block the event loop for over 2 ms.

    Returns:
        None for such a body, and where `regions` raise UnusualField.
    """
    text = bytes(body if length is None else body[:length])
    if len(text) >= SLICED:
        return None
    found = cut(text) if length is None and len(text) <= LARGE_TEXT else None
    known = KNOWN.get(found.around) if found else None
    if found and known and (values := values_of(found)) is not None:
        return known.again(values, found.values)
    document = parse_strictly(text)
    if len(text) > LARGE_TEXT and (document is None or not _is_plain(document)):
        return None
    try:
        made = infer_body(text, object_of(document, text), _tail(body, length), regions)
    except UnusualField:
        return None
    if found and made.id is None and document is not None and is_plain(found):
        _remember(found, made)
    return made


KNOWN: Final[dict[tuple[bytes, bytes], InferBody]] = {}
"""Requests without their values, by the text around these."""


def _remember(found: CutText, made: InferBody) -> None:
    if (kept := made.without_values()) is not None:
        if len(KNOWN) >= MOST:
            KNOWN.clear()
        KNOWN[found.around] = kept


def parse_infer(body: BodyBytes, length: int | None, regions: Regions = OFF) -> InferBody:
    """Check the syntax of a body.

    Args:
        body: all of it.
        length: bytes of JSON at its beginning; None where it has nothing else.
        regions: regions of shared memory; inputs that lie there are copied.

    Raises:
        InvalidRequest: it is none of the protocol.
        NotFound, NotSupported: as `regions.read`.
    """
    text = bytes(body if length is None else body[:length])
    found = sliced(text) if length is None and len(text) >= SLICED else None
    if found is None:
        return infer_body(text, parse_object(text), _tail(body, length), regions)
    document, rest, cuts = found
    tensors = tensors_of(document, None, regions)
    return SlicedInferBody(text, rest, document, tensors, cuts, regions)


def _tail(body: BodyBytes, length: int | None) -> RawTail | None:
    return None if length is None else RawTail(memoryview(body)[length:])


def infer_body(text: bytes, document: Lazy, tail: RawTail | None, regions: Regions) -> InferBody:
    """Make the body of a document that is parsed as a whole."""
    return InferBody(text, document, tensors_of(document, tail, regions), regions)


def tensors_of(document: Lazy, tail: RawTail | None, regions: Regions) -> Sequence[InputTensor]:
    """Read the members of the inputs. Raises: InvalidRequest, NotFound, NotSupported."""
    if "inputs" not in list(document):
        raise InvalidRequest('the request has no "inputs": send a list of tensors')
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
        raise InvalidRequest('"id" is no text in UTF-8: send it in UTF-8') from None


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


def sliced(text: bytes) -> tuple[Lazy, bytes, SlicedList] | None:
    """Find out whether a body can be read in slices.

    Returns:
        The rest of the body, parsed and as text, and the data; None where it cannot.
    """
    start = _DATA.search(text, 0, _LATEST)
    if start is None:
        return None
    first, end = start.end(), len(text)
    for _ in range(_MOST_ENDS):
        end = text.rfind(b"]", max(first, len(text) - _LATEST), end)
        if end < 0:
            return None
        rest = text[:first] + text[end:]
        document = parse_strictly(rest)
        if document is not None and _has_room(document):
            # Numbers have no quotation marks. The search for one byte is some twenty times as fast
            # as for a word, and it holds the interpreter lock.
            if text.find(b'"', first, end) >= 0:
                return None
            return document, rest, SlicedList(text, first, end, start["depth"])
    return None


def _has_room(document: Lazy) -> bool:
    """Tell whether the only input has an empty list as its data."""
    if type(document) is not simdjson.Object or "inputs" not in list(document):
        return False
    inputs = document["inputs"]
    if type(inputs) is not simdjson.Array or len(inputs) != 1:
        return False
    only: Lazy = inputs[0]
    if type(only) is not simdjson.Object or list(only).count("data") != 1:
        return False
    return type(only["data"]) is simdjson.Array and not len(only["data"])
