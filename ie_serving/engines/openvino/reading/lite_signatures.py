"""Reads the signatures of a TFLite model from its file. Pure.

They are in up to two places: as SignatureDefs in the metadata `signature_defs_metadata`, which
TensorFlow Serving reads, or as TensorFlow 2's converter writes them, each for a subgraph. A file
with neither has one, `serving_default`, with its tensors under their own names, as in Serving.

Source: schema.fbs of TensorFlow Lite, tflite_session.cc of TensorFlow Serving.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from google.protobuf.message import DecodeError

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import SERVING_DEFAULT, DataType, Method
from ie_serving.engines.openvino.reading.flatbuffer import Table, checked, flex_map
from ie_serving.wire.protobuf import messages
from ie_serving.wire.protobuf.messages import Proto

IDENTIFIER = b"TFL3"
"""Identifier of the format, from the fifth byte of the file on."""
METADATA = "signature_defs_metadata"

_CODES, _SUBGRAPHS, _BUFFERS, _METADATA, _SIGNATURES = 1, 2, 4, 6, 7
"""Fields of a Model."""
_CUSTOM_CODE, _BUILTIN_CODE = 1, 3
"""Fields of an OperatorCode."""
_VARIABLE = 142
"""Builtin code of VAR_HANDLE, which a model with variables that keep their values has."""
_TENSORS, _INPUTS, _OUTPUTS, _OPERATORS = 0, 1, 2, 3
"""Fields of a SubGraph."""
_CODE_INDEX, _OPERATOR_INPUTS, _CUSTOM_OPTIONS = 0, 1, 5
"""Fields of an Operator."""
_SHAPE, _TYPE, _TENSOR_NAME, _SHAPE_SIGNATURE = 0, 1, 3, 7
"""Fields of a Tensor; the last one has -1 in open dimensions, and is absent where there is none."""
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


@dataclass(frozen=True)
class LiteSignature:
    """One signature.

    Attributes:
        name: signature name.
        method: its method name.
        subgraph: number of the subgraph that computes it.
        inputs: name of the tensor by alias, maybe with a port that the tensor has not.
        outputs: likewise.
        definition: as SignatureDef, serialized, for the metadata.
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
        raise LoadFailed(f"{file} is not a TFLite model")
    with checked(file):
        model = Table.root(data)
        subgraphs = [_Subgraph(i, table) for i, table in enumerate(model.tables(_SUBGRAPHS))]
        if declared := _declared(model, file):
            return [_from_definition(*each) for each in declared.items()]
        if native := model.tables(_SIGNATURES):
            return [_native(subgraphs[table.number(_SUBGRAPH_INDEX)], table) for table in native]
        return [subgraphs[0].plain()]


def keeps_state(data: bytes, file: str) -> bool:
    """Tell whether a TFLite file has variables, which keep their values. Raises: LoadFailed."""
    with checked(file):
        return any(
            code.number(_BUILTIN_CODE) == _VARIABLE for code in Table.root(data).tables(_CODES)
        )


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
        model = Table.root(data)
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
    at, _ = Table.root(data).vector(_SUBGRAPHS)
    changed = bytearray(data)
    for here, there in ((at, at + 4 * subgraph), (at + 4 * subgraph, at)):
        (distance,) = struct.unpack_from("<I", data, there)
        # Distances count from where they stand.
        struct.pack_into("<I", changed, here, there + distance - here)
    return bytes(changed)


class _Subgraph:
    """The tensors of one subgraph."""

    def __init__(self, number: int, table: Table) -> None:
        self.number = number
        tensors = table.tables(_TENSORS)
        self.tensors = tensors
        self.ends = {
            kind: [tensors[i] for i in table.numbers(field)]
            for kind, field in (("inputs", _INPUTS), ("outputs", _OUTPUTS))
        }

    def plain(self) -> LiteSignature:
        """Make the signature of a file that declares none."""
        inputs, outputs = (
            {_plain_name(tensor): tensor for tensor in self.ends[kind]}
            for kind in ("inputs", "outputs")
        )
        return self.signature(SERVING_DEFAULT, inputs, outputs)

    def signature(
        self, name: str, inputs: Mapping[str, Table], outputs: Mapping[str, Table]
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


def _native(subgraph: _Subgraph, table: Table) -> LiteSignature:
    inputs, outputs = (
        {entry.text(0): subgraph.tensors[entry.number(1)] for entry in table.tables(field)}
        for field in (_SIGNATURE_INPUTS, _SIGNATURE_OUTPUTS)
    )
    return subgraph.signature(table.text(_KEY), inputs, outputs)


def _declared(model: Table, file: str) -> dict[str, Proto]:
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
            raise LoadFailed(f"{file}: {METADATA} holds no SignatureDefs") from error
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


def without_port(name: str) -> str:
    """Give a tensor's name without the port that TensorFlow gives it."""
    return name.partition(":")[0]


def _plain_name(tensor: Table) -> str:
    return without_port(tensor.text(_TENSOR_NAME))


def _fill(info: Proto, tensor: Table) -> None:
    info.name = tensor.text(_TENSOR_NAME)
    dtype = DTYPES.get(tensor.byte(_TYPE))
    info.dtype = dtype.number if dtype else 0
    info.tensor_shape.SetInParent()
    for size in tensor.numbers(_SHAPE_SIGNATURE) or tensor.numbers(_SHAPE):
        info.tensor_shape.dim.add(size=size)
