"""What calls of a kernel in this process answer, and how many run at once."""

import asyncio
import json
import re
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ie_serving.core.values.codes import code_of
from ie_serving.core.values.errors import DeadlineExceeded, ServingError
from ie_serving.core.values.requests import CALLER, Caller
from ie_serving.engines.python.kernel_model import KernelModel
from ie_serving.wire.json.request import Format
from ie_serving.wire.json.response import encode_predictions
from tests.tables import named_by
from tests.unit.engines.asking import answer, strings, told
from tests.unit.engines.python.kernels import returning, served

TEXT = np.array(b"kept", np.object_)


async def said(model: KernelModel, **inputs: Any) -> str:
    """Ask for what must fail."""
    with pytest.raises(ServingError) as raised:
        await answer(model, **inputs)
    return f"{code_of(raised.value).name}: {raised.value}"


@named_by(
    "ends",
    ("ends", "expected"),
    [
        ("return {'y': np.stack([x, x], 1)}", None),
        ("return np.stack([x, x], 1)", None),
        ("return [[1, 2.5]]", None),
        ("return [[np.float64(1), 2]]", None),
        ("return ctx.skip({'y': [[1, 2]]})", None),
        ("ctx.skip({'y': [[1, 2]]})", None),
        ("return {'y': np.zeros((1, 2))}", r'returned double as output "y" float \(-1, 2\): conv'),
        ("return [['a', 'b']]", r'returned .* as output "y" float'),
        ("return x", r'returned an array of shape \(1,\) as output "y" float \(-1, 2\)'),
        ("return {'z': x}", r'returned "z"; it declares "y": return exactly these'),
        ("return {'y': x, 'z': x}", r'returned "y", "z"; it declares "y"'),
        ("return", r'returned nothing; expected an object with "y"'),
        ("return [[1], [2, 3]]", r"returned a list that is no float as output"),
    ],
)
async def test_outputs_are_what_is_declared(
    tmp_path: Path, opened: list[KernelModel], ends: str, expected: "str | None"
) -> None:
    opened.append(served(tmp_path, returning(ends)))
    if expected is None:
        assert (await answer(opened[0], x=[1.0]))["y"].dtype == np.float32
        return
    with pytest.raises(ServingError, match=rf"^kernel Kernel {expected}"):
        await answer(opened[0], x=[1.0])


async def test_texts_are_strings(tmp_path: Path, opened: list[KernelModel]) -> None:
    code = """
        import numpy as np
        def metadata():
            text = {"dtype": "string", "shape": [-1]}
            return {"inputs": {"x": text}, "outputs": {"a": text, "b": text, "c": text}}
        def f(x):
            return np.array(["ä\\0"]), [b"\\xff", "t"], np.array([b"s"])
        def g(x):
            return [1], x, x
        """
    opened += [served(tmp_path, code, "f"), served(tmp_path, code, "g")]
    found = await answer(opened[0], x=strings("q"))
    texts = [found[name].tolist() for name in "abc"]
    assert texts == [["ä".encode()], [b"\xff", b"t"], [b"s"]]
    assert 'is no string as output "a" string (-1): int is no text' in await said(
        opened[1], x=strings("q")
    )


async def test_a_failure_is_its_own_calls(
    tmp_path: Path, opened: list[KernelModel], caplog: pytest.LogCaptureFixture
) -> None:
    code = returning(
        "if x[0] == 1: return {}['key']\n"
        "        if x[0] == 2: ctx.fail('not_found', 'no such user')\n"
        "        if x[0] == 3: ctx.fail('TEAPOT', 'short and stout')\n"
        "        if x[0] == 4: exit()\n"
        "        if x[0] == 5: x[0] = 1\n"
        "        if x[0] == 6: ctx.fail(5, 'a number')\n"
        "        if x[0] == 7: ctx.models['other']\n"
        "        return [[1, 2]]"
    )
    opened.append(served(tmp_path, code))
    model = opened[0]
    assert await said(model, x=[1.0]) == "INTERNAL: kernel Kernel failed: KeyError: 'key'"
    assert "Traceback" in caplog.text
    assert await said(model, x=[2.0]) == "NOT_FOUND: no such user"
    assert "INTERNAL: short and stout (the kernel gave the code 'TEAPOT'" in await said(
        model, x=[3.0]
    )
    assert "SystemExit" in await said(model, x=[4.0])
    assert "read-only" in await said(model, x=[5.0])
    assert "INTERNAL: a number (the kernel gave the code 5;" in await said(model, x=[6.0])
    # Here as in a process nothing can be asked; UNAVAILABLE would make clients try again.
    assert (await said(model, x=[7.0])).startswith("FAILED_PRECONDITION: no other model can be")
    assert (await answer(model, x=[0.0]))["y"].tolist() == [[1.0, 2.0]]


async def test_a_kernel_knows_its_caller(tmp_path: Path, opened: list[KernelModel]) -> None:
    code = """
        def metadata():
            text = {"dtype": "string", "shape": []}
            return {"inputs": {"x": text}, "outputs": {"id": text, "user": text, "left": text}}
        def who(x, ctx):
            left = ctx.time_left()
            return ctx.request_id, ctx.headers.get("user", "-"), str(left and 8 < left <= 9)
        """
    opened.append(served(tmp_path, code, "who"))
    assert opened[0].signatures["serving_default"].sees_caller
    CALLER.set(Caller({"x-request-id": "r7", "user": "ann"}, 9.0))
    found = [await answer(opened[0], x=TEXT) for _ in range(2)]
    assert [found[0][name].item() for name in ("id", "user", "left")] == [b"r7", b"ann", b"True"]
    # The next one has a caller of its own, or none.
    assert [found[1][name].item() for name in ("user", "left")] == [b"-", b"None"]
    assert found[1]["id"].item() not in (b"r7", b"")


@pytest.mark.parametrize("isolation", ["inline", "thread"])
async def test_it_never_runs_on_the_event_loop(
    tmp_path: Path, opened: list[KernelModel], isolation: str
) -> None:
    code = """
        import threading
        def metadata():
            return {"inputs": {"x": {"dtype": "int64", "shape": []}},
                    "outputs": {"y": {"dtype": "int64", "shape": []}}}
        def thread(x):
            return threading.get_ident()
        """
    opened.append(served(tmp_path, code, "thread", isolation=isolation))
    assert int((await answer(opened[0], x=0))["y"]) != threading.get_ident()


WAITS = """
import threading
entered, free = threading.Semaphore(0), threading.Event()
class Waits:
    def __init__(self):
        Waits.one = self
    def metadata(self):
        x = {"dtype": "float32", "shape": [-1]}
        return {"inputs": {"x": x}, "outputs": {"y": x}}
    def load(self, ctx):
        self.at_once = self.most = 0
        self.lock, ctx.params["of"][0] = threading.Lock(), self
    def execute(self, inputs):
        with self.lock:
            self.at_once += 1
            self.most = max(self.most, self.at_once)
        entered.release()
        if inputs["x"][0] < 0:
            free.wait(30)
        with self.lock:
            self.at_once -= 1
        return inputs["x"]
    def close(self):
        free.set()
"""


async def test_time_is_limited_waiting_included(tmp_path: Path, opened: list[KernelModel]) -> None:
    of: list[Any] = [None]
    opened.append(served(tmp_path, WAITS, "", {"of": of}, timeout_ms=100))
    both = [answer(opened[0], x=[-1.0]), answer(opened[0], x=[1.0])]
    found = await asyncio.gather(*both, return_exceptions=True)
    assert [type(each) for each in found] == [DeadlineExceeded] * 2
    assert "within 100 ms (timeout_ms of the model)" in str(found[0])
    sys.modules[of[0].__module__].free.set()
    assert (await answer(opened[0], x=[5.0]))["y"].tolist() == [5.0]


@pytest.mark.parametrize("most", [1, 3])
async def test_so_many_calls_run_at_once(
    tmp_path: Path, opened: list[KernelModel], most: int
) -> None:
    of: list[Any] = [None]
    model = served(tmp_path, WAITS, "", {"of": of}, max_concurrency=most)
    opened.append(model)
    assert model.at_once(model.signatures["serving_default"]) == most
    calls = [asyncio.ensure_future(answer(model, x=[-1.0])) for _ in range(6)]
    module = sys.modules[of[0].__module__]
    for _ in range(most):
        assert await asyncio.to_thread(module.entered.acquire, timeout=30)
    module.free.set()
    await asyncio.wait_for(asyncio.gather(*calls), 30)
    assert of[0].most == most


async def test_a_cancelled_call_leaves_its_turn(tmp_path: Path, opened: list[KernelModel]) -> None:
    of: list[Any] = [None]
    opened.append(served(tmp_path, WAITS, "", {"of": of}))
    running, waiting = (asyncio.ensure_future(answer(opened[0], x=[-1.0])) for _ in range(2))
    module = sys.modules[of[0].__module__]
    assert await asyncio.to_thread(module.entered.acquire, timeout=30)
    waiting.cancel()
    running.cancel()
    await asyncio.wait([running, waiting])
    module.free.set()
    assert (await answer(opened[0], x=[5.0]))["y"].tolist() == [5.0]
    # One more has begun, not the one that waited.
    assert [module.entered.acquire(blocking=False) for _ in range(2)] == [True, False]


# Outputs of dtype json are values of any kind.


async def fault(model: KernelModel, **inputs: Any) -> str:
    """Ask for what must fail."""
    with pytest.raises(ServingError) as raised:
        await answer(model, **inputs)
    return str(raised.value)


JSONS = """
import numpy as np
def metadata():
    return {"inputs": {"x": {"dtype": "float32", "shape": [-1]}},
            "outputs": {"all": {"dtype": "json"}, "rows": {"dtype": "json", "shape": [-1]}}}
def f(x):
    if x[0] < 0:
        return {"all": {1, 2}, "rows": []}
    return {"all": {"n": x, "i": np.int64(3), "b": b"\\xff", "none": None, "t": "\u00e4"},
            "rows": [{"x": each} for each in x]}
"""


async def test_values_of_any_kind_are_json(tmp_path: Path, opened: list[KernelModel]) -> None:
    opened.append(served(tmp_path, JSONS, "f"))
    assert told(opened[0]) == {"x": "float [-1]", "all": "string []", "rows": "string [-1]"}
    found = await answer(opened[0], x=[1.0, np.nan])
    assert json.loads(found["all"].item()) == {
        **{"n": [1.0, pytest.approx(np.nan, nan_ok=True)], "i": 3},
        **{"b": {"b64": "/w=="}, "none": None, "t": "\u00e4"},
    }
    assert found["rows"].tolist() == [b'{"x": 1.0}', b'{"x": NaN}']
    spec = opened[0].signatures["serving_default"].outputs
    assert (
        encode_predictions(found, Format.COLUMN, spec).split()
        == (
            b'{ "outputs": { "all": %b, "rows": [ {"x": 1.0}, {"x": NaN} ] } }'
            % found["all"].item()
        ).split()
    )
    assert 'returned a set that is no JSON as output "all"' in await fault(opened[0], x=[-1.0])


NUMBERS = """
import numpy as np
def metadata():
    return {"inputs": {"x": {"dtype": "float32", "shape": [-1]}},
            "outputs": {"y": {"dtype": "%s", "shape": [-1]}}}
def f(x):
    return {"y": %s}
"""


@pytest.mark.parametrize(
    ("dtype", "given", "text"),
    [
        pytest.param("float32", "[1.0, None]", 'returned None as output "y"', id="None"),
        pytest.param("float32", "[object()]", "returned a object as output", id="an object"),
        pytest.param("float32", "[{'a': 1}]", "returned a dict as output", id="a dict"),
        pytest.param("float32", "['a']", "returned a str as output", id="a text"),
        pytest.param("int64", "[1, 2**70]", "returned an integer of 71 bits as", id="an integer"),
        pytest.param("float32", "[1.0, 1e60]", r"returned 1e\+60 as output", id="beyond float32"),
        pytest.param("float16", "[1e5]", "returned 100000 as output", id="beyond float16"),
        pytest.param("int8", "[300]", "no int8 as output", id="beyond int8"),
        pytest.param(
            "float32",
            "np.ma.masked_array(np.ones(2, np.float32), [True, False])",
            "returned a masked array as output .*filled",
            id="a mask",
        ),
    ],
)
async def test_a_value_that_is_no_number_of_its_type_is_refused(
    tmp_path: Path, opened: list[KernelModel], dtype: str, given: str, text: str
) -> None:
    opened.append(served(tmp_path, NUMBERS % (dtype, given), "f"))
    assert re.search(text, await fault(opened[0], x=[1.0]))


async def test_infinity_is_a_number(tmp_path: Path, opened: list[KernelModel]) -> None:
    opened.append(served(tmp_path, NUMBERS % ("float32", "[float('inf'), 0.1]"), "f"))
    assert (await answer(opened[0], x=[1.0]))["y"].tolist() == [np.inf, np.float32(0.1)]


# The stream of docs/guide/streams.md, as it is printed there, in a thread and in a process.

PAGE = (Path(__file__).parents[4] / "docs" / "guide" / "streams.md").read_text()
(PEAKS,) = re.findall(r"```python\n(class Peaks:.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("isolation", ["thread", "process"])
async def test_the_peaks_of_the_docs_are_found(tmp_path: Path, isolation: str) -> None:
    model = served(tmp_path, PEAKS, isolation=isolation)

    async def items() -> AsyncIterator[Any]:
        for values in ([1.0], [], [3.0, 0.0], [2.0]):
            yield {"x": np.array(values, np.float32)}

    try:
        assert model.stream is not None
        (signature,) = model.signatures.values()
        replies = model.stream(signature, items(), lambda found: found["peak"].tolist(), Caller())
        assert [each async for each in replies] == [[3.0], [2.0]]
    finally:
        model.close()


# Users' code gets OpenVINO's converter, which the server does not import for itself.

USES = (
    "openvino.convert_model",
    "from openvino import convert_model",
    "import openvino.tools.ovc",
    "from openvino.tools.ovc import convert_model",
)
PROGRAM = f"""
import os, sys
import ie_serving.engines.openvino
import openvino
assert not hasattr(openvino, "convert_model")
from ie_serving.engines.python import opening
opening.allow_converter()
opening.allow_converter()
assert not hasattr(openvino, "nothing")
assert "openvino.tools.ovc" not in sys.modules
for use in {USES}:
    if not os.fork():
        exec(use)
        sys.exit("openvino.tools.ovc" not in sys.modules)
    assert os.wait()[1] == 0, use
"""


def test_it_is_imported_when_it_is_asked_for_and_nothing_else_is_there() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=120)
