"""Device properties: the user's own, names of 2020, and what the server adds for the CPU."""

from pathlib import Path

import numpy as np
import openvino as ov
import openvino.opset15 as op
import pytest
from onnx import helper

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.openvino.compiling.properties import (
    precision_of,
    properties,
    property_of,
    translated,
)
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.openvino.runtime import core
from tests.onnx_models import save_onnx
from tests.unit.engines.openvino.models import add_one, load, run


@pytest.mark.parametrize(
    ("given", "today"),
    [
        ({"CPU_THROUGHPUT_STREAMS": "2"}, {"NUM_STREAMS": "2"}),
        ({"CPU_THROUGHPUT_STREAMS": "CPU_THROUGHPUT_AUTO"}, {"NUM_STREAMS": "AUTO"}),
        ({"KEY_CPU_THREADS_NUM": "3"}, {"INFERENCE_NUM_THREADS": "3"}),
        ({"CPU_BIND_THREAD": "NO"}, {"ENABLE_CPU_PINNING": "false"}),
        ({"CPU_BIND_THREAD": "NUMA"}, {"ENABLE_CPU_PINNING": "true"}),
        ({"ENFORCE_BF16": "YES"}, {"INFERENCE_PRECISION_HINT": "bf16"}),
        ({"KEY_PERF_COUNT": "YES"}, {"PERF_COUNT": "YES"}),
        ({"DYN_BATCH_ENABLED": "YES"}, {}),
        ({"AFFINITY": "NUMA"}, {}),
    ],
    ids=str,
)
def test_names_of_2020_are_translated_with_one_warning(
    given: dict[str, str], today: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    assert translated(given) == today
    (record,) = caplog.records
    assert next(iter(given)) in record.getMessage()


def test_names_of_today_pass_as_they_are(caplog: pytest.LogCaptureFixture) -> None:
    config = {"PERFORMANCE_HINT": "THROUGHPUT", "WHATEVER": "x"}
    assert translated(config) == config
    assert not caplog.records


def test_the_thread_limit_yields_to_the_user() -> None:
    assert properties(EngineOptions(), 3)["INFERENCE_NUM_THREADS"] == "3"
    config = {"CPU_THREADS_NUM": "7", "CPU_BIND_THREAD": "YES"}
    chosen = properties(EngineOptions(own=(OpenVinoOptions(plugin_config=config),)), 3)
    assert chosen == {"INFERENCE_NUM_THREADS": "7", "ENABLE_CPU_PINNING": "true"}


@pytest.mark.parametrize(
    ("config", "threads", "chosen"),
    [
        pytest.param({}, 40, "32", id="a quota does not widen a stream beyond a node"),
        pytest.param({}, 8, "8", id="the quota is tighter"),
        pytest.param({}, None, None, id="nothing limits: OpenVINO keeps to a node by itself"),
        pytest.param({"NUM_STREAMS": "2"}, 40, "40", id="streams of the user"),
        pytest.param({"PERFORMANCE_HINT": "THROUGHPUT"}, 40, "40", id="streams by a hint"),
        pytest.param({"CPU_THREADS_NUM": "64"}, 40, "64", id="threads of the user"),
    ],
)
def test_one_stream_keeps_to_a_numa_node(
    config: dict[str, str], threads: int | None, chosen: str | None
) -> None:
    options = EngineOptions(own=(OpenVinoOptions(plugin_config=config),))
    assert properties(options, threads, 32).get("INFERENCE_NUM_THREADS") == chosen


def test_other_devices_get_no_properties_of_the_cpu() -> None:
    assert properties(EngineOptions(own=(OpenVinoOptions(target_device="GPU"),)), 3) == {}


def test_precision_and_cache_become_properties(tmp_path: Path) -> None:
    options = EngineOptions(
        cache_dir=tmp_path, own=(OpenVinoOptions(target_device="AUTO", inference_precision="f32"),)
    )
    assert properties(options, None) == {
        "INFERENCE_PRECISION_HINT": "f32",
        "CACHE_DIR": str(tmp_path),
    }


@pytest.mark.parametrize(
    ("config", "is_exact"), [({}, True), ({"DYNAMIC_QUANTIZATION_GROUP_SIZE": "32"}, False)]
)
async def test_f32_rounds_no_numbers_to_8_bits(
    tmp_path: Path, config: dict[str, str], is_exact: bool
) -> None:
    """OpenVINO quantized the inputs of weights of 8 bits and less."""
    random = np.random.default_rng(4)
    held = random.integers(0, 256, (32, 1, 32), np.uint8)
    given, scales = (random.standard_normal(size).astype(np.float32) for size in ((3, 64), 32))
    sizes = {"K": 64, "N": 32, "bits": 4, "block_size": 64}
    node = helper.make_node("MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", **sizes)
    ends, domains = {"x": ["n", 64]}, {"com.microsoft": 1}
    save_onnx(tmp_path / "model.onnx", [node], ends, "y", domains=domains, w=held, s=scales)
    model = load(tmp_path, inference_precision="f32", plugin_config=config)
    answer = (await run(model, {"x": given}))["y"]
    weights = np.stack([held & 15, held >> 4], -1).reshape(32, 64) - 8.0
    assert np.allclose(answer, given @ (weights * scales[:, None]).T, 1e-4, 1e-3) is is_exact


@pytest.mark.parametrize("word", ["f16", "FP16"])
def test_a_model_that_a_cpu_computes_in_f16_is_not_kept(tmp_path: Path, word: str) -> None:
    """OpenVINO took the graph that it had kept of f32 for one of f16, and that of f16 for f32."""
    own = OpenVinoOptions(plugin_config={"INFERENCE_PRECISION_HINT": word})
    assert "CACHE_DIR" not in properties(EngineOptions(cache_dir=tmp_path, own=(own,)), None)
    own = OpenVinoOptions(plugin_config={"INFERENCE_PRECISION_HINT": "bf16"})
    assert "CACHE_DIR" in properties(EngineOptions(cache_dir=tmp_path, own=(own,)), None)


@pytest.mark.parametrize("device", ["CPU", "AUTO", "HETERO:CPU", "MULTI:CPU", "BATCH:CPU(2)"])
def test_the_precision_of_the_cpu_is_known_behind_other_devices(
    tmp_path: Path, device: str
) -> None:
    model = core().read_model(add_one(tmp_path) / "model.xml")
    config = {"INFERENCE_PRECISION_HINT": "f32"}
    compiled = core().compile_model(model, device, config)
    assert property_of(compiled, "INFERENCE_PRECISION_HINT") == "f32"
    assert property_of(compiled, "NO_SUCH") == "unknown"


@pytest.mark.parametrize("hint", [{"INFERENCE_PRECISION_HINT": "f32"}, {"KEY_ENFORCE_BF16": "NO"}])
def test_two_precisions_for_one_model_are_refused(hint: dict[str, str]) -> None:
    """Before, `inference_precision` counted, without a word."""
    one = OpenVinoOptions(inference_precision="f32", plugin_config=hint)
    assert properties(EngineOptions(own=(one,)), None)["INFERENCE_PRECISION_HINT"] == "f32"
    two = OpenVinoOptions(inference_precision="bf16", plugin_config=hint)
    with pytest.raises(LoadFailed, match="says bf16, and plugin_config f32: remove one of them"):
        properties(EngineOptions(own=(two,)), None)


@pytest.mark.parametrize(
    ("config", "precision"),
    [
        pytest.param({"EXECUTION_MODE_HINT": "ACCURACY"}, "f32", id="the mode"),
        pytest.param({"INFERENCE_PRECISION_HINT": "dynamic"}, "f32", id="the word"),
        pytest.param({"INFERENCE_PRECISION_HINT": "f32"}, "f32", id="f32"),
    ],
)
def test_the_precision_of_a_model_is_named(
    tmp_path: Path, config: dict[str, str], precision: str
) -> None:
    """OpenVINO calls it dynamic."""
    model = core().read_model(add_one(tmp_path) / "model.xml")
    assert precision_of(core().compile_model(model, "CPU", config), model) == precision


def test_floats_of_16_bits_that_a_model_has_itself_are_named() -> None:
    x = op.parameter([2], ov.Type.bf16)
    model = ov.Model([op.result(op.relu(x))], [x])
    compiled = core().compile_model(model, "CPU", {"EXECUTION_MODE_HINT": "ACCURACY"})
    assert precision_of(compiled, model) == "bf16"


@pytest.mark.parametrize(
    "lower",
    [
        OpenVinoOptions(
            plugin_config={"EXECUTION_MODE_HINT": "ACCURACY", "INFERENCE_PRECISION_HINT": "bf16"}
        ),
        OpenVinoOptions(
            plugin_config={"EXECUTION_MODE_HINT": "ACCURACY"}, inference_precision="bf16"
        ),
    ],
    ids=["in plugin_config", "as a key"],
)
def test_accuracy_beside_a_lower_precision_is_refused(lower: OpenVinoOptions) -> None:
    """OpenVINO would compute in bf16, and say nothing."""
    with pytest.raises(LoadFailed, match=r"EXECUTION_MODE_HINT says ACCURACY, and .* bf16"):
        properties(EngineOptions(own=(lower,)), None)


def test_accuracy_in_a_models_entry_says_the_precision() -> None:
    assert OpenVinoOptions(plugin_config={"EXECUTION_MODE_HINT": "ACCURACY"}).says_precision
    assert not OpenVinoOptions(plugin_config={"EXECUTION_MODE_HINT": "PERFORMANCE"}).says_precision
