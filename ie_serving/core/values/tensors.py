"""Descriptions of tensors (dtype, name, shape) and of signatures.

One table names each dtype in the four vocabularies that meet here: numpy (between the parts of
this server), OpenVINO, TensorFlow on the wire (types.proto) and TensorFlow Serving's JSON errors.

Python nodes of OpenVINO Model Server take and give tensors whose dtype and shape only their sender
knows (`TensorSpec.untyped`). A tensor of one of the server's dtypes, with as many elements as its
shape says, is an array as everywhere. Any other is one `SentBuffer`, alone in an array without
dimensions, which passes through steps and layers as a string does.
"""

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from ie_serving.core.values.errors import InvalidTensor
from ie_serving.core.values.image_form import RGB, ImageBounds, ImageForm
from ie_serving.core.values.integers import INT64_MAX

T = TypeVar("T")
Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
"""The inputs or the outputs of one inference, by name."""
Read = Callable[[Arrays], T]
"""Makes a reply of the outputs of an inference, whose memory is used again behind it."""
Outputs = Arrays
Take = Callable[[Arrays], None]
"""Takes the outputs of a sampled request, in any thread; must copy what it keeps."""

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

    # The numbers have gaps: 8, 11 to 13 and others are types that neither engine has, such as
    # complex and quantized ones. A request with one is refused by its number.
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


BY_NUMBER: Final[Mapping[int, DataType]] = {d.number: d for d in DataType}
BY_OPENVINO: Final[Mapping[str, DataType]] = {d.openvino: d for d in DataType}
# Arrays of float32 count as FP32: BF16 has no numpy dtype, so no array shows that it was BF16.
BY_NUMPY: Final[Mapping[np.dtype[Any], DataType]] = {
    d.numpy: d for d in DataType if d is not DataType.BF16
}


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One input or output as clients see it.

    Attributes:
        name: the alias in requests and replies, after any mapping.
        dtype: element type.
        shape: one entry a dimension, -1 for any size; None if even the rank is open.
        tensor: `TensorInfo.name` in the metadata: the tensor's own name in a graph of TensorFlow,
            otherwise `name`, as OpenVINO Model Server has it.
        layout: order of the dimensions in OpenVINO's letters, such as `NHWC`; empty if neither the
            model nor its configuration says it.
        bounds: smallest and largest size of each dimension, if `shape` alone does not say it.
        image: form that encoded images are decoded to; None if the input takes no images.
        colours: order of the colours of images, if no setting says it: the order that models of
            this format are mostly trained with.
        apart: added by the server beside the model: its shape is unrelated to the other tensors.
        json: each string is a JSON text, which REST writes as the value that it stands for.
        advice: end of the sentence that refuses a wrong shape: what the operator may do.
        untyped: each tensor has its own dtype and shape; `dtype` is
            STRING and `shape` None.
        optional: an untyped input that a request may leave out.
    """

    name: str
    dtype: DataType
    shape: tuple[int, ...] | None
    tensor: str
    layout: str = ""
    bounds: ImageBounds | None = None
    image: ImageForm | None = None
    colours: str = RGB
    apart: bool = False
    json: bool = False
    advice: str = ""
    untyped: bool = False
    optional: bool = False

    def __str__(self) -> str:
        if self.untyped:
            return f'"{self.name}" of any dtype and shape'
        shape = "any shape" if self.shape is None else f"({', '.join(map(str, self.shape))})"
        return f'"{self.name}" {self.dtype.word} {shape}'


class Method(str, enum.Enum):
    """Purpose of a signature. Source: signature_constants of TensorFlow."""

    PREDICT = "tensorflow/serving/predict"
    CLASSIFY = "tensorflow/serving/classify"
    REGRESS = "tensorflow/serving/regress"

    @property
    def word(self) -> str:
        """Its last word: `predict`, `classify` or `regress`."""
        return self.value.rpartition("/")[2]


Specs = Mapping[str, TensorSpec]
"""The declared inputs or outputs of a signature, by name."""


@dataclass(frozen=True)
class Signature:
    """One way to call a servable: named inputs to named outputs.

    Attributes:
        name: signature name.
        inputs: specs by alias.
        outputs: specs by alias.
        method: one of `Method`, or the text of the model's author.
        examples: binding of Example features, if its input is a batch of serialized Examples.
        defaults: values of inputs that a request may omit.
        ignored: names that a request may give beside `inputs`, without effect.
        left_out: reason why it is not served, though the model declares it; empty if it is served.
        definition: serialized SignatureDef of a signature that is listed and not served, since it
            may hold facts that no spec can express; empty if the specs are complete.
        runs_on: the engine that computes it, in words for `ie_serving check`.
        precision: floating-point precision, such as `bf16`; empty if not known.
        row_s: seconds that one row of zeros took at its load; None if not measured.
        batch_s: the same for a large batch, or where no size is open.
        evidence: result of the comparison with a second engine; None without a comparison.
        states: names of state tensors, which `CompiledModel.infer` returns beside the outputs and
            takes beside the inputs: all of them, or none for a new state.
        gathers: the model itself batches its requests, and no layer does.
        sees_caller: the model sees the caller, by `core.values.requests.CALLER`.
        as_sent: shapes that its inputs refuse are given to `CompiledModel.infer_as_sent`.
        is_open: if it names no inputs it takes any, and if it names no outputs it returns any.
        behind: inputs of the model behind a layer that takes any: JSON, which has no dtypes, is
            read by these where names are the same.
    """

    name: str
    inputs: Specs
    outputs: Specs
    method: str = Method.PREDICT.value
    examples: "ExampleBinding | None" = None
    defaults: Arrays = field(default_factory=dict)
    ignored: frozenset[str] = frozenset()
    left_out: str = ""
    definition: bytes = b""
    runs_on: str = ""
    precision: str = ""
    row_s: float | None = field(default=None, compare=False)
    batch_s: float | None = field(default=None, compare=False)
    evidence: "Evidence | None" = None
    states: tuple[str, ...] = ()
    gathers: bool = False
    sees_caller: bool = False
    as_sent: bool = False
    is_open: bool = False
    behind: Specs = field(default_factory=dict)

    @property
    def takes_any(self) -> bool:
        """Whether inputs may have any names, dtypes and shapes."""
        return self.is_open and not self.inputs

    @property
    def gives_any(self) -> bool:
        """Whether the outputs are known only after the inference."""
        if any(spec.untyped for spec in self.outputs.values()):
            return True
        return self.is_open and not self.outputs


class Evidence(NamedTuple):
    """Result of the comparison of a model with a second engine.

    Attributes:
        result: `alike`, `handed_over` if some requests go to the second engine, `other_engine` if
            the second engine serves it, or `not_compared`.
        told: the same in words, with the release and the number of requests, or the cause.
    """

    result: str
    told: str


def without_port(tensor: str) -> str:
    """Give the name of a tensor without the port that TensorFlow gives a node's first output."""
    return tensor.removesuffix(":0")


def tensor(name: str, dtype: DataType, *shape: int) -> TensorSpec:
    """Describe a tensor that has one name, in the API and in the model."""
    return TensorSpec(name, dtype, shape, name)


def specs_of(arrays: Arrays) -> dict[str, TensorSpec]:
    """Describe arrays without declared specs; their dtypes are those of `BY_NUMPY`."""
    return {
        name: TensorSpec(name, BY_NUMPY[array.dtype], None, f"{name}:0")
        for name, array in arrays.items()
    }


def copies(arrays: Arrays) -> dict[str, Array]:
    """Copy the outputs of an inference, whose memory the engine uses again."""
    return {name: array.copy() for name, array in arrays.items()}


def size_of(*several: Arrays) -> int:
    """Give the bytes of tensors, those of their strings among them."""
    arrays = [array for each in several for array in each.values()]
    texts = (sum(map(len, array.flat)) for array in arrays if array.dtype == object)
    return sum(array.nbytes for array in arrays) + sum(texts)


def strings(values: Sequence[bytes]) -> Array:
    """Make a one-dimensional array of strings."""
    # Filled afterwards: numpy would make fixed-width bytes and cut trailing zero bytes.
    array: Array = np.empty(len(values), np.object_)
    array[:] = values
    return array


CLASSES, SCORES, OUTPUTS = "classes", "scores", "outputs"
"""Roles: the meanings of outputs of a signature for Classify or Regress."""


@dataclass(frozen=True)
class ExampleBinding:
    """How Classify or Regress is computed by a signature that takes tensors.

    Attributes:
        base: the signature that is run.
        features: feature of an Example for each input of `base`.
        roles: output of `base` for each of `scores`, `classes` or `outputs`.
        labels: class names by index, if no output of `base` holds them.
    """

    base: Signature
    features: Mapping[str, str]
    roles: Mapping[str, str]
    labels: tuple[str, ...] = ()


class SentBuffer(bytes):
    """The buffer of a tensor, untouched.

    Attributes:
        datatype: word for its elements, in the Open Inference Protocol or of the sender's own.
        shape: shape given by the sender; it need not fit the buffer.
    """

    datatype: str
    shape: tuple[int, ...]

    def __new__(cls, data: object, datatype: str, shape: Iterable[int]) -> "SentBuffer":
        """Copy a buffer, such as a view of a request's payload.

        Raises:
            InvalidTensor: replies have no room for a size of the shape.
        """
        sizes = tuple(shape)
        if any(not 0 <= size <= INT64_MAX for size in sizes):
            raise InvalidTensor(f"shape {list(sizes)}: expected sizes from 0 to {INT64_MAX}")
        sent = super().__new__(cls, data)  # type: ignore[call-overload]
        sent.datatype = datatype
        sent.shape = sizes
        return sent  # type: ignore[no-any-return]

    @property
    def array(self) -> Array:
        """The array that carries it."""
        return _carrying(self)


def _carrying(value: SentBuffer | None) -> Array:
    array: Array = np.empty((), np.object_)
    array[()] = value
    return array


ABSENT = _carrying(None)
"""The value of an untyped tensor that is absent."""


def sent_in(array: Array) -> SentBuffer | None:
    """Give what an array carries; None where it is an array as any other."""
    found = array[()] if array.dtype.kind == "O" and not array.ndim else None
    return found if isinstance(found, SentBuffer) else None


def is_absent(array: Array) -> bool:
    """Tell whether an array stands for a tensor that did not come."""
    return array.dtype.kind == "O" and not array.ndim and array[()] is None


def present(arrays: Arrays) -> dict[str, Array]:
    """Leave out what did not come."""
    return {name: array for name, array in arrays.items() if not is_absent(array)}


def decoded(name: str, array: Array, library: str) -> Array:
    """Give the strings of an input as texts. Raises: InvalidTensor, where they are not UTF-8."""
    try:
        return objects((text.decode() for text in array.flat), array.shape)
    except UnicodeDecodeError as error:
        raise InvalidTensor(
            f'input "{name}" holds bytes that are not UTF-8; {library} takes text only: {error}'
        ) from error


def encoded(array: Array) -> Array:
    """Convert a library's array of texts or objects to a string tensor."""
    return objects((str(each).encode() for each in array.flat), array.shape)


def objects(items: Iterable[object], shape: tuple[int, ...]) -> Array:
    """Make an array of objects; numpy's own string types would cut zeros at the end."""
    return np.array([*items], np.object_).reshape(shape)
