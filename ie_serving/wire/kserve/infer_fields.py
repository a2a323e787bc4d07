"""Finds the tensors of a ModelInferRequest by walking its bytes; protobuf parses only the rest.

As `wire/tfs/predict_fields.py` does for Predict: unusual bytes (`UnusualField`) are left to
protobuf, to parse or to refuse. Source: grpc_service.proto of Triton, grpc_predict_v2.proto of
KServe.
"""

from collections.abc import Mapping, Sized
from typing import Final, NamedTuple, cast

from ie_serving.core.values.tensors import DataType
from ie_serving.wire.kserve.contents import LIST_OF, LISTS
from ie_serving.wire.kserve.datatypes import BY_NAME
from ie_serving.wire.protobuf import fields
from ie_serving.wire.protobuf import inference_messages as messages
from ie_serving.wire.protobuf.fields import DELIMITED, Field, UnusualField
from ie_serving.wire.protobuf.messages import Proto
from ie_serving.wire.tfs.predict_fields import MOST_INPUTS, check_end, in_list, parse_pieces

ID: Final = 3
INPUTS: Final = 5
RAW: Final = 7
"""Field numbers of ModelInferRequest."""
CONTENTS: Final = 5
"""Field number of InferInputTensor."""

REWRITTEN: Final = (None, DataType.BOOL, DataType.BF16, DataType.STRING)
"""Element types whose bytes on the wire differ from numpy's; None stands for an unknown type."""
_LIST_IN_PLACE: Final = {dtype: LIST_OF[dtype].number for dtype in (DataType.FP32, DataType.FP64)}
"""Element types whose packed list has the bytes that numpy has."""


class InputFields(NamedTuple):
    """One input in a payload.

    Attributes:
        rest: message of everything but the typed values.
        lists: pieces of the lists of typed values by field number; None without `contents`.
        raw: its raw bytes, of a request that has some.
    """

    rest: Proto
    lists: Mapping[int, list[Field]] | None
    raw: Field | None

    def in_place(self) -> Field | None:
        """Give the only field whose bytes equal numpy's memory of the values, if there is one."""
        dtype = BY_NAME.get(self.rest.datatype)
        if dtype in REWRITTEN:
            return None
        if self.raw is not None:
            return self.raw
        pieces = (self.lists or {}).get(_LIST_IN_PLACE.get(dtype, 0), [])
        return pieces[0] if len(pieces) == 1 and pieces[0].kind == DELIMITED else None


class WalkedRequest(NamedTuple):
    """A request, taken apart.

    Attributes:
        rest: message of everything but the inputs and their raw bytes.
        id: the field of its id; None where it has none.
        tensors: its inputs, in their order.
        is_raw: they are sent raw.
    """

    rest: Proto
    id: Field | None
    tensors: list[InputFields]
    is_raw: bool


def walk(payload: memoryview) -> WalkedRequest:
    """Take a ModelInferRequest apart.

    Raises:
        UnusualField: anything that is for protobuf to judge.
    """
    rest: list[Field] = []
    inputs: list[Field] = []
    raws: list[Field] = []
    for field in fields.scan(payload):
        if field.number == INPUTS and field.kind == DELIMITED:
            inputs.append(field)
        elif field.number == RAW and field.kind == DELIMITED:
            raws.append(field)
        else:
            rest.append(field)
    # Another number of raw contents than of inputs is refused, in the words for small requests.
    if len(inputs) > MOST_INPUTS or (raws and len(raws) != len(inputs)):
        raise UnusualField
    raw_fields: list[Field] | list[None] = raws or [None] * len(inputs)
    tensors = [_tensor(payload, *each) for each in zip(inputs, raw_fields, strict=True)]
    message = parse_pieces(messages.ModelInferRequest, payload, rest)
    return WalkedRequest(message, _id(payload, rest), tensors, bool(raws))


def _id(payload: memoryview, rest: list[Field]) -> Field | None:
    """Find the id, which the reply repeats as it lies here.

    Raises:
        UnusualField: it is there more than once, or not written as protobuf writes it.
    """
    found = [field for field in rest if field.number == ID]
    if not found:
        return None
    field = found[0]
    head = fields.head(ID, field.end - field.value)
    if len(found) > 1 or payload[field.start : field.value] != head or field.end == field.value:
        raise UnusualField
    return field


def _tensor(payload: memoryview, tensor: Field, raw: Field | None) -> InputFields:
    """Read one InferInputTensor.

    Raises:
        UnusualField: `contents` is there more than once.
    """
    rest: list[Field] = []
    lists: dict[int, list[Field]] | None = None
    for field in fields.scan(payload, tensor.value, tensor.end):
        if field.number != CONTENTS or field.kind != DELIMITED:
            rest.append(field)
        elif lists is None:
            lists = _lists(payload, field)
        else:
            raise UnusualField
    return InputFields(parse_pieces(messages.InferInputTensor, payload, rest), lists, raw)


def _lists(payload: memoryview, contents: Field) -> dict[int, list[Field]]:
    """Read one InferTensorContents.

    Raises:
        UnusualField: it has anything but its lists, or a piece that ends within a value.
    """
    lists: dict[int, list[Field]] = {}
    for field in fields.scan(payload, contents.value, contents.end):
        if not in_list(field, LISTS):
            raise UnusualField
        check_end(payload, field, LISTS[field.number])
        lists.setdefault(field.number, []).append(field)
    return lists


def id_of(payload: Sized | None) -> bytes:
    """Give the field of a request's id for a reply; nothing where it has none, or is malformed.

    Args:
        payload: bytes of a ModelInferRequest as received, or None.
    """
    view = memoryview(cast("bytes", payload or b""))
    try:
        found = [field for field in fields.scan(view) if field.number == ID]
    except (UnusualField, IndexError):
        return b""
    given = bytes(view[found[-1].start : found[-1].end]) if found else b""
    return given if given.isascii() else b""  # protobuf's parsers refuse text that is no UTF-8
