"""Attention in windows, and with a past in front of its causal queries."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.unit.engines.openvino.operators.asked import Given, check, floats, write

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
@pytest.mark.parametrize("windows", [LEFT, RIGHT, CAUSAL | LEFT, LEFT | RIGHT | {"scale": 2.0}])
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
