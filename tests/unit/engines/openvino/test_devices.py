"""Device strings, on machines with other devices than this one."""

import pytest

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.openvino import devices
from tests.tables import named_by

TWO_GPUS = ["CPU", "GPU.0", "GPU.1", "NPU"]
ONE_GPU = ["CPU", "GPU"]


@pytest.mark.parametrize(
    ("device", "named"),
    [
        pytest.param("CPU", ["CPU"], id="one"),
        pytest.param("GPU.1", ["GPU.1"], id="of several"),
        pytest.param("AUTO", [], id="left to OpenVINO"),
        pytest.param("AUTO:GPU,CPU", ["GPU", "CPU"], id="a list"),
        pytest.param("AUTO:-GPU", [], id="all but one"),
        pytest.param("HETERO:GPU.1,CPU", ["GPU.1", "CPU"], id="parts"),
        pytest.param("MULTI:GPU(4),CPU(2)", ["GPU", "CPU"], id="requests of each"),
        pytest.param("BATCH:CPU(8)", ["CPU"], id="a batch"),
    ],
)
def test_a_device_string_names_its_hardware(device: str, named: list[str]) -> None:
    assert devices.hardware(device) == named


@named_by(
    "device",
    ("device", "present"),
    [
        ("CPU", ["CPU"]),
        ("GPU", TWO_GPUS),
        ("GPU.1", TWO_GPUS),
        ("GPU.0", ONE_GPU),
        ("AUTO", ["CPU"]),
        ("AUTO:GPU,CPU", ONE_GPU),
        ("AUTO:-GPU", ["CPU"]),
        ("HETERO:GPU,CPU", TWO_GPUS),
        ("BATCH:GPU(8)", ONE_GPU),
    ],
)
def test_a_device_that_is_there_is_taken(device: str, present: list[str]) -> None:
    assert devices.chosen(device, present) == device


def test_auto_goes_on_with_what_is_there() -> None:
    assert devices.chosen("AUTO:NPU,GPU,CPU", ["CPU"]) == "AUTO:CPU"
    assert devices.chosen("AUTO:NPU,GPU,-GPU.1,CPU", TWO_GPUS[:3]) == "AUTO:GPU,-GPU.1,CPU"


@pytest.mark.parametrize(
    ("device", "text"),
    [
        pytest.param("GPU", "no 'GPU', it has CPU; install its driver", id="no such card"),
        pytest.param("GPU.2", "no 'GPU.2', it has CPU", id="no third card"),
        pytest.param("cpu", "no 'cpu', it has CPU; did you mean \"CPU\"", id="small letters"),
        pytest.param("HETRO:CPU", "has no 'HETRO:CPU'", id="misspelt"),
        pytest.param("HETERO:GPU,CPU", "no 'GPU'", id="a part is missing"),
        pytest.param("MULTI:GPU,NPU", "no 'GPU' and 'NPU'", id="both are missing"),
        pytest.param("AUTO:GPU", "no 'GPU'", id="nothing of the list is there"),
        pytest.param("MYRIAD", "no such device any more", id="a device of 2020"),
    ],
)
def test_a_device_that_is_missing_is_named_with_those_that_are_there(
    device: str, text: str
) -> None:
    with pytest.raises(LoadFailed) as refused:
        devices.chosen(device, ["CPU"])
    assert text in str(refused.value)


@named_by(
    "device",
    ("device", "cpu"),
    [("CPU", True), ("AUTO", True), ("HETERO:GPU,CPU", True), ("GPU", False), ("AUTO:GPU", False)],
)
def test_uses_cpu(device: str, cpu: bool) -> None:
    assert devices.uses_cpu(device) == cpu


def test_devices_that_share_work_need_a_list() -> None:
    with pytest.raises(LoadFailed, match="'MULTI' needs a list of devices: MULTI:GPU,CPU"):
        devices.check_list("MULTI", {})
    devices.check_list("MULTI", {"MULTI_DEVICE_PRIORITIES": "CPU"})
    devices.check_list("MULTI:CPU", {})
    devices.check_list("AUTO", {})
