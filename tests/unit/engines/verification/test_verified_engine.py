"""Which engine serves a model of ONNX, after what was found."""

import asyncio
import os
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from ie_serving.core.values.errors import InvalidTensor, LoadFailed
from ie_serving.core.values.tensors import SERVING_DEFAULT, Array
from ie_serving.engines.base import CompiledModel, EngineOptions
from ie_serving.engines.generated_requests import GeneratedRequest, ValueKind
from ie_serving.engines.onnxruntime.driver import OnnxRuntimeEngine
from ie_serving.engines.openvino.compiling.openvino_engine import OpenVinoEngine
from ie_serving.engines.openvino.compiling.properties import lower_precisions
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.run.program import CompiledPrograms
from ie_serving.engines.verification import child, comparison
from ie_serving.engines.verification import verified_engine as module
from ie_serving.engines.verification.comparison import ComparedSignature, ReferenceOutputs
from ie_serving.engines.verification.second_engine_layer import LARGE
from ie_serving.engines.verification.verdict import ComparisonTask, Findings, Verdicts
from ie_serving.engines.verification.verified_engine import VerifiedEngine
from ie_serving.engines.verification.verifier import Verifier
from tests.onnx_models import Of, save_onnx
from tests.tables import named_by
from tests.unit.engines.openvino.models import add_one

RELEASE = "onnxruntime 1.0"
AGREES = Findings(RELEASE, asked=9)
DIFFERS = Findings(RELEASE, asked=9, differs={ValueKind.FINITE: "halves: y is 1, not 2"})


@dataclass
class Found:
    """Gives what a test says was found."""

    findings_: Findings | ReferenceOutputs
    asked: list[EngineOptions] = field(default_factory=list)
    large: list[bool] = field(default_factory=list)

    def findings(
        self, file: Path, options: EngineOptions, *, large: bool = False
    ) -> Findings | ReferenceOutputs:
        self.asked.append(options)
        self.large.append(large)
        return self.findings_


def write(directory: Path, operator: str = "Relu", domain: str = "") -> Path:
    """Write y = operator(x)."""
    node = helper.make_node(operator, ["x"], ["y"], domain=domain)
    domains = {domain: 1} if domain else {}
    return save_onnx(
        directory / "m.onnx", [node], {"x": ["n"]}, {"y": ["n"]}, domains=domains
    ).parent


def load(directory: Path, found: Findings | ReferenceOutputs, **options: Any) -> CompiledModel:
    verified = VerifiedEngine(OpenVinoEngine(), OnnxRuntimeEngine(), Found(found))
    return verified.compile(directory, EngineOptions(**options))


def compared(verifier: Verifier, file: Path) -> Findings:
    """Give what the real comparison finds of a file."""
    found = verifier.findings(file, EngineOptions())
    assert isinstance(found, Findings)
    return found


def runs_on(model: CompiledModel) -> str:
    return model.signatures[SERVING_DEFAULT].runs_on


def ask(model: CompiledModel, *values: float) -> list[float]:
    signature = model.signatures[SERVING_DEFAULT]

    def read(outputs: Mapping[str, Array]) -> list[float]:
        return [float(value) for value in outputs["y"]]

    return asyncio.run(model.infer(signature, {"x": np.array(values, np.float32)}, read))


@pytest.mark.parametrize(
    ("found", "told"),
    [
        pytest.param(AGREES, "OpenVINO; compared with onnxruntime 1.0 on 9 requests", id="alike"),
        pytest.param(
            Findings(why_not="it took longer"), "OpenVINO; not compared: it took longer", id="not"
        ),
        pytest.param(
            DIFFERS,
            "onnxruntime, since OpenVINO and onnxruntime 1.0 differ: halves: y is 1, not 2",
            id="finite values differ",
        ),
    ],
)
def test_the_version_says_which_engine_serves_and_why(
    tmp_path: Path, found: Findings, told: str
) -> None:
    assert runs_on(load(write(tmp_path), found)) == told


def test_the_reference_serves_a_model_that_openvino_cannot_run(tmp_path: Path) -> None:
    model = load(write(tmp_path, "SampleOp", "com.microsoft"), AGREES)
    assert runs_on(model).startswith("onnxruntime, since ")
    assert ask(model, 0.0) == [0.0]


def test_a_driver_that_is_named_is_meant(tmp_path: Path) -> None:
    with pytest.raises(LoadFailed, match="y is 1, not 2; driver auto lets onnxruntime serve it"):
        load(write(tmp_path), DIFFERS, driver="openvino")


def test_without_the_library_its_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "find_spec", lambda name: None)
    assert runs_on(load(write(tmp_path), DIFFERS)) == (
        "OpenVINO; not compared: onnxruntime is not installed"
    )
    with pytest.raises(LoadFailed, match=re.escape("pip install '.[onnxruntime]'")):
        load(write(tmp_path, "SampleOp", "com.microsoft"), AGREES)


def test_a_file_that_is_no_model_is_no_reason_to_install_an_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "find_spec", lambda name: None)
    directory = write(tmp_path)
    (directory / "m.onnx").write_text("<html>")
    with pytest.raises(
        LoadFailed, match=r"is a page of HTML and not the model, .*: upload the model$"
    ):
        load(directory, AGREES)


def test_off_compares_nothing(tmp_path: Path) -> None:
    assert runs_on(load(write(tmp_path), DIFFERS, verify="off")) == "OpenVINO"


def test_require_serves_nothing_that_was_not_compared(tmp_path: Path) -> None:
    with pytest.raises(LoadFailed, match="not compared: it took longer"):
        load(write(tmp_path / "onnx"), Findings(why_not="it took longer"), verify="require")
    with pytest.raises(LoadFailed, match="no second engine to compare this format with"):
        load(add_one(tmp_path / "ir"), AGREES, verify="require")


def test_a_model_with_other_numbers_each_time_is_not_compared(tmp_path: Path) -> None:
    model = load(write(tmp_path, "RandomNormalLike"), DIFFERS)
    assert runs_on(model) == (
        "OpenVINO; not compared: RandomNormalLike gives other numbers each time"
    )


def test_a_model_that_is_too_large_is_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 10)
    assert "not compared: the model is larger than" in runs_on(load(write(tmp_path), DIFFERS))


def test_a_model_without_a_signature_is_closed_where_the_other_engine_breaks(
    tmp_path: Path,
) -> None:
    closed: list[bool] = []

    class Partly(OpenVinoEngine):
        def compile(self, directory: Path, options: EngineOptions) -> CompiledModel:
            model: Any = super().compile(directory, options)
            named = model.signatures.items()
            model.signatures = {name: replace(each, left_out="no y") for name, each in named}
            model.close = lambda: closed.append(True)
            return model

    class Full(OnnxRuntimeEngine):
        def compile(self, directory: Path, options: EngineOptions) -> CompiledModel:
            raise MemoryError

    with pytest.raises(MemoryError):
        VerifiedEngine(Partly(), Full(), Found(AGREES)).compile(write(tmp_path), EngineOptions())
    assert closed


def test_shapes_of_the_configuration_are_left_out_of_the_comparison(tmp_path: Path) -> None:
    found = Found(AGREES)
    verified = VerifiedEngine(OpenVinoEngine(), OnnxRuntimeEngine(), found)
    options = EngineOptions(own=(OpenVinoOptions(batch_size=4),))
    assert verified.compile(write(tmp_path), options).signatures[SERVING_DEFAULT].inputs[
        "x"
    ].shape == (4,)
    assert found.asked[0].of(OpenVinoOptions).batch_size is None


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(OpenVinoOptions(target_device="GPU.7"), id="a device that is not there"),
        pytest.param(OpenVinoOptions(plugin_config={"NO_SUCH": "1"}), id="an unknown property"),
    ],
)
def test_a_setting_that_is_wrong_fails_the_version(
    tmp_path: Path, options: OpenVinoOptions
) -> None:
    with pytest.raises(LoadFailed):
        load(write(tmp_path), AGREES, own=(options,))


def test_renamed_tensors_stay_with_openvino(tmp_path: Path) -> None:
    directory = write(tmp_path)
    (directory / "mapping_config.json").write_text('{"inputs": {"x": "pixels"}}')
    model = load(directory, DIFFERS)
    assert runs_on(model) == "OpenVINO"
    assert list(model.signatures[SERVING_DEFAULT].inputs) == ["pixels"]


def test_a_file_that_was_replaced_is_not_read_later(tmp_path: Path) -> None:
    model = load(write(tmp_path), Findings(RELEASE, asked=3, differs={ValueKind.NAN: "NaN"}))
    write(tmp_path, "Sqrt")
    with pytest.raises(InvalidTensor, match="have changed since it was loaded"):
        ask(model, np.nan)


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_requests_with_odd_values_are_handed_over(tmp_path: Path, odd: float) -> None:
    kinds = {ValueKind.NAN: "NaN", ValueKind.INFINITE: "inf"}
    model = load(write(tmp_path), Findings(RELEASE, asked=3, differs=kinds))
    assert ask(model, 1, -1) == [1, 0]
    np.testing.assert_array_equal(ask(model, 1, odd, -1), [1, odd, 0])
    np.testing.assert_array_equal(ask(model, odd), [odd])
    model.close()


def test_requests_are_handed_over_whatever_precision_was_chosen(tmp_path: Path) -> None:
    """A load that took a lower precision refused them, although onnxruntime was there."""
    found = Findings(RELEASE, asked=3, differs={ValueKind.NAN: "NaN"})
    for precision in ("f32", *lower_precisions(OpenVinoOptions())):
        own = OpenVinoOptions(inference_precision=precision)
        model = load(write(tmp_path), found, own=(own,))
        np.testing.assert_array_equal(ask(model, 1, np.nan, -1), [1, np.nan, 0])
        model.close()


def test_an_operator_that_openvino_computes_otherwise_is_not_served_uncompared(
    tmp_path: Path,
) -> None:
    shapes = {"w": (1, 2, 8), "r": (1, 2, 8)}
    random = np.random.default_rng(4)
    held: dict[str, Any] = {n: random.integers(0, 256, s, np.uint8) for n, s in shapes.items()}
    held |= {"s": np.full(1, 0.02, np.float32), "z": np.full(1, 128, np.uint8)}
    names = ["x", "w", "r", *[""] * 5, "s", "z", "s", "z"]
    node = helper.make_node(
        "DynamicQuantizeLSTM", names, ["y"], domain="com.microsoft", hidden_size=2
    )
    directory = save_onnx(
        tmp_path / "m.onnx", [node], {"x": [3, 1, 2]}, "y", domains={"com.microsoft": 1}, **held
    ).parent
    told = runs_on(load(directory, Findings(why_not="onnxruntime is not installed")))
    assert told.startswith("onnxruntime, since OpenVINO computes DynamicQuantizeLSTM with other")
    assert runs_on(load(directory, AGREES)).startswith("OpenVINO; compared")
    own = OpenVinoOptions(plugin_config={"NUM_STREAMS": "1"})
    with pytest.raises(LoadFailed, match="which defines it; it serves the model without plugin_co"):
        load(directory, AGREES, own=(own,))


def test_large_inputs_are_looked_at_too(tmp_path: Path) -> None:
    model = load(write(tmp_path), Findings(RELEASE, asked=3, differs={ValueKind.NAN: "NaN"}))
    values = [1.0] * (LARGE + 1)
    assert ask(model, *values) == values
    np.testing.assert_array_equal(ask(model, *values, np.nan), [*values, np.nan])


def test_the_compiled_model_is_closed_once_where_another_engine_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[object] = []

    def close(model: CompiledPrograms) -> None:
        closed.append(model)

    monkeypatch.setattr(CompiledPrograms, "close", close)
    with pytest.raises(LoadFailed):
        load(write(tmp_path), DIFFERS, driver="openvino")
    assert len(closed) == 1


def test_no_request_divides_the_least_integer_by_onnxruntime(tmp_path: Path) -> None:
    """Divided by -1 it ended the process."""
    node = helper.make_node("Div", ["x", "x"], ["y"])
    end = Of(TensorProto.INT64, ["n"])
    save_onnx(tmp_path / "m.onnx", [node], {"x": end}, {"y": end})
    model = load(tmp_path, DIFFERS)
    signature = model.signatures[SERVING_DEFAULT]
    least = np.array([np.iinfo(np.int64).min])
    with pytest.raises(InvalidTensor, match="does not divide the least integer: send others"):
        asyncio.run(model.infer(signature, {"x": least}, dict))
    answer = asyncio.run(model.infer(signature, {"x": least + 1}, lambda found: int(found["y"][0])))
    assert answer == 1


def test_values_that_the_reference_cannot_answer_are_refused(tmp_path: Path) -> None:
    crashed = {ValueKind.NAN: "onnxruntime ended its process"}
    model = load(write(tmp_path), Findings(RELEASE, asked=3, crashed=crashed))
    assert ask(model, 1) == [1]
    assert ask(model, np.inf) == [np.inf]
    with pytest.raises(InvalidTensor, match=r'input "x": .* with NaN wrongly .*: send others'):
        ask(model, np.nan)


def test_values_that_have_ended_both_engines_are_given_to_neither(tmp_path: Path) -> None:
    both = "OpenVINO ended its process by SIGSEGV: x; onnxruntime ended its process by SIGSEGV: y"
    crashed = {ValueKind.NAN: both}
    for found in (Findings(RELEASE, asked=3), DIFFERS):
        model = load(write(tmp_path), replace(found, crashed=crashed))
        assert ask(model, 1) == [1]
        with pytest.raises(InvalidTensor, match="send others"):
            ask(model, np.nan)


@pytest.mark.parametrize("engine", ["onnxruntime", "OpenVINO"])
def test_the_reference_does_not_serve_what_has_ended_its_process(
    tmp_path: Path, engine: str
) -> None:
    crashed = {ValueKind.EMPTY: f"{engine} ended its process by SIGABRT: no elements"}
    model = load(write(tmp_path), replace(DIFFERS, crashed=crashed))
    assert ask(model, 1) == [1]
    if engine == "OpenVINO":
        assert ask(model) == []
        return
    with pytest.raises(InvalidTensor, match=r"onnxruntime crashes at no elements .*: send others"):
        ask(model)


@named_by(
    "operator",
    ("operator", "kinds"),
    [
        ("ThresholdedRelu", {ValueKind.NAN, ValueKind.INFINITE}),
        ("Relu", {ValueKind.NAN}),
        ("Identity", set()),
        ("Sqrt", set()),
    ],
)
def test_the_real_comparison_finds_values_that_differ(
    tmp_path: Path, verifier: Verifier, operator: str, kinds: set[ValueKind]
) -> None:
    """OpenVINO's ReLU of NaN is 0."""
    found = compared(verifier, write(tmp_path, operator) / "m.onnx")
    assert found.reference.startswith("onnxruntime ")
    assert found.asked > 5
    assert set(found.differs) == kinds


def test_sizes_that_openvino_refuses_are_followed_by_larger_ones(
    tmp_path: Path, verifier: Verifier
) -> None:
    """A window that does not fit is refused by OpenVINO, as of text recognition by PaddleOCR."""
    window = {"kernel_shape": [4, 4], "strides": [2, 2]}
    pool = helper.make_node("AveragePool", ["x"], ["z"], **window)
    relu = helper.make_node("Relu", ["z"], ["y"])
    image = ["n", 1, "h", "w"]
    save_onnx(tmp_path / "m.onnx", [pool, relu], {"x": image}, {"y": None})
    found = compared(verifier, tmp_path / "m.onnx")
    assert "x [2, 1, 2, 2]" in found.refused
    assert found.asked > 5
    assert ValueKind.FINITE not in found.differs


def test_a_model_is_compared_beside_more_descriptors_than_select_takes(tmp_path: Path) -> None:
    """As in a server with many connections; the child's pipe has the number that it has here."""
    with ExitStack() as opened:
        for _ in range(1100):
            opened.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        own = opened.enter_context(closing(Verifier()))
        found = compared(own, write(tmp_path, "Sqrt") / "m.onnx")
    assert (found.why_not, found.asked > 5) == ("", True)


def test_names_with_a_port_as_of_tf2onnx_are_compared(tmp_path: Path, verifier: Verifier) -> None:
    node = helper.make_node("Relu", ["x:0"], ["y:0"])
    save_onnx(tmp_path / "m.onnx", [node], {"x:0": ["n"]}, {"y:0": ["n"]})
    assert compared(verifier, tmp_path / "m.onnx").asked > 1


def test_openvino_serves_what_only_onnxruntime_computes_wrongly(
    tmp_path: Path, verifier: Verifier
) -> None:
    """It was found to differ from keys that onnxruntime reads beyond their memory, and refused."""
    ends = {name: [1, 3, 8] for name in "qkv"} | {name: [1, 2, 9, 4] for name in "ab"}
    inputs = ["q", "k", "v", "", "", "", "a", "b"]
    domain = "com.microsoft"
    node = helper.make_node("MultiHeadAttention", inputs, ["y"], domain=domain, num_heads=2)
    save_onnx(tmp_path / "m.onnx", [node], ends, "y", domains={domain: 1})
    verified = VerifiedEngine(OpenVinoEngine(), OnnxRuntimeEngine(), verifier)
    with closing(verified.compile(tmp_path, EngineOptions())) as model:
        found = runs_on(model)
    assert found.startswith('OpenVINO; not compared: MultiHeadAttention "y": onnxruntime reads')


def test_a_large_model_is_compiled_once(
    tmp_path: Path, verifier: Verifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compiled model of the server answers the request that onnxruntime was asked."""
    monkeypatch.setattr(module, "LARGE_BYTES", 1)
    verified = VerifiedEngine(OpenVinoEngine(), OnnxRuntimeEngine(), verifier)
    model = verified.compile(write(tmp_path), EngineOptions())
    assert re.fullmatch(r"OpenVINO; compared with onnxruntime \S+ on \d+ requests", runs_on(model))


@pytest.mark.parametrize(("expected", "served"), [(2.0, "onnxruntime"), (1.0, "OpenVINO")])
def test_a_large_model_that_differs_is_not_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: float, served: str
) -> None:
    monkeypatch.setattr(module, "LARGE_BYTES", 1)
    ones = np.ones(3, np.float32)
    request = GeneratedRequest(ValueKind.FINITE, "ones", {"x": ones})
    tensors = ComparedSignature(frozenset("x"), frozenset("y"))
    answers = ReferenceOutputs(RELEASE, tensors, [(request, {"y": ones * expected})])
    assert runs_on(load(write(tmp_path), answers)).startswith(served)


@pytest.mark.parametrize(("most_s", "asked"), [(0.0, 1), (60.0, 3)])
def test_a_large_model_is_asked_once_and_more_while_there_is_time(
    tmp_path: Path, most_s: float, asked: int
) -> None:
    ones = np.ones(3, np.float32)
    request = GeneratedRequest(ValueKind.FINITE, "ones", {"x": ones})
    answers = ReferenceOutputs(
        RELEASE, ComparedSignature(frozenset("x"), frozenset("y")), [(request, {"y": ones})] * 3
    )
    model = OpenVinoEngine().compile(write(tmp_path), EngineOptions())
    assert answers.compared_with(model, most_s).asked == asked
    model.close()


@pytest.mark.parametrize(("share", "labels"), [(0.0, 1), (1e6, 4)])
def test_of_a_large_model_finite_values_alone_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float, labels: int
) -> None:
    monkeypatch.setattr(child, "MORE_SHARE", share)
    monkeypatch.setattr(child, "MOST_SIZES", 1)
    file = write(tmp_path) / "m.onnx"
    task = ComparisonTask(
        file, EngineOptions(), large=True, limit_s=9, scratch=tmp_path / "scratch"
    )
    found, _ = child.compare(task, child.StepNotes(StringIO(), frozenset()))
    assert isinstance(found, ReferenceOutputs)
    assert {request.kind for request, _ in found.answered} == {ValueKind.FINITE}
    assert len({request.label for request, _ in found.answered}) == labels


def test_shapes_of_the_configuration_are_compared_in_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LARGE_BYTES", 1)
    found = Found(AGREES)
    verified = VerifiedEngine(OpenVinoEngine(), OnnxRuntimeEngine(), found)
    verified.compile(write(tmp_path), EngineOptions(own=(OpenVinoOptions(batch_size=4),)))
    assert found.large == [False]


def test_a_verdict_is_kept_until_the_file_changes(tmp_path: Path) -> None:
    found = Found(AGREES)
    verified = VerifiedEngine(OpenVinoEngine(), OnnxRuntimeEngine(), found)
    options = EngineOptions(cache_dir=tmp_path / "cache")
    directory = write(tmp_path / "model")
    told = [runs_on(verified.compile(directory, options)) for _ in range(3)]
    assert len(found.asked) == 1
    assert set(told) == {"OpenVINO; compared with onnxruntime 1.0 on 9 requests"}
    write(directory, "Sqrt")
    verified.compile(directory, options)
    assert len(found.asked) == 2


def test_a_verdict_that_is_damaged_is_made_again(tmp_path: Path) -> None:
    kept = Findings(
        RELEASE, asked=3, differs={ValueKind.NAN: "y is 1"}, crashed={ValueKind.EMPTY: "it"}
    )
    file, options = write(tmp_path / "model") / "m.onnx", EngineOptions()
    assert Verdicts(tmp_path, file, options, "onnxruntime").found(lambda: kept) == kept
    assert Verdicts(tmp_path, file, options, "onnxruntime").found(lambda: AGREES) == kept
    (path,) = (tmp_path / "verdicts").glob("*.json")
    path.write_text(path.read_text().replace("y is 1", "y is 2"))
    assert Verdicts(tmp_path, file, options, "onnxruntime").found(lambda: AGREES) == AGREES


def test_a_failed_comparison_is_not_kept(tmp_path: Path) -> None:
    file, options = write(tmp_path / "model") / "m.onnx", EngineOptions()
    failed = Findings(why_not="it took longer")
    assert Verdicts(tmp_path, file, options, "onnxruntime").found(lambda: failed) == failed
    assert Verdicts(tmp_path, file, options, "onnxruntime").found(lambda: AGREES) == AGREES


def test_workers_wait_for_the_one_that_compares(tmp_path: Path) -> None:
    file, options = write(tmp_path / "model") / "m.onnx", EngineOptions()
    begun, goes_on = Event(), Event()

    def compare() -> Findings:
        begun.set()
        assert goes_on.wait(10)
        return AGREES

    with ThreadPoolExecutor(2) as workers:
        first = workers.submit(Verdicts(tmp_path, file, options, "onnxruntime").found, compare)
        assert begun.wait(10)
        second = workers.submit(
            Verdicts(tmp_path, file, options, "onnxruntime").found, lambda: DIFFERS
        )
        goes_on.set()
        assert first.result() == second.result() == AGREES


def test_a_failed_comparison_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    load(write(tmp_path), Findings(why_not="onnxruntime does not take the file: so"))
    (record,) = (r for r in caplog.records if "engines not compared" in r.getMessage())
    assert record.levelname == "WARNING"
    assert "onnxruntime does not take the file: so" in record.getMessage()


@named_by(
    "result",
    ("found", "result"),
    [
        (AGREES, "alike"),
        (DIFFERS, "other_engine"),
        (Findings(RELEASE, asked=3, differs={ValueKind.NAN: "NaN"}), "handed_over"),
        (Findings(why_not="so"), "not_compared"),
    ],
)
def test_the_result_is_part_of_the_signatures(tmp_path: Path, found: Findings, result: str) -> None:
    evidence = load(write(tmp_path), found).signatures[SERVING_DEFAULT].evidence
    assert evidence is not None
    assert evidence.result == result
    assert load(write(tmp_path), found, verify="off").signatures[SERVING_DEFAULT].evidence is None
