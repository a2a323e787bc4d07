"""Reads the signatures of a TFLite model from its file. Pure.

They are in up to two places: as SignatureDefs in the metadata `signature_defs_metadata`, which
TensorFlow Serving reads, or as TensorFlow 2's converter writes them, each for a subgraph. A file
with neither has one, `serving_default`, with its tensors under their own names, as in Serving.

Source: schema.fbs of TensorFlow Lite, tflite_session.cc of TensorFlow Serving.

`FlatTable` and `flex_map` read FlatBuffers and FlexBuffers as far as signatures need it. A *table*
begins with the distance back to its vtable, which has each field's offset in the table; 0 where the
field is absent. Strings, vectors and tables are found by a forward distance, counted from the
position of that number. A FlexBuffer is read from its end: its last byte is the width in bytes of
its root, the byte before it the root's type. Everything is little-endian.

Source: the internals pages of FlatBuffers and FlexBuffers.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from google.protobuf.message import DecodeError

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import SERVING_DEFAULT, DataType, Method
from ie_serving.wire.protobuf import messages
from ie_serving.wire.protobuf.messages import Proto

_VTABLE_HEAD = 4
"""Bytes in front of the first field in a vtable: its own size, and that of its table."""
_WIDTHS = {1: "<B", 2: "<H", 4: "<I", 8: "<Q"}
_FLEX_MAP = 9
"""Type of a map; the two lowest bits of a type's byte hold a width."""

IDENTIFIER = b"TFL3"
"""Identifier of the format, from the fifth byte of the file on."""
METADATA = "signature_defs_metadata"
_CODES, _SUBGRAPHS, _BUFFERS, _METADATA, _SIGNATURES = 1, 2, 4, 6, 7
"""Fields of a Model."""
_OLD_CODE, _CUSTOM_CODE, _BUILTIN_CODE = 0, 1, 3
"""Fields of an OperatorCode; the first one holds builtin codes of old files, up to 127."""
_SVDF = 27
"""Builtin code of SVDF, a recurrent operation."""
_UINT8, _INT16, _INT8 = 3, 7, 9
"""TensorType of schema.fbs."""
_SCALED: Final[Mapping[int, Set[int]]] = {
    # ADD, LESS, GREATER, GREATER_EQUAL, LESS_EQUAL, EQUAL, NOT_EQUAL, SQUARED_DIFFERENCE.
    **dict.fromkeys((0, 58, 61, 62, 63, 71, 72, 99), frozenset({_UINT8, _INT8})),
    41: frozenset({_UINT8, _INT16, _INT8}),  # SUB
    **dict.fromkeys((75, 76), frozenset({_INT16})),  # SQRT, RSQRT
}
"""Types that have a scale in an operation, by its builtin code. Measured with LiteRT 2.3."""
_SCALED_AS_FIRST: Final = frozenset({0, 71, 72})
"""Builtin codes of ADD, EQUAL and NOT_EQUAL: their integers of 16 bits have scales if the first
input has one."""
_SCALES_RESULT: Final = frozenset({0, 99})
"""Builtin codes of ADD and SQUARED_DIFFERENCE, which also divide by the scale of their output."""
_VARIABLE = 142
"""Builtin code of VAR_HANDLE, which a model with variables that keep their values has."""
_TENSORS, _INPUTS, _OUTPUTS, _OPERATORS = 0, 1, 2, 3
"""Fields of a SubGraph."""
_CODE_INDEX, _OPERATOR_INPUTS, _OPERATOR_OUTPUTS, _CUSTOM_OPTIONS = 0, 1, 2, 5
"""Fields of an Operator."""
_SHAPE, _TYPE, _TENSOR_NAME, _QUANTIZATION, _IS_VARIABLE, _SHAPE_SIGNATURE = 0, 1, 3, 4, 5, 7
"""Fields of a Tensor; the last one has -1 in open dimensions, and is absent where there is none."""
_SCALE = 2
"""Field of QuantizationParameters."""
_SIGNATURE_INPUTS, _SIGNATURE_OUTPUTS, _KEY, _SUBGRAPH_INDEX = 0, 1, 2, 4
"""Fields of a SignatureDef."""
DTYPES: Final[Mapping[int, DataType]] = {
    0: DataType.FP32,
    1: DataType.FP16,
    2: DataType.INT32,
    3: DataType.UINT8,
    4: DataType.INT64,
    5: DataType.STRING,
    6: DataType.BOOL,
    7: DataType.INT16,
    9: DataType.INT8,
    10: DataType.FP64,
    12: DataType.UINT64,
    15: DataType.UINT32,
    16: DataType.UINT16,
}
"""TensorType of schema.fbs; complex and 4-bit numbers are not carried."""


@contextmanager
def checked(file: str) -> Iterator[None]:
    """Turn the exceptions that a damaged file causes into LoadFailed."""
    try:
        yield
    except (struct.error, IndexError, KeyError, UnicodeDecodeError) as error:
        raise LoadFailed(f"{file} is damaged or cut short: upload it again") from error


@dataclass(frozen=True)
class FlatTable:
    """A table at a position of a buffer; fields by the number that their schema gives them."""

    data: bytes
    at: int

    @classmethod
    def root(cls, data: bytes) -> "FlatTable":
        """Give the table that a buffer holds."""
        return cls(data, _number(data, 0))

    def offset(self, field: int) -> int:
        """Find where a field lies; 0 where it is absent."""
        (back,) = struct.unpack_from("<i", self.data, self.at)
        vtable = self.at - back
        entry = _VTABLE_HEAD + 2 * field
        if vtable < 0 or entry >= _number(self.data, vtable, 2):
            return 0
        distance = _number(self.data, vtable + entry, 2)
        return self.at + distance if distance else 0

    def number(self, field: int) -> int:
        """Read an unsigned 32-bit number; 0 where it is absent."""
        offset = self.offset(field)
        return _number(self.data, offset) if offset else 0

    def byte(self, field: int) -> int:
        """Read a byte; 0 where it is absent."""
        offset = self.offset(field)
        return self.data[offset] if offset else 0

    def text(self, field: int) -> str:
        """Read a string; empty where it is absent."""
        return self.bytes(field).decode()

    def bytes(self, field: int) -> bytes:
        """Read a vector of bytes; empty where it is absent."""
        at, count = self.vector(field)
        if at + count > len(self.data):
            raise IndexError(at)
        return self.data[at : at + count]

    def numbers(self, field: int) -> list[int]:
        """Read a vector of signed 32-bit numbers; empty where it is absent."""
        at, count = self.vector(field)
        return list(struct.unpack_from(f"<{count}i", self.data, at))

    def tables(self, field: int) -> list["FlatTable"]:
        """Read a vector of tables; empty where it is absent."""
        at, count = self.vector(field)
        return [FlatTable(self.data, _follow(self.data, at + 4 * i)) for i in range(count)]

    def vector(self, field: int) -> tuple[int, int]:
        """Find a vector: where its first element lies, and how many it has."""
        offset = self.offset(field)
        if not offset:
            return 0, 0
        start = _follow(self.data, offset)
        return start + 4, _number(self.data, start)


def _number(data: bytes, at: int, width: int = 4) -> int:
    number: int = struct.unpack_from(_WIDTHS[width], data, at)[0]
    return number


def _follow(data: bytes, at: int) -> int:
    return at + _number(data, at)


def flex_map(data: bytes) -> dict[str, bytes]:
    """Read a FlexBuffer that is a map from texts to strings of bytes."""
    root_width = data[-1]
    at = len(data) - 2 - root_width
    if data[-2] >> 2 != _FLEX_MAP:
        raise KeyError("no map")
    width = 1 << (data[-2] & 3)
    values = at - _number(data, at, root_width)
    count = _number(data, values - width, width)
    # In front of a map's values lie its keys: the distance back to their vector, and its width.
    keys_width = _number(data, values - 2 * width, width)
    keys = values - 3 * width - _number(data, values - 3 * width, width)
    found = {}
    for i in range(count):
        key = keys + i * keys_width
        name = data[key - _number(data, key, keys_width) :].split(b"\0", 1)[0]
        kind = data[values + count * width + i]
        found[name.decode()] = _flex_string(data, values + i * width, width, 1 << (kind & 3))
    return found


def _flex_string(data: bytes, at: int, width: int, length_width: int) -> bytes:
    start = at - _number(data, at, width)
    length = _number(data, start - length_width, length_width)
    if start + length > len(data):
        raise IndexError(start)
    return data[start : start + length]


@dataclass(frozen=True)
class LiteSignature:
    """One signature.

    Attributes:
        name: signature name.
        method: its method name.
        subgraph: number of the subgraph that computes it.
        inputs: name of the tensor by alias, maybe with a port that the tensor has not.
        outputs: likewise.
        definition: serialized SignatureDef for the metadata.
    """

    name: str
    method: str
    subgraph: int
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    definition: bytes


def signatures_of(data: bytes, file: str) -> list[LiteSignature]:
    """Read the signatures of a TFLite file.

    Raises:
        LoadFailed: it is none, or damaged.
    """
    if data[4:8] != IDENTIFIER:
        raise LoadFailed(f"{file} is not a TFLite model: upload what TFLiteConverter gives")
    with checked(file):
        model = FlatTable.root(data)
        subgraphs = [_Subgraph(i, table) for i, table in enumerate(model.tables(_SUBGRAPHS))]
        if declared := _declared(model, file):
            return [_from_definition(*each) for each in declared.items()]
        if native := model.tables(_SIGNATURES):
            return [_native(subgraphs[table.number(_SUBGRAPH_INDEX)], table) for table in native]
        return [subgraphs[0].plain()]


def keeps_state(data: bytes, file: str) -> bool:
    """Tell whether a TFLite file has variables, which keep their values. Raises: LoadFailed.

    Recurrent operations keep their state in tensors that are marked as variables.
    """
    with checked(file):
        model = FlatTable.root(data)
        tensors = (each for graph in model.tables(_SUBGRAPHS) for each in graph.tables(_TENSORS))
        return any(code.number(_BUILTIN_CODE) == _VARIABLE for code in model.tables(_CODES)) or any(
            tensor.byte(_IS_VARIABLE) for tensor in tensors
        )


def refuse_deadly(data: bytes, file: str) -> None:
    """Refuse a file with operations at which TensorFlow Lite crashes its process.

    An SVDF of 8 bits whose state or its weights have not 16: TensorFlow Lite Micro takes these with
    8. TensorFlow Lite reads and writes them as 16 bits without a check, beyond their ends. Others
    abort where a tensor of integers has no scale, by which they divide.

    Raises:
        LoadFailed: there is one, or the file is damaged.
    """
    with checked(file):
        model = FlatTable.root(data)
        codes = [max(c.byte(_OLD_CODE), c.number(_BUILTIN_CODE)) for c in model.tables(_CODES)]
        for graph in model.tables(_SUBGRAPHS):
            tensors = graph.tables(_TENSORS)
            for node in graph.tables(_OPERATORS):
                code = codes[node.number(_CODE_INDEX)]
                if code == _SVDF:
                    _check_state([tensors[i].byte(_TYPE) for i in node.numbers(_OPERATOR_INPUTS)])
                elif code in _SCALED:
                    _check_scales(code, tensors, node)


def _check_scales(code: int, tensors: Sequence[FlatTable], node: FlatTable) -> None:
    inputs = [tensors[i] for i in node.numbers(_OPERATOR_INPUTS)]
    outputs = [tensors[i] for i in node.numbers(_OPERATOR_OUTPUTS)]
    kinds = _SCALED[code]
    if code in _SCALED_AS_FIRST and inputs and _scales(inputs[0]):
        kinds = kinds | {_INT16}
    for each in (*inputs, *(outputs if code in _SCALES_RESULT else ())):
        if each.byte(_TYPE) in kinds and not _has_scale(each):
            raise LoadFailed(
                f'"{each.text(_TENSOR_NAME)}" has integers without a scale, at which TensorFlow'
                f" Lite crashes in operation {code}: quantize it"
            )


def _check_state(kinds: Sequence[int]) -> None:
    if kinds[0] == _INT8 and kinds[2::2] != [_INT16, _INT16]:
        raise LoadFailed(
            "SVDF has a state of 8 bits, which TensorFlow Lite Micro alone takes: export the model"
            " with one of 16 bits, as TensorFlow Lite's converter does"
        )


def _has_scale(tensor: FlatTable) -> bool:
    scales = _scales(tensor)
    return bool(scales) and scales[0] > 0


def _scales(tensor: FlatTable) -> Sequence[float]:
    offset = tensor.offset(_QUANTIZATION)
    if not offset:
        return ()
    at, count = FlatTable(tensor.data, _follow(tensor.data, offset)).vector(_SCALE)
    return struct.unpack_from(f"<{count}f", tensor.data, at)


@dataclass(frozen=True)
class CustomOperation:
    """An operation that is not TFLite's own: its name, its options, the names of its inputs."""

    kind: str
    options: bytes
    inputs: list[str]


def customs(data: bytes, file: str) -> list[CustomOperation]:
    """List the operations that are not TFLite's own. Raises: LoadFailed."""
    found = []
    with checked(file):
        model = FlatTable.root(data)
        kinds = [code.text(_CUSTOM_CODE) for code in model.tables(_CODES)]
        for graph in model.tables(_SUBGRAPHS):
            tensors = graph.tables(_TENSORS)
            for node in graph.tables(_OPERATORS):
                if kind := kinds[node.number(_CODE_INDEX)]:
                    given = node.numbers(_OPERATOR_INPUTS)  # -1 for one that is left out
                    names = [tensors[i].text(_TENSOR_NAME) if i >= 0 else "" for i in given]
                    found.append(CustomOperation(kind, node.bytes(_CUSTOM_OPTIONS), names))
    return found


def with_first(data: bytes, subgraph: int) -> bytes:
    """Exchange the first subgraph of a file, which is the one that is converted, for another."""
    at, _ = FlatTable.root(data).vector(_SUBGRAPHS)
    changed = bytearray(data)
    for here, there in ((at, at + 4 * subgraph), (at + 4 * subgraph, at)):
        (distance,) = struct.unpack_from("<I", data, there)
        # A distance counts from its own position in the file.
        struct.pack_into("<I", changed, here, there + distance - here)
    return bytes(changed)


class _Subgraph:
    """The tensors of one subgraph."""

    def __init__(self, number: int, table: FlatTable) -> None:
        self.number = number
        tensors = table.tables(_TENSORS)
        self.tensors = tensors
        self.ends = {
            kind: [tensors[i] for i in table.numbers(field)]
            for kind, field in (("inputs", _INPUTS), ("outputs", _OUTPUTS))
        }

    def plain(self) -> LiteSignature:
        """Make the signature of a file that declares none."""
        inputs, outputs = (_plainly_named(self.ends[kind]) for kind in ("inputs", "outputs"))
        return self.signature(SERVING_DEFAULT, inputs, outputs)

    def signature(
        self, name: str, inputs: Mapping[str, FlatTable], outputs: Mapping[str, FlatTable]
    ) -> LiteSignature:
        """Make a signature of tensors by their aliases."""
        definition = messages.SignatureDef(method_name=Method.PREDICT.value)
        for infos, tensors in ((definition.inputs, inputs), (definition.outputs, outputs)):
            for alias, tensor in tensors.items():
                _fill(infos[alias], tensor)
        return LiteSignature(
            name,
            Method.PREDICT.value,
            self.number,
            {alias: tensor.text(_TENSOR_NAME) for alias, tensor in inputs.items()},
            {alias: tensor.text(_TENSOR_NAME) for alias, tensor in outputs.items()},
            bytes(definition.SerializeToString(deterministic=True)),
        )


def _native(subgraph: _Subgraph, table: FlatTable) -> LiteSignature:
    inputs, outputs = (
        {entry.text(0): subgraph.tensors[entry.number(1)] for entry in table.tables(field)}
        for field in (_SIGNATURE_INPUTS, _SIGNATURE_OUTPUTS)
    )
    return subgraph.signature(table.text(_KEY), inputs, outputs)


def _declared(model: FlatTable, file: str) -> dict[str, Proto]:
    """Read the SignatureDefs of the metadata."""
    for entry in model.tables(_METADATA):
        if entry.text(0) != METADATA:
            continue
        data = model.tables(_BUFFERS)[entry.number(1)].bytes(0)
        try:
            return {
                name: messages.SignatureDef.FromString(definition)
                for name, definition in flex_map(data).items()
            }
        except DecodeError as error:
            raise LoadFailed(
                f"{file}: {METADATA}: expected SignatureDefs; convert the model again"
            ) from error
    return {}


def _from_definition(name: str, definition: Proto) -> LiteSignature:
    return LiteSignature(
        name,
        definition.method_name,
        0,
        {alias: info.name for alias, info in definition.inputs.items()},
        {alias: info.name for alias, info in definition.outputs.items()},
        bytes(definition.SerializeToString(deterministic=True)),
    )


def node_of(name: str) -> str:
    """Name the node that gives a tensor: the name without the port that TensorFlow gives it."""
    return name.partition(":")[0]


def _plainly_named(tensors: Sequence[FlatTable]) -> dict[str, FlatTable]:
    """Name tensors without their ports; with them where several would have one name."""
    names = [tensor.text(_TENSOR_NAME).removesuffix(":0") for tensor in tensors]
    plain = [node_of(name) for name in names]
    return {
        name if plain.count(short) > 1 else short: tensor
        for name, short, tensor in zip(names, plain, tensors, strict=True)
    }


def _fill(info: Proto, tensor: FlatTable) -> None:
    info.name = tensor.text(_TENSOR_NAME)
    dtype = DTYPES.get(tensor.byte(_TYPE))
    info.dtype = dtype.number if dtype else 0
    info.tensor_shape.SetInParent()
    for size in tensor.numbers(_SHAPE_SIGNATURE) or tensor.numbers(_SHAPE):
        info.tensor_shape.dim.add(size=size)
