"""Finds the tensors of a PredictRequest by walking its bytes; protobuf parses only the rest.

Both readers that take values in place use this walk: `predict.py` for large requests,
`predict_layout.py` for repeated ones. Unusual bytes (`UnusualField`) are left to protobuf, to parse
or to refuse. Source: predict.proto, tensor.proto.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from ie_serving.core.values.tensors import BY_NUMBER, DataType
from ie_serving.wire.protobuf import fields, messages
from ie_serving.wire.protobuf.fields import DELIMITED, Field, UnusualField
from ie_serving.wire.protobuf.messages import Proto
from ie_serving.wire.tfs.tensor_proto import CONTENT, LIST_OF, LISTS, ListField, SplitTensor

INPUTS: Final = 2
"""Number of the map of inputs in PredictRequest."""
KEY: Final = 1
VALUE: Final = 2
"""Numbers of the two fields of an entry of any map."""

MOST_INPUTS: Final = 256
"""Inputs of a request that is walked: each takes some 15 us."""

FEW_FIELDS: Final = 16
FIELD_BYTES: Final = 16 * 1024
"""Fields of a tensor that are walked in any case, and how many bytes it has for each further one.
To walk a field takes as long as protobuf takes to copy so many bytes, so short strings are its."""

MOST_REST: Final = 4 * 1024
"""Bytes beside the values, of the request or of one tensor, that are parsed at once. 32 dimensions
take 400; 2,000 empty ones, the most that fit, take 0.1 ms. A larger rest may be a shape of millions
of dimensions, which `wire/protobuf/counting.py` has to count."""

_WIDTH: Final = {fields.FIXED32: 4, fields.FIXED64: 8}

_CONVERTED: Final = (None, DataType.BOOL, DataType.BF16, DataType.STRING)
"""Dtypes whose wire bytes differ from numpy's, so they cannot be read in place; None is unknown."""

_LIST_IN_PLACE: Final = {dtype: LIST_OF[dtype].number for dtype in (DataType.FP32, DataType.FP64)}
"""Dtypes whose packed list has the bytes that numpy has."""


class TensorProtoFields(NamedTuple):
    """One TensorProto in a payload.

    Attributes:
        rest: message of everything but the values: dtype and shape.
        content: `tensor_content`; None when there is none, or an empty one.
        lists: pieces of the lists of values by field number, in their order. Only the list of the
            tensor's dtype, and none beside `content`.
    """

    rest: Proto
    content: Field | None
    lists: Mapping[int, list[Field]]

    def split(self, payload: memoryview) -> SplitTensor:
        """Give the tensor with its values as views of the payload."""
        content = payload[self.content.value : self.content.end] if self.content else b""
        lists = {
            number: [payload[piece.value : piece.end] for piece in pieces]
            for number, pieces in self.lists.items()
        }
        return SplitTensor(self.rest, content, lists)

    def in_place(self) -> Field | None:
        """Give the only field whose bytes equal numpy's memory of the values, if there is one."""
        dtype = BY_NUMBER.get(self.rest.dtype)
        if dtype in _CONVERTED:
            return None
        # `tensor_content` counts before the lists, as in TensorFlow.
        if self.content is not None:
            return self.content
        pieces = self.lists.get(_LIST_IN_PLACE.get(dtype, 0), [])
        return pieces[0] if len(pieces) == 1 and pieces[0].kind == DELIMITED else None


def walk(payload: memoryview) -> tuple[Proto, dict[str, TensorProtoFields]]:
    """Take a PredictRequest apart: the message without its inputs, and where those lie, by alias.

    Raises:
        UnusualField: anything that is for protobuf to judge.
    """
    rest: list[Field] = []
    tensors: dict[str, TensorProtoFields] = {}
    for field in fields.scan(payload):
        if field.number == INPUTS and field.kind == DELIMITED:
            # The later of equal keys counts, as in every map of protobuf.
            alias, tensor = _entry(payload, field)
            tensors[alias] = tensor
            if len(tensors) > MOST_INPUTS:
                raise UnusualField
        else:
            rest.append(field)
    return parse_pieces(messages.PredictRequest, payload, rest), tensors


def _entry(payload: memoryview, entry: Field) -> tuple[str, TensorProtoFields]:
    """Read one entry of the map of inputs.

    Raises:
        UnusualField: it has anything but one key and one value, which is all that clients write.
    """
    # A repeated key or value is legal, and the last one counts; no client writes that, so protobuf
    # handles it.
    both = fields.scan(payload, entry.value, entry.end)
    found = {field.number: field for field in both if field.kind == DELIMITED}
    if len(both) != 2 or found.keys() != {KEY, VALUE}:
        raise UnusualField
    key = found[KEY]
    try:
        alias = bytes(payload[key.value : key.end]).decode()
    except UnicodeDecodeError:
        raise UnusualField from None
    return alias, _tensor(payload, found[VALUE])


def _tensor(payload: memoryview, tensor: Field) -> TensorProtoFields:
    """Read one TensorProto.

    Raises:
        UnusualField: it has values in other fields than the one that will be read and so checked,
            or many short fields.
    """
    rest: list[Field] = []
    content: Field | None = None
    lists: dict[int, list[Field]] = {}
    most = FEW_FIELDS + (tensor.end - tensor.value) // FIELD_BYTES
    for field in fields.scan(payload, tensor.value, tensor.end, most):
        if field.number == CONTENT and field.kind == DELIMITED:
            content = field if field.end > field.value else None
        elif in_list(field, LISTS):
            check_end(payload, field, LISTS[field.number])
            lists.setdefault(field.number, []).append(field)
        else:
            rest.append(field)
    proto = parse_pieces(messages.TensorProto, payload, rest)
    dtype = BY_NUMBER.get(proto.dtype)
    if lists and (content or dtype is None or lists.keys() != {LIST_OF[dtype].number}):
        raise UnusualField
    return TensorProtoFields(proto, content, lists)


def in_list(field: Field, lists: Mapping[int, ListField]) -> bool:
    """Tell whether a field is the values of one of `lists`, packed or one of them alone."""
    listed = lists.get(field.number)
    return listed is not None and field.kind in (DELIMITED, listed.kind)


def check_end(payload: memoryview, piece: Field, listed: ListField) -> None:
    """Check that a piece of a list ends where a value ends.

    Raises:
        UnusualField: it does not, and joined with the next piece it would change its meaning.
    """
    length = piece.end - piece.value
    cut_short = listed.kind == fields.VARINT and length and payload[piece.end - 1] >= 0x80
    if cut_short or length % _WIDTH.get(listed.kind, 1):
        raise UnusualField


def parse_pieces(kind: Proto, payload: memoryview, pieces: Sequence[Field]) -> Proto:
    """Parse the rest of a message. Raises: UnusualField: it is malformed, or too large."""
    if sum([piece.end - piece.start for piece in pieces]) > MOST_REST:
        raise UnusualField
    try:
        return kind.FromString(b"".join([payload[piece.start : piece.end] for piece in pieces]))
    except DecodeError:
        raise UnusualField from None
