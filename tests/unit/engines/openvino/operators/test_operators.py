"""Operators that OpenVINO's front end for ONNX lacks, or reads in part."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import AttributeProto, helper

from ie_serving.core.values.errors import InvalidRequest, LoadFailed
from tests.tables import named_by
from tests.unit.engines.openvino.models import load, run
from tests.unit.engines.openvino.operators.asked import Given, check, floats, write

# Attention in windows, and with a past in front of its causal queries.

OPEN = {"q": (0, 2), "k": (0, 2), "v": (0, 2), "m": (0, 1), "p": (0, 2), "o": (0, 2)}
SIZES = pytest.mark.parametrize("opened", [{}, OPEN], ids=["fixed", "open"])

CAUSAL, LEFT, RIGHT = {"is_causal": 1}, {"left_window_size": 1}, {"right_window_size": 1}
PAST = {"p": floats(2, 2, 3, 4), "o": floats(2, 2, 3, 5)}
LENGTHS = {"n": np.array([6, 2])}
MASK = floats(4, 6)
MASK[1, 2:4] = -np.inf
MASKS = {"m": MASK}, {"m": MASK[:, :4] > -0.5}, {"m": MASK[0] > 0}


def written(directory: Path, opened: Any, more: Given, **attributes: Any) -> Given:
    """Write an operator of 4 queries in 4 heads, 6 keys in 2, of which those of a past are new."""
    new = 6 - (3 if "p" in more else 0)
    given = {"q": floats(2, 4, 4, 4), "k": floats(2, 2, new, 4), "v": floats(2, 2, new, 5), **more}
    names = [name if name in given else "" for name in "qkvmpon"]
    node = helper.make_node("Attention", names, ["y", "key", "value", "scores"], **attributes)
    if "n" in more:  # a cache of the client's own is not given back
        node = helper.make_node("Attention", names, ["y", "", "", "scores"], **attributes)
    write(directory, node, given, opened)
    return given


@SIZES
@pytest.mark.parametrize("mode", range(4))
@pytest.mark.parametrize("more", [{}, PAST, LENGTHS], ids=["alone", "past", "lengths"])
@pytest.mark.parametrize(
    "windows",
    [
        pytest.param(LEFT, id="to the left"),
        pytest.param(RIGHT, id="to the right"),
        pytest.param(CAUSAL | LEFT, id="causal"),
        pytest.param(LEFT | RIGHT | {"scale": 2.0}, id="scaled"),
    ],
)
async def test_queries_see_their_window(
    tmp_path: Path, windows: dict[str, Any], more: Given, mode: int, opened: Any
) -> None:
    given = written(tmp_path, opened, more, **windows, qk_matmul_output_mode=mode)
    await check(tmp_path, given)


@pytest.mark.parametrize("mode", [1, 2, 3])  # in mode 0 ONNX's evaluator caps what it calls raw
async def test_scores_are_capped_before_they_are_masked(tmp_path: Path, mode: int) -> None:
    capped = {"softcap": 0.5, "scale": 4.0, "qk_matmul_output_mode": mode}
    await check(tmp_path, written(tmp_path, {}, MASKS[0], **LEFT, **capped))


@pytest.mark.thinned(2)
@SIZES
@pytest.mark.parametrize(
    ("windows", "mask"),
    [
        *((CAUSAL, mask) for mask in ({}, *MASKS[:2])),
        # Of keys alone, which ONNX's evaluator takes with windows.
        *((CAUSAL | LEFT, mask) for mask in MASKS),
    ],
)
async def test_causal_queries_see_their_past(
    tmp_path: Path, windows: dict[str, Any], mask: Given, opened: Any
) -> None:
    await check(tmp_path, written(tmp_path, opened, PAST | mask, **windows))


@pytest.mark.parametrize("kind", [np.float32, np.float16])
async def test_heads_lie_one_behind_the_other(tmp_path: Path, kind: Any) -> None:
    given = {"q": floats(2, 3, 16), "k": floats(2, 3, 8), "v": floats(2, 3, 10)}
    given = {name: each.astype(kind) for name, each in given.items()}
    node = helper.make_node("Attention", list("qkv"), ["y"], q_num_heads=4, kv_num_heads=2, **LEFT)
    await check(write(tmp_path, node, given), given, atol=1e-5 if kind is np.float32 else 5e-3)


async def test_a_query_without_keys_gives_0(tmp_path: Path) -> None:
    mask = {"m": np.array([[False], [True], [True], [True]]) & (MASK > -2)}
    given = written(tmp_path, {}, mask, **LEFT)
    await check(tmp_path, given)


# Activations and products along an axis that OpenVINO's front end for ONNX lacks.


@pytest.mark.parametrize("kind", [np.float32, np.float16])
@pytest.mark.parametrize("alpha", [0.5, 2.0])
async def test_celu_is_computed_as_by_the_reference(
    tmp_path: Path, kind: Any, alpha: float
) -> None:
    given = {"x": (floats(2, 5) * 4).astype(kind)}
    write(tmp_path, helper.make_node("Celu", ["x"], ["y"], alpha=alpha), given, {"x": (0,)})
    await check(tmp_path, given, atol=1e-2 if kind is np.float16 else 1e-5)


@pytest.mark.parametrize("opened", [(), (0, 1)])
async def test_swiglu_is_computed_as_by_the_reference(
    tmp_path: Path, opened: tuple[int, ...]
) -> None:
    given = {"a": floats(2, 5) * 4, "b": floats(2, 5)}
    node = helper.make_node("SwiGLU", ["a", "b"], ["y"], alpha=0.5)
    await check(write(tmp_path, node, given, dict.fromkeys("ab", opened)), given)


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("size", [1, 2, 5, 8])
async def test_products_are_cumulated(
    tmp_path: Path, size: int, reverse: int, exclusive: int
) -> None:
    given = {"x": floats(3, size) + 2}
    node = helper.make_node("CumProd", ["x", "a"], ["y"], reverse=reverse, exclusive=exclusive)
    write(tmp_path, node, given, {"x": (0,)}, {"a": np.array(-1)})
    await check(tmp_path, given, rtol=1e-5)


async def test_integers_are_multiplied_exactly(tmp_path: Path) -> None:
    given = {"x": np.array([3, 16_777_217, 7, -2], np.int32)}
    node = helper.make_node("CumProd", ["x", "a"], ["y"])
    write(tmp_path, node, given, held={"a": np.array(0)})
    assert (await run(load(tmp_path), given))["y"].tolist() == [3, 50331651, 352321557, -704643114]


@pytest.mark.parametrize("axis", [0, 1, -1, -2])
async def test_a_request_chooses_the_axis(tmp_path: Path, axis: int) -> None:
    given = {"x": floats(2, 3), "a": np.array(axis)}
    await check(write(tmp_path, helper.make_node("CumProd", ["x", "a"], ["y"]), given), given)


@pytest.mark.parametrize("axis", [2, -3])
async def test_an_axis_that_is_not_there_is_refused(tmp_path: Path, axis: int) -> None:
    given = {"x": floats(2, 3), "a": np.array(axis)}
    loaded = load(write(tmp_path, helper.make_node("CumProd", ["x", "a"], ["y"]), given))
    with pytest.raises(InvalidRequest, match="out of range"):
        await run(loaded, given)


def test_products_along_an_open_axis_are_refused(tmp_path: Path) -> None:
    write(
        tmp_path,
        helper.make_node("CumProd", ["x", "a"], ["y"]),
        {"x": floats(2, 3)},
        {"x": (1,)},
        {"a": np.array(1)},
    )
    with pytest.raises(LoadFailed, match='CumProd "y" is not computed where size 1 of an input'):
        load(tmp_path)


def test_an_axis_of_the_file_that_is_out_of_range_is_refused(tmp_path: Path) -> None:
    node = helper.make_node("CumProd", ["x", "a"], ["y"])
    write(tmp_path, node, {"x": floats(3, 2)}, {}, {"a": np.array(5)})
    with pytest.raises(LoadFailed, match="axis 5 is out of range"):
        load(tmp_path)


@pytest.mark.parametrize("kind", ["ReduceL1", "ReduceLogSum", "ReduceLogSumExp"])
@pytest.mark.parametrize("opened", [(), (0, 1, 2)])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axes", [(0, -1), ()], ids=str)
async def test_axes_that_are_an_attribute_are_reduced(
    tmp_path: Path, kind: str, opened: tuple[int, ...], keepdims: int, axes: tuple[int, ...]
) -> None:
    """The front end looks for them among the inputs from opset 13 on, and reduced all axes."""
    given = {"x": floats(2, 3, 4) * 9 + 10}
    node = helper.make_node(kind, ["x"], ["y"], keepdims=keepdims)
    node.attribute.append(helper.make_attribute("axes", axes, attr_type=AttributeProto.INTS))
    await check(write(tmp_path, node, given, {"x": opened}, opset=17), given, rtol=1e-5)


# Fourier transforms along axes of opset 20, and of one side.

REAL, COMPLEX = floats(2, 4, 6, 1), floats(2, 4, 6, 2)


@pytest.mark.parametrize("opened", [{}, {"x": (0, 1, 2)}], ids=["fixed", "open"])
@pytest.mark.parametrize("length", [None, 5, 8])
@pytest.mark.parametrize("axis", [1, 2, -2, -3])
@pytest.mark.parametrize(
    ("x", "attributes"),
    [
        pytest.param(REAL, {}, id="numbers"),
        pytest.param(COMPLEX, {}, id="complex numbers"),
        pytest.param(COMPLEX, {"inverse": 1}, id="inverse"),
        pytest.param(REAL, {"onesided": 1}, id="one side"),
    ],
)
async def test_a_model_holds_the_axis(
    tmp_path: Path, x: Any, attributes: dict[str, int], axis: int, length: int | None, opened: Any
) -> None:
    names = ["x", "n" if length else "", "a"]
    held = {"a": np.array(axis)} | ({"n": np.array(length)} if length else {})
    node = helper.make_node("DFT", names, ["y"], **attributes)
    await check(write(tmp_path, node, {"x": x}, opened, held), {"x": x}, atol=1e-4)


@named_by("axis length", ("axis", "length"), [(1, None), (-2, None), (2, 5), (1, 7)])
async def test_one_side_gives_numbers(tmp_path: Path, axis: int, length: int | None) -> None:
    held = {"a": np.array(axis)} | ({"n": np.array(length)} if length else {})
    names = ["x", "n" if length else "", "a"]
    node = helper.make_node("DFT", names, ["y"], onesided=1, inverse=1)
    given, opened = {"x": COMPLEX}, (0,) if length else (0, 1, 2)
    await check(write(tmp_path, node, given, {"x": opened}, held), given, atol=1e-4)


@pytest.mark.parametrize(("opened", "length"), [((1,), 5), ((), 8), ((), 0)])
def test_numbers_of_which_frequencies_may_be_missing_are_refused(
    tmp_path: Path, opened: tuple[int, ...], length: int
) -> None:
    """The plugin takes others."""
    held = {"a": np.array(1), "n": np.array(length)}
    node = helper.make_node("DFT", ["x", "n", "a"], ["y"], onesided=1, inverse=1)
    write(tmp_path, node, {"x": COMPLEX}, {"x": opened}, held)
    with pytest.raises(LoadFailed, match='DFT "y" is not computed where'):
        load(tmp_path)


@pytest.mark.parametrize("opset", [17, 19])
async def test_one_side_of_older_opsets_is_computed_as_by_the_reference(
    tmp_path: Path, opset: int
) -> None:
    node = helper.make_node("DFT", ["x"], ["y"], onesided=1, axis=2)
    await check(write(tmp_path, node, {"x": REAL}, opset=opset), {"x": REAL}, atol=1e-4)


async def test_a_request_chooses_an_axis_that_is_there(tmp_path: Path) -> None:
    asked = [{"x": REAL, "a": np.array(axis)} for axis in (0, 1, 2, -2, -3, -4)]
    write(tmp_path, helper.make_node("DFT", ["x", "", "a"], ["y"]), asked[0])
    model = await check(tmp_path, *asked, atol=1e-4)
    for axis in 3, -1, -5:
        with pytest.raises(InvalidRequest, match="out of range"):
            await run(model, {"x": REAL, "a": np.array(axis)})


@pytest.mark.parametrize(("names", "attributes"), [("x-a", {"onesided": 1}), ("xna", {})])
def test_an_axis_whose_size_changes_is_not_a_requests(
    tmp_path: Path, names: str, attributes: dict[str, int]
) -> None:
    given = {"x": REAL, "n": np.array(8), "a": np.array(1)}
    names_ = [name.strip("-") for name in names]
    node = helper.make_node("DFT", names_, ["y"], **attributes)
    write(tmp_path, node, {name: given[name] for name in names_ if name})
    with pytest.raises(LoadFailed, match="a request chooses the axis whose size changes"):
        load(tmp_path)


# What may be missing in a file is there, or is not.


@pytest.mark.parametrize("inputs", [[], [""], ["x"]])
async def test_a_tensor_is_an_element(tmp_path: Path, inputs: list[str]) -> None:
    given = {"x": floats(2)} if any(inputs) else {}
    await check(
        write(tmp_path, helper.make_node("OptionalHasElement", inputs, ["y"]), given), given
    )


async def test_an_element_is_the_tensor(tmp_path: Path) -> None:
    given = {"x": floats(2)}
    await check(write(tmp_path, helper.make_node("OptionalGetElement", ["x"], ["y"]), given), given)


# Operators that carry a state from token to token.

OPEN_STATE = {"x": (0, 2), "p": (0,)}
"""Batch and length of the input of a convolution, and the batch of what came before."""


@pytest.mark.parametrize("opened", [{}, OPEN_STATE], ids=["fixed", "open"])
@pytest.mark.parametrize("activation", ["none", "silu", "swish"])
@pytest.mark.parametrize("inputs", ["xw", "xwb", "xw-p", "xwbp"])
@pytest.mark.parametrize(("length", "kernel"), [(6, 4), (2, 4), (3, 1)])
async def test_convolutions_go_on_from_what_came_before(
    tmp_path: Path, inputs: str, activation: str, opened: Any, length: int, kernel: int
) -> None:
    numbers = {
        "x": floats(2, 3, length),
        "w": floats(3, 1, kernel),
        "b": floats(3),
        "p": floats(2, 3, kernel - 1),
    }
    names = [name.strip("-") for name in inputs]
    node = helper.make_node("CausalConvWithState", names, ["y", "s"], activation=activation)
    given = {name: numbers[name] for name in names if name in "xp" and name}
    held = {name: numbers[name] for name in names if name in "wb" and name}
    await check(write(tmp_path, node, given, opened, held), given)


def test_a_kernel_of_open_size_is_refused(tmp_path: Path) -> None:
    given = {"x": floats(2, 3, 6), "w": floats(3, 1, 4)}
    node = helper.make_node("CausalConvWithState", ["x", "w"], ["y", "s"])
    write(tmp_path, node, given, {"w": (2,)})
    with pytest.raises(LoadFailed, match='CausalConvWithState "y" is not computed where size 2'):
        load(tmp_path)


RULES = {"linear": "", "gated": "g", "delta": "b", "gated_delta": "gb"}


def attention(rule: str, readers: int, decay: int, rates: int, past: bool) -> tuple[Any, Given]:
    """Give an operator of 2 heads, and 5 tokens for 3 clients."""
    given = {"q": floats(3, 5, readers * 4), "k": floats(3, 5, 8) * 0.5, "v": floats(3, 5, 6)}
    given |= {"p": floats(3, 2, 4, 3)} if past else {}
    given |= {"g": floats(3, 5, decay)} if "g" in RULES[rule] else {}
    given |= {"b": floats(3, 5, rates)} if "b" in RULES[rule] else {}
    names = [name if name in given else "" for name in "qkvpgb"]
    node = helper.make_node(
        "LinearAttention", names, ["y", "s"], update_rule=rule, q_num_heads=readers, kv_num_heads=2
    )
    return node, given


@pytest.mark.parametrize("opened", [(), (0, 1)], ids=["fixed", "open"])
@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize("readers", [2, 6])
@pytest.mark.parametrize("rule", RULES)
async def test_states_follow_from_each_token(
    tmp_path: Path, rule: str, readers: int, past: bool, opened: tuple[int, ...]
) -> None:
    node, given = attention(rule, readers, 8, 2, past)
    open_axes = dict.fromkeys(given, opened) | {"p": opened[:1]}
    await check(write(tmp_path, node, given, open_axes), given)


@pytest.mark.parametrize(("decay", "rates"), [(2, 1), (2, 2), (8, 1)])
async def test_decay_and_rates_are_of_a_head_or_of_all(
    tmp_path: Path, decay: int, rates: int
) -> None:
    node, given = attention("gated_delta", 2, decay, rates, past=True)
    await check(write(tmp_path, node, given), given)


async def test_clients_of_no_tokens_are_refused(tmp_path: Path) -> None:
    node, given = attention("linear", 2, 2, 2, past=True)
    loaded = load(write(tmp_path, node, given, dict.fromkeys("qkv", (1,))))
    with pytest.raises(InvalidRequest):
        await run(loaded, given | {name: given[name][:, :0] for name in "qkv"})


@pytest.mark.parametrize("opened", [{}, {"c": (2,), "u": (2,)}], ids=["fixed", "open"])
@pytest.mark.parametrize(
    ("mode", "places"), [("linear", (0, 3)), ("circular", (4, 2)), ("circular", (9, 0))]
)
async def test_updates_are_written_into_a_cache(
    tmp_path: Path, mode: str, places: tuple[int, ...], opened: Any
) -> None:
    given = {"c": floats(2, 3, 5, 4), "u": floats(2, 3, 2, 4) + 5, "i": np.array(places)}
    node = helper.make_node("TensorScatter", ["c", "u", "i"], ["y"], mode=mode)
    await check(write(tmp_path, node, given, opened), given)


async def test_updates_without_places_are_written_at_the_beginning(tmp_path: Path) -> None:
    given = {"c": floats(2, 5, 3), "u": floats(2, 2, 3) + 5}
    node = helper.make_node("TensorScatter", ["c", "u"], ["y"], axis=1)
    await check(write(tmp_path, node, given), given)


@pytest.mark.parametrize(
    ("mode", "places", "length"),
    [("linear", (0, 4), 2), ("linear", (-1, 0), 2), ("circular", (0, 0), 6)],
)
async def test_updates_beyond_a_cache_are_refused(
    tmp_path: Path, mode: str, places: tuple[int, ...], length: int
) -> None:
    given = {"c": floats(2, 5, 3), "u": floats(2, length, 3), "i": np.array(places)}
    loaded = load(
        write(tmp_path, helper.make_node("TensorScatter", list("cui"), ["y"], mode=mode), given)
    )
    with pytest.raises(InvalidRequest, match="out of range"):
        await run(loaded, given)
