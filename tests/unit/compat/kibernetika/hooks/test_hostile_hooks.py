"""Hooks that raise what ends a program, return what is no tensor, or hang once they are known."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ie_serving.core.values.errors import DeadlineExceeded, ServingError
from tests.unit.compat.kibernetika.hooks.hooked import linear, opened
from tests.unit.engines.asking import answer

ROW = np.ones((1, 4), np.float32)
Open = Callable[..., Any]


@pytest.fixture
def model(tmp_path: Path) -> Iterator[Open]:
    """Opens hooks around y = 2 x."""
    made: list[Any] = []

    def make(code: str, **own: Any) -> Any:
        linear(tmp_path, 2.0)
        made.append(opened(tmp_path, code, **own))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.thinned
@pytest.mark.parametrize("execution", ["inline", "async"])
@pytest.mark.parametrize(
    "error", ["KeyboardInterrupt('k')", "GeneratorExit('k')", "CancelledError('k')", "Odd('k')"]
)
async def test_whatever_a_hook_raises_is_its_own_requests(
    model: Open, execution: str, error: str
) -> None:
    served = model(
        f"""
        from asyncio import CancelledError
        class Odd(BaseException): pass
        def preprocess(inputs):
            if inputs["x"].max() > 5:
                raise {error}
            return inputs
        """,
        execution=execution,
    )
    for _ in range(2):  # in a thread, then on the loop where it may
        await answer(served, x=ROW)
        with pytest.raises(ServingError, match=f"{error.split('(', maxsplit=1)[0]}: k"):
            await answer(served, x=ROW * 9)


@pytest.mark.parametrize("value", ["object()", "[object()]", "[[1, 2], [3]]", "{1: 2}", "None"])
async def test_a_value_that_is_no_tensor_is_told_for_the_model(model: Open, value: str) -> None:
    served = model(f"def preprocess(inputs): return {{'x': {value}}}")
    with pytest.raises(ServingError, match=r"^preprocess gave .*no tensor"):
        await answer(served, x=ROW)


async def test_a_limit_holds_for_hooks_that_have_been_short(model: Open) -> None:
    served = model(
        """
        import threading
        ON, GO = [], threading.Event()
        def preprocess(inputs):
            ON.append(threading.get_ident())
            if inputs["x"].max() > 5:
                GO.wait(20)
            return {**inputs}
        def postprocess(outputs):
            return {"on": [*ON]}
        def update_hook(ctx, **params):
            GO.set()
        """,
        timeout_ms=200,
    )
    for _ in range(4):
        found = await answer(served, x=ROW)
    assert threading.get_ident() not in found["on"].tolist()
    with pytest.raises(DeadlineExceeded, match="200 ms"):
        await asyncio.wait_for(answer(served, x=ROW * 9), 5)
    served.update({})


async def test_an_exception_without_a_text_is_told_by_its_class(model: Open) -> None:
    served = model(
        """
        class Mute(Exception):
            def __str__(self): raise RuntimeError
        def preprocess(inputs):
            raise Mute()
        """
    )
    with pytest.raises(ServingError, match="preprocess failed: Mute: Mute"):
        await answer(served, x=ROW)
