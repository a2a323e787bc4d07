"""What each operation of TensorFlow is tested with: its inputs and attributes, as data."""

# ruff: noqa: E501, SIM905 (rows of a table)

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tensorflow.compat.v1 as v1
from tensorflow.python.framework import op_def_registry

from tests.unit.wire.image.pictures import encoded

Array = npt.NDArray[Any]
raw = tf.raw_ops


@dataclass(frozen=True)
class Drawn:
    """An input of which every request brings other values.

    Attributes:
        shape: sizes; `n` is one that the requests vary.
        low: least value.
        high: greatest value; without both, values of all magnitudes are drawn.
        dtype: its type; None for each that the operation takes.
    """

    shape: tuple[int | str, ...]
    low: float | None = None
    high: float | None = None
    dtype: type | None = None


@dataclass(frozen=True)
class Given:
    """An input that every request brings as it is here."""

    value: Array


Input = Drawn | Given | Array | Sequence[Any]
"""An array is a constant of the graph, or an input of it: both are tried."""


@dataclass(frozen=True)
class Form:
    """One way to use an operation.

    Attributes:
        inputs: of the operation in order; a sequence is an input that is a list.
        attrs: its attributes.
        build: makes the outputs of the inputs, where the operation cannot stand alone.
        dtypes: of what is drawn; empty for each that the operation takes.
    """

    inputs: tuple[Input, ...] = ()
    attrs: Mapping[str, Any] = field(default_factory=dict)
    build: Callable[..., Any] | None = None
    dtypes: tuple[type, ...] = ()


def f(*inputs: Any, **attrs: Any) -> Form:
    return Form(inputs, attrs)


def made(build: Callable[..., Any], *inputs: Any, dtypes: tuple[type, ...] = (np.float32,)) -> Form:
    return Form(inputs, {}, build, dtypes)


def d(shape: str, low: float | None = None, high: float | None = None, dtype: Any = None) -> Drawn:
    sizes = tuple(each if each == "n" else int(each) for each in shape.split())
    return Drawn(sizes, low, high, dtype)


def g(*values: Any, dtype: Any = np.float32) -> Given:
    """Give a row."""
    return Given(texts(*values) if isinstance(values[0], bytes) else np.array(values, dtype))


def texts(*values: bytes) -> Array:
    return np.array(values, np.object_)


def i(*values: Any) -> Array:
    return np.array(values, np.int32)


def ll(*values: Any) -> Array:
    return np.array(values, np.int64)


def n(value: Any, dtype: Any = np.int32) -> Array:
    return np.array(value, dtype)


def w(*shape: int, scale: float = 1.0) -> Array:
    """Weights."""
    drawn = np.random.default_rng(shape).integers(-8, 9, shape) / 8 * scale
    return np.asarray(drawn, np.float32)


I64 = np.int64
X = d("n 3")
FLOATS = (np.float32, np.float64, np.float16)

TABLE: dict[str, Sequence[Form]] = {}


def _each(names: str, *forms: Form) -> None:
    TABLE.update(dict.fromkeys(names.split(), forms))


# One tensor, element by element.
_each(
    "Abs Ceil Cos Elu Erf Erfc Exp Expm1 Floor Identity Invert IsFinite IsInf IsNan L2Loss LeakyRelu"
    " LogSoftmax Neg OnesLike PreventGradient Rank Relu Relu6 Rint Round Selu Shape Sigmoid Sign Sin"
    " Size Snapshot Softmax Softplus Softsign Square StopGradient Tanh ZerosLike CheckNumerics"
    " CheckNumericsV2",
    f(X), f(d("2 n 1 3")), f(d("n")),
)  # fmt: skip
for _op in ("CheckNumerics", "CheckNumericsV2"):
    TABLE[_op] = [f(X, message="not finite")]
# TensorFlow makes 0 of every integer.
TABLE["Round"] = [Form(each.inputs, dtypes=FLOATS) for each in TABLE["Round"]]
TABLE["LeakyRelu"] = [f(X), f(X, alpha=0.5), f(X, alpha=-1.0)]
TABLE["LogicalNot"] = [f(d("n 3", dtype=bool))]
TABLE["Shape"] = TABLE["Size"] = [f(X), f(X, out_type=tf.int64), f(d("n 0 3")), f(d(""))]
for _op in ("Softmax", "LogSoftmax"):
    TABLE[_op] = [f(X), f(d("n 2 5"))]
_each("Acos Asin Atanh", f(d("n 3", -0.9, 0.9)), f(d("n 3", -1, 1)))
_each("Acosh", f(d("n 3", 1, 100)))
_each("Asinh Atan Tan Cosh Sinh", f(d("n 3", -5, 5)))
_each("Log Sqrt", f(d("n 3", 0, 1000)))
_each("Rsqrt Inv Reciprocal", f(d("n 3", 0.1, 1000)), f(d("n 3", -100, -1)))
_each("Log1p", f(d("n 3", -0.9, 100)))
TABLE["ToBool"] = [f(d("", dtype=np.float32)), f(d("n", dtype=np.int32))]
TABLE["EnsureShape"] = [f(X, shape=[None, 3]), f(X, shape=None), f(X, shape=[2, 3])]
TABLE["IdentityN"] = [f([d("n 3"), d("2")])]
TABLE["ShapeN"] = [f([d("n 3"), d("2")]), f([d("n 3"), d("n")], out_type=tf.int64)]
TABLE["Bitcast"] = [
    f(d("n 2", dtype=np.float32), type=tf.int32),
    f(d("n 4", dtype=np.uint8), type=tf.int32),
    f(d("n 2", dtype=np.int32), type=tf.uint8),
]
_KINDS = (np.float32, np.float64, np.float16, np.int32, np.int64, np.uint8, np.int8, np.bool_)
TABLE["Cast"] = [
    f(d("n 3", *limits, dtype=src), DstT=tf.as_dtype(dst))
    for src, dst in product(_KINDS, _KINDS)
    if src is not dst
    for limits in ((None, None) if src is np.bool_ else (0, 100),)
] + [
    f(d("n 3", dtype=np.int32), DstT=tf.float32),
    f(d("n 3", dtype=np.int32), DstT=tf.int8),
    f(d("n 3", dtype=np.int32), DstT=tf.bool),
    f(d("n 3", dtype=np.int64), DstT=tf.int32),
    f(d("n 3", -100, 100, dtype=np.float32), DstT=tf.int32),
    f(d("n 3", -100, 100, dtype=np.float32), DstT=tf.int8),
    f(d("n 3", dtype=np.float32), DstT=tf.float16),
    f(d("n 3", dtype=np.float32), DstT=tf.bool),
    f(d("n 3", dtype=np.float32), DstT=tf.bfloat16),
]

# Two tensors, element by element.
_each(
    "Add AddV2 Sub Mul Maximum Minimum SquaredDifference Equal NotEqual Less LessEqual Greater"
    " GreaterEqual BitwiseAnd BitwiseOr BitwiseXor MulNoNan DivNoNan",
    f(X, X), f(X, d("3")), f(d("n 1 3"), d("4 1")), f(d(""), X),
)  # fmt: skip
for _op in ("Equal", "NotEqual"):
    TABLE[_op] = [*TABLE[_op], f(X, X, incompatible_shape_error=False)]
TABLE["ApproximateEqual"] = [f(X, X), f(X, X, tolerance=2.0)]
TABLE["Atan2"] = [f(X, X), f(X, d("3"))]
_each("LogicalAnd LogicalOr", f(d("n 3", dtype=bool), d("n 3", dtype=bool)), f(d("n 3", dtype=bool), d("3", dtype=bool)))  # fmt: skip
_each(
    "Div RealDiv FloorDiv TruncateDiv",
    f(X, d("n 3", 1, 9)),
    f(X, d("n 3", -9, -1)),
    f(X, d("3", 1, 9)),
)
_each("Mod FloorMod TruncateMod", f(d("n 3", -99, 99), d("n 3", 1, 9)), f(d("n 3", -99, 99), d("n 3", -9, -1)), f(d("n 3", -99, 99), d("3", 1, 9)))  # fmt: skip
TABLE["Pow"] = [f(d("n 3", 0.1, 5), d("n 3", -2, 3)), f(d("n 3", 0, 5), d("n 3", 0, 4)), f(d("n 3", -5, 5), d("", 2, 2))]  # fmt: skip
_each(
    "LeftShift RightShift",
    f(d("n 3", -100, 100), d("n 3", 0, 5)),
    f(d("n 3", 0, 100), d("3", 0, 7)),
)
_each("Xdivy Xlogy", f(X, d("n 3", 0.1, 9)), f(d("n 3", 0, 0), d("n 3", 0, 0)))
TABLE["Xlog1py"] = [f(X, d("n 3", -0.5, 9)), f(d("n 3", 0, 0), d("n 3", -1, -1))]
TABLE["BiasAdd"] = [
    f(X, d("3")),
    f(d("n 2 2 3"), d("3")),
    f(d("n 3 2 2"), d("3"), data_format="NCHW"),
]
TABLE["AddN"] = [f([X, X, X]), f([X])]
TABLE["ClipByValue"] = [
    f(X, n(-1.0, np.float32), n(2.0, np.float32)),
    f(d("n 3", dtype=np.int32), n(-1), n(2)),
]
TABLE["Select"] = [
    f(d("n 3", dtype=bool), X, X),
    f(d("n", dtype=bool), X, X),
    f(d("", dtype=bool), X, X),
]
TABLE["SelectV2"] = [f(d("n 3", dtype=bool), X, X), f(d("n 1", dtype=bool), X, d(""))]
TABLE["Where"] = [
    f(d("n 3", dtype=bool)),
    f(X),
    f(d("n", dtype=bool)),
    f(d("2 n 2", dtype=np.int32)),
]

# Along axes.
_each(
    "Max Min Mean Prod Sum EuclideanNorm",
    f(d("n 3", -5, 5), i(1)), f(d("n 3", -5, 5), i(0)), f(d("n 2 3", -5, 5), i(0, -1), keep_dims=True),
    f(d("n 3", -5, 5), n(1)), f(d("n 3", -5, 5), i()[:0]), f(d("n 3", -5, 5), n([1], I64)),
    f(d("n 3"), i(1)),
)  # fmt: skip
_B = d("n 3", dtype=bool)
_each("All Any", f(_B, i(1)), f(_B, i(0), keep_dims=True), f(_B, i(0, 1)), f(_B, i()[:0]))
_each(
    "ArgMax ArgMin",
    f(X, n(1)), f(X, n(0)), f(X, n(-1), output_type=tf.int32), f(d("n 2 4"), n(1)), f(d("n 300"), n(1)),
)  # fmt: skip
TABLE["Cumsum"] = [f(X, n(1)), f(X, n(0), exclusive=True), f(X, n(-1), reverse=True), f(X, n(1), exclusive=True, reverse=True)]  # fmt: skip
_each("TopKV2", f(d("n 5"), n(2)), f(d("n 5"), n(5)), f(d("n 300"), n(20)), f(d("n 2 4"), n(1)))  # fmt: skip
TABLE["Bincount"] = [f(d("n", 0, 4, np.int32), n(5), Given(np.zeros(0, np.float32)))]
TABLE["Bucketize"] = [f(X, boundaries=[-1.0, 0.0, 2.5]), f(X, boundaries=[])]
TABLE["Unique"] = [f(d("n", -2, 2)), f(g(3, 1, 3, 2, 1)), f(d("n", -2, 2), out_idx=tf.int64)]
TABLE["UniqueWithCounts"] = TABLE["Unique"]
TABLE["ListDiff"] = [
    f(d("n", -4, 4), d("3", -4, 4)),
    f(d("n", -4, 4), d("3", -4, 4), out_idx=tf.int64),
]
TABLE["InvertPermutation"] = [f(g(2, 0, 1, 3, dtype=np.int32)), f(g(1, 0, dtype=np.int64))]
TABLE["Reverse"] = [f(X, np.array([False, True])), f(X, np.array([True, True]))]
TABLE["ReverseV2"] = [f(X, i(1)), f(X, i(0, -1)), f(X, i()[:0])]
TABLE["ReverseSequence"] = [
    f(d("2 4"), g(1, 3, dtype=np.int32), seq_dim=1), f(d("4 2"), g(4, 0, dtype=np.int64), seq_dim=0, batch_dim=1),
]  # fmt: skip
TABLE["Roll"] = [
    f(X, n(1), n(1)),
    f(X, i(1, -2), i(0, 1)),
    f(X, i(5, 1), i(1, 1)),
    f(X, n(-1), n(-1)),
]
TABLE["LinSpace"] = [
    f(d("", 0, 1, np.float32), d("", 5, 9, np.float32), n(5)), f(d("", 0, 1, np.float32), d("", -9, -5, np.float32), n(1)),
]  # fmt: skip
TABLE["Range"] = [
    f(d("", 0, 3), d("", 5, 9), d("", 1, 2)), f(d("", 5, 9), d("", 0, 3), d("", -2, -1)), f(d("", 5, 9), d("", 0, 3), d("", 1, 2)),
]  # fmt: skip

# Shapes.
TABLE["Reshape"] = [f(X, i(-1)), f(X, i(3, -1)), f(X, n([-1, 1, 3], I64)), f(d("0 n"), i(0, 2))]
TABLE["ExpandDims"] = [f(X, n(0)), f(X, n(-1)), f(X, n(1, I64)), f(d(""), n(0))]
TABLE["Squeeze"] = [f(d("n 1 3 1")), f(d("n 1 3 1"), axis=[1]), f(d("n 1 3 1"), axis=[-1, 1])]
TABLE["Transpose"] = [
    f(d("n 3 2"), i(2, 0, 1)),
    f(X, i(1, 0)),
    f(d(""), i()[:0]),
    f(X, n([1, 0], I64)),
]
TABLE["ConjugateTranspose"] = [f(X, i(1, 0))]
TABLE["Tile"] = [f(X, i(2, 1)), f(X, n([1, 3], I64)), f(X, i(0, 1)), f(d("n 1 2 1"), i(1, 2, 3, 2))]
TABLE["Fill"] = [f(i(2, 3), X.__class__(())), f(n([2, 0], I64), d("")), f(i()[:0], d(""))]
TABLE["BroadcastTo"] = [f(d("3"), i(2, 3)), f(d("2 1"), i(4, 2, 3)), f(d(""), n([2], I64))]
TABLE["BroadcastArgs"] = [
    f(g(2, 1, dtype=np.int32), i(1, 3)),
    f(g(2, dtype=np.int64), n([4, 1], I64)),
]
TABLE["Pad"] = [f(X, i([1, 0], [0, 2])), f(X, n([[0, 0], [2, 1]], I64))]
TABLE["PadV2"] = [f(X, i([1, 0], [0, 2]), d(""))]
TABLE["MirrorPad"] = [
    f(d("2 3"), i([1, 0], [0, 2]), mode=mode) for mode in ("REFLECT", "SYMMETRIC")
]
TABLE["Slice"] = [
    f(X, i(0, 1), i(-1, 2)),
    f(X, n([0, 0], I64), n([1, -1], I64)),
    f(X, i(0, 3), i(-1, 0)),
]
TABLE["StridedSlice"] = [
    f(X, i(0, 0), i(2, 3), i(1, 2)),
    f(X, i(0, 2), i(0, 0), i(1, -1), begin_mask=1, end_mask=3),
    f(X, i(0, -2), i(1, 0), i(1, 1), end_mask=2, shrink_axis_mask=1),
    f(d("n 3 4"), i(0, 0, 1), i(0, 0, 3), i(1, 1, 1), ellipsis_mask=2, shrink_axis_mask=1),
    f(X, i(0, 0), i(0, 0), i(1, 1), new_axis_mask=1, begin_mask=2, end_mask=2),
    f(X, i(-9), i(9), i(1)),
    f(d("5"), i(9), i(-9), i(-2)),
]
TABLE["Concat"] = [f(n(0), [X, X]), f(n(1), [X, X, X])]
TABLE["ConcatV2"] = [f([X, X], n(0)), f([X, d("n 2"), X], n(-1)), f([X, d("0 3")], n(0, I64))]
TABLE["Pack"] = [f([X, X]), f([X, X], axis=-1), f([d(""), d("")])]
TABLE["Unpack"] = [f(d("2 n"), num=2), f(d("n 3"), num=3, axis=-1)]
TABLE["Split"] = [
    f(n(1), d("n 4"), num_split=2),
    f(n(-1), d("n 3"), num_split=3),
    f(n(0), d("4 n"), num_split=2),
]
TABLE["SplitV"] = [
    f(d("n 4"), i(1, 3), n(1), num_split=2),
    f(d("n 4"), n([2, -1, 1], I64), n(-1), num_split=3),
]
TABLE["OneHot"] = [
    f(d("n 2", -1, 3, kind), n(3), n(value, of), n(0, of), **attrs)
    for kind, value, of, attrs in (
        (np.int32, 1, np.float32, {}), (np.int64, 2, np.int32, {"axis": 0}), (np.uint8, 1, np.float32, {"axis": 1}),
        (np.int32, True, np.bool_, {}), (np.int64, 3, np.float64, {}),
    )
]  # fmt: skip
TABLE["MatrixDiag"] = [f(X), f(d("n 2 3"))]
TABLE["MatrixBandPart"] = [
    f(d("n 3 4"), n(1), n(0)), f(d("n 3 4"), n(-1, I64), n(1, I64)), f(d("n 3 4"), n(0), n(-1)), f(d("n 3 4"), n(-1), n(-1)),
]  # fmt: skip
TABLE["UnravelIndex"] = [
    f(d("n", 0, 11, np.int32), i(3, 4)),
    f(d("n", 0, 11, np.int64), n([2, 2, 3], I64)),
]
_each(
    "DepthToSpace", f(d("n 2 2 8"), block_size=2), f(d("n 8 2 2"), block_size=2, data_format="NCHW")
)
_each(
    "SpaceToDepth", f(d("n 4 2 3"), block_size=2), f(d("n 3 4 2"), block_size=2, data_format="NCHW")
)
TABLE["SpaceToBatchND"] = [
    f(d("n 4 3 1"), i(2, 2), i([0, 0], [1, 0])),
    f(d("n 4 2"), i(2), i([0, 2])),
]
TABLE["BatchToSpaceND"] = [
    f(d("4 2 2 1"), i(2, 2), i([0, 0], [1, 0])),
    f(d("2 3 n"), i(2), i([1, 1])),
]

# Places.
_T = d("5 3")
TABLE["Gather"] = [f(_T, d("n", 0, 4, np.int32)), f(_T, d("n 2", 0, 4, np.int64))]
TABLE["GatherV2"] = [
    f(_T, d("n", 0, 4, np.int32), n(0)), f(_T, d("n", 0, 2, np.int64), n(1)), f(d("n 4"), d("n 2", 0, 3, np.int32), n(1), batch_dims=1),
    f(_T, d("", 0, 2, np.int32), n(-1)), f(d("n 2 4"), d("n 2 1", 0, 3, np.int32), n(2), batch_dims=2),
]  # fmt: skip
TABLE["GatherNd"] = [f(_T, d("n 2", 0, 2, np.int32)), f(_T, d("n 1", 0, 4, np.int64)), f(_T, d("2 n 2", 0, 2, np.int32)), f(_T, Given(np.zeros((2, 0), np.int32)))]  # fmt: skip
TABLE["ScatterNd"] = [
    f(g([0], [2], [2], dtype=np.int32), d("3 2"), i(4, 2)),
    f(g([0, 1], [3, 0], dtype=np.int64), d("2"), ll(4, 2)),
]
for _op in ("TensorScatterAdd", "TensorScatterUpdate"):
    TABLE[_op] = [
        f(_T, g([0], [2], dtype=np.int32), d("2 3")),
        f(_T, g([0, 1], [3, 0], dtype=np.int64), d("2")),
    ]
TABLE["TensorScatterAdd"] = [
    *TABLE["TensorScatterAdd"],
    f(_T, g([1], [1], [1], dtype=np.int32), d("3 3")),
]
_SORTED = g(0, 0, 2, 2, dtype=np.int32)
_each("SegmentSum SegmentMax SegmentMean", f(d("4 n", -5, 5), _SORTED), f(d("4", -5, 5), g(0, 1, 1, 1, dtype=np.int64)), f(d("4 n", -5, 5), g(1, 1, 4, 4, dtype=np.int32)))  # fmt: skip
_each(
    "UnsortedSegmentSum UnsortedSegmentMax",
    f(d("4 n", -5, 5), g(0, 2, 0, 1, dtype=np.int32), n(4)), f(d("4 n", -5, 5), g(0, -1, 0, 1, dtype=np.int32), n(2)),
    f(d("2 2 n", -5, 5), Given(np.array([[0, 1], [1, 1]], np.int64)), n(3, I64)),
)  # fmt: skip
_each(
    "SparseSegmentSum SparseSegmentMean SparseSegmentSqrtN",
    f(d("5 n", -5, 5), g(0, 3, 4, 0, dtype=np.int32), i(0, 0, 1, 2)), f(d("5 n", -5, 5), g(4, 0, dtype=np.int64), i(0, 2)),
    f(d("5 2", -5, 5), g(4, 0, dtype=np.int32), ll(0, 0)),
)  # fmt: skip
_each("DynamicStitch ParallelDynamicStitch", f([g(0, 2, dtype=np.int32), g(1, 3, dtype=np.int32)], [d("2 n"), d("2 n")]), f([n(0), i(2, 1)], [d("n"), d("2 n")]))  # fmt: skip
TABLE["DynamicPartition"] = [f(d("4 n"), g(0, 1, 0, 1, dtype=np.int32), num_partitions=2), f(d("4"), g(2, 0, 0, 2, dtype=np.int32), num_partitions=3)]  # fmt: skip
TABLE["DenseBincount"] = [
    f(d("n", 0, 4, np.int32), n(5), np.zeros(0, np.float32)), f(d("n 3", 0, 4, np.int64), n(5, I64), np.zeros(0, np.int32)),
    f(d("n 3", 0, 6, np.int32), n(5), d("n 3", -2, 2, np.float32)), f(d("n 3", 0, 4, np.int32), n(5), np.zeros((0, 0), np.float32), binary_output=True),
]  # fmt: skip
_PLACES = ll([0, 0], [0, 2], [1, 1])
TABLE["SparseToDense"] = [
    f(Given(_PLACES), ll(2, 3), d("3"), n(0, np.float32)), f(Given(ll(0, 2)), ll(4), d("2", dtype=np.int32), n(-1)),
    f(Given(_PLACES), ll(2, 3), d("", dtype=np.float32), n(7, np.float32)),
]  # fmt: skip
TABLE["SparseReshape"] = [
    f(Given(_PLACES), ll(2, 3), ll(3, -1)),
    f(Given(_PLACES), ll(2, 3), ll(6)),
]
TABLE["SparseReorder"] = [f(Given(_PLACES[::-1].copy()), d("3"), ll(2, 3))]
TABLE["SparseFillEmptyRows"] = [f(Given(ll([0, 1], [2, 0])), d("2", dtype=np.float32), ll(4, 2), n(7, np.float32)), f(Given(ll([0, 1], [1, 0])), d("2", dtype=np.int64), ll(2, 2), n(7, I64))]  # fmt: skip
TABLE["SparseTensorDenseAdd"] = [
    f(Given(_PLACES), d("3", dtype=np.float32), ll(2, 3), d("2 3", dtype=np.float32))
]
TABLE["SparseTensorDenseMatMul"] = [f(Given(_PLACES), d("3", -3, 3), ll(2, 3), d("3 n", -3, 3)), f(Given(_PLACES), d("3", -3, 3), ll(2, 3), d("n 2", -3, 3), adjoint_a=True) , f(Given(_PLACES), d("3", -3, 3, np.float32), ll(2, 3), d("n 3", -3, 3, np.float32), adjoint_b=True)]  # fmt: skip
TABLE["RaggedTensorToSparse"] = [f([g(0, 2, 2, 3, dtype=np.int64)], d("3"))]
TABLE["RaggedTensorToTensor"] = [
    f(ll(3, -1), d("4", dtype=np.float32), n(-1, np.float32), [g(0, 2, 2, 4, dtype=np.int64)], row_partition_types=["ROW_SPLITS"]),
    f(ll(-1, -1), d("4", dtype=np.int64), n(0, I64), [n(3, I64), g(0, 0, 2, 2, dtype=np.int64)], row_partition_types=["FIRST_DIM_SIZE", "VALUE_ROWIDS"]),
]  # fmt: skip
TABLE["RaggedBincount"] = [
    f(g(0, 2, 4, dtype=np.int64), d("4", 0, 3, np.int32), n(4), np.zeros(0, np.float32))
]

# Matrices.
_V = (-3, 3)
_each("MatMul", f(d("n 3", *_V), w(3, 4)), f(d("n 3", *_V), d("3 2", *_V)), f(d("3 n", *_V), d("4 3", *_V), transpose_a=True, transpose_b=True))  # fmt: skip
_each(
    "BatchMatMul BatchMatMulV2 BatchMatMulV3",
    f(d("n 2 3", *_V), d("n 3 2", *_V)), f(d("n 3 2", *_V), d("n 2 3", *_V), adj_x=True, adj_y=True),
)  # fmt: skip
for _op in ("BatchMatMulV2", "BatchMatMulV3"):
    TABLE[_op] = [
        *TABLE[_op],
        f(d("n 2 3", *_V), d("3 2", *_V)),
        f(d("n 1 2 3", *_V), d("4 3 2", *_V)),
    ]
TABLE["BatchMatMulV3"] = [Form(x.inputs, {**x.attrs, "Tout": tf.float32}, dtypes=(np.float32,)) for x in TABLE["BatchMatMulV3"]]  # fmt: skip
TABLE["Einsum"] = [
    f([d("n 3", *_V), d("3 4", *_V)], equation="ij,jk->ik"), f([d("n 2 3", *_V), d("n 3 2", *_V)], equation="bij,bjk->bik"),
    f([d("n 3", *_V)], equation="ij->ji"), f([d("n 3", *_V)], equation="ij->i"), f([d("3 3", *_V)], equation="ii->i"),
    f([d("n 2 3", *_V), d("3", *_V)], equation="...j,j->..."), f([d("n 3", *_V), d("n 3", *_V)], equation="ij,ij->"),
]  # fmt: skip
_EYE = np.eye(3, dtype=np.float32) * 4
TABLE["MatrixInverse"] = [made(lambda x, a=a: raw.MatrixInverse(input=x + _EYE, adjoint=a), d("n 3 3", -1, 1)) for a in (False, True)]  # fmt: skip
TABLE["XlaDotV2"] = TABLE["XlaConvV2"] = []

# Images and convolutions.
_P = d("n 5 6 2", *_V)
TABLE["Conv2D"] = [
    f(_P, w(3, 3, 2, 4), strides=[1, 1, 1, 1], padding="SAME"), f(_P, w(3, 2, 2, 4), strides=[1, 2, 2, 1], padding="VALID"),
    f(_P, w(2, 3, 2, 4), strides=[1, 2, 2, 1], padding="SAME"), f(_P, w(3, 3, 2, 4), strides=[1, 1, 1, 1], padding="SAME", dilations=[1, 2, 1, 1]),
    f(_P, w(3, 3, 2, 4), strides=[1, 2, 1, 1], padding="EXPLICIT", explicit_paddings=[0, 0, 1, 0, 2, 1, 0, 0]),
    f(_P, w(3, 3, 1, 4), strides=[1, 1, 1, 1], padding="SAME"),
]  # fmt: skip
TABLE["DepthwiseConv2dNative"] = [
    f(_P, w(3, 3, 2, 1), strides=[1, 1, 1, 1], padding="SAME"), f(_P, w(2, 3, 2, 3), strides=[1, 2, 2, 1], padding="VALID"),
    f(_P, w(3, 3, 2, 2), strides=[1, 1, 1, 1], padding="SAME", dilations=[1, 2, 2, 1]),
]  # fmt: skip
TABLE["Conv3D"] = [f(d("n 3 4 4 2", *_V), w(2, 3, 2, 2, 3), strides=[1, *s, 1], padding=p) for s, p in (((1, 1, 1), "SAME"), ((2, 1, 2), "VALID"), ((2, 2, 2), "SAME"))]  # fmt: skip
TABLE["Conv2DBackpropInput"] = [
    f(i(2, 6, 8, 2), w(3, 3, 2, 4), d("2 3 4 4", *_V), strides=[1, 2, 2, 1], padding="SAME"), f(i(2, 5, 6, 2), w(3, 3, 2, 4), d("2 3 4 4", *_V), strides=[1, 1, 1, 1], padding="VALID"),
    f(i(2, 5, 7, 2), w(3, 3, 2, 4), d("2 3 4 4", *_V), strides=[1, 2, 2, 1], padding="SAME"), f(i(2, 8, 10, 2), w(3, 3, 2, 4), d("2 3 4 4", *_V), strides=[1, 2, 2, 1], padding="VALID"),
]  # fmt: skip
TABLE["Conv3DBackpropInputV2"] = [f(i(2, 4, 6, 4, 2), w(2, 3, 2, 2, 3), d("2 2 3 2 3", *_V), strides=[1, 2, 2, 2, 1], padding="SAME")]  # fmt: skip
_POOLS = [{"ksize": [1, 2, 3, 1], "strides": [1, 2, 2, 1], "padding": p} for p in ("SAME", "VALID")] + [{"ksize": [1, 3, 3, 1], "strides": [1, 1, 2, 1], "padding": "SAME"}]  # fmt: skip
TABLE["AvgPool"] = [f(_P, **each) for each in _POOLS]
TABLE["MaxPool"] = [f(_P, **each) for each in _POOLS] + [f(_P, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="EXPLICIT", explicit_paddings=[0, 0, 1, 0, 0, 1, 0, 0])]  # fmt: skip
TABLE["MaxPoolV2"] = [
    f(_P, i(*each["ksize"]), i(*each["strides"]), padding=each["padding"]) for each in _POOLS
]
TABLE["MaxPoolWithArgmax"] = [f(_P, **each) for each in _POOLS] + [f(_P, ksize=[1, 2, 3, 1], strides=[1, 2, 3, 1], padding="VALID", **each) for each in ({}, {"include_batch_in_index": True}, {"Targmax": tf.int32})]  # fmt: skip
_each("AvgPool3D MaxPool3D", *(f(d("n 3 4 4 2", *_V), ksize=[1, 2, 2, 2, 1], strides=[1, 2, 1, 2, 1], padding=p) for p in ("SAME", "VALID")))  # fmt: skip
TABLE["LRN"] = [
    f(d("n 2 2 7", -3, 3)),
    f(d("n 2 2 7", -3, 3), depth_radius=1, bias=2.0, alpha=0.5, beta=0.75),
]
_each("FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3", *(
    made(lambda x, s, o, m, v, e=e, t=t, op=op: getattr(raw, op)(x=x, scale=s, offset=o, mean=m, variance=v, epsilon=e, is_training=t)[:1 if not t else 3], _P, w(2), w(2, scale=2), w(2, scale=3), np.float32([0.5, 2]))
    for op, e, t in (("FusedBatchNormV3", 1e-3, False), ("FusedBatchNorm", 0.1, False))))  # fmt: skip
for _op in ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"):
    TABLE[_op] = [
        made(lambda x, s, o, m, v, e=e, op=_op: getattr(raw, op)(x=x, scale=s, offset=o, mean=m, variance=v, epsilon=e, is_training=False)[:1], _P, w(2), w(2, scale=2), w(2, scale=3), np.array([0.5, 2], np.float32)) for e in (1e-3, 0.1)
    ] + [
        made(lambda x, s, o, op=_op: getattr(raw, op)(x=x, scale=s, offset=o, mean=[], variance=[], epsilon=0.01, is_training=True)[:3], d("2 3 4 2", *_V), w(2), w(2, scale=2)),
    ]  # fmt: skip
_SIZES = ((3, 4), (10, 9), (5, 6))
_each("ResizeBilinear ResizeNearestNeighbor", *(f(_P, i(*size), **attrs) for size in _SIZES for attrs in ({}, {"align_corners": True}, {"half_pixel_centers": True})))  # fmt: skip
TABLE["CropAndResize"] = [
    f(_P, Given(np.array([[0, 0, 1, 1], [0.1, 0.5, 0.9, 1.2]], np.float32)), g(0, 1, dtype=np.int32), i(3, 4), **attrs)
    for attrs in ({}, {"method": "nearest"}, {"extrapolation_value": 5.0})
]  # fmt: skip
TABLE["ExtractImagePatches"] = [f(_P, ksizes=[1, 2, 3, 1], strides=[1, 2, 2, 1], rates=[1, 1, 1, 1], padding=p) for p in ("SAME", "VALID")] + [f(_P, ksizes=[1, 2, 2, 1], strides=[1, 1, 1, 1], rates=[1, 2, 2, 1], padding="VALID")]  # fmt: skip
_RGB = d("n 2 2 3", 0, 1)
_each("RGBToHSV HSVToRGB", f(_RGB))
TABLE["AdjustContrastv2"] = [f(_RGB, n(0.5, np.float32)), f(_RGB, n(2.0, np.float32))]
TABLE["AdjustHue"] = [f(_RGB, n(0.25, np.float32)), f(_RGB, n(-0.5, np.float32))]
TABLE["AdjustSaturation"] = [f(_RGB, n(0.5, np.float32)), f(_RGB, n(2.0, np.float32))]
TABLE["TopKV2"] = [
    *TABLE["TopKV2"],
    made(lambda x: tf.reduce_sum(raw.TopKV2(input=x, k=3, sorted=False)[0], -1), d("n 5")),
]
_BOXES = Given(
    np.array(
        [[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 0, 0.5, 1], [2, 2, 3, 3], [3, 3, 2, 2]], np.float32
    )
)
_SCORES = d("5", 0, 1, np.float32)
TABLE["NonMaxSuppression"] = [
    f(_BOXES, _SCORES, n(3), iou_threshold=0.5),
    f(_BOXES, _SCORES, n(5), iou_threshold=0.25),
]
_F = lambda value: n(value, np.float32)  # noqa: E731
TABLE["NonMaxSuppressionV2"] = [
    f(_BOXES, _SCORES, n(3), _F(0.5)),
    f(_BOXES, _SCORES, n(0), _F(0.5)),
]
_each(
    "NonMaxSuppressionV3",
    f(_BOXES, _SCORES, n(3), _F(0.5), _F(0.3)),
    f(_BOXES, _SCORES, n(5), _F(1.0), _F(-1)),
)
TABLE["NonMaxSuppressionV4"] = [
    *TABLE["NonMaxSuppressionV3"],
    f(_BOXES, _SCORES, n(4), _F(0.5), _F(0.3), pad_to_max_output_size=True),
]
TABLE["NonMaxSuppressionV5"] = [f(_BOXES, _SCORES, n(3), _F(0.5), _F(0.3), _F(s)) for s in (0.0, 0.5)] + [f(_BOXES, _SCORES, n(8), _F(0.5), _F(0.3), _F(0.0), pad_to_max_output_size=True)]  # fmt: skip
_QUANTA = [{"num_bits": 8}, {"num_bits": 4, "narrow_range": True}]
TABLE["FakeQuantWithMinMaxArgs"] = [f(X, min=-3.0, max=5.0, **q) for q in _QUANTA] + [
    f(X, min=0.0, max=6.0)
]
TABLE["FakeQuantWithMinMaxVars"] = [f(X, _F(-3.0), _F(5.0), **q) for q in _QUANTA] + [
    f(X, _F(1.0), _F(5.0))
]
TABLE["FakeQuantWithMinMaxVarsPerChannel"] = [
    f(X, np.float32([-3, 0, -1]), np.float32([5, 6, 1]), **q) for q in _QUANTA
]

# Complex numbers, which no interface carries.
_C = [d("n 4", *_V, dtype=np.float32), d("n 4", *_V, dtype=np.float32)]


def _parts(x: Any) -> list[Any]:
    return [raw.Real(input=x), raw.Imag(input=x)] if x.dtype.is_complex else [x]


def _of_complex(op: str, **attrs: Any) -> Callable[..., Any]:
    def build(re: Any, im: Any) -> Any:
        argument = (
            getattr(raw, op).__signature__.parameters
            if hasattr(getattr(raw, op), "__signature__")
            else None
        )
        del argument
        return _parts(_call(op, [raw.Complex(real=re, imag=im)], attrs))

    return build


def _call(op: str, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """Call an operation with its inputs in order; `tf.raw_ops` has other names for some of them."""
    make = getattr(raw, op)
    names = [each.name for each in op_def_registry.get(op).input_arg]
    taken = list(signature(make).parameters)
    if not set(names) <= set(taken):
        names = taken[: len(names)]
    return make(**dict(zip(names, inputs, strict=True)), **attrs)


call = _call
for _op in ("Real", "Imag", "Angle", "ComplexAbs", "Conj", "FFT", "IFFT"):
    TABLE[_op] = [made(_of_complex(_op), *_C)]
TABLE["Complex"] = [made(lambda re, im: _parts(raw.Complex(real=re, imag=im)), *_C)]
_C2 = [d("n 3 4", *_V, dtype=np.float32)] * 2
_C3 = [d("n 3 2 4", *_V, dtype=np.float32)] * 2
for _op in ("FFT2D", "IFFT2D"):
    TABLE[_op] = [made(_of_complex(_op), *_C2)]
for _op in ("FFT3D", "IFFT3D"):
    TABLE[_op] = [made(_of_complex(_op), *_C3)]
for _suffix, _sizes, _lengths in (("", "n 6", [(6,), (4,), (8,)]), ("2D", "n 3 4", [(3, 4), (2, 4)]), ("3D", "n 3 2 4", [(3, 2, 4)])):  # fmt: skip
    _inner = " ".join(_sizes.split()[:-1])
    TABLE[f"RFFT{_suffix}"] = [made(lambda x, s=_suffix, k=k: _parts(_call(f"RFFT{s}", [x, list(k)], {})), d(_sizes, *_V, dtype=np.float32)) for k in _lengths]  # fmt: skip
    TABLE[f"IRFFT{_suffix}"] = [made(lambda re, im, s=_suffix, k=k: _call(f"IRFFT{s}", [raw.Complex(real=re, imag=im), list(k)], {}), *[d(f"{_inner} {k[-1] // 2 + 1}", *_V, dtype=np.float32)] * 2) for k in _lengths[:1]]  # fmt: skip

# Recurrent cells and speech.
TABLE["GRUBlockCell"] = [f(d("n 3", -2, 2), d("n 2", -1, 1), w(5, 4), w(5, 2), w(4), w(2))]
TABLE["BlockLSTM"] = [f(n(3, I64), d("3 n 2", -2, 2, np.float32), np.zeros((2, 4), np.float32), np.zeros((2, 4), np.float32), w(6, 16), w(4) * 0, w(4) * 0, w(4) * 0, w(16), **attrs) for attrs in ({}, {"forget_bias": 0.0, "cell_clip": 0.0})]  # fmt: skip
TABLE["CTCGreedyDecoder"] = [
    f(d("4 2 3", -3, 3), g(4, 2, dtype=np.int32), **attrs)
    for attrs in ({}, {"merge_repeated": True})
]
TABLE["CTCLoss"] = [f(d("5 2 4", -3, 3), Given(ll([0, 0], [0, 1], [1, 0])), g(0, 2, 1, dtype=np.int32), g(5, 4, dtype=np.int32), **attrs) for attrs in ({}, {"ctc_merge_repeated": False})]  # fmt: skip
for _op in ("CTCLoss",):
    TABLE[_op] = [made(lambda x, i_, v, s, a=a: raw.CTCLoss(inputs=x, labels_indices=i_, labels_values=v, sequence_length=s, **a)[:1], *each.inputs) for each in TABLE[_op] for a in (each.attrs,)]  # fmt: skip


# Branches, loops, lists, tables and variables.
def _loop(x: Any) -> Any:
    return tf.while_loop(lambda k, _: k < 3, lambda k, y: (k + 1, y * 2 + 1), [0, x])[1]


def _list(x: Any) -> Any:
    return raw.TensorListFromTensor(tensor=x, element_shape=[3])


def _got(held: Any, at: Any = 1) -> Any:
    return raw.TensorListGetItem(
        input_handle=held, index=at, element_shape=[3], element_dtype=tf.float32
    )


def _stacked(held: Any) -> Any:
    return raw.TensorListStack(input_handle=held, element_shape=[3], element_dtype=tf.float32)


def _reserved(count: Any = 3) -> Any:
    return raw.TensorListReserve(element_shape=[3], num_elements=count, element_dtype=tf.float32)


_R = d("2 3", dtype=np.float32)
_ROW = d("3", dtype=np.float32)
_COND = d("", dtype=np.float32)
TABLE["If"] = TABLE["StatelessIf"] = [
    made(lambda c, x: tf.cond(c > 0, lambda: x * 2, lambda: x - 1), _COND, X)
]
TABLE["While"] = TABLE["StatelessWhile"] = [made(_loop, X)]
TABLE["PartitionedCall"] = TABLE["StatefulPartitionedCall"] = [
    made(tf.function(lambda x: x * 2 + 1), X)
]
TABLE["TensorListFromTensor"] = TABLE["TensorListStack"] = [made(lambda x: _stacked(_list(x)), _R), made(lambda x: _stacked(_list(x)), X)]  # fmt: skip
TABLE["TensorListGetItem"] = [
    made(lambda x: _got(_list(x)), _R),
    made(lambda x, k: _got(_list(x), k), _R, Given(n(0))),
]
TABLE["TensorListLength"] = [made(lambda x: raw.TensorListLength(input_handle=_list(x)), X)]
TABLE["TensorListReserve"] = TABLE["TensorListSetItem"] = [
    made(lambda x: _stacked(raw.TensorListSetItem(input_handle=_list(x), index=1, item=x[0])), _R),
    made(lambda x: _stacked(raw.TensorListSetItem(input_handle=_reserved(2), index=1, item=x)), _ROW),
]  # fmt: skip
TABLE["EmptyTensorList"] = TABLE["TensorListPushBack"] = [made(lambda x: _stacked(raw.TensorListPushBack(input_handle=raw.EmptyTensorList(element_shape=[3], max_num_elements=4, element_dtype=tf.float32), tensor=x)), _ROW), made(lambda x: _stacked(raw.TensorListPushBack(input_handle=_list(x), tensor=x[0])), _R)]  # fmt: skip
TABLE["TensorListResize"] = [made(lambda x, s=s: _stacked(raw.TensorListResize(input_handle=_list(x), size=s)), _R) for s in (1, 2, 4)]  # fmt: skip
TABLE["TensorListConcatV2"] = [made(lambda x: raw.TensorListConcatV2(input_handle=raw.TensorListFromTensor(tensor=x, element_shape=[2, 3]), element_shape=[-1, 3], leading_dims=tf.constant([], tf.int64), element_dtype=tf.float32)[:1], d("n 2 3", dtype=np.float32))]  # fmt: skip
TABLE["TensorListGather"] = [made(lambda x, k: raw.TensorListGather(input_handle=_list(x), indices=k, element_shape=[3], element_dtype=tf.float32), _R, g(1, 0, dtype=np.int32))]  # fmt: skip
TABLE["TensorListScatterIntoExistingList"] = [made(lambda x, k: _stacked(raw.TensorListScatterIntoExistingList(input_handle=_list(x), tensor=x[:1], indices=k)), _R, g(1, dtype=np.int32))]  # fmt: skip
TABLE["TensorListSplit"] = [made(lambda x: raw.TensorListGetItem(input_handle=raw.TensorListSplit(tensor=x, element_shape=[-1, 3], lengths=tf.constant([1, 1], tf.int64)), index=1, element_shape=[1, 3], element_dtype=tf.float32), _R)]  # fmt: skip


def _filled(x: Any) -> tuple[Any, Any]:
    handle, flow = raw.TensorArrayV3(size=2, dtype=tf.float32, element_shape=[3])
    return handle, raw.TensorArrayScatterV3(handle=handle, indices=[0, 1], value=x, flow_in=flow)


def _written(x: Any) -> Any:
    handle, flow = raw.TensorArrayV3(size=3, dtype=tf.float32, element_shape=[3])
    flow = raw.TensorArrayScatterV3(handle=handle, indices=[0, 2], value=x, flow_in=flow)
    flow = raw.TensorArrayWriteV3(handle=handle, index=1, value=x[0], flow_in=flow)
    return raw.TensorArrayGatherV3(handle=handle, indices=[0, 1, 2], flow_in=flow, dtype=tf.float32)


def _with_array(op: str, **attrs: Any) -> Callable[..., Any]:
    def build(x: Any) -> Any:
        handle, flow = _filled(x)
        return getattr(raw, op)(handle=handle, flow_in=flow, **attrs)

    return build


TABLE["TensorArrayV3"] = TABLE["TensorArrayScatterV3"] = [made(_with_array("TensorArrayGatherV3", indices=[1, 0], dtype=tf.float32), _R)]  # fmt: skip
TABLE["TensorArrayGatherV3"] = TABLE["TensorArrayV3"]
TABLE["TensorArrayReadV3"] = [made(_with_array("TensorArrayReadV3", index=1, dtype=tf.float32), _R)]
TABLE["TensorArraySizeV3"] = [made(_with_array("TensorArraySizeV3"), _R)]
TABLE["TensorArrayWriteV3"] = [made(_written, _R)]
TABLE["TensorArrayConcatV3"] = [
    made(lambda x: _with_array("TensorArrayConcatV3", dtype=tf.float32)(x)[:1], _R)
]


def _variable(x: Any) -> Any:
    return v1.get_variable("v", initializer=w(4, 3), use_resource=True), x


TABLE["VarHandleOp"] = TABLE["ReadVariableOp"] = [made(lambda x: x + _variable(x)[0], X)]
TABLE["ResourceGather"] = [made(lambda k: raw.ResourceGather(resource=_variable(k)[0].handle, indices=k, dtype=tf.float32), d("n", 0, 3, np.int32))]  # fmt: skip
TABLE["Variable"] = TABLE["VariableV2"] = [made(lambda x: x + v1.get_variable("v", initializer=w(4, 3)[0], use_resource=False), X)]  # fmt: skip


def _table(keys: Any, values: Any, default: Any, is_first: bool = False) -> Any:
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), default)
    v1.add_to_collection(
        v1.GraphKeys.TABLE_INITIALIZERS, table.resource_handle.graph.get_operations()[-1]
    )
    return table


_WORDS = Given(texts(b"a", b"bb", b"", b"a,b c,,d", "\u00fcb".encode(), b"-12"))
TABLE["HashTableV2"] = TABLE["LookupTableFindV2"] = [
    made(lambda s: _table([b"a", b"bb"], ll(3, 4), -1).lookup(s), _WORDS),
    made(lambda k: _table(ll(1, 2), [b"one", b"two"], b"?").lookup(k), d("n", 0, 3, np.int64), dtypes=(np.int64,)),
]  # fmt: skip
TABLE["LookupTableSizeV2"] = [
    made(lambda x: x + tf.cast(_table([b"a"], ll(3), -1).size(), tf.float32), X)
]
TABLE["LookupTableExportV2"] = [made(lambda x: [x, raw.LookupTableExportV2(table_handle=_table([b"a"], ll(3), -1).resource_handle, Tkeys=tf.string, Tvalues=tf.int64)[1]], X)]  # fmt: skip

# Strings.
_NUMBERS = Given(texts(b"1", b"-2.5", b"1e3", b"0"))
_each("StringLength", f(_WORDS), f(_WORDS, unit="UTF8_CHAR"))
_each("StringLower StringUpper", f(_WORDS), f(_WORDS, encoding="utf-8"))
_each("StringStrip", f(Given(texts(b" a ", b"\tb\n", b""))))
TABLE["StringJoin"] = [f([_WORDS, _WORDS], separator="-"), f([_WORDS, n(b"x", object)])]
TABLE["StringSplit"] = [
    f(_WORDS, n(b",", object)),
    f(_WORDS, n(b"", object)),
    f(_WORDS, n(b",", object), skip_empty=False),
]
TABLE["StringSplitV2"] = [
    f(_WORDS, n(b",", object)),
    f(_WORDS, n(b"", object)),
    f(_WORDS, n(b",", object), maxsplit=1),
]
TABLE["StringToHashBucketFast"] = [f(_WORDS, num_buckets=10), f(_WORDS, num_buckets=2**40)]
TABLE["StringToNumber"] = [f(_NUMBERS), f(_NUMBERS, out_type=tf.float64), f(Given(texts(b"12", b"-7")), out_type=tf.int32), f(Given(texts(b"12", b"-7")), out_type=tf.int64)]  # fmt: skip
TABLE["Substr"] = [f(Given(texts(b"hello", b"world")), n(1), n(2)), f(Given(texts(b"hello", b"world")), n(-3), n(9)), f(Given(texts("h\u00fcllo".encode(), b"world")), i(1, 2), i(2, 1), unit="UTF8_CHAR")]  # fmt: skip
TABLE["AsString"] = [f(d("n", -9, 9)), f(d("n", -9, 9, np.float32), precision=2), f(d("n", -9, 9, np.float32), scientific=True), f(d("n", -9, 9, np.int32), width=5, fill="0"), f(d("n", dtype=bool))]  # fmt: skip
TABLE["ReduceJoin"] = [f(Given(np.array([[b"a", b"b"], [b"c", b""]], object)), i(axis), **attrs) for axis, attrs in ((1, {}), (0, {"separator": "-", "keep_dims": True}))]  # fmt: skip
TABLE["RegexFullMatch"] = [f(_WORDS, n(b"[a-b]+", object))]
TABLE["RegexReplace"] = [f(_WORDS, n(b"[a-b]", object), n(b"<\\0>", object), **attrs) for attrs in ({}, {"replace_global": False})]  # fmt: skip
TABLE["StaticRegexFullMatch"] = [f(_WORDS, pattern="[a-b]+"), f(_WORDS, pattern="")]
TABLE["StaticRegexReplace"] = [
    f(_WORDS, pattern="b", rewrite="x"),
    f(_WORDS, pattern="b", rewrite="x", replace_global=False),
]
TABLE["EncodeBase64"] = [f(_WORDS), f(_WORDS, pad=True)]
TABLE["DecodeBase64"] = [f(Given(texts(b"aGVsbG8", b"aGVsbG8=", b"_-8")))]
TABLE["DecodeRaw"] = [f(Given(texts(b"abcdefgh", b"12345678")), out_type=kind, little_endian=little) for kind, little in ((tf.uint8, True), (tf.int32, True), (tf.int16, False), (tf.float32, True))]  # fmt: skip


def _image(form: str, **options: Any) -> Given:
    picture = np.random.default_rng(3).integers(0, 256, (5, 4, 3), np.uint8)
    return Given(np.array(encoded(picture, form, **options), object))


_PNG = _image("PNG")
TABLE["DecodePng"] = [f(_PNG), f(_PNG, channels=1), f(_PNG, channels=4), f(_PNG, dtype=tf.uint16)]
_JPEG = _image("JPEG", quality=100, subsampling=0)
TABLE["DecodeImage"] = [
    f(_PNG, channels=3),
    f(_PNG, channels=3, dtype=tf.float32),
]
TABLE["DecodeJpeg"] = [
    f(_JPEG, dct_method="INTEGER_ACCURATE"),
    f(_JPEG, channels=1, dct_method="INTEGER_ACCURATE"),
]
_BMP = Given(np.array(b"BM" + (54 + 16).to_bytes(4, "little") + bytes(4) + (54).to_bytes(4, "little") + (40).to_bytes(4, "little") + (2).to_bytes(4, "little") + (2).to_bytes(4, "little") + b"\x01\0\x18\0" + bytes(24) + bytes(range(16)), object))  # fmt: skip
TABLE["DecodeBmp"] = [f(_BMP), f(_BMP, channels=3)]
_GIF = Given(
    np.array(
        b"GIF89a\x01\0\x01\0\x80\0\0\x10\x20\x30\xff\xff\xff,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;",
        object,
    )
)
TABLE["DecodeGif"] = [f(_GIF)]


def _example() -> Given:
    made = tf.train.Example()
    made.features.feature["a"].float_list.value.extend([1, 2])
    made.features.feature["b"].int64_list.value.extend([3])
    return Given(texts(made.SerializeToString(), made.SerializeToString()))


_SPEC = {"a": tf.io.FixedLenFeature([2], tf.float32), "b": tf.io.VarLenFeature(tf.int64), "c": tf.io.FixedLenFeature([], tf.int64, 7)}  # fmt: skip


def _parsed(found: Any) -> Any:
    return [found["a"], tf.sparse.to_dense(found["b"]), found["c"]]


TABLE["ParseExampleV2"] = [made(lambda s: _parsed(tf.io.parse_example(s, _SPEC)), _example())]
TABLE["ParseSingleExample"] = [made(lambda s: _parsed(tf.io.parse_single_example(s, _SPEC)), Given(np.array(_example().value[0], object)))]  # fmt: skip

del TABLE["XlaDotV2"], TABLE["XlaConvV2"]
TABLE["Const"] = [made(lambda x: x + tf.constant(w(3)), X)]
TABLE["Placeholder"] = TABLE["NoOp"] = [made(lambda x: x * 2.0, X)]
TABLE["PlaceholderWithDefault"] = [
    made(lambda x: x * v1.placeholder_with_default(tf.constant(2.0), []), X)
]


def _after_assert(x: Any) -> Any:
    with tf.control_dependencies([raw.Assert(condition=True, data=[x])]):
        return tf.identity(x)


TABLE["Assert"] = [made(_after_assert, X)]

_TRAINS = "changes a variable: what requests would change is refused at load (state.py)"
_FIRST = "a part of loops of TensorFlow 1, which are written out (test_inlined_functions.py)"
_FEEDS = "a pipeline that feeds training: no signature has it"
_FILES = "reads or writes files: of checkpoints and training"
_DRAWS = "its values are drawn anew each time"
_OLD = "a table of TensorFlow 1's reference type, with the kernel of its successor"
_FILLS = "fills a table at load (test_tables.py, initial.py)"
_SEQUENCES = "its exports are compared in savedmodel/test_sequences.py"
_XLA = "TensorFlow runs it only compiled by XLA"

NO_TEST: Mapping[str, str] = {
    **dict.fromkeys("Assign AssignAdd AssignAddVariableOp AssignSub AssignSubVariableOp AssignVariableOp".split(), _TRAINS),
    **dict.fromkeys("Enter Exit LoopCond Merge NextIteration Switch".split(), _FIRST),
    **dict.fromkeys("FIFOQueue FIFOQueueV2 Iterator IteratorGetNext IteratorV2 OneShotIterator QueueDequeue QueueDequeueMany QueueDequeueUpTo QueueDequeueUpToV2 QueueDequeueV2".split(), _FEEDS),
    **dict.fromkeys("MergeV2Checkpoints RestoreV2 SaveV2 ShardedFilename WriteFile".split(), _FILES),
    **dict.fromkeys("Multinomial RandomUniform RandomUniformInt".split(), _DRAWS),
    **dict.fromkeys("HashTable LookupTableFind LookupTableSize LookupTableExport MutableHashTable".split(), _OLD),
    **dict.fromkeys("LookupTableImport LookupTableImportV2 LookupTableInsert LookupTableInsertV2 MutableHashTableV2".split(), _FILLS),
    **dict.fromkeys("ParseSequenceExample ParseSequenceExampleV2 ParseSingleSequenceExample".split(), _SEQUENCES),
    "ParseExample": "the form of TensorFlow 1 of ParseExampleV2 (savedmodel/test_examples.py)",
    **dict.fromkeys("XlaConvV2 XlaDotV2".split(), _XLA),
    **dict.fromkeys("IsVariableInitialized VarIsInitializedOp".split(), "asks whether a variable is set: of training"),
    "TensorArrayCloseV3": "gives nothing",
    **dict.fromkeys("BatchMatrixInverse TopK".split(), "of graphs of 2015: TensorFlow refuses to make it"),
}  # fmt: skip
"""Operations without a test, and why."""
