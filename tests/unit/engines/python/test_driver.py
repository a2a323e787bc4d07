"""Python code that answers for a model, loaded and asked in this process."""

import asyncio
import gc
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ie_serving.core.callers import CALLER, Caller
from ie_serving.core.codes import code_of
from ie_serving.core.errors import DeadlineExceeded, LoadFailed, ServingError
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.kernels import KernelOptions, Place
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.python.driver import load
from ie_serving.engines.python.model import KernelModel
from tests.unit.engines.asking import answer, strings, told
from tests.unit.engines.python.kernels import SCALE, returning, served, written

TEXT = np.array(b"kept", np.object_)


@pytest.fixture
def opened() -> Iterator[list[KernelModel]]:
    models: list[KernelModel] = []
    yield models
    for model in models:
        model.close()


async def said(model: KernelModel, **inputs: Any) -> str:
    """Ask for what must fail."""
    with pytest.raises(ServingError) as raised:
        await answer(model, **inputs)
    return f"{code_of(raised.value).name}: {raised.value}"


async def test_a_class_answers_with_its_params(tmp_path: Path, opened: list[KernelModel]) -> None:
    model = served(tmp_path, SCALE, "Scale", {"factor": 3.0})
    opened.append(model)
    assert told(model) == {"x": "float [-1]", "y": "float [-1]"}
    assert (await answer(model, x=[1.0, 2.0]))["y"].tolist() == [3.0, 6.0]
    assert model.signatures["serving_default"].runs_on == "kernel Scale, isolation thread"


async def test_a_function_gets_inputs_by_name(tmp_path: Path, opened: list[KernelModel]) -> None:
    code = """
        def metadata():
            number = {"dtype": "int64", "shape": [-1]}
            return {"inputs": {"a": number, "b": number}, "outputs": {"sum": number, "of": number}}

        def add(b, a, ctx, params, inputs, more=5):
            assert set(inputs) == {"a", "b"} and ctx.time_left() is None
            return a * 10 + b + params["c"], [more]
        """
    model = served(tmp_path, code, "add", {"c": 100})
    opened.append(model)
    found = await answer(model, a=[1, 2], b=[3, 4])
    assert (found["sum"].tolist(), found["of"].tolist()) == ([113, 124], [5])
    assert found["of"].dtype == np.int64


async def test_params_declare_what_a_function_takes(
    tmp_path: Path, opened: list[KernelModel]
) -> None:
    text = {"dtype": "string", "shape": [-1]}
    code = "def shout(text, **rest):\n    return [each.decode().upper() for each in text.tolist()]"
    declared = {"inputs": {"text": text}, "outputs": {"loud": text}}
    model = served(tmp_path, code, "shout", declared)
    opened.append(model)
    assert (await answer(model, text=strings("a", "ö")))["loud"].tolist() == [b"A", "Ö".encode()]


async def test_an_object_with_predict_says_what_it_takes(
    tmp_path: Path, opened: list[KernelModel]
) -> None:
    code = """
        import numpy as np
        from sklearn.linear_model import LinearRegression
        model = LinearRegression().fit(np.arange(8.0).reshape(4, 2), [1, 2, 3, 4])
        """
    model = served(tmp_path, code, "model")
    opened.append(model)
    assert told(model) == {"x": "double [-1, 2]", "y": "double [-1]"}
    assert (await answer(model, x=[[0.0, 1.0]]))["y"].tolist() == pytest.approx([1.0])


def test_dtypes_may_be_types(tmp_path: Path, opened: list[KernelModel]) -> None:
    code = """
        import numpy as np
        def echo(x, n, go, text): return x
        def metadata():
            dtypes = {"x": float, "n": np.int32, "go": np.bool_, "text": str}
            inputs = {name: {"dtype": each, "shape": ()} for name, each in dtypes.items()}
            return {"inputs": inputs, "outputs": {"y": {"dtype": np.float32, "shape": ()}}}
        """
    opened.append(served(tmp_path, code, "echo"))
    assert [each.split()[0] for each in told(opened[0]).values()] == [
        *("double", "int32", "bool", "string", "float"),
    ]


def test_an_object_with_predict_is_closed_too(tmp_path: Path) -> None:
    code = """
        class Model:
            n_features_in_ = 1
            def predict(self, rows):
                return rows[:, 0]
            def close(self):
                self.closed.append(True)
            def load(self, ctx):
                self.closed = ctx.params["closed"]
        """
    closed: list[bool] = []
    served(tmp_path, code, "", {"closed": closed}).close()
    assert closed == [True]


async def test_without_a_name_the_one_class_answers(
    tmp_path: Path, opened: list[KernelModel]
) -> None:
    opened.append(served(tmp_path, SCALE))
    assert (await answer(opened[0], x=[1.0]))["y"].tolist() == [2.0]


@pytest.mark.parametrize(
    ("code", "name", "fault"),
    [
        ("import no_such_module", "", "cannot be loaded: ModuleNotFoundError: No module named"),
        ("a = 1\nraise SystemExit(3)", "", "kernel.py cannot be loaded: SystemExit: 3"),
        ("def f(): pass\nclass K: pass", "g", r"the file has no g; it has f, K"),
        ("def f(): pass", "", r"name the kernel, as FILE:NAME.*it has f"),
        ("x = 3", "x", "x is no kernel: expected a class"),
        ("def f(a, b, ctx): pass", "f", r'f declares no inputs.*"inputs": \{"a": .*, "b": '),
        (SCALE.replace("inputs, ctx", ""), "Scale", r"Scale\.execute takes nothing; expected"),
        (SCALE.replace('"float32"', '"flaot"'), "Scale", r"Scale\.metadata\(\)\.inputs\.x\.dtype"),
        (SCALE.replace('{"inputs"', '{"input"'), "Scale", r"Scale\.metadata\(\)\.inputs: expected"),
        (
            "def metadata():\n    x = {'shape': [1]}\n"
            "    return {'inputs': {'x': x, 'z': x}, 'outputs': {'y': x}}\n"
            "def f(x, q): return x",
            "f",
            r"f takes q; its inputs are x, z",
        ),
    ],
)
def test_what_is_no_kernel_is_not_loaded(tmp_path: Path, code: str, name: str, fault: str) -> None:
    before = set(sys.modules)
    with pytest.raises(LoadFailed, match=fault):
        served(tmp_path, code, name)
    assert not [each for each in set(sys.modules) - before if "ie_serving_kernel" in each]


def test_nothing_runs_without_consent(tmp_path: Path) -> None:
    written(tmp_path, "raise SystemExit")
    own = KernelOptions(place=Place(file="kernel.py", name="K"))
    with pytest.raises(LoadFailed, match=r"kernel kernel\.py:K asks to run.*engine\.allow_python"):
        load(tmp_path, EngineOptions().having(own))


def test_what_only_openvino_carries_out_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LoadFailed, match=r"^shape: kernel Scale"):
        served(tmp_path, SCALE, "", None, OpenVinoOptions(shape=(4, 2)))


async def test_a_file_is_found_in_the_version_then_beside_the_configuration(
    tmp_path: Path, opened: list[KernelModel]
) -> None:
    beside = written(tmp_path / "config", SCALE)
    version = tmp_path / "model/1"
    version.mkdir(parents=True)
    place = Place(file="kernel.py", beside=str(beside))
    given = EngineOptions(allow_python=True, params={"factor": 1.0})
    opened.append(load(version, given.having(KernelOptions(place=place))))
    written(version, SCALE.replace("ctx.params", '{"factor": 7.0}'))
    opened.append(load(version, given.having(KernelOptions(place=place))))
    absolute = Place(file=str(beside / "kernel.py"), beside=str(version))
    opened.append(load(version, given.having(KernelOptions(place=absolute))))
    found = [(await answer(model, x=[1.0]))["y"].tolist() for model in opened]
    assert found == [[1.0], [7.0], [1.0]]
    with pytest.raises(LoadFailed, match=r"kernel no\.py is neither .*model/1/no\.py nor "):
        load(version, given.having(KernelOptions(place=Place(file="no.py", beside=str(beside)))))


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("numpy>=1\n# a remark\nskops ; python_version < '3'\n-r other.txt", ""),
        ("numpy>=1 \\\n    --hash=sha256:00", ""),
        ("numpy<1", r"numpy<1 \([\d.]+ is installed\); nothing is installed by the server"),
        ("no-such-package==2", r"no-such-package==2 \(not installed\)"),
        ("==", r"requirements\.txt: '==' is no requirement"),
    ],
)
def test_requirements_are_checked(tmp_path: Path, line: str, fault: str) -> None:
    (tmp_path / "requirements.txt").write_text(line)
    if not fault:
        served(tmp_path, SCALE).close()
        return
    with pytest.raises(LoadFailed, match=fault):
        served(tmp_path, SCALE)


async def test_versions_share_nothing(tmp_path: Path, opened: list[KernelModel]) -> None:
    code = """
        import json, helper
        from helper import count
        from parts.inner import NAME
        import parts.inner
        def metadata():
            number = {"dtype": "int64", "shape": []}
            return {"inputs": {"x": number}, "outputs": {"calls": number, "version": number}}
        def step(x):
            assert parts.inner.NAME == NAME == helper.VERSION and json.dumps([]) == "[]"
            return count(), helper.VERSION
        """
    for version in (1, 2):
        helper = f"VERSION = {version}\ncalls = 0\ndef count():\n    global calls\n"
        written(tmp_path / str(version), helper + "    calls += 1\n    return calls", "helper.py")
        written(tmp_path / f"{version}/parts", "", "__init__.py")
        written(tmp_path / f"{version}/parts", "from helper import VERSION as NAME", "inner.py")
        (tmp_path / str(version) / "json").mkdir()
        opened.append(served(tmp_path / str(version), code, "step"))
    files = sorted(tmp_path.rglob("*"))
    found = [await answer(model, x=0) for model in (*opened, opened[0])]
    assert [(int(f["calls"]), int(f["version"])) for f in found] == [(1, 1), (1, 2), (2, 1)]
    assert sorted(tmp_path.rglob("*")) == files, "nothing is written into the repository"
    assert not {"helper", "parts"} & set(sys.modules)


async def test_nothing_of_a_version_stays(tmp_path: Path) -> None:
    before, finders = set(sys.modules), list(sys.meta_path)
    gc.collect()
    gc.disable()  # nothing may wait for the next collection
    try:
        model = served(tmp_path, SCALE + "\nscale = Scale()\ndef held(): return scale\n", "Scale")
        await answer(model, x=[1.0])
        module = next(each for each in set(sys.modules) - before if each.endswith(".kernel"))
        kept = weakref.ref(sys.modules[module].scale)
        assert kept() is not None
        model.close()
        assert kept() is None
    finally:
        gc.enable()
    assert not [each for each in set(sys.modules) - before if "kernel_" in each]
    assert sys.meta_path == finders


async def test_a_scratch_directory_goes_with_the_version(tmp_path: Path) -> None:
    code = """
        class Writes:
            def load(self, ctx):
                self.place = ctx.scratch_dir
            def metadata(self):
                text = {"dtype": "string", "shape": []}
                return {"inputs": {"x": text}, "outputs": {"place": text}}
            def execute(self, inputs):
                (self.place / "file").write_bytes(inputs["x"].item())
                return str(self.place)
            def close(self):
                raise ValueError("late")
        """
    model = served(tmp_path, code)
    place = Path((await answer(model, x=TEXT))["place"].item().decode())
    assert (place / "file").read_bytes() == b"kept"
    model.close()
    assert not place.exists()


@pytest.mark.parametrize(
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
    assert (await answer(model, x=[0.0]))["y"].tolist() == [[1.0, 2.0]]


async def test_a_kernel_knows_who_asks(tmp_path: Path, opened: list[KernelModel]) -> None:
    code = """
        def metadata():
            text = {"dtype": "string", "shape": []}
            return {"inputs": {"x": text}, "outputs": {"id": text, "user": text, "left": text}}
        def who(x, ctx):
            left = ctx.time_left()
            return ctx.request_id, ctx.headers.get("user", "-"), str(left and 8 < left <= 9)
        """
    opened.append(served(tmp_path, code, "who"))
    assert opened[0].signatures["serving_default"].told
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


async def test_an_update_takes_effect(tmp_path: Path, opened: list[KernelModel]) -> None:
    opened.append(served(tmp_path, SCALE))
    assert opened[0].update is not None
    opened[0].update({"factor": 10.0, "inputs": {}})
    assert (await answer(opened[0], x=[1.0]))["y"].tolist() == [10.0]
