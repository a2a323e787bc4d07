"""`target_device` and `plugin_config` beside what OpenVINO has here."""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import openvino as ov
import pytest

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.openvino.compiling import properties
from ie_serving.engines.openvino.options import OpenVinoOptions
from tests.unit.engines.openvino.models import add_one

KNOWN = {"NUM_STREAMS": "RW", "INFERENCE_NUM_THREADS": "RW", "FULL_DEVICE_NAME": "RO"}


@pytest.mark.parametrize(
    ("config", "text"),
    [
        pytest.param({"NUM_STREAM": "2"}, 'did you mean "NUM_STREAMS"', id="a letter is missing"),
        pytest.param({"num_streams": "2"}, 'did you mean "NUM_STREAMS"', id="small letters"),
        pytest.param(
            {"XYZ": "2"}, "no property 'XYZ'; it has ALLOW_AUTO_BATCHING", id="unlike any"
        ),
        pytest.param({"FULL_DEVICE_NAME": "2"}, "can only be read: remove it", id="read only"),
    ],
)
def test_a_property_that_is_none_is_refused(config: Mapping[str, str], text: str) -> None:
    with pytest.raises(LoadFailed) as refused:
        properties.check_properties("CPU", config, KNOWN)
    assert str(refused.value).startswith("plugin_config: ")
    assert text in str(refused.value)


@pytest.mark.parametrize("device", ["CPU", "AUTO", "BATCH:CPU(4)"])
@pytest.mark.parametrize("text", ["2abc", "1.5", "", "two"])
@pytest.mark.parametrize("name", ["NUM_STREAMS", "CPU_THREADS_NUM"])
def test_a_number_that_is_none_is_refused(name: str, text: str, device: str) -> None:
    """OpenVINO takes 2 for 2abc, and 1 for 1.5."""
    options = OpenVinoOptions(target_device=device, plugin_config={name: text})
    with pytest.raises(LoadFailed, match=rf"is '{text}'; expected a whole number"):
        properties.device(options)


@pytest.mark.parametrize("text", ["2", "AUTO", "NUMA"])
def test_streams_are_a_number_or_a_word(text: str) -> None:
    assert properties.device(OpenVinoOptions(plugin_config={"NUM_STREAMS": text})) == "CPU"


@pytest.mark.parametrize("config", [{}, {"NUM_STREAMS": "2", "CACHE_DIR": "/tmp"}])
def test_known_properties_pass(config: Mapping[str, str]) -> None:
    properties.check_properties("CPU", config, KNOWN)


@pytest.mark.parametrize(
    "device", ["CPU", "AUTO", "AUTO:CPU", "HETERO:CPU", "MULTI:CPU", "BATCH:CPU(4)"]
)
def test_devices_that_share_the_cpu_take_its_properties(device: str) -> None:
    right = {"NUM_STREAMS": "2", "PERFORMANCE_HINT": "THROUGHPUT"}
    options = OpenVinoOptions(target_device=device, plugin_config=right)
    assert properties.device(options) == device
    wrong = OpenVinoOptions(target_device=device, plugin_config={"NUM_STREEMS": "2"})
    with pytest.raises(LoadFailed, match='did you mean "NUM_STREAMS"'):
        properties.device(wrong)


def test_a_device_of_another_machine_is_refused() -> None:
    with pytest.raises(LoadFailed, match=r"has no 'NPU\.7', it has .*CPU"):
        properties.device(OpenVinoOptions(target_device="NPU.7"))


def test_names_of_2020_are_known() -> None:
    old = OpenVinoOptions(plugin_config={"KEY_CPU_THROUGHPUT_STREAMS": "2"})
    assert properties.device(old) == "CPU"


@pytest.mark.parametrize("device", ["AUTO", "HETERO:CPU", "MULTI:CPU", "BATCH:CPU(2)"])
def test_the_cpu_among_others_keeps_to_the_share_of_the_process(
    device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = ov.Core()
    monkeypatch.setattr(properties, "core", lambda: made)
    monkeypatch.setattr(properties, "thread_limit", lambda: 1)
    properties.device(OpenVinoOptions(target_device=device))
    model = made.read_model(add_one(tmp_path) / "model.xml")
    compiled = made.compile_model(model, device)
    assert compiled.get_property("DEVICE_PROPERTIES")["CPU"]["INFERENCE_NUM_THREADS"] == 1


@pytest.mark.parametrize("device", ["CPU", "AUTO:CPU", "HETERO:CPU"])
def test_lower_precisions_are_those_that_the_device_has(device: str) -> None:
    """F16 is chosen for no CPU: numbers beyond 65504 would be infinite."""
    has = ov.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    expected = ["bf16"] if "BF16" in has else []
    assert properties.lower_precisions(OpenVinoOptions(target_device=device)) == expected


def test_precisions_of_the_cpu_load_no_plugin_of_another_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cpu = SimpleNamespace(get_property=ov.Core().get_property)  # which does not list devices
    monkeypatch.setattr(properties, "core", lambda: cpu)
    properties.lower_precisions(OpenVinoOptions())


def test_a_precision_in_plugin_config_leaves_nothing_to_choose() -> None:
    options = OpenVinoOptions(plugin_config={"KEY_ENFORCE_BF16": "YES"})
    with pytest.raises(LoadFailed, match="inference_precision is auto, and plugin_config says one"):
        properties.lower_precisions(options)
