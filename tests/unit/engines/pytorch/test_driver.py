"""PyTorch's files answer as PyTorch itself. It is too large to be installed for every run."""

import copy
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ie_serving.core.values.errors import InvalidRequest, InvalidTensor, LoadFailed
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.drivers import TABLE
from ie_serving.engines.pytorch.driver import load, read
from tests.unit.engines.asking import answer, strings, told

torch = pytest.importorskip("torch", reason="torch is not installed; see `make drivers`")

NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.layer = torch.nn.Linear(4, classes)

    def forward(self, x):
        return torch.softmax(self.layer(x), -1)
"""
LOADED: dict[str, Any] = {}
exec(NET, LOADED)
ROWS = np.random.default_rng(1).standard_normal((5, 4)).astype(np.float32)
X = {"x": {"dtype": "float32", "shape": [-1, 4]}}
INPUTS = EngineOptions(params={"inputs": X})


class Two(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Gives several outputs, by name, of other dtypes and shapes."""

    def forward(self, x, n):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
        return {"sum": x.sum(1), "half": x.to(torch.bfloat16), "n": n + 1}


@pytest.fixture(autouse=True)
def _apart() -> None:
    """Both bring LLVM, whose second copy ends the process; other test files import TensorFlow."""
    if "tensorflow" in sys.modules:
        pytest.skip("PyTorch aborts beside TensorFlow; see `make drivers`")


@pytest.fixture
def net() -> Any:
    torch.manual_seed(0)
    return LOADED["Net"]().eval()


def expected(net: Any, rows: Any = ROWS) -> Any:
    with torch.inference_mode():
        return net(torch.from_numpy(np.array(rows))).numpy()


def scripted(directory: Path, net: Any) -> Path:
    torch.jit.trace(net, torch.zeros(1, 4)).save(str(directory / "m.pt"))
    return directory / "m.pt"


def exported(directory: Path, module: Any, *inputs: Any) -> Path:
    rows = torch.export.Dim("rows")
    program = torch.export.export(module, inputs, dynamic_shapes=tuple({0: rows} for _ in inputs))
    torch.export.save(program, directory / "m.pt2")
    return directory / "m.pt2"


async def test_torch_script_answers_as_pytorch(tmp_path: Path, net: Any) -> None:
    model = load(scripted(tmp_path, net), INPUTS)
    assert told(model) == {"x": "float [-1, 4]", "output": "float [-1, 3]"}
    assert np.allclose((await answer(model, x=ROWS))["output"], expected(net), atol=1e-5)
    assert (await answer(model, x=ROWS[:0]))["output"].shape == (0, 3)
    with pytest.raises(InvalidTensor, match=r"Obtained shape \[5, 3\]"):
        await answer(model, x=ROWS[:, :3])
    model.close()


async def test_torch_export_knows_its_inputs(tmp_path: Path, net: Any) -> None:
    file = exported(tmp_path, net, torch.zeros(2, 4))
    with pytest.raises(LoadFailed, match=r"m\.pt2 may hold pickles.*engine\.allow_pickle"):
        load(file, EngineOptions())
    model = load(file, EngineOptions(allow_pickle=True))
    assert told(model) == {"x": "float [-1, 4]", "output": "float [-1, 3]"}
    assert np.allclose((await answer(model, x=ROWS))["output"], expected(net), atol=1e-5)
    model.close()


def test_several_exports_may_be_loaded_at_once(tmp_path: Path, net: Any) -> None:
    """PyTorch itself reads one at a time: of two, one failed, and was loaded later."""
    file = exported(tmp_path, net, torch.zeros(2, 4))
    with ThreadPoolExecutor(4) as threads:
        loads = [threads.submit(load, file, EngineOptions(allow_pickle=True)) for _ in range(8)]
    for each in loads:
        each.result().close()


async def test_several_tensors_of_several_types_are_answered(tmp_path: Path) -> None:
    file = exported(tmp_path, Two(), torch.zeros(2, 4), torch.zeros(2, dtype=torch.int64))
    model = load(file, EngineOptions(allow_pickle=True))
    outputs = {"sum": "float [-1]", "half": "bfloat16 [-1, 4]", "n": "int64 [-1]"}
    assert told(model) == {"x": "float [-1, 4]", "n": "int64 [-1]"} | outputs
    answered = await answer(model, x=ROWS, n=[1, 2, 3, 4, 5])
    assert np.allclose(answered["sum"], ROWS.sum(1), atol=1e-5)
    assert np.allclose(answered["half"], ROWS, atol=0.02)
    assert (answered["n"].dtype, answered["n"].tolist()) == (np.int64, [2, 3, 4, 5, 6])
    model.close()


class Recurrent(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Takes and gives a tuple in a tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(4, 5, batch_first=True)

    def forward(
        self, x: torch.Tensor, hc: tuple[torch.Tensor, torch.Tensor]
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        found: tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]] = self.lstm(x, hc)
        return found


class Boxes(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Gives as many rows as values say, as detectors do, in dicts in a list."""

    def forward(self, batch: dict[str, torch.Tensor]) -> list[dict[str, torch.Tensor]]:
        x, y = batch["a"], batch["b"]
        return [{"kept": x[x.sum(1) > 0]}, {"kept": y[y.sum(1) > 0], "all": y}]


class Texts(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Takes and gives texts and numbers."""

    def forward(
        self, texts: list[str], factor: int, mode: str = "a"
    ) -> tuple[list[str], int, bool]:
        return [text.upper() for text in texts], factor * len(texts), mode == "b"


class Optional(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Has optional arguments, and an optional output that is left out."""

    def forward(
        self, x: torch.Tensor, mask: torch.Tensor | None = None, scale: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        if scale is not None:
            x = x * scale
        return x, mask


class Forces(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Gives forces as the derivative of an energy, as models of molecules do."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.requires_grad_(True)
        found = torch.autograd.grad([(x * x * x).sum()], [x])[0]
        assert found is not None
        return found


class Strided(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Makes the picture smaller, and gives it in other layouts, too."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        small = x[:, ::4]
        return small, small.to_sparse(), torch.quantize_per_tensor(small, 0.1, 0, torch.quint8)


class Changing(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Gives as many outputs as it is given rows."""

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [each for each in x]  # noqa: C416  TorchScript knows no other way


H = {"dtype": "float32", "shape": [1, -1, 5]}
FRAMES = {"dtype": "float32", "shape": [-1, -1, 4]}
TEXT = {"dtype": "string", "shape": []}
ONE = np.ones((1, 2, 5), np.float32)


@pytest.mark.parametrize(
    ("module", "inputs", "request_", "arguments", "outputs"),
    [
        pytest.param(
            Recurrent(),
            {"x": FRAMES, "hc_0": H, "hc_1": H},
            {"x": ROWS[:4].reshape(2, 2, 4), "hc_0": ONE, "hc_1": 2 * ONE},
            lambda x, hc_0, hc_1: (x, (hc_0, hc_1)),
            {
                "output_0": "float [-1, -1, 5]",
                "output_1_0": "float [1, -1, 5]",
                "output_1_1": "float [1, -1, 5]",
            },
            id="tuples",
        ),
        pytest.param(
            Boxes(),
            {"batch_a": X["x"], "batch_b": X["x"]},
            {"batch_a": ROWS, "batch_b": ROWS[:2]},
            lambda batch_a, batch_b: ({"a": batch_a, "b": batch_b},),
            {
                "output_0_kept": "float [-1, 4]",
                "output_1_kept": "float [-1, 4]",
                "output_1_all": "float [-1, 4]",
            },
            id="dicts",
        ),
        pytest.param(
            Texts(),
            {
                "texts": {**TEXT, "shape": [-1]},
                "factor": {"dtype": "int64", "shape": []},
                "mode": TEXT,
            },
            {"texts": strings("ab", "c"), "factor": 3, "mode": np.array(b"b", np.object_)},
            lambda texts, factor, mode: (["ab", "c"], 3, "b"),
            {"output_0": "string [-1]", "output_1": "int64 []", "output_2": "bool []"},
            id="texts",
        ),
        pytest.param(
            Optional(),
            {"x": X["x"], "scale": {"dtype": "float32", "shape": [4]}},
            {"x": ROWS, "scale": ROWS[0]},
            lambda x, scale: (x, None, scale),
            {"output_0": "float [-1, 4]"},
            id="without an optional argument",
        ),
        pytest.param(
            Forces(), X, {"x": ROWS}, lambda x: (x,), {"output": "float [-1, 4]"}, id="forces"
        ),
        pytest.param(
            Strided(),
            {"x": {"dtype": "float32", "shape": [-1, -1]}},
            {"x": np.tile(ROWS, 4)},
            lambda x: (x,),
            {f"output_{each}": "float [-1, -1]" for each in range(3)},
            id="other layouts",
        ),
    ],
)
async def test_structures_of_inputs_and_outputs_answer_as_pytorch(
    tmp_path: Path, module: Any, inputs: Any, request_: Any, arguments: Any, outputs: Any
) -> None:
    torch.jit.script(module.eval()).save(str(tmp_path / "m.pt"))
    model = load(tmp_path / "m.pt", EngineOptions(params={"inputs": inputs}))
    told_outputs = {name: text for name, text in told(model).items() if name not in inputs}
    found = await answer(model, **request_)
    tensors = {
        name: torch.tensor(array)
        for name, array in request_.items()
        if getattr(array, "dtype", np.float32) == np.float32 and isinstance(array, np.ndarray)
    }
    wanted = [*_flat(module(*arguments(**(request_ | tensors))))]
    model.close()
    assert told_outputs == outputs
    assert len(found) == len(wanted)
    for one, two in zip(found.values(), wanted, strict=True):
        if one.dtype == np.object_:
            assert [each.decode() for each in one] == two
        else:
            np.testing.assert_allclose(one, two, rtol=1e-5)


def _flat(given: Any) -> Any:
    if isinstance(given, torch.Tensor):
        dense = given.dequantize() if given.is_quantized else given.to_dense()
        yield dense.detach().numpy()
    elif isinstance(given, int) or (isinstance(given, list) and isinstance(given[0], str)):
        yield given
    elif given is not None:
        for each in given.values() if isinstance(given, dict) else given:
            yield from _flat(each)


async def test_a_module_traced_on_a_gpu_computes_on_the_cpu(tmp_path: Path) -> None:
    class Traced(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x).to(torch.device("cuda:0"))

        def inner(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.ones([4], device="cuda:0")

    torch.jit.script(Traced()).save(str(tmp_path / "m.pt"))
    model = load(tmp_path / "m.pt", INPUTS)
    assert (await answer(model, x=ROWS))["output"].tolist() == (ROWS + 1).tolist()
    model.close()


async def test_a_module_that_writes_to_its_input_leaves_the_request_as_it_was(
    tmp_path: Path,
) -> None:
    class Writing(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x += 1
            return x

    torch.jit.script(Writing()).save(str(tmp_path / "m.pt"))
    model = load(tmp_path / "m.pt", INPUTS)
    rows = ROWS.copy()
    assert (await answer(model, x=rows))["output"].tolist() == (ROWS + 1).tolist()
    model.close()
    assert rows.tolist() == ROWS.tolist()


@pytest.mark.parametrize(
    ("module", "inputs", "text"),
    [
        pytest.param(
            Changing(),
            X,
            "gives the outputs output_0 or output_0, output_1, output_2, .* fixed sizes by params",
            id="as many outputs as rows",
        ),
        pytest.param(
            Boxes(),
            {"a": X["x"]},
            r"a given; the model takes batch \(Dict\[str, Tensor\] by inputs batch_KEY\)",
            id="a dict",
        ),
        pytest.param(
            Texts(),
            {"texts": {**TEXT, "shape": [-1]}},
            r"texts given; the model takes texts \(List\[str\].*\), factor \(int\), mode \(str\)",
            id="an argument that is left out",
        ),
    ],
)
def test_structures_that_no_request_can_carry_are_refused(
    tmp_path: Path, module: Any, inputs: Any, text: str
) -> None:
    torch.jit.script(module.eval()).save(str(tmp_path / "m.pt"))
    with pytest.raises(LoadFailed, match=text):
        load(tmp_path / "m.pt", EngineOptions(params={"inputs": inputs}))


def test_a_module_without_forward_is_told_with_its_methods(tmp_path: Path) -> None:
    class Encoder(torch.nn.Module):  # type: ignore[misc, name-defined]
        @torch.jit.export
        def encode(self, x: torch.Tensor) -> torch.Tensor:
            return x

    torch.jit.script(Encoder()).save(str(tmp_path / "m.pt"))
    with pytest.raises(LoadFailed, match="has no method forward; it has encode: export a module"):
        load(tmp_path / "m.pt", INPUTS)


OPERATION = """
import torch
library = torch.library.Library("torchvision", "DEF")
library.define("doubled(Tensor x) -> Tensor")
library.impl("doubled", lambda x: 2 * x, "CompositeExplicitAutograd")
"""
DOUBLING = """
class Doubling(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.torchvision.doubled(x)
"""


def test_operations_of_a_package_are_imported_with_it(tmp_path: Path) -> None:
    """Each in a process of its own: an operation once known remains so."""
    (tmp_path / "torchvision.py").write_text(OPERATION)
    (tmp_path / "doubling.py").write_text("import torch, torchvision" + DOUBLING)
    make = "import doubling, torch; torch.jit.script(doubling.Doubling()).save('m.pt')"
    ask = (
        "import asyncio, pathlib, numpy\n"
        "from ie_serving.engines.pytorch.driver import load\n"
        "from ie_serving.engines.base import EngineOptions\n"
        "from tests.unit.engines.asking import answer\n"
        "x = {'dtype': 'float32', 'shape': [-1]}\n"
        "try:\n"
        "    model = load(pathlib.Path('m.pt'), EngineOptions(params={'inputs': {'x': x}}))\n"
        "    print(asyncio.run(answer(model, x=[1.5]))['output'].tolist())\n"
        "except Exception as error:\n"
        "    print(error)\n"
    )
    path = os.pathsep.join([str(Path(__file__).parents[4]), str(tmp_path)])

    def told_by(program: str) -> str:
        command = [sys.executable, "-W", "ignore", "-c", program]
        env = {**os.environ, "PYTHONPATH": path}
        run = subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=100, check=True
        )
        return run.stdout.strip()

    told_by(make)
    assert told_by(ask) == "[3.0]"
    (tmp_path / "torchvision.py").write_text("raise RuntimeError('of another build')")
    cause = told_by(ask)
    assert re.match(r"m\.pt cannot be read by PyTorch: Unknown builtin op: torchvision::", cause)
    assert "install the package torchvision in the build for this PyTorch, or" in cause


@pytest.mark.parametrize("classes", [3, 7])
async def test_weights_are_loaded_with_their_class(tmp_path: Path, classes: int) -> None:
    net = LOADED["Net"](classes).eval()
    (tmp_path / "net.py").write_text(NET)
    torch.save(net.state_dict(), tmp_path / "m.pt")
    params = {"inputs": X, "model_class": "net:Net", "model_args": {"classes": classes}}
    with pytest.raises(LoadFailed, match=r"Python code of net:Net.*engine\.allow_python"):
        load(tmp_path / "m.pt", EngineOptions(params=params))
    model = load(tmp_path / "m.pt", EngineOptions(params=params, allow_python=True))
    assert np.allclose((await answer(model, x=ROWS))["output"], expected(net), atol=1e-5)
    model.close()


def test_versions_with_files_of_one_name_have_their_own_classes(tmp_path: Path) -> None:
    params = {"inputs": X, "model_class": "net:Net"}
    for version, classes in (("1", 3), ("2", 5)):
        (tmp_path / version).mkdir()
        (tmp_path / version / "net.py").write_text(NET.replace("classes=3", f"classes={classes}"))
        torch.save(LOADED["Net"](classes).state_dict(), tmp_path / version / "m.pt")
        model = load(tmp_path / version / "m.pt", EngineOptions(params=params, allow_python=True))
        assert told(model)["output"] == f"float [-1, {classes}]"
        model.close()


@pytest.mark.parametrize(
    ("params", "text"),
    [
        pytest.param({}, r'no dtypes and shapes; say them by params: .*"x"', id="nothing"),
        pytest.param({"inputs": {"y": X["x"]}}, "y given; the model takes x", id="another name"),
        pytest.param(
            {"inputs": {"x": {"shape": [-1, 9]}}}, r'fails on zeros of "x" \[1, 9\]', id="sizes"
        ),
        pytest.param(
            {"inputs": {"x": {"dtype": "string", "shape": [-1]}}},
            "no tensors of strings",
            id="text",
        ),
        pytest.param({"model_class": "net"}, 'expected "module:Class"', id="no class"),
        pytest.param({"model_class": "nowhere:Net"}, "No module named 'nowhere'", id="no module"),
    ],
)
def test_params_that_declare_a_module_wrongly_are_refused(
    tmp_path: Path, net: Any, params: Any, text: str
) -> None:
    with pytest.raises(LoadFailed, match=text) as failure:
        load(scripted(tmp_path, net), EngineOptions(params=params, allow_python=True))
    assert "\n" not in str(failure.value)


def test_weights_alone_and_broken_files_are_told(tmp_path: Path, net: Any) -> None:
    torch.save(net.state_dict(), tmp_path / "w.pt")
    with pytest.raises(LoadFailed, match=r"w\.pt is no TorchScript: .*model_class"):
        load(tmp_path / "w.pt", INPUTS)
    with torch.package.PackageExporter(str(tmp_path / "p.pt")) as package:
        package.save_pickle("model", "model.pkl", torch.nn.Linear(4, 3))
        package.extern("torch.**")
    with pytest.raises(LoadFailed, match=r"p\.pt is made by torch\.package .* by torch\.jit or"):
        load(tmp_path / "p.pt", INPUTS)
    (tmp_path / "b.pt2").write_bytes(b"no model")
    with pytest.raises(LoadFailed, match=r"^b\.pt2 cannot be read by PyTorch: ") as failure:
        load(tmp_path / "b.pt2", EngineOptions(allow_pickle=True))
    assert "\n" not in str(failure.value)


async def test_the_cause_of_a_failure_is_its_last_line(tmp_path: Path) -> None:
    class Picky(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
            return x.index_select(0, i)

    torch.jit.script(Picky()).save(str(tmp_path / "m.pt"))
    inputs = {"x": X["x"], "i": {"dtype": "int64", "shape": [-1]}}
    model = load(tmp_path / "m.pt", EngineOptions(params={"inputs": inputs}))
    for _ in range(2):
        with pytest.raises(
            InvalidRequest, match=r"PyTorch refuses the inputs: .*out of"
        ) as failure:
            await answer(model, x=ROWS, i=[9])
        assert "Traceback" not in str(failure.value)
    assert (await answer(model, x=ROWS, i=[1]))["output"].tolist() == [ROWS[1].tolist()]
    model.close()


async def test_an_exception_of_a_module_is_a_refusal(tmp_path: Path) -> None:
    class AtOneRate(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: torch.Tensor, rate: int) -> torch.Tensor:
            if rate != 16000:
                raise ValueError("the rate is not supported")
            return x

    torch.jit.script(AtOneRate()).save(str(tmp_path / "m.pt"))
    inputs = {"x": X["x"], "rate": {"dtype": "int64", "shape": []}}
    outputs = {"output": X["x"]}
    model = load(tmp_path / "m.pt", EngineOptions(params={"inputs": inputs, "outputs": outputs}))
    with pytest.raises(InvalidRequest, match="ValueError: the rate is not supported; the model"):
        await answer(model, x=ROWS, rate=8000)
    assert (await answer(model, x=ROWS, rate=16000))["output"].tolist() == ROWS.tolist()
    model.close()


async def test_an_export_takes_structures_keywords_and_constants(tmp_path: Path) -> None:
    class Structured(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any, pair: Any, times: int, *, scale: Any) -> Any:
            return {"y": (x + pair[0] * pair[1]["k"]) * times * scale, "z": (x, x.sum())}

    x, one = torch.tensor(ROWS), torch.ones(4)
    arguments = (x, (one, {"k": 2 * one}), 3)
    program = torch.export.export(Structured(), arguments, {"scale": one})
    torch.export.save(program, tmp_path / "m.pt2")
    model = load(tmp_path / "m.pt2", EngineOptions(allow_pickle=True))
    given = {name: 2 * np.ones(4, np.float32) for name in ("pair_0", "pair_1_k", "scale")}
    answered = await answer(model, x=ROWS, **given)
    model.close()
    assert [*answered] == ["y", "z_0", "z_1"]
    np.testing.assert_allclose(answered["y"], (ROWS + 4) * 6, rtol=1e-6)


class Counting(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Adds what it was given before, as models of audio do that are cut into frames."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen = self.seen + x.sum(0)
        return x + self.seen


class InPlace(Counting):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.add_(x.sum(0))
        return x + self.seen


class ByView(Counting):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen[0:4] = self.seen[0:4] + x.sum(0)
        return x + self.seen


class InBranch(Counting):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] > 1:
            self.seen.add_(x.sum(0))
        return x + self.seen


@pytest.mark.parametrize("module", [Counting, InPlace, ByView, InBranch])
@pytest.mark.parametrize("form", ["script", "export"])
async def test_no_request_sees_the_state_of_another(tmp_path: Path, module: Any, form: str) -> None:
    if form == "script":
        torch.jit.script(module().eval()).save(str(tmp_path / "m.pt"))
        model = load(tmp_path / "m.pt", INPUTS)
    else:
        file = exported(tmp_path, module().eval(), torch.zeros(5, 4))
        model = load(file, EngineOptions(allow_pickle=True))
    found = [(await answer(model, x=ROWS))["output"] for _ in range(3)]
    (signature,) = model.signatures.values()
    model.close()
    np.testing.assert_allclose(found, [ROWS + ROWS.sum(0)] * 3, rtol=1e-6)
    assert signature.runs_on == "PyTorch; seen as the file has them, for each request"


class Sharing(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Keeps state twice in the same memory."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(4))
        self.register_buffer("two", self.seen[:2])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.add_(x.sum(0))
        self.two.add_(1)
        return x + self.seen


async def test_state_that_shares_memory_shares_it_in_each_request(tmp_path: Path) -> None:
    torch.jit.script(Sharing().eval()).save(str(tmp_path / "m.pt"))
    model = load(tmp_path / "m.pt", INPUTS)
    found = [(await answer(model, x=ROWS))["output"] for _ in range(3)]
    model.close()
    expected = ROWS + ROWS.sum(0) + np.array([1, 1, 0, 0], np.float32)
    np.testing.assert_allclose(found, [expected] * 3, rtol=1e-6)


def test_tensors_with_memory_of_their_own_are_not_copied_deeply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.jit.script(InPlace().eval()).save(str(tmp_path / "m.pt"))
    call = read(torch, tmp_path / "m.pt", EngineOptions()).call
    monkeypatch.setattr(copy, "deepcopy", None)
    with torch.inference_mode():
        found = [call(torch.tensor(ROWS)) for _ in range(3)]
    np.testing.assert_allclose(found, [ROWS + ROWS.sum(0)] * 3, rtol=1e-6)


class Mixed(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Keeps state in an inner module, and what is no tensor; gives its weights."""

    kept: list[torch.Tensor]

    def __init__(self) -> None:
        super().__init__()
        self.inner = InPlace()
        self.linear = torch.nn.Linear(4, 4)
        self.calls = 0
        self.kept = []

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, int]:
        self.calls += 1
        self.kept.append(x)
        y = self.inner(self.linear(x)) + len(self.kept)
        return y, self.linear.weight, self.calls


def test_a_request_copies_the_state_and_no_weights(tmp_path: Path) -> None:
    module = Mixed().eval()
    torch.jit.script(module).save(str(tmp_path / "m.pt"))
    call = read(torch, tmp_path / "m.pt", EngineOptions()).call
    x = torch.tensor(ROWS)
    with torch.inference_mode(), ThreadPoolExecutor(4) as pool:
        expected = module(x)[0]
        found = list(pool.map(lambda _: call(x), range(200)))
    assert all(torch.allclose(y, expected) for y, _, _ in found)
    assert {calls for _, _, calls in found} == {1}
    assert len({weight.data_ptr() for _, weight, _ in found}) == 1


class Attentive(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Has weights of which PyTorch cannot tell that nothing changes them, and state."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Parameter(torch.ones(4))
        self.second = torch.nn.Parameter(2 * torch.ones(4))
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        held = [self.first, x + 0]
        held[1].add_(1)
        if x.shape[0] == 2:
            self.first, self.second = self.second, self.first
        if x.shape[0] == 3:
            self.first.mul_(5)
        self.seen = self.seen + x.sum(0)
        return held[1] * self.first, self.first


def test_weights_that_a_request_left_alone_are_not_copied_again(tmp_path: Path) -> None:
    torch.jit.script(Attentive().eval()).save(str(tmp_path / "m.pt"))
    read_ = read(torch, tmp_path / "m.pt", EngineOptions())
    assert {"first", "seen", "second"} == {*read_.state}
    kept = []
    with torch.inference_mode():
        for count in (1, 2, 1, 3, 1, 1):
            x = torch.tensor(ROWS[:count])
            found, first = read_.call(x)
            factor = {1: 1, 2: 2, 3: 5}[count]
            np.testing.assert_allclose(found, (x + 1) * factor, rtol=1e-6)
            kept.append((first, first.clone()))
    # What a request was given does not change with later ones.
    assert all(torch.equal(first, then) for first, then in kept)


def test_a_request_copies_no_weights_of_a_transformer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    net = torch.nn.TransformerEncoder(layer, 2).eval()
    torch.jit.script(net).save(str(tmp_path / "m.pt"))
    call = read(torch, tmp_path / "m.pt", EngineOptions()).call
    x = torch.zeros(1, 3, 8)
    mask = torch.zeros(1, 3, dtype=torch.bool)
    with torch.inference_mode():
        expected = net(x, None, mask)
        call(x, None, mask)
        monkeypatch.setattr(torch.Tensor, "clone", None)
        monkeypatch.setattr(copy, "deepcopy", None)
        assert torch.allclose(call(x, None, mask), expected, atol=1e-6)


def test_an_exported_program_copies_the_state_and_no_weights(tmp_path: Path) -> None:
    class Weighted(InPlace):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(4, 4))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return super().forward(x @ self.weight), self.weight.view(16)

    file = exported(tmp_path, Weighted().eval(), torch.zeros(5, 4))
    call = read(torch, file, EngineOptions(allow_pickle=True)).call
    x = torch.tensor(ROWS)
    with torch.inference_mode():
        found = [call(x) for _ in range(3)]
    assert all(torch.equal(y, found[0][0]) for y, _ in found)
    assert len({weight.data_ptr() for _, weight in found}) == 1


async def test_a_batch_normalization_keeps_no_state(tmp_path: Path) -> None:
    torch.jit.script(torch.nn.BatchNorm1d(4).eval()).save(str(tmp_path / "m.pt"))
    model = load(tmp_path / "m.pt", EngineOptions(params={"inputs": {"input": X["x"]}}))
    assert [each.runs_on for each in model.signatures.values()] == ["PyTorch"]
    model.close()


@pytest.mark.parametrize(
    ("inputs", "advice"),
    [
        ({"x": ([-1, 9], "float32")}, "give the sizes .* by params.inputs, or its outputs by"),
        ({"x": ([1, 9], "float32")}, "give its outputs by params.outputs$"),
        ({"x": ([-1, 4], "int64")}, "give its outputs by params.outputs, or the sizes"),
    ],
)
def test_a_model_that_refuses_zeros_is_told_what_helps(
    tmp_path: Path, net: Any, inputs: Any, advice: str
) -> None:
    given = {name: {"dtype": dtype, "shape": shape} for name, (shape, dtype) in inputs.items()}
    with pytest.raises(LoadFailed, match=f"fails on zeros of .*; {advice}"):
        load(scripted(tmp_path, net), EngineOptions(params={"inputs": given}))


def test_its_files_are_known() -> None:
    (row,) = (row for row in TABLE if row.name == "pytorch")
    assert all(row.recognizes([name]) for name in ("m.pt", "m.pth", "m.pt2", "m.torchscript"))
