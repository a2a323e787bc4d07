"""What the page tells of AVAILABLE versions: asked when it is read."""

from ie_serving.telemetry.metrics.inferences import Inferences, current, recording
from ie_serving.telemetry.metrics.page import Metrics
from ie_serving.telemetry.metrics.text import SETTLED_AT
from ie_serving.telemetry.metrics.version_metrics import (
    IN_FLIGHT,
    QUEUED,
    STAGE,
    VERSION_LOAD,
    VERSION_MEMORY,
)
from tests.unit.telemetry.pages import GRPC, Version, of


def shown(*versions: Version) -> Metrics:
    metrics = Metrics()
    metrics.show_versions(lambda: versions)
    return metrics


def test_memory_load_and_requests_of_a_version() -> None:
    load_s = {"fetch_s": 0.5, "compile_s": 2.0}
    version = Version("m", 2, holders=3, load_s=load_s, memory=1000)
    version.inferences.waiting = 4
    metrics = shown(version)
    assert of(metrics, VERSION_MEMORY, "model_name", "version") == {("m", "2"): 1000}
    assert of(metrics, VERSION_LOAD, "step") == {("fetch",): 0.5, ("compile",): 2}
    assert of(metrics, IN_FLIGHT, "version") == {("2",): 3}
    assert of(metrics, "ovms_current_requests", "version") == {("2",): 3}
    assert of(metrics, QUEUED, "version") == {("2",): 4}


def test_a_version_that_is_gone_leaves_nothing() -> None:
    assert "ie_serving_version" not in shown().text()
    assert VERSION_MEMORY not in shown(Version("m", 1)).text()


def test_stages_of_requests_are_shown() -> None:
    version = Version("m", 1)
    version.inferences.ran.extend([0.01, 0.02, 0.03])
    version.inferences.waited(0.5)
    metrics = shown(version)
    served = metrics.served("m", GRPC)
    served.decoded.append(0.001)
    served.encoded.append(0.002)
    served.add(0.05)
    assert of(metrics, f"{STAGE}_count", "stage") == {
        ("queue",): 3,
        ("inference",): 3,
        ("decode",): 1,
        ("encode",): 1,
    }
    sums = of(metrics, f"{STAGE}_sum", "stage")
    assert [round(sums[stage,], 6) for stage in ("queue", "inference", "decode", "encode")] == [
        0.5,
        0.06,
        0.001,
        0.002,
    ]
    assert of(metrics, "ovms_inference_time_us_count", "name", "version") == {("m", "1"): 3}
    assert of(metrics, "ovms_wait_for_infer_req_time_us_sum", "name") == {("m",): 500000}


def test_programs_note_into_the_record_of_the_version_that_is_loaded() -> None:
    record = Inferences()
    with recording(record):
        assert current() is record
    assert current() is not record


def test_inferences_of_a_warm_up_are_forgotten() -> None:
    record = Inferences()
    ran = record.ran
    ran.extend([1.0] * SETTLED_AT)
    record.waited(1.0)
    record.forget()
    ran.append(0.5)
    assert (len(record.durations), len(record.waits)) == (1, 1)
