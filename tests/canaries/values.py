"""Wrong values, whatever the front end was."""

import numpy as np
import openvino as ov
import openvino.opset15 as op
import openvino.opset16 as op16

from tests.canaries.bare import Ask, asked, compiled, const, fails, floats, ints, port, whole
from tests.canaries.fault import fault


@fault(
    "`Model.reshape` changes the pattern of a `Reshape` in front of a matrix product so that "
    "the product fits: of one image of twice the height and width a classifier makes four "
    "rows",
    done="where `shape` or `batch_size` reshapes a model, a pattern that kept the first dimension "
    "must go on keeping it, else the shape is refused, at load or when it is tried "
    "(`interface/mixed_rows.py`); the graph of a model that is open itself is not rewritten, and "
    "a pattern that does not hold is found by what it would make (`running/shape_inference.py`)",
    where="models with open shapes; at load, and for new combinations only",
    tests=(
        "interface/test_signatures.py::test_a_larger_image_is_refused_and_not_made_several_rows",
    ),
)
def a_reshape_makes_rows_of_an_image() -> bool:
    x = port("f32", 1, 2, 4)
    flat = op.reshape(x, const([0, 8]), True)
    model = ov.Model(
        [op.result(op.matmul(flat, const(np.ones((8, 3)), np.float32), False, False))], [x], "m"
    )
    model.reshape([1, 4, 8])
    return asked(model)(np.ones((1, 4, 8), np.float32))[0].shape == (4, 3)


@fault(
    "a sum, a mean or another reduction of three dimensions over the first or the last one, "
    "followed by an operation with a constant for each channel, takes the constants of other "
    "channels from the second row on, and from the third one memory behind them",
    done="such a reduction is made of four dimensions, the last of which has the size 1 and is "
    "reduced as well (`fusions.py`)",
    where="`ReduceMean`, `ReduceSum`, `ReduceMax` and others with constants per channel behind "
    "them, as of one-dimensional convolutions with a mean over time; no cost that was measured",
    tests=("test_operations.py::test_channels_behind_a_reduction_are_its_own",),
)
def values_per_channel_are_those_of_others() -> bool:
    x = port("f32", -1, 2, 4)
    channels = const([100, 200], np.float32)
    y = op.add(op.reduce_mean(x, const([2]), False), channels)
    answer = compiled([y], [x])(np.zeros((2, 2, 4), np.float32))[0]
    return bool(np.any(answer != [100, 200]))


@fault(
    "an `If` with a branch that gives a number and one that gives a row makes a row of the number",
    done="such a model fails the version, unless all that read it make the same of both "
    "(`rewrites.py`)",
    where="graphs with it; none",
    tests=("test_rewrites.py::test_a_branch_of_a_number_beside_one_of_a_row_is_refused",),
)
def a_number_of_a_branch_is_a_row() -> bool:
    x, is_sum = port("f32", -1), port("boolean")
    inner = [port("f32", -1) for _ in range(2)]
    results = [op.result(op.reduce_sum(inner[0], const([0]), False)), op.result(inner[1])]
    chosen = op.if_op(is_sum.output(0))
    chosen.set_then_body(ov.Model([results[0]], [inner[0]], "a"))
    chosen.set_else_body(ov.Model([results[1]], [inner[1]], "b"))
    chosen.set_input(x.output(0), *inner)
    ask = compiled([chosen.set_output(*results)], [x, is_sum])
    return ask(floats(1, 2), np.array(True))[0].shape == (1,)


def recurrent(batch: int) -> Ask:
    x, h, lengths = port("f32", batch, 3, 2), port("f32", batch, 1, 2), port("i32", batch)
    w = const(np.full((1, 6, 2), 0.1), np.float32)
    y = op.gru_sequence(
        x, h, lengths, w, w, const(np.zeros((1, 6)), np.float32), 2, "forward"
    ).output(0)
    return compiled([y], [x, h, lengths])


@fault(
    "the lengths of recurrent layers are ignored where any size of their input is open: all "
    "of each row is computed with. With known sizes the reverse ones fail for lengths beyond "
    "the sequence",
    done="in open shapes other lengths than the whole are refused; with known sizes those beyond "
    "the sequence. Lengths that the model takes from a shape are left alone (`limits.py`)",
    where="`LSTMSequence`, `GRUSequence`, `RNNSequence` with lengths that a request brings, or "
    "constant ones in open shapes; one flag",
    tests=("test_sizes.py::test_lengths_of_a_recurrent_layer_are_effective_or_refused",),
)
def lengths_of_a_sequence_are_ignored() -> bool:
    ask = recurrent(-1)
    y = ask(np.ones((2, 3, 2), np.float32), np.zeros((2, 1, 2), np.float32), ints(3, 2))[0]
    return bool(np.all(y[1, 0, 2] != 0))


@fault(
    "an `Abs` behind a `Concat` changes what all others read of it: they get the magnitudes, "
    "of floats as of integers",
    done="each `Abs` has concatenations of its own (`fusions.py`)",
    where="graphs with both; the concatenation is made twice where others read it",
    tests=("test_narrow_inputs.py::test_readers_of_numbers_get_no_magnitudes",),
)
def magnitudes_replace_the_numbers() -> bool:
    x = port("f32", -1)
    both = op.concat([x, op.add(x, x)], 0)
    ask = compiled([op.add(both, both), op.abs(both)], [x])
    return ask(floats(-5, 3))[0].tolist() != [-10, 6, -20, 12]


@fault(
    "of equal values `TopK` names others than the first; TensorFlow and ONNX name the first",
    done="it is made stable, where it is asked for at most 10 values or among at most 256 "
    "(`rewrites.py`)",
    where="graphs with it; none for some ten values, 120 µs a row for 5 of 1,001 in fixed sizes, 50"
    " in open ones. For 300 of 8,400 it would be 30 ms instead of 0.6: there, and where "
    "neither number is known at load, equal values may change places",
    tests=(
        "test_rewrites.py::test_of_equal_values_the_first_is_named",
        "test_rewrites.py::test_of_equal_values_the_first_ones_are_named",
    ),
    issue=33398,
)
def equal_values_lose_their_order() -> bool:
    x = port("f32", 1, 62)
    ask = compiled([op.topk(x, const(1), 1, "max", "none").output(1)], [x])
    rng = np.random.default_rng(3)
    for _ in range(20):
        given = rng.integers(0, 3, (1, 62)).astype(np.float32)
        if ask(given)[0].ravel().tolist() != given.argmax(1).tolist():
            return True
    return False


@fault(
    "where all sizes are known, floats that are cut to 8 bits wrap instead of ending at the "
    "greatest number, a `TopK` of several names equal values in another order, and quantized "
    "NaN become other numbers: what a request gets alone would not be what it gets in a batch",
    done="only graphs of operations that were compared are compiled for one row beside batches "
    "(`compiling/lone_row.py`)",
    where="others are computed alone as in a batch",
    tests=(
        "compiling/test_shape_independent.py::test_known_sizes_give_the_outputs_of_open_ones",
        "compiling/test_shape_independent.py::test_other_graphs_are_not",
    ),
)
def known_sizes_cast_otherwise_than_open_ones() -> bool:
    found = []
    for size in (-1, 2):
        x = port("f32", size)
        found.append(compiled([op.convert(x, "i8")], [x])(floats(300.0, -300.0))[0].tolist())
    return found[0] != found[1]


@fault(
    "`Unique` gives zeros where nothing reads its third output",
    done="that output is read (`rewrites.py`)",
    where="graphs with it; a copy of one integer for each element",
    tests=("test_rewrites.py::test_unique_values_are_given_without_their_places",),
)
def unique_values_are_zeros() -> bool:
    x = port("f32", -1)
    ask = compiled([op.unique(x, sorted=False, index_element_type="i32").output(0)], [x])
    return ask(floats(4, 4, 1, 3))[0].tolist() != [4, 1, 3]


@fault(
    'operations behind the flags of `SparseFillEmptyRows` refuse them: "unsupported src_prc: '
    'boolean"',
    done="the flags are compared with zero (`rewrites.py`)",
    where="graphs with it",
    tests=("test_rewrites.py::test_flags_of_empty_rows_can_be_selected_by",),
)
def flags_of_empty_rows_are_not_taken() -> bool:
    v, i, s = port("f32", -1), port("i64", -1, 2), port("i64", 2)
    filled = op16.sparse_fill_empty_rows(v, s, i, const(0, np.float32))
    ask = compiled(
        [op.select(filled.output(2), const(7, np.float32), const(1, np.float32))], [v, i, s]
    )
    return fails(ask, floats(5, 6), np.array([[0, 0], [2, 0]]), whole(3, 1))


@fault(
    "`ReduceMax` begins with the least finite float: the greatest of negative infinities "
    "alone, or of nothing in fixed sizes, is -3.4e38, by which attention that is masked as a "
    "whole becomes NaN; `ReduceMin` and `MaxPool` likewise",
    done="halves are reduced, and the result is doubled (`nonfinite.py`): -3.4e38 becomes "
    "infinity. Numbers below 2.4e-38 may become 0",
    where="floats; a `MaxPool` behind an input, `Select` or `Log`; not where it lowers the same "
    "numbers, as in a softmax in parts; 7 to 13 percent of large shapes, 41 of 32 x 1,001 of the "
    "operation for some 100,000 numbers",
    tests=(
        "test_infinities.py::test_the_ends_of_infinities_are_infinite",
        "test_infinities.py::test_the_greatest_of_nothing_is_the_least",
        "test_infinities.py::test_windows_of_infinities_are_infinite",
        "test_infinities.py::test_a_softmax_in_parts_stays_one_to_be_fused",
    ),
)
def the_greatest_of_infinities_is_finite() -> bool:
    x = port("f32", 1, 2)
    return compiled([op.reduce_max(x, const([1]))], [x])(floats([-np.inf, -np.inf]))[
        0
    ].tolist() != [-np.inf]


@fault(
    "A constant's infinities become 3.4e38 where the plugin converts it to f32: float64, and "
    "bfloat16 on CPUs without AVX-512, so that nothing equals -infinity",
    done="the plugin converts float32 to that type instead (`nonfinite.py`)",
    where="graphs with such constants; none",
    tests=(
        "test_infinities.py::test_infinite_constants_stay_infinite",
        "reading/test_onnx_graph.py::test_attention_of_bfloat16_gives_0_for_a_row_that_is_masked",
    ),
)
def infinite_constants_are_finite() -> bool:
    x = port("f32", 1)
    masked = [
        op.add(op.convert(x, kind), op.convert(const(-np.inf, np.float32), kind))
        for kind in ("bf16", "f64")
    ]
    answers = compiled([op.convert(each, "f32") for each in masked], [x])(floats(1))
    return bool(np.isfinite(answers).any())


@fault(
    "`IsInf` of a computed tensor is false: in open sizes, and on CPUs without AVX2 in all",
    done="the numbers are compared with infinity (`nonfinite.py`)",
    where="graphs with it; none",
    tests=("test_infinities.py::test_computed_infinities_are_seen",),
)
def infinities_behind_operations_are_not_seen() -> bool:
    x = port("f32", -1)
    return not compiled([op.is_inf(op.abs(x))], [x])(floats(np.inf))[0][0]


@fault(
    "`NonMaxSuppression` leaves out a box that overlaps another by the threshold itself; "
    "TensorFlow and ONNX only by more",
    done="the threshold becomes the next float (`rewrites.py`)",
    where="graphs with it; none where it is a constant",
    tests=("test_rewrites.py::test_a_box_that_overlaps_by_the_threshold_itself_stays",),
)
def a_box_at_the_threshold_is_left_out() -> bool:
    b, s = port("f32", 1, 2, 4), port("f32", 1, 1, 2)
    third = np.float32(1) / np.float32(3)
    y = op.non_max_suppression(
        b, s, const(2), const(third, np.float32), const(0, np.float32), box_encoding="corner"
    )
    ask = compiled([y.output(0)], [b, s])
    places = ask(floats([[0, 0, 1, 1], [0, 0.5, 1, 1.5]]), floats([[0.9, 0.8]]))[0]
    return int((places[:, 0] >= 0).sum()) != 2


@fault(
    "`Pad` fills with 0 where its number is computed and all sizes are known",
    done="it fills with 0, and the number is selected where no data is (`rewrites.py`)",
    where="graphs with it; a mask and a copy",
    tests=("test_rewrites.py::test_a_request_says_what_to_pad_with",),
)
def a_computed_number_is_not_padded_with() -> bool:
    x, v = port("f32", 1, 2), port("f32")
    ask = compiled([op.pad(x, const([0, 1]), const([1, 0]), "constant", v)], [x, v])
    return ask(floats([1, 2]), np.float32(7))[0].tolist() != [[7, 1, 2], [7, 7, 7]]


@fault(
    "the mean of nothing is 0 (TensorFlow: NaN, of floats); the greatest and the least are "
    "ends of finite floats or of 32 bits (infinity, or the ends of 16 and 64 bits)",
    done="treated as an operation that was skipped (`hazards.py`), but `ReduceMax` and `ReduceMin`"
    " of int32, 8 bits and booleans, which are right",
    where="`ReduceMax`, `ReduceMin`, `ReduceMean`",
    tests=(
        "test_operations.py::test_of_nothing_no_end_is_made_up",
        "integers/test_sums.py::test_of_nothing_the_sum_is_0_and_the_mean_refused",
    ),
)
def the_mean_of_nothing_is_0() -> bool:
    x = port("f32", -1)
    return compiled([op.reduce_mean(x, const([0]), False)], [x])(floats())[0].tolist() == 0


@fault(
    "infinity becomes the largest float32 in an output of float64, as of a quotient by 0 or a"
    " logarithm of 0, and in an input of float64",
    done="the graph gives float32, which becomes float64 behind it, and takes float32 "
    "(`interface/tensor_specs.py`, `running/slot.py`)",
    where="models with inputs of float64 that are computed with, or with outputs of float64 that "
    "are computed: these are copied, and infer asynchronously",
    tests=(
        "test_operations.py::test_infinity_stays_infinity_as_double",
        "test_operations.py::test_infinity_is_taken_as_double",
    ),
    issue=37968,
)
def an_infinite_double_is_finite() -> bool:
    x = port("i32", 1)
    r = op.convert(x, "f64")
    return compiled([op.divide(r, op.subtract(r, r))], [x])(ints(1))[0].tolist() != [np.inf]


@fault(
    "a conversion to bfloat16 rounds to another than the nearest number",
    done="an output of bfloat16 is computed as float32 and rounded behind the graph, an input is "
    "rounded in front of it (`interface/tensor_specs.py`, `running/slot.py`)",
    where="models with inputs or outputs of bfloat16: these are copied, and infer asynchronously; "
    "conversions inside of a model are left",
    tests=("test_operations.py::test_a_number_is_rounded_to_the_nearest_bfloat16",),
)
def a_bfloat16_is_not_the_nearest() -> bool:
    x = port("f32", 1)
    y = op.convert(op.convert(x, "bf16"), "f32")
    return compiled([y], [x])(floats(1.006))[0].tolist() != [1.0078125]


@fault(
    "64-bit integers, unsigned 32-bit ones and doubles are cut to 32 bits",
    done="values that do not fit are refused (`element_types.py`)",
    where="inputs of those dtypes that an operation computes with",
    tests=("test_narrow_inputs.py::test_a_value_beyond_is_refused_by_name_and_value",),
    issue=35890,
)
def wide_integers_are_cut() -> bool:
    x = port("i64", 1)
    return compiled([op.add(x, const([1]))], [x])(whole(2**40))[0].tolist() != [2**40 + 1]


@fault(
    "strings are cut at a trailing zero byte",
    done="refused (`running/slot.py`)",
    where="string inputs",
    tests=("running/test_infer.py::test_a_string_that_the_engine_would_cut_is_refused",),
)
def a_trailing_zero_byte_is_cut() -> bool:
    x = port("string", -1)
    return compiled([op.concat([x, x], 0)], [x])(np.array([b"ab\0"]))[0].tolist()[0] not in (
        b"ab\0",
        "ab\0",
    )


@fault(
    "a `Range` in the wrong direction counts on all the same: from 5 to 0 by 1 it gives 5, 6,"
    " 7, 8, 9",
    done="nothing is given, as in ONNX; a request whose values ask for it is refused in "
    "TensorFlow's models, as TensorFlow does (`ranges.py`)",
    where="`Range`, but from 0 or below up to a size",
    tests=(
        "test_stages.py::test_a_range_in_the_wrong_direction_is_empty",
        "test_stages.py::test_tensorflow_refuses_a_range_in_the_wrong_direction",
    ),
)
def a_range_counts_in_the_wrong_direction() -> bool:
    e = [port("i64") for _ in range(3)]
    return len(compiled([op.range(*e, "f32")], e)(*map(np.int64, (5, 0, 1)))[0]) > 0


@fault(
    "`Relu`, `Clamp`, `Maximum`, `Minimum`, `HSigmoid`, `HardSigmoid` and `FakeQuantize` make a "
    "number of NaN, `Exp` infinity; `ReduceMax`, `ReduceMin` and softmaxes pass over it, and of a "
    "row with infinity, which is NaN, a softmax makes numbers",
    done="a graph that looks for NaN at each operation of one number, greatest and softmax is "
    "compiled with the first request that carries NaN or positive infinity (`nonfinite.py`); "
    "operations that are neither known to keep NaN nor can be made to, such as `TopK`, `MaxPool` "
    "and recurrent layers, raise a flag there, and the request is refused by name",
    where="graphs that take floats and have such an operation: 1 to 7 us for a small request, 15 "
    "for 150,528 floats; from the first such request on the weights a second time",
    tests=(
        "test_nonfinite.py::test_nan_stays_where_it_is",
        "test_nonfinite.py::test_nan_makes_nan_of_its_row_alone",
        "test_nonfinite.py::test_infinity_lowered_by_itself_is_nan",
        "test_nonfinite.py::test_an_operation_that_may_lose_nan_is_refused_by_name",
    ),
    issue=35839,
)
def nan_is_lost() -> bool:
    x = port("f32", 2)
    return not np.isnan(compiled([op.relu(x)], [x])(floats(np.nan, 1))[0][0])


@fault(
    "NaN as a truth value is false",
    done="that graph compares it with 0 (`nonfinite.py`)",
    where="`Convert` of floats to booleans, in that graph alone",
    tests=("test_nonfinite.py::test_nan_is_compared_as_ieee_754_says",),
    issue=35932,
)
def nan_is_false() -> bool:
    x = port("f32", 1)
    return not compiled([op.convert(x, "boolean")], [x])(floats(np.nan))[0][0]


@fault(
    "`Greater` and `GreaterEqual` are true of NaN",
    done="`Less` and `LessEqual` of the same numbers the other way round (`rewrites.py`)",
    where="floats; none",
    tests=("test_nonfinite.py::test_nan_is_compared_as_ieee_754_says",),
    issue=35927,
    no_canary="on CPUs with AVX-512 alone",
)
def nan_is_greater() -> bool:
    x = port("f32", 1)
    return bool(compiled([op.greater(x, const(0, np.float32))], [x])(floats(np.nan))[0][0])


@fault(
    "`FakeQuantize` by channels whose number is open takes other steps than it was given, unless "
    "they are a power of 2",
    done="other operations compute it (`rewrites.py`)",
    where="graphs with it; some eight small operations",
    tests=(
        "test_rewrites.py::test_an_open_number_of_channels_is_quantized_in_the_steps_it_is_told",
    ),
)
def open_channels_take_other_steps() -> bool:
    x = port("f32", -1, -1)
    low, high = floats(-3, 0, -1), floats(5, 6, 1)
    ends = [const(each, np.float32) for each in (low, high, low, high)]
    rows = np.random.default_rng(0).uniform(-4, 6, (4, 3)).astype(np.float32)
    (answer,) = compiled([op.fake_quantize(x, *ends, 255)], [x])(rows)
    step = (high - low) / 254
    right = np.rint((np.clip(rows, low, high) - low) / step) * step + low
    return not np.allclose(answer, right, atol=1e-5)
