"""Memory of other requests in an answer, and ends of the process."""

import numpy as np
import openvino as ov
import openvino.opset6 as op6
import openvino.opset15 as op
import openvino.opset16 as op16

from tests.canaries.bare import (
    ONE_THREAD,
    Ask,
    above_zero,
    asked,
    compiled,
    const,
    fails,
    floats,
    ints,
    port,
    whole,
)
from tests.canaries.fault import fault


@fault(
    "`infer()` on one thread and one stream loses an operation's error: the outputs are those"
    " of the request before",
    done="`start_async` and `wait`, which raise",
    where="graphs with an operation that may refuse values, or a shape that depends on values; "
    "about 35 µs. For any model the first inference of new input shapes, which may run out of"
    " memory, goes this way and in a lane",
    tests=("test_hazards.py::test_a_failure_in_the_graph_is_that_requests_error",),
)
def an_error_is_lost_on_one_thread() -> bool:
    x = port("f32", -1)
    last = op.convert(op.gather(x, const([-1]), const(0)), "i64")
    pattern = op.concat([const([1]), op.floor_mod(last, const([7]))], 0)
    ask = compiled(
        [op.reshape(op.multiply(x, const(1.5, np.float32)), pattern, False)], [x], **ONE_THREAD
    )
    ask(floats(1, 2, 3))
    return not fails(ask, floats(5))


@fault(
    "an operation with an empty input is skipped, and its output keeps what an earlier "
    "request or the heap left there",
    done="emptiness by the inputs' shapes is refused when these are tried "
    "(`running/shape_inference.py`). Emptiness by values: one more output flags it, and the "
    "request is refused, as TensorFlow does, also in the bodies of loops and branches. There "
    "emptiness by the inputs' shapes is flagged, too, instead of refused when they are tried, "
    "since the body may not run. A `MatMul` over no elements that constants bring is zeros "
    "(`rewrites.py`)",
    where="operations that `known_operations.py` does not clear, of inputs whose shape depends on "
    "values; in bodies, of any open shape, 4 us a round for each",
    tests=(
        "test_hazards.py::test_an_operation_that_saw_nothing_refuses_the_request",
        "test_hazards.py::test_inside_a_branch_what_saw_nothing_is_refused",
        "test_hazards.py::test_inside_a_loop_what_saw_nothing_is_refused",
        "test_rewrites.py::test_a_product_over_no_elements_is_zeros",
    ),
)
def an_operation_that_sees_nothing_is_skipped() -> bool:
    x = port("f32", -1)
    ask = compiled([op.topk(above_zero(x), const(1), 0, "max", "value").output(0)], [x])
    ask(floats(-1, 41.5, 3))
    return not fails(ask, floats(-1, -2, -3)) and ask(floats(-1, -2, -3))[0].tolist() == [41.5]


@fault(
    "a failure between two operations whose shapes depend on values leaves some bound to "
    "freed memory, and a later valid request is answered from it",
    done="the model is compiled anew after each failure; each infer request has a compiled model "
    "of its own",
    where="graphs with shapes that depend on values; the compile, in a thread, and the weights once"
    " for each infer request",
    tests=("test_hazards.py::test_after_a_failure_the_next_answer_is_right",),
)
def a_failure_by_values_leaves_freed_memory() -> bool:
    a, b, shape = port("f32", -1), port("f32", -1, -1), port("i32", 2)
    ask = compiled(
        [op.matmul(op.reshape(a, shape, False), b, False, False)], [a, b, shape], **ONE_THREAD
    )
    rng = np.random.default_rng(0)
    for _ in range(3000):
        n, inner, other, m = (int(s) for s in rng.integers(1, 5, 4))
        left, right = rng.random(n * inner, np.float32), rng.random((other, m), np.float32)
        if fails(ask, left, right, ints(n, inner)):
            if inner == other:
                return True
        elif inner != other or not np.allclose(
            ask(left, right, ints(n, inner))[0], left.reshape(n, inner) @ right, atol=1e-2
        ):
            return True
    return False


@fault(
    "a failure for input shapes that do not fit together leaves operations bound to freed memory, "
    "and a later valid request is answered from it",
    done="every new combination is tried on a copy without weights (`graphs/weightless.py`), of "
    "the graph as it serves; what was measured at load with values that fail is compiled anew",
    where="models with open shapes; new combinations only",
    tests=(
        "running/test_infer.py::test_shapes_that_do_not_fit_are_refused_each_time_and_harm_nothing",
        "compiling/test_openvino_engine.py::test_sizes_that_fail_when_they_are_tried_at_load_leave_nothing_to_answer",
    ),
)
def a_failure_by_shapes_leaves_freed_memory() -> bool:
    a, b = port("f32", -1, -1), port("f32", -1, -1)
    ask = compiled([op.relu(op.matmul(op.relu(a), b, False, False))], [a, b])
    rng = np.random.default_rng(0)
    for _ in range(300):
        n, inner, other, m = (int(s) for s in rng.integers(1, 5, 4))
        left, right = rng.random((n, inner), np.float32), rng.random((other, m), np.float32)
        if fails(ask, left, right):
            if inner == other:
                return True
        elif inner == other and not np.allclose(ask(left, right)[0], left @ right, atol=1e-2):
            return True
    return False


@fault(
    "a cancellation between two operations leaves some bound to freed memory",
    done="an inference that has begun runs to its end",
    where="models with open shapes",
    tests=("test_hazards.py::test_a_cancelled_request_of_open_shapes_spoils_no_other",),
    no_canary="a race: it shows in one of some hundred requests",
)
def a_cancellation_leaves_freed_memory() -> bool:
    return False


@fault(
    "what an `If` of open shape gives is lost where the memory of an operation beside it "
    "grows before it is read: the first answer to each larger shape is made of freed memory",
    done="its outputs are results of the graph or body too, and so share their memory with "
    "nothing; where the plugin computes their type in another one they have that one "
    "(`rewrites.py`)",
    where="graphs with it; the memory of that output",
    tests=(
        "test_rewrites.py::test_the_output_of_a_branch_is_kept_until_it_is_read",
        "test_rewrites.py::test_the_output_of_a_branch_is_kept_until_it_is_an_output",
        "test_rewrites.py::test_the_output_of_a_branch_in_a_loop_is_kept_until_it_is_read",
    ),
)
def what_a_branch_gives_is_overwritten() -> bool:
    x = port("f32", -1, -1)
    first = op.gather(op.reshape(x, const([-1]), False), const(0), const(0))
    inner = [port("f32", -1, -1) for _ in range(2)]
    results = [op.result(op.add(inner[0], const(1, np.float32))), op.result(inner[1])]
    chosen = op.if_op(op.greater(first, const(0, np.float32)).output(0))
    chosen.set_then_body(ov.Model([results[0]], [inner[0]], "a"))
    chosen.set_else_body(ov.Model([results[1]], [inner[1]], "b"))
    chosen.set_input(x.output(0), *inner)
    y = chosen.set_output(*results)
    beside = op.softmax(op.softmax(op.concat([x, x], 0), 1), 1)
    ask = compiled([op.add(y, y), beside], [x])
    for rows in (2, 3, 1, 5, 4000, 7, 9000):
        sent = np.arange(1, 4 * rows + 1, dtype=np.float32).reshape(rows, 4) % 1000
        if not np.array_equal(ask(sent)[0], 2 * (sent + 1)):
            return True
    return False


@fault(
    "`ShapeOf` of a number that `Gather` takes out of an open row ends the process at load",
    done="it is a constant, since a number has no dimensions (`rewrites.py`, `hazards.py`)",
    where="none",
    tests=("test_rewrites.py::test_the_size_of_a_number_out_of_a_row_does_not_end_the_process",),
)
def the_size_of_a_number_ends_the_process() -> bool:
    x = port("i32", -1)
    number = op.gather(x, const(0), const(0))
    ask = compiled([number, op.reduce_prod(op.shape_of(number), const([0]), False)], [x])
    return ask(ints(4, 3))[1].tolist() != 1


@fault(
    "a product of values and weights in FP32 reads as many numbers as the weights have, "
    "whatever the values bring: five values are answered with what lies behind them in "
    "memory, or the process ends",
    done="a Reshape to the size that is wanted stands in front of the operand, and refuses others "
    "(`shared_sizes.py`); sizes that follow from shapes are tried before, those of the load's own"
    " measuring too (`compiling/threads_choice.py`)",
    where="`MatMul`, `Einsum` and attention of a size that values decide; a Reshape, which copies "
    "nothing",
    tests=(
        "test_shared_sizes.py::test_operands_that_values_leave_unfit_are_refused",
        "test_shared_sizes.py::test_shapes_that_do_not_fit_are_not_tried_at_load",
    ),
)
def a_product_reads_beyond_its_operand() -> bool:
    x = port("f32", -1)
    ask = compiled(
        [
            op.matmul(
                op.reshape(above_zero(x), const([1, -1]), False),
                const(np.ones((48, 16)), np.float32),
                False,
                False,
            )
        ],
        [x],
    )
    return not fails(ask, floats(*[1] * 5))


@fault(
    "the batches of `Gather` and of its indices may differ where values decide them: rows of "
    "no batch are answered, or some left out. `CTCGreedyDecoderSeqLen`, `GroupNormalization`,"
    " `ROIAlign` and attention read beyond the shorter operand",
    done="the same Reshape. Where neither size is known at load it has a dimension of 1 more, else"
    " the compile would make -1 of the wanted size, which takes any (`shared_sizes.py`)",
    where="those of a size that values decide; a Reshape, which copies nothing",
    tests=("test_shared_sizes.py::test_operands_share_the_sizes_that_values_decide",),
)
def a_gather_reads_beyond_the_shorter_batch() -> bool:
    x, at, sizes = port("f32", -1, -1, -1), port("f32", -1, -1), port("i32", 3)
    two = port("i32", 2)
    part = op.slice(x, const([0, 0, 0]), sizes, const([1, 1, 1]), const([0, 1, 2]))
    places = op.convert(op.slice(at, const([0, 0]), two, const([1, 1]), const([0, 1])), "i32")
    ask = compiled(
        [
            op.gather(
                op.reshape(part, const([0, 0, 0]), True),
                op.reshape(places, const([0, 0]), True),
                const(2),
                1,
            )
        ],
        [x, at, sizes, two],
    )
    return not fails(
        ask, np.ones((4, 3, 3), np.float32), np.ones((2, 2), np.float32), ints(4, 3, 3), ints(2, 2)
    )


@fault(
    "indices of `ScatterElementsUpdate` that are wider than its data are written behind each "
    "row, and end the process",
    done="the same Reshape, to the lesser of both sizes but along the axis; shapes of inputs are "
    "refused when they are tried (`shared_sizes.py`)",
    where="`ScatterElementsUpdate`, but of known sizes that fit",
    tests=("test_shared_sizes.py::test_a_scatter_reaches_no_farther_than_its_data",),
)
def a_scatter_writes_behind_its_rows() -> bool:
    x, sizes = port("f32", -1, -1), port("i32", 2)
    cut = op.slice(x, const([0, 0]), sizes, const([1, 1]), const([0, 1]))
    at = op.convert(op.multiply(cut, const(0, np.float32)), "i32")
    data = port("f32", -1, -1)
    ask = compiled([op.scatter_elements_update(data, at, cut, const(0))], [x, sizes, data])
    return not fails(
        ask, np.ones((1, 100000), np.float32), ints(1, 100000), np.ones((3, 1), np.float32)
    )


@fault(
    "`Tile` with computed repeats writes a part of its output only where its sizes and "
    "repeats are more than six dimensions, those that lie together counted as one: the rest "
    "is another request's",
    done="two axes are tiled at a time (`rewrites.py`)",
    where="`Tile` of four axes and more, if three or more may be repeated; a copy for each "
    "two axes",
    tests=("test_rewrites.py::test_a_tile_writes_all_of_its_output",),
)
def a_tile_is_written_in_part() -> bool:
    x, r = port("f32", 2, 2, 2, 1), port("i64", 4)
    ask = compiled([op.tile(x, r)], [x, r])
    ask(np.full((2, 2, 2, 1), -7, np.float32), whole(4, 4, 4, 4))
    sent = np.arange(1, 9, dtype=np.float32).reshape(2, 2, 2, 1)
    return not np.array_equal(ask(sent, whole(2, 2, 2, 2))[0], np.tile(sent, (2, 2, 2, 2)))


@fault(
    "`Unique` along another axis than the first compares other numbers than those of its slices,"
    " and gives what lies elsewhere in memory",
    done="the axis becomes the first one, and the last step puts it back (`rewrites.py`); an axis "
    "or a rank that is not known at load fails the version",
    where="graphs with it; two copies",
    tests=("test_rewrites.py::test_unique_slices_along_any_axis",),
)
def unique_slices_are_compared_wrongly() -> bool:
    x = port("i32", 2, 5)
    ask = compiled(op.unique(x, const(1)).outputs(), [x])
    return ask(ints(1, 1, 1, 0, 1, 0, 1, 1, 1, 1).reshape(2, 5))[3].tolist() != [1, 1, 3]


@fault(
    "`RegionYolo` of fewer channels than its regions, classes and coordinates writes beyond its"
    " memory, also where the load measures sizes",
    done="such a model, or one with an open number of channels, fails the version (`limits.py`)",
    where="graphs with it; none",
    tests=("test_sizes.py::test_regions_without_their_channels_are_not_served",),
)
def regions_without_their_channels_write_elsewhere() -> bool:
    x = port("f32", -1, -1, -1, -1)
    ask = compiled([op.region_yolo(x, 4, 20, 9, False, list(range(9)), 1, 3, [1.0] * 18)], [x])
    return not fails(ask, np.zeros((1, 1, 64, 64), np.float32))


@fault(
    "a Fourier transform of size 0 ends the process, also where the load measures sizes: so does "
    "an `IRDFT` of one frequency, which gives twice none",
    done="the request is refused (`sizes.py`)",
    where="transforms of a size that values or open shapes decide; one flag",
    tests=(
        "test_sizes.py::test_a_transform_of_size_0_is_refused",
        "test_sizes.py::test_numbers_of_one_frequency_are_refused",
    ),
)
def a_transform_of_nothing_ends_the_process() -> bool:
    x, size = port("f32", 1, 4, 2), port("i64", 1)
    return not fails(
        compiled([op.dft(x, const([1]), size)], [x, size]), np.ones((1, 4, 2)), whole(0)
    )


@fault(
    "`AvgPool` of operation set 16 without dilations ends the process that compiles it",
    done="windows without gaps are written out (`rewrites.py`)",
    where="graphs with it; none",
    tests=("test_rewrites.py::test_averages_of_windows_without_dilations_do_not_end_the_process",),
)
def an_average_without_dilations_ends_the_process() -> bool:
    x = port("f32", 1, 1, 4)
    ask = compiled([op16.avg_pool(x, [1], [0], [0], [2], exclude_pad=True)], [x])
    return ask(floats(1, 3, 5, 9).reshape(1, 1, 4))[0].ravel().tolist() != [2, 4, 7]


@fault(
    "`Gather` with dimensions of a batch that are all 1 in known sizes reads beyond its "
    "memory: other values, or the process ends",
    done="its indices lose those dimensions, by which it gathers the same (`rewrites.py`)",
    where="graphs with it; none",
    tests=("test_rewrites.py::test_a_gather_in_a_batch_of_one_reads_its_own_memory",),
)
def a_gather_in_a_batch_of_one_reads_elsewhere() -> bool:
    x, at = port("f32", 1, 6, 4), port("i32", 1, 2)
    ask = compiled([op.gather(op.relu(x), at, const(1), 1)], [x, at])
    rng = np.random.default_rng(4)
    given = rng.random((1, 6, 4), np.float32)
    for _ in range(20):
        places = rng.integers(0, 6, (1, 2)).astype(np.int32)
        if not np.array_equal(ask(given, places)[0], given[:, places[0]]):
            return True
    return False


@fault(
    "`Slice`, `Split`, `ScatterUpdate`, `DepthToSpace` and their kin, and `Identity`, copy "
    "strings byte by byte: two own one memory, and the process ends",
    done="`Identity` becomes a `Reshape` (`rewrites.py`); other operations on strings than those "
    "that were tried are refused (`element_types.py`)",
    where="models of strings",
    tests=(
        "test_operations.py::test_operations_on_strings_that_are_right_are_served",
        "test_operations.py::test_an_operation_that_would_end_the_process_is_refused",
    ),
)
def strings_are_freed_twice() -> bool:
    x = port("string", -1)
    ask = compiled([op.slice(x, const([0]), const([1]), const([1]))], [x])
    for _ in range(200):
        ask(np.array(["one text that has memory of its own", "and another one that has, too"]))
    return False


@fault(
    "`StridedSlice` with an ellipsis between other entries (`x[0, ..., 1:3]`) writes beyond "
    "its memory where its masks are shorter than its beginnings, as the front end for "
    "TensorFlow writes them: wrong values, or the process ends",
    done="the masks are filled up with zeros (`rewrites.py`)",
    where="graphs with it; none",
    tests=("test_rewrites.py::test_an_ellipsis_with_short_masks_writes_nowhere_else",),
)
def an_ellipsis_with_short_masks_writes_elsewhere() -> bool:
    x = port("f32", -1, 4)
    b, e, s = (const(r) for r in ([0, 0, 1], [1, 0, 3], [1, 1, 1]))
    ask = compiled([op.strided_slice(x, b, e, s, [0, 0], [0, 0], [0, 0], [1, 0], [0, 1])], [x])
    for rows in [1, 2, 3, 5, 4] * 200:
        if ask(np.arange(rows * 4, dtype=np.float32).reshape(-1, 4))[0].tolist() != [1, 2]:
            return True
    return False


@fault(
    "state of `ReadValue` and `Assign` stays with the infer request, for the next client",
    done="`reset_state` before each request; with `stateful` the state of its sequence is then put"
    " in",
    where="models with state",
    tests=("test_hazards.py::test_state_starts_anew_with_each_request",),
)
def state_stays_for_the_next_request() -> bool:
    x = port("f32", 1)
    total = op.add(op6.read_value(const([0], np.float32), "t"), x)
    ask = asked(ov.Model([op.result(total)], [op6.assign(total, "t")], [x], "m"))
    return ask(floats(5))[0].tolist() != ask(floats(5))[0].tolist()


@fault(
    "an index out of range is read and written with: `ScatterElementsUpdate` ends the "
    "process, `GatherElements` and `GatherND` answer from other memory, `Gather` answers "
    "zeros",
    done="the graph replaces it by 0 and flags it in the same output, and the request is refused "
    "(`indices.py`). Negative ones count from the end, as in ONNX; TensorFlow refuses them, "
    "and so do its models here",
    where="`Gather`, `GatherElements`, `GatherND`, `ScatterUpdate`, `ScatterElementsUpdate`, "
    "`ScatterNDUpdate` whose indices are not known at load to fit; the synchronous call stays",
    tests=(
        "reading/test_misconverted.py::test_indices_are_refused_as_tensorflow_does",
        "test_hazards.py::test_indices_of_a_request_cost_a_flag_and_leave_the_shortest_way",
    ),
    issue=38297,
)
def an_index_out_of_range_is_taken() -> bool:
    x, at = port("f32", 4), port("i32", 1)
    ask = compiled([op.gather(x, at, const(0))], [x, at])
    return not fails(ask, floats(1, 2, 3, 4), ints(9))


@fault(
    "a size that a request's values ask for is allocated, whatever it is; a step of 0 in "
    "`Range` or `StridedSlice`, or of -2147483648 in `Slice`, ends the process",
    done="the graph replaces it by 1 and flags it, and the request is refused: about 2^26 elements"
    " of one tensor are the most, none negative, no step 0 (`sizes.py`, `ranges.py`). Sizes "
    "that follow from the shapes of inputs, as of the outer product of two long rows, are "
    "known when the shapes are tried: no tensor is larger than the "
    "[budget](../design/request-path.md#the-budget-of-bytes) (`running/shape_inference.py`)",
    where="`Broadcast`, `Eye`, `EmbeddingSegmentsSum`, `Interpolate`, `Multinomial`, `OneHot`, "
    "`Pad`, `RandomUniform`, `Range`, `Slice`, `StridedSlice`, `Tile`, transposed "
    "convolutions and Fourier transforms whose sizes or steps are computed from values; "
    "requests for these never run on the event loop",
    tests=(
        "test_stages.py::test_a_size_from_a_table_is_bounded",
        "test_sizes.py::test_a_step_that_cannot_be_divided_by_is_refused",
        "running/test_shape_inference.py::test_memory_that_shapes_ask_for_stays_within_the_budget",
    ),
)
def a_step_of_0_ends_the_process() -> bool:
    ends = port("i32", 3)
    at = [op.gather(ends, const([i]), const(0)) for i in range(3)]
    ask = compiled([op.slice(const(np.arange(5), np.float32), *at)], [ends])
    ask(ints(4, 0, -2))
    return not fails(ask, ints(2**31 - 1, 3, -(2**31)))


def counting() -> Ask:
    x = port("f32", -1)
    total, wanted = port("f32", 1), port("f32", -1)
    added = op.add(total, const([1], np.float32))
    results = [op.result(const([True], np.bool_)), op.result(added)]
    loop = op.loop(op.convert(op.gather(x, const(0), const(0)), "i64"), const(True, np.bool_))
    loop.set_function(ov.Model(results, [total, wanted], "r"))
    loop.set_special_body_ports([-1, 0])
    loop.set_merged_input(total, const([0], np.float32).output(0), results[1].output(0))
    loop.set_invariant_input(wanted, x.output(0))
    return compiled([loop.get_iter_value(results[1].output(0), -1)], [x])


@fault(
    "a loop turns as often as a request's values say, and no cancellation ends it",
    done="it ends after 100,000 rounds, those of the loops inside of it counted with its own, and "
    "the request is refused (`ranges.py`)",
    where="`Loop` whose count or condition is not known at load: about 5 us a round; never on the "
    "event loop",
    tests=("test_stages.py::test_the_rounds_of_a_loop_are_bounded",),
)
def rounds_have_no_bound() -> bool:
    return counting()(floats(200_000))[0].tolist() == [200_000]


@fault(
    "a loop without any round leaves outputs of its rounds, joined or of the last, as the "
    "request before made them, of its sizes as well",
    done="one more flag tells of it, and the request is refused, also in bodies (`ranges.py`)",
    where="`Loop` with such outputs, unless the model itself says that there is a round",
    tests=("test_stages.py::test_a_loop_without_rounds_gives_nothing_of_another_request",),
)
def a_loop_without_rounds_keeps_its_outputs() -> bool:
    x = port("f32", -1)
    so_far = port("f32", -1)
    added = op.add(so_far, const([1], np.float32))
    made = op.unsqueeze(added, const(0))
    results = [op.result(const(True, np.bool_)), op.result(added), op.result(made)]
    loop = op.loop(op.convert(op.gather(x, const(0), const(0)), "i64"), const(True, np.bool_))
    loop.set_function(ov.Model(results, [so_far], "r"))
    loop.set_special_body_ports([-1, 0])
    loop.set_merged_input(so_far, x.output(0), results[1].output(0))
    loop.get_iter_value(results[1].output(0), -1)
    ask = compiled(
        [
            op.reshape(
                loop.get_concatenated_slices(results[2].output(0), 0, 1, 1, -1, 0),
                const([-1]),
                False,
            )
        ],
        [x],
    )
    ask(floats(3, 222))
    return not fails(ask, floats(0, 1)) and ask(floats(0, 1))[0].size > 0


@fault(
    "a `VariadicSplit` into parts whose known ones are longer than the whole by 1 "
    "takes the rest, -1, for one to be found, and reads a row of other memory",
    done="flagged and refused; lengths of a request are replaced (`limits.py`)",
    where="`VariadicSplit` with a rest, or lengths that are not known at load; one flag",
    tests=("test_sizes.py::test_parts_are_not_longer_than_the_whole",),
)
def a_rest_of_minus_1_is_found() -> bool:
    x = port("f32", -1)
    first = op.convert(op.gather(x, const([0]), const(0)), "i64")
    data = const(np.arange(24).reshape(6, 4), np.float32)
    ask = compiled(
        [op.variadic_split(data, const(0), op.concat([first, const([-1])], 0)).output(0)], [x]
    )
    return not fails(ask, floats(7))


@fault(
    "the size that `Pad` gives is added up with 32 bits, and pads of -2^31 at both ends end "
    "the process",
    done="replaced by 1, flagged and refused, as is whatever cuts off more than there is "
    "(`sizes.py`)",
    where="`Pad` by values",
    tests=("test_sizes.py::test_pads_that_32_bits_do_not_add_up_are_refused",),
)
def pads_are_added_up_with_32_bits() -> bool:
    x = port("i32", 2)
    e = [op.gather(x, const([i]), const(0)) for i in range(2)]
    ask = compiled([op.pad(const(np.arange(4), np.float32), *e, "constant")], [x])
    ask(ints(1, -1))
    return not fails(ask, ints(-(2**31), -(2**31)))


@fault(
    "a `TopK` of more values than its axis has fails, which is lost where one thread infers: "
    "the answer is that of the request before. Of an empty axis it leaves what was there, "
    "where the request says how many",
    done="a number that the model holds is compared with the axis when shapes are tried "
    "(`running/shape_inference.py`); one that a request chooses is replaced by 1, flagged and "
    "refused (`limits.py`)",
    where="`TopK` in open shapes, or by values",
    tests=(
        "test_hazards.py::test_no_answer_of_another_request_where_too_many_values_are_asked_for",
    ),
)
def too_many_values_are_those_of_another_request() -> bool:
    x, k = port("f32", -1), port("i32")
    ask = compiled([op.topk(op.relu(x), k, 0, "max", "value").output(0)], [x, k], **ONE_THREAD)
    ask(floats(1, 41.5), np.int32(1))
    return not fails(ask, floats(7), np.int32(3))


@fault(
    "OpenVINO infers shapes of `DepthToSpace` and `SpaceToDepth` of nothing, of a `Squeeze` "
    "of a size other than 1, and of a `PRelu` whose slopes do not fit, and its plugin fails with "
    "them, or gives more: lost where one thread infers, and valid requests fail from then on",
    done="refused when shapes are tried (`running/shape_inference.py`)",
    where="these operations in open shapes",
    tests=("running/test_shape_checks.py::test_a_request_that_does_not_fit_spoils_no_other",),
)
def shapes_of_nothing_fail_late() -> bool:
    x = port("f32", 1, -1, 2, 2)
    ask = compiled([op.depth_to_space(op.relu(x), "blocks_first", 2)], [x], **ONE_THREAD)
    good = np.ones((1, 4, 2, 2), np.float32)
    ask(good)
    return not fails(ask, np.zeros((1, 3, 2, 2), np.float32)) or fails(ask, good)


@fault(
    "an error of an operation that refuses values (`ReverseSequence`, `EmbeddingBag`, "
    "`ExtractImagePatches`) spoils a graph of open shapes: valid requests are answered with "
    "the shapes of the one that failed, or fail",
    done="each infer request has a compiled model of its own, which is compiled anew after an "
    "error (`hazards.py`, `running/slot.py`)",
    where="open shapes and an operation outside of the table `NEVER_FAILS` of "
    "`known_operations.py`; no inference is taken ahead",
    tests=("running/test_shape_checks.py::test_a_request_that_does_not_fit_spoils_no_other",),
)
def refused_values_spoil_open_shapes() -> bool:
    x, lengths = port("f32", -1, -1), port("i32", -1)
    ask = compiled([op.reverse_sequence(op.relu(x), lengths, 0, 1)], [x, lengths], **ONE_THREAD)
    good = np.ones((1, 4), np.float32)
    for _ in range(20):
        ask(good, ints(3))
        lost = not fails(ask, np.ones((2, 2), np.float32), ints(3, 3))
        if lost or fails(ask, good, ints(3)) or ask(good, ints(3))[0].shape != (1, 4):
            return True
    return False


@fault(
    "an axis out of range in `ScatterElementsUpdate` or `ScatterUpdate` is refused by OpenVINO, "
    "and on one thread that error is lost: the answer is that of the request before",
    done="replaced, flagged and refused (`limits.py`)",
    where="those whose axis a request chooses",
    tests=("test_sizes.py::test_an_axis_among_the_dimensions_is_taken",),
)
def an_axis_out_of_range_is_lost_on_one_thread() -> bool:
    axis = port("i32")
    updates = const(np.zeros((1, 4)), np.float32)
    data = const(np.arange(16).reshape(4, 4), np.float32)
    ask = compiled(
        [op.scatter_elements_update(data, const(np.zeros((1, 4))), updates, axis)],
        [axis],
        **ONE_THREAD,
    )
    ask(np.array(0, np.int32))
    return not fails(ask, np.array(1_000_000, np.int32))


@fault(
    "offsets of NaN in `DeformableConvolution` end the process",
    done="replaced, flagged and refused, as are those beyond 2^24 (`limits.py`)",
    where="`DeformableConvolution`",
    tests=("test_sizes.py::test_offsets_of_a_deformable_convolution_are_numbers",),
)
def offsets_of_nan_end_the_process() -> bool:
    x = port("f32", 1, 2, 4, 4)
    ask = compiled(
        [
            op.deformable_convolution(
                const(np.ones((1, 2, 4, 4)), np.float32),
                x,
                const(np.ones((1, 2, 1, 1)), np.float32),
                [1, 1],
                [0, 0],
                [0, 0],
                [1, 1],
            )
        ],
        [x],
    )
    return not fails(ask, np.full((1, 2, 4, 4), np.nan, np.float32))


@fault(
    "NaN or a place of no batch among regions of interest ends the process, as do lengths; "
    "where a row has no weights `Multinomial` leaves what was there",
    done="replaced, flagged and refused; regions reach at most 16 times as far as their image is "
    "large (`limits.py`)",
    where="`ROIAlign`, `ROIAlignRotated`, `ROIPooling`, `PSROIPooling`, `GatherTree`, "
    "`CTCGreedyDecoderSeqLen`, `Multinomial`",
    tests=(
        "test_stages.py::test_regions_of_no_image_are_refused",
        "test_stages.py::test_draws_from_a_row_without_weights_are_refused",
    ),
)
def regions_of_nan_end_the_process() -> bool:
    x = port("f32", 5)
    ask = compiled(
        [
            op.psroi_pooling(
                const(np.ones((2, 8, 5, 5)), np.float32),
                op.reshape(x, const([1, 5]), False),
                2,
                2,
                1.0,
                1,
                1,
                "average",
            )
        ],
        [x],
    )
    return not fails(ask, floats(np.nan, 0, 0, 3, 3))


@fault(
    "soft suppression of boxes without an area: scores become infinite, and with a score "
    "threshold below 0 the call does not return",
    done="such a box is put where it overlaps nothing, which is what TensorFlow computes; "
    "coordinates that are no numbers, or beyond 1e15, are flagged and refused "
    "(`box_suppression.py`)",
    where="`NonMaxSuppression` with a sigma: some fifteen small operations",
    tests=(
        "test_operations.py::test_boxes_without_an_area_overlap_nothing",
        "test_operations.py::test_boxes_that_are_no_numbers_are_refused",
    ),
)
def points_are_suppressed() -> bool:
    b, s = port("f32", 1, -1, 4), port("f32", 1, 1, -1)
    y = op.non_max_suppression(
        b,
        s,
        const(8),
        const(0.5, np.float32),
        const(0.2, np.float32),
        const(0.5, np.float32),
        box_encoding="corner",
    )
    ask = compiled([y.output(1)], [b, s])
    scores = ask(
        np.zeros((1, 12, 4), np.float32),
        np.linspace(1, 0.1, 12, dtype=np.float32).reshape(1, 1, -1),
    )[0][:, 2]
    return not np.allclose(scores[:8], np.linspace(1, 0.1, 12)[:8])


@fault(
    "axes, blocks, sizes and labels that nothing checks end the process",
    done="a model whose requests choose them is not served (`limits.py`)",
    where="`AdaptiveAvgPool`, `AdaptiveMaxPool`, `BatchToSpace`, `Broadcast`'s axes, `Col2Im`, "
    "`CTCLoss`, `DeformablePSROIPooling`, Fourier transforms' axes, `ISTFT`, `PriorBox`, "
    "`PriorBoxClustered`, `Roll`'s axes, `STFT`, `SegmentMax`, `Slice`'s axes, "
    "what `SliceScatter` cuts, `SpaceToBatch`, `StringTensorPack`",
    tests=(
        "test_stages.py::test_a_model_whose_requests_choose_an_axis_of_roll_is_not_served",
        "test_sizes.py::test_a_model_whose_requests_choose_an_axis_is_not_served",
    ),
)
def axes_that_nothing_checks_end_the_process() -> bool:
    x = port("f32", -1)
    axis = op.convert(op.gather(x, const([0]), const(0)), "i64")
    ask = compiled(
        [op.slice(const(np.ones((4, 4)), np.float32), const([0]), const([2]), const([1]), axis)],
        [x],
    )
    return not fails(ask, floats(9))


@fault(
    "`Pad` in open sizes fills with the number of the first request of each shape, that of another "
    "client",
    done="it fills with 0, and the number is selected where no data is (`rewrites.py`)",
    where="graphs whose number to fill with is computed; a copy, and a mask, which is constant "
    "where all sizes are known",
    tests=("test_rewrites.py::test_each_request_says_what_to_pad_with",),
)
def padding_is_that_of_the_first_request() -> bool:
    x, number = port("f32", -1, 3), port("f32")
    ask = compiled([op.pad(x, const([1, 0]), const([0, 1]), "constant", number)], [x, number])
    answers = [ask(floats([1, 1, 1]), np.float32(value))[0] for value in (7, 9)]
    return bool(answers[1][0, 0] != 9)


@fault(
    "8-bit weights of a `MatMul` that a request scales or shifts stay so: the next request, of "
    "another client, scales them once more",
    done="the weights are kept in floats (`rewrites.py`)",
    where="constants of 8 bits and less whose scale or zero point the compile does not know; "
    "four bytes for each weight",
    tests=("test_rewrites.py::test_each_request_scales_the_weights",),
)
def weights_stay_scaled() -> bool:
    x, scale = port("f32", 3, 8), port("f32", 4)
    weights = op.convert(op.constant(np.arange(32, dtype=np.int8).reshape(8, 4)), "f32")
    ask = compiled([op.matmul(x, op.multiply(weights, scale), False, False)], [x, scale])
    ones = np.ones((3, 8), np.float32)
    first, second = (ask(ones, np.full(4, 2, np.float32))[0] for _ in range(2))
    return not np.allclose(second, first)


@fault(
    "an attention without a mask, or with one that the compile finds to be zeros, whose first "
    "request has a length of 1 computes lengths of 16 and more wrongly, of all clients",
    done="2^-24, which leaves every softmax as it is, is added to its scores, or to its mask "
    "(`fusions.py`)",
    where="`ScaledDotProductAttention` and `Softmax`, also written out from its `Exp` on, over an "
    "open length; 3 % of an attention to 128 tokens and 57 % to 512 (8 heads of 64, f32)",
    tests=("test_rewrites.py::test_an_attention_takes_any_length_after_1",),
)
def an_attention_of_length_1_stays() -> bool:
    query, key, value = (port("f32", 1, 2, -1, 16) for _ in range(3))
    scores = op.softmax(op.matmul(query, key, False, True), 3)
    ask = compiled([op.matmul(scores, value, False, False)], [query, key, value])
    first, second = ([np.ones((1, 2, length, 16), np.float32)] * 3 for length in (1, 32))
    ask(*first)
    return not np.allclose(ask(*second)[0], 1, atol=1e-3)


@fault(
    "an attention of as many heads as places mixes these where each head has a bias, in known "
    "sizes",
    done="a `Roll` by no place, which is not fused with it, stands beside it (`fusions.py`)",
    where="`ScaledDotProductAttention` and `Softmax` of a product, also written out, of known "
    "sizes that are equal; up to four copies of these tensors",
    tests=("test_rewrites.py::test_as_many_heads_as_places_are_not_mixed",),
)
def an_attention_mixes_heads_and_places() -> bool:
    ports, bias = [port("f32", 1, 4, 32) for _ in range(3)], floats([[[0], [1], [2], [3]]])
    split = [op.reshape(each, const([1, 4, 4, 8]), False) for each in ports]
    order = const([0, 2, 1, 3])
    given = [op.transpose(op.add(each, op.constant(bias)), order) for each in split]
    ask = compiled([op.scaled_dot_product_attention(*given)], ports)
    sent = np.random.default_rng(1).standard_normal((3, 1, 4, 32)).astype(np.float32)
    query, key, value = ((each.reshape(1, 4, 4, 8) + bias).swapaxes(1, 2) for each in sent)
    shares = np.exp(query @ key.swapaxes(2, 3) / np.sqrt(8))
    expected = shares / shares.sum(-1, keepdims=True) @ value
    return not np.allclose(ask(*sent)[0], expected, atol=0.1)


@fault(
    "`Broadcast` of a number to no dimensions ends the process at the compile",
    done="the number itself (`rewrites.py`)",
    where="graphs with it; none",
    tests=("test_rewrites.py::test_a_number_is_broadcast_to_no_dimensions",),
)
def a_broadcast_to_no_dimensions_ends_the_process() -> bool:
    x = port("f32")
    ask = compiled([op.broadcast(x, const(np.zeros(0), np.int32))], [x])
    return ask(np.array(3, np.float32))[0].tolist() != 3


@fault(
    "`Gather` that is known to give nothing ends the process at the compile",
    done="a `Broadcast` of zero (`rewrites.py`)",
    where="graphs with it; none",
    tests=("test_rewrites.py::test_a_gather_of_nothing_ends_no_process",),
)
def a_gather_of_nothing_ends_the_process() -> bool:
    x, at = port("f32", 5, 3), port("i32", 0)
    ask = compiled([op.gather(x, at, const(0))], [x, at])
    return ask(np.zeros((5, 3), np.float32), ints())[0].shape != (0, 3)


@fault(
    "`GatherND` by places of no coordinates gives what lies anywhere in memory",
    done="the data for each place (`rewrites.py`)",
    where="graphs with it; none",
    tests=("test_rewrites.py::test_places_of_no_coordinates_give_all_of_the_data",),
)
def places_of_no_coordinates_read_elsewhere() -> bool:
    x, at = port("f32", 2, 2), port("i32", 3, 0)
    ask = compiled([op.gather_nd(x, at)], [x, at])
    rows = floats([1, 2], [3, 4])
    return ask(rows, np.zeros((3, 0), np.int32))[0].tolist() != [rows.tolist()] * 3


@fault(
    "`EmbeddingBagOffsets`, `EmbeddingBagOffsetsSum` whose default index is a value of a request "
    "take for an empty bag a row at an index that memory held before, or fail",
    done="such a model is refused (`limits.py`)",
    where="graphs with it; none",
    tests=("test_sizes.py::test_the_row_of_an_empty_bag_is_the_models",),
    no_canary="it depends on what memory held before",
)
def a_default_row_is_read_from_elsewhere() -> bool:
    table, ids, begins, default = port("f32", 5, 14), port("i32", 2), port("i32", 2), port("i32")
    bags = op.embedding_bag_offsets(table, ids, begins, default)
    ask = compiled([bags], [table, ids, begins, default])
    rows = np.ones((5, 14), np.float32)
    return bool(ask(rows, ints(1, 3), ints(0, 0), np.array(-1, np.int32))[0][0].any())


@fault(
    "`IRDFT` of more numbers than its frequencies give leaves a part of its output as it was in "
    "memory",
    done="zeros take the place of the frequencies that lack (`rewrites.py`)",
    where="graphs with it and a size; a `Pad`, none where it has nothing to add",
    tests=("test_rewrites.py::test_frequencies_that_lack_are_zeros",),
)
def frequencies_that_lack_are_read_elsewhere() -> bool:
    x = port("f32", 4, 5, 2)
    ask = compiled([op.irdft(x, const([0, 1]), const([4, 12]))], [x])
    parts = np.random.default_rng(0).standard_normal((4, 5, 2)).astype(np.float32)
    right = np.fft.irfftn(parts[..., 0] + 1j * parts[..., 1], s=(4, 12), axes=(0, 1))
    return not np.allclose(ask(parts)[0], right, atol=1e-4)


@fault(
    "`StridedSlice` whose values decide how many ends there are ends the process where there are "
    "none, also where the load measures sizes",
    done="ends and steps are reshaped to as many as there are beginnings, before the inference "
    "(`shared_sizes.py`)",
    where="`Slice` and `StridedSlice` if values decide a size; a `Reshape` of a few numbers",
    tests=("test_shared_sizes.py::test_ends_of_other_axes_are_refused",),
)
def ends_of_other_axes_end_the_process() -> bool:
    x, chosen = port("i64", -1, -1), port("boolean", -1)
    ends = op.add(op.squeeze(op.non_zero(chosen, "i64"), const([0])), const(1))
    y = op.strided_slice(x, const([0, 0]), ends, const([1, 1]), [0, 0], [0, 0], [0, 0], [0, 0], [])
    ask = compiled([y], [x, chosen])
    return not fails(ask, whole(*range(16)).reshape(4, 4), np.array([False, False]))
