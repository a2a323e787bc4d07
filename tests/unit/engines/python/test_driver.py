"""Python code that answers for a model: how it is found, loaded, kept apart and closed."""

import gc
import re
import sys
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.kernels import CodeSource, KernelOptions
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.python.driver import load
from ie_serving.engines.python.kernel_model import KernelModel
from ie_serving.engines.python.opening import OwnModules
from tests.thinning import repeated
from tests.unit.engines.asking import answer, strings, told
from tests.unit.engines.python.kernels import SCALE, served, written

TEXT = np.array(b"kept", np.object_)


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
        pytest.param(
            "import no_such_module",
            "",
            "cannot be loaded: ModuleNotFoundError: No module named",
            id="an import that fails",
        ),
        pytest.param(
            "a = 1\nraise SystemExit(3)",
            "",
            "kernel.py cannot be loaded: SystemExit: 3",
            id="an exit",
        ),
        pytest.param(
            "def f(): pass\nclass K: pass",
            "g",
            r"the file has no g; it has f, K",
            id="no such name",
        ),
        pytest.param("def f(): pass", "", r"name the kernel, as FILE:NAME.*it has f", id="no name"),
        pytest.param("x = 3", "x", "x is no kernel: expected a class", id="no class"),
        pytest.param(
            "class K: pass",
            "",
            "class K is no kernel: expected execute, .* or predict",
            id="no execute",
        ),
        pytest.param(
            "class K: pass",
            "K",
            "class K is no kernel: expected execute, .* or predict",
            id="no execute in the named class",
        ),
        pytest.param(
            "def f(a, b, ctx): pass",
            "f",
            r'f declares no inputs.*"inputs": \{"a": .*, "b": ',
            id="no inputs declared",
        ),
        pytest.param(
            SCALE.replace("inputs, ctx", ""),
            "Scale",
            r"Scale\.execute takes nothing; expected",
            id="an execute without inputs",
        ),
        pytest.param(
            SCALE.replace('"float32"', '"flaot"'),
            "Scale",
            r"Scale\.metadata\(\)\.inputs\.x\.dtype",
            id="another dtype",
        ),
        pytest.param(
            SCALE.replace('{"inputs"', '{"input"'),
            "Scale",
            r"Scale\.metadata\(\)\.inputs: expected",
            id="another key",
        ),
        pytest.param(
            SCALE.replace('"x":', '"":'),
            "Scale",
            r"Scale\.metadata\(\)\.inputs: '' is no name",
            id="an empty name",
        ),
        pytest.param(
            "def metadata():\n    x = {'shape': [1]}\n"
            "    return {'inputs': {'x': x, 'z': x}, 'outputs': {'y': x}}\n"
            "def f(x, q): return x",
            "f",
            r"f takes q; its inputs are x, z",
            id="another place",
        ),
    ],
)
def test_code_that_is_no_kernel_is_not_loaded(
    tmp_path: Path, code: str, name: str, fault: str
) -> None:
    before = set(sys.modules)
    with pytest.raises(LoadFailed, match=fault):
        served(tmp_path, code, name)
    assert not [each for each in set(sys.modules) - before if "ie_serving_kernel" in each]


def test_nothing_runs_without_consent(tmp_path: Path) -> None:
    written(tmp_path, "raise SystemExit")
    own = KernelOptions(source=CodeSource(file="kernel.py", name="K"))
    with pytest.raises(LoadFailed, match=r"kernel kernel\.py:K asks to run.*engine\.allow_python"):
        load(tmp_path, EngineOptions().having(own))


def test_an_option_that_only_openvino_carries_out_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LoadFailed, match=r"^shape: kernel Scale"):
        served(tmp_path, SCALE, "", None, OpenVinoOptions(shape=(4, 2)))


async def test_a_file_is_found_in_the_version_then_beside_the_configuration(
    tmp_path: Path, opened: list[KernelModel]
) -> None:
    beside = written(tmp_path / "config", SCALE)
    version = tmp_path / "model/1"
    version.mkdir(parents=True)
    place = CodeSource(file="kernel.py", beside=str(beside))
    given = EngineOptions(allow_python=True, params={"factor": 1.0})
    opened.append(load(version, given.having(KernelOptions(source=place))))
    written(version, SCALE.replace("ctx.params", '{"factor": 7.0}'))
    opened.append(load(version, given.having(KernelOptions(source=place))))
    absolute = CodeSource(file=str(beside / "kernel.py"), beside=str(version))
    opened.append(load(version, given.having(KernelOptions(source=absolute))))
    found = [(await answer(model, x=[1.0]))["y"].tolist() for model in opened]
    assert found == [[1.0], [7.0], [1.0]]
    with pytest.raises(LoadFailed, match=r"kernel no\.py is neither .*model/1/no\.py nor "):
        load(
            version,
            given.having(KernelOptions(source=CodeSource(file="no.py", beside=str(beside)))),
        )


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        pytest.param(
            "numpy>=1\n# a remark\nskops ; python_version < '3'\n-r other.txt",
            "",
            id="nothing is missing",
        ),
        pytest.param("numpy>=1 \\\n    --hash=sha256:00", "", id="a line that goes on"),
        pytest.param("numpy<1", r"numpy<1 \([\d.]+ is installed\)", id="an older version"),
        pytest.param(
            "no-such-package==2", r"no-such-package==2 \(not installed\)", id="no such package"
        ),
        pytest.param(
            "git+https://example.com/a.git@main", r"git\+https://\S+ \(unknown\)", id="an address"
        ),
    ],
)
def test_requirements_that_are_lacking_explain_an_import_that_fails(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, line: str, fault: str
) -> None:
    (tmp_path / "requirements.txt").write_text(line)
    served(tmp_path, SCALE).close()
    told = [each.message for each in caplog.records if "requirements not met" in each.message]
    assert len(told) == bool(fault) and all(re.search(fault, each) for each in told)
    lacking = f"; requirements.txt asks for {fault}; nothing is installed" if fault else "$"
    with pytest.raises(LoadFailed, match=f"No module named 'no_such_module'{lacking}"):
        served(tmp_path, f"import no_such_module\n{SCALE}")


async def test_a_folder_beside_the_file_needs_no_init(
    tmp_path: Path, opened: list[KernelModel]
) -> None:
    """As in Python: unless a library has its name, which assets may be called by."""
    code = """
        import numpy, parts.tool, parts.inner.deep
        from parts import tool
        from parts.inner.deep import B
        def metadata():
            number = {"dtype": "int64", "shape": []}
            return {"inputs": {"x": number}, "outputs": {"y": number}}
        def step(x):
            return parts.tool.A * 10 + B + numpy.int64(tool.A == parts.tool.A)
        """
    written(tmp_path / "parts", "A = 2", "tool.py")
    written(tmp_path / "parts/inner", "B = 3", "deep.py")
    written(tmp_path / "numpy", "", "weights.txt")
    model = served(tmp_path, code, "step")
    opened.append(model)
    assert (await answer(model, x=0))["y"] == 24


@repeated(60, 300)
def test_closing_while_modules_are_imported_fails_for_none(tmp_path: Path, rounds: int) -> None:
    ended, faults = threading.Event(), []

    def importing() -> None:
        for number in range(1_000_000):
            if ended.is_set():
                return
            sys.modules[f"of_a_test_{number % 4096}"] = sys
            sys.modules.pop(f"of_a_test_{(number + 2048) % 4096}", None)

    other = threading.Thread(target=importing)
    other.start()
    try:
        for _ in range(rounds):
            try:
                OwnModules(tmp_path).close()
            except RuntimeError as error:
                faults.append(error)
    finally:
        ended.set()
        other.join()
        for name in [each for each in list(sys.modules) if each.startswith("of_a_test_")]:
            del sys.modules[name]
    assert not faults


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


async def test_an_update_takes_effect(tmp_path: Path, opened: list[KernelModel]) -> None:
    opened.append(served(tmp_path, SCALE))
    assert opened[0].update is not None
    opened[0].update({"factor": 10.0, "inputs": {}})
    assert (await answer(opened[0], x=[1.0]))["y"].tolist() == [10.0]
