"""What the front ends for ONNX and TensorFlow read otherwise than those frameworks mean it."""

import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import openvino as ov
from onnx import helper
from onnx.reference import ReferenceEvaluator

from ie_serving.core.values.tensors import Array
from tests.canaries.bare import asked, floats, ints, whole
from tests.canaries.fault import fault
from tests.onnx_models import Of, onnx_model

PIXELS = np.random.default_rng(1).random((1, 1, 4, 4), np.float32)


def differs_from_onnx(node: onnx.NodeProto, opset: int, x: Array, **constants: Array) -> bool:
    """Read a model of one operator, whose first input is `x`; ask OpenVINO and the reference."""
    given = {"x": Of(helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)}
    model = onnx_model([node], given, "y", opset=opset, **constants)
    (right,) = ReferenceEvaluator(model).run(None, {"x": x})
    (answer,) = asked(ov.Core().read_model(model.SerializeToString(), b""))(x)
    return not np.allclose(answer, right, atol=1e-3)


def differs_from_tensorflow(function: Callable[..., Any], *arrays: Array) -> bool:
    """Save a function whose inputs are named in the order of the alphabet; ask both."""
    import tensorflow as tf

    module = tf.Module()
    kinds = [tf.TensorSpec(each.shape, each.dtype) for each in arrays]
    module.f = tf.function(function, input_signature=kinds)
    right = module.f(*map(tf.constant, arrays))["y"].numpy()
    with tempfile.TemporaryDirectory() as directory:
        tf.saved_model.save(module, directory, module.f.get_concrete_function())
        model = ov.Core().read_model(directory)
    order = sorted(range(len(arrays)), key=lambda at: model.inputs[at].any_name)
    by_place = [arrays[order.index(at)] for at in range(len(arrays))]
    answer = asked(model)(*by_place)[0]
    return answer.shape != right.shape or not np.allclose(answer, right)


def raw(name: str, **given: Any) -> Any:
    import tensorflow as tf

    return getattr(tf.raw_ops, name)(**given)


@fault(
    "the front end for ONNX drops attributes and inputs without a word: `Resize` `antialias`,"
    " `exclude_outside` and `keep_aspect_ratio_policy`, windows of `Attention`, `layout` and "
    "peepholes of `LSTM`, the axis of `DFT` and others",
    done="the file's operators are read before OpenVINO reads them, also in branches and "
    "functions, and a model that uses one of these is refused by node, attribute and value; "
    "so is an opset newer than those that were compared (`reading/onnx_graph.py` has the table, "
    "`engines/onnx_file.py` the reader); some operators are converted by the server itself "
    "instead (`operators/table.py`)",
    where="ONNX models; weights are skipped",
    tests=(
        "reading/test_onnx_unread.py::test_a_node_that_would_be_dropped_is_refused_by_name",
        "reading/test_onnx_unread.py::test_openvino_still_drops_it",
        "reading/test_onnx_unread.py::test_a_newer_opset_than_was_compared_is_refused",
    ),
    issue=35893,
)
def attributes_of_onnx_are_dropped() -> bool:
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], mode="linear", antialias=1)
    return differs_from_onnx(node, 18, PIXELS, s=floats(1, 1, 0.5, 0.5))


@fault(
    "operators that onnxruntime defines are computed otherwise than it computes them: 8-bit sums "
    "of `QLinearAdd` wrap around, `GroupQueryAttention` writes over its past, attributes of "
    "`Attention`, `FusedGemm` and `FusedMatMul` are dropped, `MultiHeadAttention` adds its bias to "
    "keys by head",
    done="refused by node (`OVERLOOKED` of `reading/onnx_graph.py`), so that onnxruntime serves "
    "the model where it is installed; the bias is taken away again; OpenVINO serves "
    "`DynamicQuantizeLSTM` only where it was compared",
    where="ONNX models with operators of `com.microsoft`; onnxruntime's own time",
    tests=(
        "reading/test_onnx_unread.py::"
        "test_a_node_of_onnxruntime_that_openvino_computes_otherwise_is_refused",
        "reading/test_onnx_unread.py::test_openvino_still_computes_it_otherwise_than_onnxruntime",
        "reading/test_onnx_graph.py::test_keys_that_come_by_head_get_no_bias",
        "verification/test_verified_engine.py::"
        "test_an_operator_that_openvino_computes_otherwise_is_not_served_uncompared",
    ),
)
def operators_of_onnxruntime_are_computed_otherwise() -> bool:
    one, zero = floats(1)[0], np.uint8(0)
    constants = {"b": np.uint8([200]), **dict.fromkeys(("s", "t", "u"), one), "z": zero}
    names = ["x", "s", "z", "b", "t", "z", "u", "z"]
    node = helper.make_node("QLinearAdd", names, ["y"], domain="com.microsoft")
    given = {"x": Of(onnx.TensorProto.UINT8, [1])}
    model = onnx_model([node], given, "y", domains={"com.microsoft": 1}, **constants)
    (answer,) = asked(ov.Core().read_model(model.SerializeToString(), b""))(np.uint8([200]))
    return bool(answer[0] != 255)


@fault(
    "constants of an ONNX file that are not in `raw_data` are read as other numbers where they are "
    "of uint32, bfloat16, float8e4m3fn or float8e5m2",
    done="refused by name, with the way to save them (`misread` of `engines/onnx_file.py`)",
    where="ONNX models with such constants; operators that hold constants or graphs are read",
    tests=(
        "reading/test_onnx_unread.py::test_numbers_that_the_front_end_misreads_are_refused",
        "reading/test_onnx_unread.py::test_numbers_in_raw_data_are_served",
    ),
)
def constants_outside_raw_data_are_misread() -> bool:
    node = helper.make_node("Cast", ["w"], ["y"], to=onnx.TensorProto.FLOAT)
    held = helper.make_tensor("w", onnx.TensorProto.UINT32, [2], [1, 2])
    graph = helper.make_graph([node], "g", [], [onnx.ValueInfoProto(name="y")], [held])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=8)
    (answer,) = asked(ov.Core().read_model(model.SerializeToString(), b""))()
    return bool(answer.tolist() != [1, 2])


@fault(
    "a constant of an ONNX file that has no elements is read as the number 0",
    done="refused by name, where it is not the same (`reading/onnx_graph.py`), also as an output",
    where="ONNX models with such constants, but as sizes, axes, or parts of a `Concat`",
    tests=(
        "reading/test_onnx_unread.py::"
        "test_an_input_of_no_elements_is_refused_where_the_front_end_takes_it_for_0",
        "reading/test_onnx_unread.py::"
        "test_an_operator_on_no_elements_is_refused_where_the_front_end_takes_them_for_0",
        "reading/test_onnx_unread.py::"
        "test_an_output_of_no_elements_is_refused_where_the_front_end_takes_it_for_0",
    ),
)
def constants_of_no_elements_are_misread() -> bool:
    node = helper.make_node("Gather", ["x", "rows"], ["y"])
    model = onnx_model([node], {"x": [3, 2]}, "y", rows=np.zeros(0, np.int64))
    read = ov.Core().read_model(model.SerializeToString(), b"")
    return bool(read.output(0).get_partial_shape() != ov.PartialShape([0, 2]))


@fault(
    "the front end for ONNX converts six operators otherwise. `BitShift` to the right becomes a "
    "division. `Softmax` of opsets 11 and 12 gets one axis alone. `ConvTranspose` with `auto_pad` "
    "gets no padding in open sizes. `MaxPool` with `ceil_mode` gets windows behind the last "
    "element. A vector times a matrix in `MatMulInteger` becomes a row. A `Loop` that is asked for "
    "less than no rounds makes rounds without end",
    done="the graph is changed after it was read (`reading/onnx_graph.py`)",
    where="ONNX models with them; a `Softmax` over several axes two Reshapes, which copy nothing",
    tests=(
        "reading/test_onnx_graph.py::test_negative_numbers_are_shifted_to_the_right",
        "reading/test_onnx_graph.py::test_a_softmax_of_opset_11_is_one_over_all_axes_behind",
        "reading/test_onnx_graph.py::test_transposed_convolutions_are_padded",
        "reading/test_onnx_graph.py::test_no_window_begins_behind_the_last_element",
        "reading/test_onnx_graph.py::test_a_vector_of_integers_times_a_matrix_is_a_vector",
        "reading/test_onnx_graph.py::test_a_loop_of_less_than_no_rounds_makes_none",
    ),
)
def onnx_is_converted_otherwise() -> bool:
    node = helper.make_node("BitShift", ["x", "p"], ["y"], direction="RIGHT")
    return differs_from_onnx(node, 11, ints(-4, -1), p=ints(1, 1))


@fault(
    "the front end for ONNX reduces all axes in `ReduceL1`, `ReduceLogSum` and `ReduceLogSumExp` "
    "of opsets 13 to 17, whose axes are an attribute",
    done="converted by the server (`operators/table.py`)",
    where="ONNX models with them; none",
    tests=("operators/test_operators.py::test_axes_that_are_an_attribute_are_reduced",),
)
def onnx_reduces_all_axes() -> bool:
    node = helper.make_node("ReduceL1", ["x"], ["y"], axes=[0], keepdims=0)
    return differs_from_onnx(node, 17, floats([1, 2], [3, 4]))


@fault(
    "`DynamicQuantizeLinear` divides by the range of the numbers, `QuantizeLinear` rounds behind "
    "the zero point, and the plugin multiplies by reciprocals: halves come out one step off",
    done="the graph is changed after it was read (`reading/onnx_graph.py`)",
    where="ONNX models that compute the scale, or give the integers as an output; in the middle "
    "of a graph `QuantizeLinear` by a constant scale stays, since the plugin makes operations on "
    "integers of it",
    tests=(
        "reading/test_onnx_graph.py::test_numbers_are_divided_by_the_scale_that_is_given",
        "reading/test_onnx_graph.py::test_halves_are_rounded_before_an_odd_zero_point_is_added",
        "reading/test_onnx_graph.py::test_halves_are_rounded_before_a_zero_point_of_a_request",
    ),
)
def halves_are_quantized_one_step_off() -> bool:
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"])
    scale, zero = np.array(0.5, np.float32), np.array(3, np.uint8)
    return differs_from_onnx(node, 21, floats(0.25, 0.75), s=scale, z=zero)


@fault(
    "`SplitToSequence` into pieces of lengths that have an open size counts one piece",
    done="refused (`reading/onnx_graph.py`)",
    where="ONNX models in which a request decides into how many pieces a tensor is split",
    tests=(
        "reading/test_onnx_graph.py::test_pieces_of_a_sequence_are_counted_where_they_are_known",
    ),
)
def pieces_of_sequences_are_not_counted() -> bool:
    given = {"x": [6], "lengths": Of(onnx.TensorProto.INT64, [None])}
    operators = [
        helper.make_node("SplitToSequence", ["x", "lengths"], ["pieces"]),
        helper.make_node("SequenceLength", ["pieces"], ["y"]),
    ]
    y = Of(onnx.TensorProto.INT64, [])
    model = onnx_model(operators, given, {"y": y}, opset=12)
    read = ov.Core().read_model(model.SerializeToString(), b"")
    return int(asked(read)(floats(*range(6)), np.array([1, 2, 3]))[0]) != 3


@fault(
    "`ConvTranspose` with `output_shape` is padded wrongly in open sizes and in groups; "
    "`Resize` by scales with `align_corners` takes another scale where a part of a pixel is "
    "left",
    done="refused (`reading/onnx_graph.py`)",
    where="ONNX models with them",
    tests=(
        "reading/test_onnx_graph.py::test_a_transposed_convolution_to_a_shape_in_open_sizes_is_refused",
        "reading/test_onnx_graph.py::test_corners_are_aligned_by_scales_to_whole_pixels",
    ),
)
def onnx_corners_are_not_aligned() -> bool:
    how = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], **how)
    return differs_from_onnx(node, 18, PIXELS, s=floats(1, 1, 0.6, 0.6))


@fault(
    "the front end adds up other channels in `LRN`, and pools `MaxPoolWithArgmax` with the "
    "padding SAME as with VALID, and by windows side by side whatever its strides are",
    done="the SavedModel's graph computes the first (`savedmodel/replace.py`); the second is "
    "refused (`savedmodel/conversion_faults.py`)",
    where="SavedModels with them",
    tests=(
        "reading/test_misconverted.py::test_channels_are_normalized_by_those_beside_them",
        "reading/test_misconverted.py::test_a_signature_that_would_be_converted_wrongly_is_left_out",
    ),
)
def channels_are_normalized_by_others() -> bool:
    sizes = {"depth_radius": 1, "bias": 1.0, "alpha": 1.0, "beta": 0.5}
    return differs_from_tensorflow(
        lambda x: {"y": raw("LRN", input=x, **sizes)},
        floats(1, 2, 3, 0, 0, 1).reshape(1, 1, 1, 6),
    )


@fault(
    "the front end does not spread the input of `XlaConvV2` (`lhs_dilation`)",
    done="refused (`savedmodel/conversion_faults.py`)",
    where="SavedModels of JAX with XLA's operations",
    tests=(
        "reading/test_misconverted.py::test_a_signature_that_would_be_converted_wrongly_is_left_out",
    ),
)
def inputs_are_not_spread() -> bool:
    import tensorflow as tf
    from tensorflow.compiler.tf2xla.ops import gen_xla_ops
    from tensorflow.compiler.xla import xla_data_pb2

    data = {"batch_dimension": 0, "feature_dimension": 3, "spatial_dimensions": [1, 2]}
    kernel = {"input_feature_dimension": 2, "output_feature_dimension": 3}
    given = {f"{end}_{name}": each for end in ("input", "output") for name, each in data.items()}
    given |= {f"kernel_{name}": each for name, each in kernel.items()}
    made = xla_data_pb2.ConvolutionDimensionNumbers(**given, kernel_spatial_dimensions=[0, 1])
    numbers = made.SerializeToString()
    ones, twos, around = [1, 1], [2, 2], [[1, 1], [1, 1]]

    def convolved(x: Any) -> Any:
        how = (ones, around, twos, ones, 1, numbers, "", tf.float32)
        return {"y": gen_xla_ops.xla_conv_v2(x, tf.ones([3, 3, 1, 1]), *how)}

    return differs_from_tensorflow(
        tf.function(convolved, jit_compile=True), np.ones((1, 4, 4, 1), np.float32)
    )


@fault(
    "the front end passes the places and the shape of `SparseReshape` on as they are",
    done="the SavedModel's graph computes them (`savedmodel/replace.py`)",
    where="SavedModels with it, but where two dimensions stay as they are, as in "
    "`safe_embedding_lookup_sparse` of two",
    tests=("savedmodel/test_replace.py::test_an_operation_that_is_written_out_computes_the_same",),
)
def a_sparse_reshape_passes_its_places_on() -> bool:
    def function(places: Any, shape: Any) -> Any:
        found = raw("SparseReshape", input_indices=places, input_shape=shape, new_shape=[3, 2])
        return {"y": found.output_indices}

    return differs_from_tensorflow(function, np.array([[0, 1], [1, 0]]), whole(2, 3))


@fault(
    "the front end lets one of several values for one place win in `ScatterNd`, where "
    "TensorFlow adds",
    done="the SavedModel's graph adds to zeros (`savedmodel/replace.py`)",
    where="SavedModels with it",
    tests=("savedmodel/test_replace.py::test_an_operation_that_is_written_out_computes_the_same",),
)
def scattered_values_are_not_added() -> bool:
    return differs_from_tensorflow(
        lambda places, values: {"y": raw("ScatterNd", indices=places, updates=values, shape=[2])},
        np.array([[0], [0]], np.int32),
        floats(1, 2),
    )


@fault(
    "`FakeQuantize` rounds halves to even, as ONNX does; TensorFlow rounds them up",
    done="its lower ends are moved by 2^-15 of a step (`quantization.py`)",
    where="SavedModels with it; none",
    tests=("test_operations.py::test_halves_are_rounded_up_and_nothing_else_changes",),
)
def halves_are_rounded_to_even() -> bool:
    ends = {"min": 0.0, "max": 255.0}
    return differs_from_tensorflow(
        lambda x: {"y": raw("FakeQuantWithMinMaxArgs", inputs=x, **ends)}, floats(0.5, 2.5)
    )


@fault(
    "the front end makes unlike of `ApproximateEqual` what differs by the tolerance itself",
    done="the SavedModel's graph computes it by other operations (`savedmodel/replace.py`)",
    where="SavedModels with it",
    tests=("savedmodel/test_replace.py::test_an_operation_that_is_written_out_computes_the_same",),
)
def the_tolerance_itself_is_unlike() -> bool:
    return differs_from_tensorflow(
        lambda x, y: {"y": raw("ApproximateEqual", x=x, y=y, tolerance=0.5)},
        floats(0, 1, 2),
        floats(0.5, 5, 2),
    )


@fault(
    "the front end corrects quotients of `Div` of integers that are right already: -7 / 3 is -1",
    done="the SavedModel's graph computes them by other operations (`savedmodel/replace.py`)",
    where="SavedModels with it",
    tests=("savedmodel/test_replace.py::test_an_operation_that_is_written_out_computes_the_same",),
)
def quotients_are_corrected_twice() -> bool:
    return differs_from_tensorflow(
        lambda x, y: {"y": raw("Div", x=x, y=y)}, ints(-7, 7, -8), ints(3, -3, 3)
    )
