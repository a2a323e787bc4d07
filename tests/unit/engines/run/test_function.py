"""Functions of libraries as infer requests: threads, and whose fault an error is."""

import asyncio
import threading
from collections.abc import Mapping

import numpy as np
import pytest

from ie_serving.core.values.errors import InvalidRequest, InvalidTensor, LoadFailed, ServingError
from ie_serving.core.values.tensors import SERVING_DEFAULT, Array, DataType, Signature, TensorSpec
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.run import function
from ie_serving.engines.run.function import (
    FunctionRequest,
    LibraryFailure,
    needed,
    program,
    reading,
)
from tests.unit.engines.asking import Ran, run_once

WAIT_S = 20.0
SPEC = TensorSpec("x", DataType.FP32, (-1,), "x:0")
SIGNATURE = Signature(SERVING_DEFAULT, {"x": SPEC}, {"x": SPEC})
ONE = {"x": np.ones(1, np.float32)}


def value(outputs: Mapping[str, Array]) -> float:
    return float(outputs["x"][0])


class Refusal(Exception):
    """A library's own."""


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        pytest.param(
            ValueError("X contains\n NaN"),
            InvalidRequest,
            r'^lib refuses the inputs: X contains NaN; the model expects "x" float \(-1\)$',
            id="the request's",
        ),
        pytest.param(
            Refusal("no"), InvalidRequest, "refuses the inputs: no", id="by its own class"
        ),
        pytest.param(
            KeyError("trees"), ServingError, "^lib failed: KeyError: 'trees'$", id="the library's"
        ),
        pytest.param(InvalidTensor("no rows"), InvalidTensor, "^no rows$", id="ours"),
    ],
)
@pytest.mark.parametrize("execution", ["auto", "inline"])
async def test_an_error_is_the_clients_or_the_servers_by_its_kind(
    error: Exception, kind: type[Exception], text: str, execution: str
) -> None:
    failing = True

    def call(inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        if failing:
            raise error
        return inputs

    options = EngineOptions(execution=execution, nireq=1)
    made = program(SIGNATURE, call, options, library="lib", refusals=(ValueError, Refusal))
    for _ in range(3):
        with pytest.raises(kind, match=text) as caught:
            await made.infer(ONE, value)
        assert type(caught.value) is kind
    failing = False
    assert await asyncio.wait_for(made.infer(ONE, value), WAIT_S) == 1.0
    made.close()


@pytest.mark.parametrize(("execution", "on_loop"), [("auto", False), ("inline", True)])
async def test_it_runs_beside_the_event_loop_unless_it_is_told_otherwise(
    execution: str, on_loop: bool
) -> None:
    seen: list[int] = []

    def call(inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        seen.append(threading.get_ident())
        return inputs

    made = program(SIGNATURE, call, EngineOptions(execution=execution), library="lib")
    for _ in range(20):
        await made.infer(ONE, value)
    assert {each == threading.get_ident() for each in seen} == {on_loop}
    made.close()


async def test_as_many_run_at_once_as_nireq_says() -> None:
    together = threading.Barrier(3)

    def call(inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        together.wait(WAIT_S)
        return inputs

    made = program(SIGNATURE, call, EngineOptions(nireq=3), library="lib")
    calls = [made.infer(ONE, value) for _ in range(6)]
    assert await asyncio.wait_for(asyncio.gather(*calls), WAIT_S) == [1.0] * 6
    assert made.at_once == 3
    made.close()


def test_inputs_are_let_go_of_when_they_are_answered() -> None:
    def fail(inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        raise ValueError("no")

    assert run_once(FunctionRequest(fail), LibraryFailure) == Ran(failed=True, holds_inputs=False)


def test_a_library_that_is_there_and_cannot_be_imported_is_told() -> None:
    text = r"lib cannot be imported: libgomp.so.1.*pip install '.\[extra\]'"
    with pytest.raises(LoadFailed, match=text), needed("lib", "extra", "m.lib"):
        raise ImportError("libgomp.so.1: cannot open shared object file")


def test_the_error_of_a_library_about_a_file_is_one_line() -> None:
    expected = r"^m.lib cannot be read by lib: KeyError: 'a b'$"
    with pytest.raises(LoadFailed, match=expected), reading("lib", "m.lib"):
        raise KeyError("a b")
    assert function.one_line(ValueError()) == "ValueError"
