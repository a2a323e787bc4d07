"""What a tensor is, apart from its values: dtype, name, shape; and what a signature is.

One table names each dtype in the four vocabularies that meet here: numpy (between the parts of
this server), OpenVINO, TensorFlow on the wire (types.proto) and TensorFlow Serving's JSON errors.
"""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ie_serving.core.values.images import RGB, Bounds, ImageForm

Array = npt.NDArray[Any]

SERVING_DEFAULT = "serving_default"
"""Name of the signature that is used when a request names none."""


class DataType(enum.Enum):
    """Element type of a tensor.

    Attributes:
        openvino: OpenVINO's name, as `ov.Type.get_type_name()` gives it.
        number: `tensorflow.DataType` on the wire. Source: types.proto.
        wire_name: name of that enum value, for example `DT_FLOAT`.
        word: TensorFlow's word in error texts, for example `float`.
        numpy: dtype of the arrays that carry it inside this server. BF16 has none in numpy and
            travels as float32, which holds each of its values exactly. STRING travels as
            object arrays of `bytes`.
    """

    # The numbers have gaps: 8, 11 to 13 and the like are types that neither engine has, such as
    # complex and quantized ones, and a request with one is refused by its number.
    FP32 = ("f32", 1, "DT_FLOAT", "float", np.float32)
    FP64 = ("f64", 2, "DT_DOUBLE", "double", np.float64)
    INT32 = ("i32", 3, "DT_INT32", "int32", np.int32)
    UINT8 = ("u8", 4, "DT_UINT8", "uint8", np.uint8)
    INT16 = ("i16", 5, "DT_INT16", "int16", np.int16)
    INT8 = ("i8", 6, "DT_INT8", "int8", np.int8)
    STRING = ("string", 7, "DT_STRING", "string", np.object_)
    INT64 = ("i64", 9, "DT_INT64", "int64", np.int64)
    BOOL = ("boolean", 10, "DT_BOOL", "bool", np.bool_)
    BF16 = ("bf16", 14, "DT_BFLOAT16", "bfloat16", np.float32)
    UINT16 = ("u16", 17, "DT_UINT16", "uint16", np.uint16)
    FP16 = ("f16", 19, "DT_HALF", "half", np.float16)
    UINT32 = ("u32", 22, "DT_UINT32", "uint32", np.uint32)
    UINT64 = ("u64", 23, "DT_UINT64", "uint64", np.uint64)

    def __init__(self, openvino: str, number: int, wire_name: str, word: str, numpy: type) -> None:
        self.openvino = openvino
        self.number = number
        self.wire_name = wire_name
        self.word = word
        self.numpy: np.dtype[Any] = np.dtype(numpy)


BY_NUMBER: Mapping[int, DataType] = MappingProxyType({d.number: d for d in DataType})
BY_OPENVINO: Mapping[str, DataType] = MappingProxyType({d.openvino: d for d in DataType})
# Arrays of float32 are FP32: BF16 has no numpy dtype of its own, and no array says that it was one.
BY_NUMPY: Mapping[np.dtype[Any], DataType] = MappingProxyType(
    {d.numpy: d for d in DataType if d is not DataType.BF16}
)


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One input or output as clients see it.

    Attributes:
        name: the alias in requests and replies, after any mapping.
        dtype: element type.
        shape: one entry a dimension, -1 where any size is taken; None when even the rank is open.
        tensor: the tensor's own name in the model, `TensorInfo.name` in the metadata.
        layout: order of the dimensions in OpenVINO's letters, such as `NHWC`; empty where neither
            the model nor its configuration says it.
        bounds: smallest and largest size of each dimension, where `shape` does not say it all.
        image: what encoded images become that are sent instead; None where none are taken.
        colours: order of the colours of these, where no setting says it: what models of this
            format are mostly trained with.
        apart: the server's own, beside the model: its shape says nothing of the other tensors.
        json: each string is a text of JSON, which REST writes as the value that it means.
    """

    name: str
    dtype: DataType
    shape: tuple[int, ...] | None
    tensor: str
    layout: str = ""
    bounds: Bounds | None = None
    image: ImageForm | None = None
    colours: str = RGB
    apart: bool = False
    json: bool = False

    def __str__(self) -> str:
        shape = "any shape" if self.shape is None else f"({', '.join(map(str, self.shape))})"
        return f'"{self.name}" {self.dtype.word} {shape}'


class Method(str, enum.Enum):
    """What a signature is for. Source: signature_constants of TensorFlow."""

    PREDICT = "tensorflow/serving/predict"
    CLASSIFY = "tensorflow/serving/classify"
    REGRESS = "tensorflow/serving/regress"

    @property
    def word(self) -> str:
        """Its last word: `predict`, `classify` or `regress`."""
        return self.value.rpartition("/")[2]


@dataclass(frozen=True)
class Signature:
    """One way to call a servable: named inputs to named outputs.

    Attributes:
        name: signature name.
        inputs: specs by alias.
        outputs: specs by alias.
        method: one of `Method`, or what the model's author wrote.
        examples: how it is computed, when its input is a batch of serialized Examples.
        defaults: values of inputs that a request may leave out.
        ignored: names that a request may give beside `inputs`, and that change nothing.
        left_out: why it is not served, though the model declares it; empty for one that is.
        definition: of one that is listed and not served: its SignatureDef, serialized, since it may
            hold what no spec can say; empty where the specs say it all.
        runs_on: what computes it, in words for `ie_serving check`.
        precision: that its floats are computed in, such as `bf16`; empty where that is not told.
        evidence: what comparing it with a second engine has shown; None where that is not done.
        states: names under which `CompiledModel.infer` gives what lasts beyond an inference, beside
            the outputs, and takes it beside the inputs: all of them, or none to begin anew.
        gathers: the model makes batches of its requests itself, if anybody does.
        told: the model is told who asks, by `core.values.callers.CALLER`.
        is_open: where it names no inputs it takes any, and where it names no outputs it gives any.
        behind: inputs of the model behind whatever takes any: JSON, which has no dtypes, is read
            by these where names are the same.
    """

    name: str
    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]
    method: str = Method.PREDICT.value
    examples: "ExampleBinding | None" = None
    defaults: Mapping[str, Array] = field(default_factory=dict)
    ignored: frozenset[str] = frozenset()
    left_out: str = ""
    definition: bytes = b""
    runs_on: str = ""
    precision: str = ""
    evidence: "Evidence | None" = None
    states: tuple[str, ...] = ()
    gathers: bool = False
    told: bool = False
    is_open: bool = False
    behind: Mapping[str, TensorSpec] = field(default_factory=dict)

    @property
    def takes_any(self) -> bool:
        """Whether inputs may have any names, dtypes and shapes."""
        return self.is_open and not self.inputs

    @property
    def gives_any(self) -> bool:
        """Whether the outputs are known only when they come."""
        return self.is_open and not self.outputs


class Evidence(NamedTuple):
    """What comparing a model with a second engine has shown.

    Attributes:
        result: `alike`, `handed_over` for one of which some requests go to the second engine,
            `other_engine` for one that the second engine serves, or `not_compared`.
        told: the same in words, with the release and the number of requests, or the cause.
    """

    result: str
    told: str


def specs_of(arrays: Mapping[str, Array]) -> dict[str, TensorSpec]:
    """Describe arrays whose specs nobody has declared; their dtypes are those of `BY_NUMPY`."""
    return {
        name: TensorSpec(name, BY_NUMPY[array.dtype], None, f"{name}:0")
        for name, array in arrays.items()
    }


def strings(values: Sequence[bytes]) -> Array:
    """Give strings as an array of one dimension."""
    # Filled afterwards: of a list of bytes numpy makes an array of one width, and cuts zero bytes.
    array: Array = np.empty(len(values), np.object_)
    array[:] = values
    return array


CLASSES, SCORES, OUTPUTS = "classes", "scores", "outputs"
"""What an output of a signature for Classify or Regress means: its role."""


@dataclass(frozen=True)
class ExampleBinding:
    """How Classify or Regress is computed by a signature that takes tensors.

    Attributes:
        base: the signature that is run.
        features: for each input of `base`, the feature of an Example that fills it.
        roles: `scores`, `classes` or `outputs`, to the output of `base` that holds it.
        labels: class names by index, when no output of `base` holds them.
    """

    base: Signature
    features: Mapping[str, str]
    roles: Mapping[str, str]
    labels: tuple[str, ...] = ()
