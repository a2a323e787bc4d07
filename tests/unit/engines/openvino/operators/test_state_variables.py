"""Operators that carry a state from token to token."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from ie_serving.core.values.errors import InvalidRequest, LoadFailed
from tests.unit.engines.openvino.models import load, run
from tests.unit.engines.openvino.operators.asked import Given, check, floats, write

OPEN = {"x": (0, 2), "p": (0,)}
"""Batch and length of the input of a convolution, and the batch of what came before."""


@pytest.mark.parametrize("opened", [{}, OPEN], ids=["fixed", "open"])
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
