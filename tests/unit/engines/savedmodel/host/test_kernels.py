"""Each kernel alone, on a node that TensorFlow made, against what TensorFlow gives."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ie_serving.core.values.errors import InvalidRequest, LoadFailed, RequestTooLarge
from ie_serving.engines.savedmodel.host.fingerprint import fingerprint64
from ie_serving.engines.savedmodel.host.host_kernel import Attributes
from ie_serving.engines.savedmodel.host.host_program import HostStep
from ie_serving.engines.savedmodel.host.kernels import KERNELS
from ie_serving.wire.protobuf import graph


def texts(*values: Any) -> Any:
    return np.array(values, np.object_)


def ints(*values: Any) -> Any:
    return np.array(values, np.int32)


def longs(*values: Any) -> Any:
    return np.array(values, np.int64)


def floats(*values: Any) -> Any:
    return np.array(values, np.float32)


WORDS = texts([b"Ab c", b"", b"x\xc3\xa9y"], [b" z ", b"1.5", b"-7"])
GRID = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
SCORES = floats([1, 3, 3, 2], [0, -1, 5, 5])

TEXTS = texts(b"abc", b"", b"a b\tc\vd", b"x\xc3\xa9yy \xe2\x82\xac!", b"[a]-{b}, c.\n", b"bbabb\n")
ODD = texts(b"a\xe2\x82\xac", b"\xff\xe2\x82z", b"", b"\xed\xa0\x80\xf0\x9f\x98\x80")
"""Some that are no UTF-8."""
CROSS = {
    "indices": [longs([0, 0], [0, 1], [2, 0])],
    "values": [texts(b"p", b"q", b"r")],
    "shapes": [longs(3, 2)],
    "dense_inputs": [texts([b"x", b"y"], [b"z", b""], [b"v", b"w"]), longs([1], [-2], [3])],
}
"""A sparse column and two dense ones; the second row has none of the first."""
PUNCTUATION = r"""[!"#$%&()\*\+,-\./:;<=>?@\[\\\]^_`{|}~\']"""

IMAGES = (np.arange(2 * 5 * 4 * 3) * 37 % 255).astype(np.uint8).reshape(2, 5, 4, 3)

CASES: list[tuple[str, Mapping[str, Any], Mapping[str, Any]]] = [
    # operation, inputs, attributes
    ("AsString", {"input": longs(1, -2)}, {}),
    ("AsString", {"input": longs(1, -23)}, {"width": 5}),
    ("AsString", {"input": longs(1, -23)}, {"width": 5, "fill": "0"}),
    ("AsString", {"input": floats(1.5, -0.1, 1e20, np.inf)}, {}),
    ("AsString", {"input": floats(1.5, -0.1, 1e20)}, {"precision": 2}),
    ("AsString", {"input": floats(1.5, -0.1, 1e20)}, {"scientific": True}),
    ("AsString", {"input": floats(1.5, -0.1, 1e20)}, {"shortest": True}),
    ("AsString", {"input": np.array([True, False])}, {}),
    ("StringToNumber", {"string_tensor": texts(b"1.5", b" -2e3 ", b"inf", b".5", b"5.")}, {}),
    ("StringToNumber", {"string_tensor": texts(b"+7", b" 12 ")}, {"out_type": tf.int64}),
    ("StringToNumber", {"string_tensor": texts(b"3.25")}, {"out_type": tf.float64}),
    ("StringJoin", {"inputs": [WORDS, texts([b"1", b"2", b"3"], [b"4", b"5", b"6"])]}, {}),
    ("StringJoin", {"inputs": [WORDS, np.array(b"s", np.object_)]}, {"separator": "-"}),
    ("ReduceJoin", {"inputs": WORDS, "reduction_indices": ints(1)}, {"separator": "|"}),
    ("ReduceJoin", {"inputs": WORDS, "reduction_indices": ints(1, 0)}, {"keep_dims": True}),
    ("ReduceJoin", {"inputs": WORDS, "reduction_indices": ints(-2)}, {}),
    ("ReduceJoin", {"inputs": WORDS[:0], "reduction_indices": ints(1)}, {}),
    ("ReduceJoin", {"inputs": WORDS[:, :0], "reduction_indices": ints(1)}, {"separator": "|"}),
    ("StringLower", {"input": texts(b"AbC\xc3\x89")}, {}),
    ("StringLower", {"input": texts(b"AbC\xc3\x89")}, {"encoding": "utf-8"}),
    ("StringUpper", {"input": texts(b"AbC\xc3\xa9")}, {}),
    ("StringStrip", {"input": texts(b" \t\v\fa b\r\n", b"")}, {}),
    ("StringLength", {"input": WORDS}, {}),
    ("StringLength", {"input": WORDS}, {"unit": "UTF8_CHAR"}),
    ("Substr", {"input": WORDS[:, 0], "pos": np.int32(1), "len": np.int32(2)}, {}),
    ("Substr", {"input": WORDS[:, 0], "pos": ints(-2, 0), "len": ints(5, 2)}, {}),
    ("Substr", {"input": WORDS[0, 2:], "pos": np.int32(1), "len": np.int32(1)},
     {"unit": "UTF8_CHAR"}),
    ("StringToHashBucketFast", {"input": WORDS}, {"num_buckets": 1000}),
    ("StringToHashBucketStrong", {"input": WORDS}, {"num_buckets": 2**62, "key": [7, -9]}),
    ("StringToHashBucketStrong",
     {"input": texts(*(bytes(range(1, size)) for size in range(1, 40)))},
     {"num_buckets": 2**62, "key": [2**40, 3]}),
    ("UnicodeDecode", {"input": ODD}, {"input_encoding": "UTF-8"}),
    ("UnicodeDecode", {"input": ODD},
     {"input_encoding": "UTF-8", "errors": "ignore", "Tsplits": tf.int32}),
    ("UnicodeEncode",
     {"input_values": ints(97, 0x20AC, 0xD800, -1, 0x1F600, 0x110000),
      "input_splits": longs(0, 2, 2, 6)},
     {"output_encoding": "UTF-8"}),
    ("SparseCross", CROSS, {"hashed_output": True, "num_buckets": 1000, "hash_key": 956888297470,
     "out_type": tf.int64, "internal_type": tf.int64}),
    ("SparseCross", CROSS, {"hashed_output": True, "num_buckets": 0, "hash_key": -5,
     "out_type": tf.int64, "internal_type": tf.int64}),
    ("SparseCross", CROSS | {"dense_inputs": CROSS["dense_inputs"][:1]},
     {"hashed_output": False, "num_buckets": 0, "hash_key": 0,
     "out_type": tf.string, "internal_type": tf.string}),
    ("StaticRegexReplace", {"input": TEXTS}, {"pattern": "b*", "rewrite": "-"}),
    ("StaticRegexReplace", {"input": TEXTS}, {"pattern": "", "rewrite": "-"}),
    ("StaticRegexReplace", {"input": TEXTS}, {"pattern": "a|$", "rewrite": "<\\0>"}),
    ("StaticRegexReplace", {"input": TEXTS}, {"pattern": r"(\w)(\w*)", "rewrite": r"\2\1\\"}),
    ("StaticRegexReplace", {"input": TEXTS}, {"pattern": r"\s+", "rewrite": "_"}),
    ("StaticRegexReplace", {"input": TEXTS}, {"pattern": r"[^\s\d]", "rewrite": "."}),
    ("StaticRegexReplace", {"input": TEXTS}, {"pattern": r"[[:punct:]a-c]", "rewrite": ""}),
    ("StaticRegexReplace", {"input": TEXTS}, {"pattern": r"\b.", "rewrite": "^"}),
    ("StaticRegexReplace", {"input": TEXTS}, {"pattern": r"(?P<n>x)|(y{1,2}?)", "rewrite": r"\2"}),
    ("StaticRegexReplace", {"input": TEXTS}, {"pattern": PUNCTUATION, "rewrite": ""}),
    ("StaticRegexReplace", {"input": TEXTS},
     {"pattern": "[a-z]", "rewrite": "Q", "replace_global": False}),
    ("StaticRegexFullMatch", {"input": TEXTS}, {"pattern": r"[a-z .]*$"}),
    ("StaticRegexFullMatch", {"input": TEXTS}, {"pattern": ".*"}),
    ("RegexFullMatch", {"input": TEXTS, "pattern": b"(a|ab)(c|bcd)?.*"}, {}),
    ("RegexReplace", {"input": TEXTS, "pattern": b"a|e", "rewrite": b"[\\0]"}, {}),
    ("StringSplitV2", {"input": texts(b" a  b c ", b"", b"d"), "sep": b""}, {}),
    ("StringSplitV2", {"input": texts(b" a  b c ", b"", b"d"), "sep": b""}, {"maxsplit": 1}),
    ("StringSplitV2", {"input": texts(b"a b", b"a"), "sep": b""}, {"maxsplit": 2}),
    ("StringSplitV2", {"input": texts(b" a b"), "sep": b""}, {"maxsplit": 0}),
    ("StringSplitV2", {"input": texts(b"a,,b,", b"", b"d"), "sep": b","}, {}),
    ("StringSplitV2", {"input": texts(b"a--b-c"), "sep": b"--"}, {"maxsplit": 1}),
    ("StringSplit", {"input": texts(b" a  b;c", b""), "delimiter": b" ;"}, {}),
    ("StringSplit", {"input": texts(b" a  b;c"), "delimiter": b" ;"}, {"skip_empty": False}),
    ("StringSplit", {"input": texts(b"a;;", b""), "delimiter": b";"}, {"skip_empty": False}),
    ("StringSplit", {"input": texts(b"abc", b""), "delimiter": b""}, {}),
    ("EncodeBase64", {"input": texts(b"\xff\xfe", b"")}, {}),
    ("EncodeBase64", {"input": texts(b"\xff\xfe")}, {"pad": True}),
    ("DecodeBase64", {"input": texts(b"__4", b"", b"__4=", b"YQ==")}, {}),
    ("DecodeRaw", {"bytes": texts(b"\1\0\2\0", b"\3\0\4\0")}, {"out_type": tf.int16}),
    ("DecodeRaw", {"bytes": texts(b"\1\0\2\0")}, {"out_type": tf.int16, "little_endian": False}),
    ("Reshape", {"tensor": WORDS, "shape": ints(-1, 2)}, {}),
    ("ExpandDims", {"input": WORDS, "axis": np.int32(-1)}, {}),
    ("Squeeze", {"input": WORDS[:1]}, {}),
    ("Squeeze", {"input": WORDS[:1, :1]}, {"axis": [0]}),
    ("ConcatV2", {"values": [WORDS, WORDS], "axis": np.int32(-1)}, {}),
    ("Pack", {"values": [WORDS, WORDS]}, {"axis": 1}),
    ("Unpack", {"value": WORDS}, {"num": 3, "axis": 1}),
    ("Slice", {"input": WORDS, "begin": ints(0, 1), "size": ints(1, -1)}, {}),
    ("StridedSlice", {"input": GRID, "begin": ints(0, 2), "end": ints(1, 0),
                      "strides": ints(1, -1)}, {"shrink_axis_mask": 1}),
    ("StridedSlice", {"input": GRID, "begin": ints(0, 0, 1), "end": ints(0, 0, 3),
                      "strides": ints(1, 1, 1)}, {"ellipsis_mask": 1, "new_axis_mask": 2}),
    ("StridedSlice", {"input": GRID, "begin": ints(1, -1), "end": ints(0, 0),
                      "strides": ints(1, 1)}, {"begin_mask": 1, "end_mask": 3}),
    ("Gather", {"params": WORDS, "indices": ints([1, 0], [1, 1])}, {}),
    ("GatherV2", {"params": WORDS, "indices": ints(2, 0), "axis": np.int32(1)}, {}),
    ("GatherV2", {"params": GRID, "indices": ints([0, 2], [1, 1]), "axis": np.int32(1)},
     {"batch_dims": 1}),
    ("GatherV2", {"params": WORDS[:0], "indices": ints(1)[:0].reshape(0, 5), "axis": np.int32(1)},
     {"batch_dims": 1}),
    ("GatherV2", {"params": GRID, "indices": np.zeros((2, 3, 0), np.int32), "axis": np.int32(-1)},
     {"batch_dims": 2}),
    ("GatherNd", {"params": GRID, "indices": np.zeros((2, 0), np.int32)}, {}),
    ("GatherNd", {"params": GRID[:0], "indices": np.zeros((0, 1), np.int32)}, {}),
    ("GatherNd", {"params": WORDS, "indices": ints([1, 2], [0, 0])}, {}),
    ("GatherNd", {"params": GRID, "indices": ints([1], [0])}, {}),
    ("InvertPermutation", {"x": ints(2, 0, 1)}, {}),
    ("InvertPermutation", {"x": longs(1, 0)}, {}),
    ("Reshape", {"tensor": WORDS[:0], "shape": ints(3, -1)}, {}),
    ("Tile", {"input": WORDS, "multiples": ints(0, 2)}, {}),
    ("Fill", {"dims": ints(2), "value": np.array(b"q\0", np.object_)}, {}),
    ("PadV2", {"input": WORDS, "paddings": ints([0, 0], [0, 1]),
               "constant_values": np.array(b"p\0", np.object_)}, {}),
    ("ConcatV2", {"values": [WORDS, WORDS[:, :0]], "axis": np.int32(1)}, {}),
    ("ReverseV2", {"tensor": WORDS[:0], "axis": ints(-1)}, {}),
    ("Range", {"start": np.int32(3), "limit": np.int32(3), "delta": np.int32(-1)}, {}),
    ("Range", {"start": np.int32(5), "limit": np.int32(0), "delta": np.int32(-2)}, {}),
    ("Range", {"start": np.float32(0), "limit": np.float32(1), "delta": np.float32(0.25)}, {}),
    ("OneHot", {"indices": longs(0, 2), "depth": np.int32(0), "on_value": np.float32(2),
                "off_value": np.float32(0)}, {}),
    ("Select", {"condition": np.array(True), "x": WORDS, "y": WORDS[::-1]}, {}),
    ("SplitV", {"value": WORDS, "size_splits": ints(0, 3), "axis": np.int32(-1)},
     {"num_split": 2}),
    ("ScatterNd", {"indices": np.zeros((0, 1), np.int32), "updates": floats(), "shape": ints(3)},
     {}),
    ("ArgMax", {"input": SCORES[:0], "dimension": np.int32(-1)}, {}),
    ("Cumsum", {"x": SCORES[:0], "axis": np.int32(-1)}, {}),
    ("TopKV2", {"input": SCORES, "k": np.int32(0)}, {}),
    ("UnsortedSegmentSum", {"data": floats([1, 2], [4, 8]), "segment_ids": ints(-1, -3),
                            "num_segments": np.int32(0)}, {}),
    ("Bincount", {"arr": ints([1, 1, 2], [5, 0, 1]), "size": np.int32(4), "weights": floats()}, {}),
    ("Bincount", {"arr": ints([1, 1], [0, 1]), "size": np.int32(2),
                  "weights": floats([1, 2], [4, 8])}, {}),
    ("DenseBincount", {"input": longs([1, 1])[:0], "size": np.int64(2), "weights": floats()}, {}),
    ("SparseReorder", {"input_indices": longs([2, 0], [0, 3], [0, 1]),
                       "input_values": floats(1, 2, 3), "input_shape": longs(3, 4)}, {}),
    ("SparseReorder", {"input_indices": np.zeros((0, 2), np.int64), "input_values": texts(),
                       "input_shape": longs(3, 4)}, {}),
    ("RaggedTensorToSparse", {"rt_nested_splits": [longs(0, 2, 2, 3)],
                              "rt_dense_values": texts(b"a", b"b", b"c")}, {}),
    ("RaggedTensorToSparse", {"rt_nested_splits": [longs(0, 2, 3), longs(0, 1, 3, 3)],
                              "rt_dense_values": floats(1, 2, 3)}, {}),
    ("RaggedTensorToSparse", {"rt_nested_splits": [longs(0, 0)],
                              "rt_dense_values": floats()}, {}),
    ("SparseToDense", {"sparse_indices": longs(2, 0), "output_shape": longs(3),
                       "sparse_values": floats(1, 2), "default_value": np.float32(9)},
     {"validate_indices": False}),
    ("SparseToDense", {"sparse_indices": np.zeros((0, 2), np.int64), "output_shape": longs(2, 1),
                       "sparse_values": texts(), "default_value": np.array(b"\0", np.object_)}, {}),
    ("Tile", {"input": texts([b"a", b"b"]), "multiples": ints(3, 1)}, {}),
    ("Transpose", {"x": WORDS, "perm": ints(1, 0)}, {}),
    ("Transpose", {"x": WORDS, "perm": ints(-1, 0)}, {}),
    ("BroadcastTo", {"input": texts(b"a", b"b"), "shape": ints(2, 2)}, {}),
    ("Fill", {"dims": ints(2, 1), "value": np.array(b"q", np.object_)}, {}),
    ("Shape", {"input": WORDS}, {}),
    ("Shape", {"input": WORDS}, {"out_type": tf.int64}),
    ("Size", {"input": WORDS}, {}),
    ("Rank", {"input": WORDS}, {}),
    ("Range", {"start": np.int64(1), "limit": np.int64(7), "delta": np.int64(2)}, {}),
    ("Select", {"condition": np.array([True, False]), "x": WORDS, "y": WORDS[::-1]}, {}),
    ("SelectV2", {"condition": np.array([True, False, True]), "t": WORDS, "e": WORDS[::-1]}, {}),
    ("Where", {"condition": np.array([[True, False], [True, True]])}, {}),
    ("OneHot", {"indices": longs(0, 2, -1), "depth": np.int32(3), "on_value": np.float32(2),
                "off_value": np.float32(0)}, {}),
    ("OneHot", {"indices": longs([0, 2]), "depth": np.int32(3), "on_value": np.int64(1),
                "off_value": np.int64(0)}, {"axis": 0}),
    ("PadV2", {"input": WORDS, "paddings": ints([0, 1], [2, 0]),
               "constant_values": np.array(b"p", np.object_)}, {}),
    ("Pad", {"input": GRID[0], "paddings": ints([1, 1], [0, 2])}, {}),
    ("Split", {"axis": np.int32(1), "value": WORDS}, {"num_split": 3}),
    ("SplitV", {"value": WORDS, "size_splits": ints(1, -1), "axis": np.int32(1)},
     {"num_split": 2}),
    ("Unique", {"x": texts(b"b", b"a", b"b")}, {}),
    ("ReverseV2", {"tensor": WORDS, "axis": ints(1)}, {}),
    ("ScatterNd", {"indices": ints([1], [1], [0]), "updates": floats(1, 2, 4),
                   "shape": ints(3)}, {}),
    ("ZerosLike", {"x": WORDS}, {}),
    ("OnesLike", {"x": GRID}, {}),
    ("Cast", {"x": floats(1.9, -1.9)}, {"DstT": tf.int32}),
    ("Equal", {"x": WORDS, "y": np.array(b"", np.object_)}, {}),
    ("NotEqual", {"x": WORDS, "y": np.array(b"", np.object_)}, {}),
    ("FloorDiv", {"x": ints(7, -7), "y": ints(2, 2)}, {}),
    ("FloorMod", {"x": ints(7, -7), "y": ints(3, 3)}, {}),
    ("Sum", {"input": ints([1, 2], [3, 4]), "axis": ints(-1)}, {"keep_dims": True}),
    ("Max", {"input": longs(1, 5), "axis": np.int32(0)}, {}),
    ("Prod", {"input": ints([1, 2], [3, 4]), "axis": ints(0, 1)}, {}),
    ("All", {"input": np.array([[True, False], [True, True]]), "axis": ints(1)}, {}),
    ("ArgMax", {"input": SCORES, "dimension": np.int32(1)}, {}),
    ("ArgMin", {"input": SCORES, "dimension": np.int32(0)}, {"output_type": tf.int32}),
    ("Cumsum", {"x": longs(1, 2, 3), "axis": np.int32(0)}, {}),
    ("Cumsum", {"x": longs(1, 2, 3), "axis": np.int32(0)}, {"exclusive": True, "reverse": True}),
    ("Bucketize", {"input": floats(-1, 0, 0.5, 3, 9)}, {"boundaries": [0.0, 3.0]}),
    ("TopKV2", {"input": SCORES, "k": np.int32(3)}, {}),
    ("UnsortedSegmentSum", {"data": longs(1, 2, 4), "segment_ids": longs(1, 1, 0),
                            "num_segments": np.int64(3)}, {}),
    ("Bincount", {"arr": ints(1, 1, 2, 5), "size": np.int32(4), "weights": ints()}, {}),
    ("DenseBincount", {"input": longs(1, 1, 2, 5), "size": np.int64(4),
                       "weights": floats(1, 2, 3, 4)}, {}),
    ("DenseBincount", {"input": longs([1, 1], [2, 9]), "size": np.int64(4),
                       "weights": floats()}, {"binary_output": True}),
    ("RaggedBincount", {"splits": longs(0, 2, 2, 3), "values": longs(1, 1, 0),
                        "size": np.int64(2), "weights": floats(0.5, 2, 4)}, {}),
    ("Bitcast", {"input": floats(1, -0.0)}, {"type": tf.int32}),
    ("BitwiseAnd", {"x": ints(5, -1), "y": ints(3, 6)}, {}),
    ("RightShift", {"x": ints(5, -8), "y": ints(1, 1)}, {}),
    ("Max", {"input": np.zeros((2, 0), np.int64), "axis": ints(1)}, {}),
    *(
        (operation, {"images": IMAGES, "size": ints(*size)}, attributes)
        for operation in ("ResizeBilinear", "ResizeBicubic")
        for size in [(3, 9), (8, 2), (1, 1)]
        for attributes in [{}, {"half_pixel_centers": True}, {"align_corners": True}]
    ),
    *(
        ("ScaleAndTranslate", {"images": IMAGES, "size": ints(*size), "scale": floats(*scale),
                               "translation": floats(*translation)},
         {"kernel_type": kernel, "antialias": antialias})
        for kernel in ("box", "triangle", "keyscubic", "mitchellcubic")
        for size, scale in [((3, 9), (0.6, 1.3)), ((8, 2), (2, 0.25)), ((1, 1), (0.1, 0.01))]
        for translation in [(0, 0), (1.25, -2.5), (1000, 0)]
        for antialias in (True, False)
    ),
    ("SparseToDense", {"sparse_indices": longs([0, 1], [2, 0]), "output_shape": longs(3, 2),
                       "sparse_values": texts(b"a", b"b"),
                       "default_value": np.array(b"-", np.object_)}, {}),
    ("RaggedTensorToTensor", {"shape": longs(-1, -1), "values": texts(b"a", b"b", b"c"),
                              "default_value": np.array(b"", np.object_),
                              "row_partition_tensors": [longs(0, 2, 2, 3)]},
     {"row_partition_types": ["ROW_SPLITS"]}),
    ("RaggedTensorToTensor", {"shape": longs(-1, 1), "values": texts(b"a", b"b", b"c"),
                              "default_value": np.array(b"", np.object_),
                              "row_partition_tensors": [np.int64(4), longs(0, 0, 3)]},
     {"row_partition_types": ["FIRST_DIM_SIZE", "VALUE_ROWIDS"]}),
    ("RaggedTensorToTensor", {"shape": longs(-1, 2, 3), "values": longs(1, 2, 3, 4),
                              "default_value": np.int64(0),
                              "row_partition_tensors": [longs(0, 2, 3), longs(0, 1, 3, 4)]},
     {"row_partition_types": ["ROW_SPLITS", "ROW_SPLITS"]}),
]  # fmt: skip
assert len({repr(case) for case in CASES}) == len(CASES), "a case is there twice"


def node_of(
    operation: str, inputs: Mapping[str, Any], attributes: Mapping[str, Any], runs: bool = True
) -> tuple[Any, list[Any], list[Any]]:
    """Make the node, with the placeholders that it reads and TensorFlow's outputs, if it runs."""
    with v1.Graph().as_default() as made:
        placeholders, fed = {}, []
        for name, value in inputs.items():
            several = isinstance(value, list)
            each = [v1.placeholder(tf.as_dtype(dtype_of(v)), np.shape(v)) for v in
                    (value if several else [value])]  # fmt: skip
            placeholders[name] = each if several else each[0]
            fed += list(zip(each, value if several else [value], strict=True))
        getattr(tf.raw_ops, operation)(**placeholders, **attributes)
        node = next(op for op in made.get_operations() if op.type == operation)
        with v1.Session(graph=made) as session:
            expected = session.run(list(node.outputs), dict(fed)) if runs else []
    by_name = {placeholder.name: value for placeholder, value in fed}
    arrays = [np.asarray(by_name[tensor.name], np.object_ if tensor.dtype == tf.string else None)
              for tensor in node.inputs]  # fmt: skip
    return graph.NodeDef.FromString(node.node_def.SerializeToString()), arrays, expected


def dtype_of(value: Any) -> Any:
    array = np.asarray(value)
    return tf.string if array.dtype.kind in "OS" else array.dtype


@pytest.mark.parametrize(
    ("operation", "inputs", "attributes"),
    CASES,
    ids=[f"{case[0]}-{at}" for at, case in enumerate(CASES)],
)
def test_a_kernel_gives_what_tensorflow_gives(
    operation: str, inputs: Mapping[str, Any], attributes: Mapping[str, Any]
) -> None:
    node, arrays, expected = node_of(operation, inputs, attributes)
    kernel = KERNELS[operation]
    given = kernel.make(Attributes(node))(*arrays)
    results = given if isinstance(given, list) else [given]
    assert len(results) == len(expected)
    for at, (result, want) in enumerate(zip(map(np.asarray, results), expected, strict=True)):
        assert result.shape == np.shape(want)
        if kernel.dtype(Attributes(node), at).numpy == np.object_:
            assert result.tolist() == np.asarray(want).tolist()
        else:
            assert kernel.dtype(Attributes(node), at).numpy == want.dtype
            assert result.dtype == want.dtype
            np.testing.assert_array_equal(result, want)


@pytest.mark.parametrize("kernel", ["lanczos1", "lanczos3", "lanczos5", "gaussian"])
@pytest.mark.parametrize("antialias", [True, False])
def test_images_are_resized_by_waves_to_their_last_bits(kernel: str, antialias: bool) -> None:
    """Sine and exponential of numpy and of the C library differ by a unit in the last place."""
    inputs = {"images": IMAGES, "size": ints(3, 9), "scale": floats(0.6, 1.3)}
    attributes = {"kernel_type": kernel, "antialias": antialias}
    node, arrays, (expected,) = node_of(
        "ScaleAndTranslate", {**inputs, "translation": floats(0.5, -1)}, attributes
    )
    result = KERNELS["ScaleAndTranslate"].make(Attributes(node))(*arrays)
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-6 * np.abs(IMAGES).max())


REFUSED = [
    pytest.param(
        "StringToNumber", {"string_tensor": texts(b"1_0")}, {}, id="a number with an underscore"
    ),
    pytest.param("StringToNumber", {"string_tensor": texts(b"")}, {}, id="an empty number"),
    pytest.param(
        "StringToNumber",
        {"string_tensor": texts(b"3000000000")},
        {"out_type": tf.int32},
        id="a number beyond its type",
    ),
    pytest.param(
        "Substr",
        {"input": texts(b"ab"), "pos": np.int32(3), "len": np.int32(1)},
        {},
        id="a place behind the text",
    ),
    pytest.param(
        "DecodeRaw", {"bytes": texts(b"\1\0\2")}, {"out_type": tf.int16}, id="half a number"
    ),
    pytest.param("DecodeBase64", {"input": texts(b"!a")}, {}, id="no base64"),
    pytest.param("DecodeBase64", {"input": texts(b"YQ=")}, {}, id="base64 with padding"),
    pytest.param("DecodeBase64", {"input": texts(b"a")}, {}, id="base64 of one letter"),
    pytest.param(
        "Gather", {"params": texts(b"a"), "indices": ints(-1)}, {}, id="a place before the first"
    ),
    pytest.param("FloorDiv", {"x": ints(1), "y": ints(0)}, {}, id="a division by zero"),
]

WRONG: list[tuple[str, Mapping[str, Any], Mapping[str, Any]]] = [
    # What numpy takes and TensorFlow does not, in words of their own.
    ("ArgMax", {"input": SCORES, "dimension": np.int32(2)}, {}),
    ("ArgMax", {"input": SCORES[:0], "dimension": np.int32(0)}, {}),
    ("Bincount", {"arr": ints(1, -1), "size": np.int32(4), "weights": ints()}, {}),
    ("Bincount", {"arr": ints(1), "size": np.int32(-1), "weights": ints()}, {}),
    ("Cumsum", {"x": np.float32(1), "axis": np.int32(0)}, {}),
    ("Fill", {"dims": ints(2, -1), "value": np.float32(1)}, {}),
    ("GatherNd", {"params": GRID, "indices": ints([0, -1])}, {}),
    ("GatherV2", {"params": WORDS, "indices": ints(0), "axis": np.int32(-3)}, {}),
    ("InvertPermutation", {"x": ints(0, 2)}, {}),
    ("InvertPermutation", {"x": ints(0, 0)}, {}),
    ("OneHot", {"indices": longs(0), "depth": np.int32(-1), "on_value": np.float32(2),
                "off_value": np.float32(0)}, {}),
    ("Pad", {"input": GRID, "paddings": ints([0, 0], [-1, 2], [0, 0])}, {}),
    ("Range", {"start": np.int32(0), "limit": np.int32(3), "delta": np.int32(0)}, {}),
    ("Range", {"start": np.int32(5), "limit": np.int32(3), "delta": np.int32(1)}, {}),
    ("ReduceJoin", {"inputs": WORDS, "reduction_indices": ints(2)}, {}),
    ("Reshape", {"tensor": WORDS, "shape": ints(-2)}, {}),
    ("ResizeBilinear", {"images": IMAGES, "size": ints(0, 2)}, {}),
    ("ResizeBicubic", {"images": IMAGES, "size": ints(0, 2)}, {}),
    ("ScaleAndTranslate", {"images": IMAGES, "size": ints(2, 2), "scale": floats(0, 1),
                           "translation": floats(0, 0)}, {}),
    ("ReverseV2", {"tensor": WORDS, "axis": ints(0, -2)}, {}),
    ("ScatterNd", {"indices": ints([-1]), "updates": floats(1), "shape": ints(3)}, {}),
    ("ScatterNd", {"indices": ints([3]), "updates": floats(1), "shape": ints(3)}, {}),
    ("Slice", {"input": WORDS, "begin": ints(0, 0), "size": ints(1, -2)}, {}),
    ("SparseToDense", {"sparse_indices": longs(2, 0), "output_shape": longs(3),
                       "sparse_values": floats(1, 2), "default_value": np.float32(9)}, {}),
    ("SparseToDense", {"sparse_indices": longs(0), "output_shape": longs(1, 2),
                       "sparse_values": floats(1), "default_value": np.float32(9)}, {}),
    ("SplitV", {"value": WORDS, "size_splits": ints(1, 1), "axis": np.int32(1)}, {"num_split": 2}),
    ("SplitV", {"value": WORDS, "size_splits": ints(4, -1), "axis": np.int32(1)}, {"num_split": 2}),
    ("StridedSlice", {"input": GRID, "begin": ints(0), "end": ints(1), "strides": ints(0)}, {}),
    ("StridedSlice", {"input": GRID, "begin": ints(2), "end": ints(3), "strides": ints(1)},
     {"shrink_axis_mask": 1}),
    ("Tile", {"input": WORDS, "multiples": ints(1, -1)}, {}),
    ("TopKV2", {"input": SCORES, "k": np.int32(5)}, {}),
    ("TopKV2", {"input": SCORES, "k": np.int32(-1)}, {}),
    ("Transpose", {"x": WORDS, "perm": ints(1, 1)}, {}),
    ("UnsortedSegmentSum", {"data": floats(1), "segment_ids": ints(1),
                            "num_segments": np.int32(1)}, {}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("operation", "inputs", "attributes"),
    WRONG,
    ids=[f"{case[0]}-{at}" for at, case in enumerate(WRONG)],
)
def test_values_that_numpy_would_take_are_refused_as_by_tensorflow(
    operation: str, inputs: Mapping[str, Any], attributes: Mapping[str, Any]
) -> None:
    node, arrays, _ = node_of(operation, inputs, attributes, runs=False)
    with pytest.raises((tf.errors.InvalidArgumentError, tf.errors.OutOfRangeError)):
        node_of(operation, inputs, attributes)
    step = HostStep(
        "the node", KERNELS[operation].make(Attributes(node)), tuple(range(len(arrays))), ()
    )
    with pytest.raises(InvalidRequest, match="the node"):
        step.run(arrays)


@pytest.mark.parametrize("text", [b"a\0", b"\0\0", b""])
def test_a_string_alone_keeps_its_zero_bytes(text: bytes) -> None:
    taken = KERNELS["GatherV2"].make(Attributes(graph.NodeDef(op="GatherV2")))
    step = HostStep("GatherV2", taken, (0, 1, 2), ((0, 3),))
    slots = [texts(b"x", text), np.int32(1), np.int32(0), None]
    step.run(slots)
    assert slots[3].dtype == np.object_
    assert slots[3].item() == text


@pytest.mark.parametrize(
    ("error", "kind"),
    [(ZeroDivisionError("by zero"), InvalidRequest), (MemoryError(), RequestTooLarge)],
)
def test_an_exception_about_values_is_the_requests_error(
    error: Exception, kind: type[Exception]
) -> None:
    def compute() -> None:
        raise error

    with pytest.raises(kind, match="Range 'r'"):
        HostStep("Range 'r'", compute, (), ()).run([])


@pytest.mark.parametrize(("operation", "inputs", "attributes"), REFUSED)
def test_a_kernel_refuses_what_tensorflow_refuses(
    operation: str, inputs: Mapping[str, Any], attributes: Mapping[str, Any]
) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        node_of(operation, inputs, attributes)
    with v1.Graph().as_default() as made:
        constants = {name: tf.constant(value) for name, value in inputs.items()}
        getattr(tf.raw_ops, operation)(**constants, **attributes)
        node = next(op for op in made.get_operations() if op.type == operation)
    ours = graph.NodeDef.FromString(node.node_def.SerializeToString())
    with pytest.raises(InvalidRequest) as refused:
        KERNELS[operation].make(Attributes(ours))(*inputs.values())
    assert str(refused.value).split()[0] in caught.value.message


def test_an_attribute_that_is_not_known_is_refused_at_load() -> None:
    node = graph.NodeDef(name="n", op="StringLength")
    node.attr["unit"].s = b"GRAPHEME"
    with pytest.raises(LoadFailed, match="StringLength 'n' has unit='GRAPHEME'"):
        KERNELS["StringLength"].make(Attributes(node))


@pytest.mark.parametrize("pattern", ["[[:nope:]]", "a{2}{3}", "(?<=a)b"])
def test_a_pattern_that_re2_does_not_take_is_refused_at_load(pattern: str) -> None:
    node = graph.NodeDef(name="n", op="StaticRegexFullMatch")
    node.attr["pattern"].s = pattern.encode()
    with pytest.raises(LoadFailed, match="StaticRegexFullMatch 'n' has the pattern"):
        KERNELS["StaticRegexFullMatch"].make(Attributes(node))


def test_a_constant_pattern_is_checked_at_load() -> None:
    kernel, node = KERNELS["RegexReplace"], graph.NodeDef(name="n", op="RegexReplace")
    pattern, rewrite = np.array(b"(a)", np.object_), np.array(rb"\2", np.object_)
    kernel.check(Attributes(node), [None, pattern, np.array(rb"\1", np.object_)])
    with pytest.raises(LoadFailed, match="RegexReplace 'n'"):
        kernel.check(Attributes(node), [None, pattern, rewrite])


def test_fingerprints_of_every_length_are_those_of_tensorflow() -> None:
    data = [bytes((at * 7 + length) % 256 for at in range(length)) for length in range(260)]
    most = 2**63 - 1
    expected = tf.strings.to_hash_bucket_fast(tf.constant(data), most).numpy()
    assert [fingerprint64(each) % most for each in data] == expected.tolist()
