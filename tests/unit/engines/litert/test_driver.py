"""A model with variables is opened for each request, in the way that takes the shortest time."""

import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.litert import driver
from ie_serving.engines.openvino.reading.lite_signatures import refuse_deadly
from tests.lite_exports import elementwise, packed, schema, svdf
from tests.tables import named_by
from tests.unit.engines.asking import answer

interpreters = pytest.importorskip("ie_serving.engines.litert.interpreters")
X = np.array([[1, 2, 3], [4, 5, 6]], np.float32)


class Clocked:
    """Opens interpreters at the cost of a way, by a clock of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **costs_s: float) -> None:
        self._costs_s, self._now = costs_s, 0.0
        self.opened: list[str] = []
        self._open = interpreters.interpreter
        monkeypatch.setattr(interpreters, "interpreter", self._interpreter)
        monkeypatch.setattr(driver, "time", SimpleNamespace(perf_counter=lambda: self._now))

    def _interpreter(self, model: Any, threads: int, *, exact: bool) -> Any:
        way = "builtin" if exact else "delegate"
        self._now += self._costs_s[way]
        self.opened.append(way)
        return self._open(model, threads, exact=exact)


@pytest.mark.parametrize(
    ("name", "delegate_s", "builtin_s", "way"),
    [
        pytest.param("frames", 0.005, 0.001, "builtin", id="shorter"),
        pytest.param("frames", 0.005, 0.009, "delegate", id="longer"),
        pytest.param("frames", 0.5, 0.1, "delegate", id="not measured: a request takes long"),
        pytest.param("counting", 0.005, 0.001, "delegate", id="not measured: of any rows"),
    ],
)
async def test_a_model_with_variables_is_opened_in_the_quickest_way(
    lite_exports: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    delegate_s: float,
    builtin_s: float,
    way: str,
) -> None:
    clocked = Clocked(monkeypatch, delegate=delegate_s, builtin=builtin_s)
    model = driver.load(lite_exports / name / "1" / "model.tflite", EngineOptions())
    clocked.opened.clear()
    for _ in range(2):  # each begins with the variables of the file
        (found,) = (await answer(model, x=X)).values()
        assert found.tolist() == (X + X.sum(0)).tolist()
    assert clocked.opened == [way, way]
    model.close()


async def test_a_model_without_variables_keeps_its_interpreter(
    lite_exports: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocked = Clocked(monkeypatch, delegate=0.5, builtin=0.1)
    model = driver.load(lite_exports / "sum" / "1" / "model.tflite", EngineOptions())
    for _ in range(2):
        await answer(model, **{n: np.ones([2, 3], np.float32) for n in _inputs(model)})
    assert clocked.opened == ["delegate"]
    model.close()


async def test_a_short_model_stays_in_its_threads(
    lite_exports: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the event loop it would win 0.15 ms, and hold all requests where a loop counts to 1e9."""
    threads, run = list[int](), interpreters.LiteRun.run

    def noted(self: Any, inputs: Any) -> Any:
        threads.append(threading.get_ident())
        return run(self, inputs)

    model = driver.load(lite_exports / "frames" / "1" / "model.tflite", EngineOptions())
    monkeypatch.setattr(interpreters.LiteRun, "run", noted)
    for _ in range(3):
        await answer(model, **{n: np.ones([2, 3], np.float32) for n in _inputs(model)})
    assert len(threads) == 3
    assert threading.get_ident() not in threads
    model.close()


OPENED = """
import sys
from ai_edge_litert.interpreter import Interpreter, OpResolverType
kernels = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
whole = Interpreter(sys.argv[1], experimental_op_resolver_type=kernels)
whole.allocate_tensors()
whole.invoke()
"""


@named_by(
    "kind dtype named",
    ("kind", "dtype", "scales", "named"),
    [
        ("ADD", "INT8", (None, None, None), "x"),
        ("ADD", "INT8", (0.5, 0.5, None), "z"),
        ("ADD", "INT16", (0.5, None, 0.5), "y"),
        ("SUB", "INT16", (None, None, None), "x"),
        ("SUB", "UINT8", (0.5, 0.0, 0.5), "y"),
        ("SQUARED_DIFFERENCE", "INT8", (0.5, 0.5, 0.0), "z"),
        ("LESS", "UINT8", (None, None, None), "x"),
        ("NOT_EQUAL", "INT8", (None, None, None), "x"),
        ("EQUAL", "INT16", (0.5, None, None), "y"),
    ],
)
def test_integers_without_a_scale_are_refused_at_which_the_library_crashes(
    tmp_path: Path, kind: str, dtype: str, scales: tuple[float | None, ...], named: str
) -> None:
    file = tmp_path / "model.tflite"
    file.write_bytes(elementwise(kind, dtype, scales))
    ended = subprocess.run([sys.executable, "-c", OPENED, file], check=False, capture_output=True)
    assert ended.returncode in (-signal.SIGABRT, -signal.SIGSEGV)
    with pytest.raises(LoadFailed, match=f'"{named}" has integers without a scale'):
        driver.load(file, EngineOptions())
    file.write_bytes(elementwise(kind, dtype, [0.5] * len(scales)))
    driver.load(file, EngineOptions()).close()


def test_a_root_of_integers_without_a_scale_is_refused(tmp_path: Path) -> None:
    """LiteRT reads memory that it has not written: it crashes, or fails, from run to run."""
    file = tmp_path / "model.tflite"
    file.write_bytes(elementwise("RSQRT", "INT16", (None, None)))
    with pytest.raises(LoadFailed, match='"x" has integers without a scale'):
        driver.load(file, EngineOptions())


@pytest.mark.parametrize(
    ("kind", "dtype", "scales"),
    [
        ("ADD", "INT16", (None, 0.5, None)),
        ("SUB", "INT8", (0.5, 0.5, None)),
        ("EQUAL", "INT16", (None, None, None)),
    ],
)
def test_integers_without_a_scale_are_served_where_the_library_needs_none(
    tmp_path: Path, kind: str, dtype: str, scales: tuple[float | None, ...]
) -> None:
    file = tmp_path / "model.tflite"
    file.write_bytes(elementwise(kind, dtype, scales))
    driver.load(file, EngineOptions()).close()


def test_a_file_whose_operation_lacks_its_inputs_is_refused() -> None:
    model = schema.ModelT.InitFromPackedBuf(svdf(8), 0)
    model.subgraphs[0].operators[0].inputs = []
    with pytest.raises(LoadFailed, match="damaged or cut short"):
        refuse_deadly(packed(model), "model.tflite")


def _inputs(model: Any) -> list[str]:
    return list(model.signatures["serving_default"].inputs)
