"""Loads that take long: what they hold up, when they have failed, what is replaced meanwhile."""

import shutil
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np
import pytest

from tests.functional.load import AVAILABLE, LOADING, Load, failure, states
from tests.functional.servers import SAMPLE, Server
from tests.functional.storage.serving import serves, several
from tests.functional.test_digits import IMAGES, directly, over_grpc, over_rest
from tests.functional.test_reload import listed, reload
from tests.functional.tiny import Gate
from tests.process import until

SCRIPT = Path(__file__).with_name("gated_server.py")
OFTEN = "--file_system_poll_wait_seconds=0.2"

Begin = Callable[..., Server]


EXACT = "--inference_precision=f32"
"""A load compiles once, which the gate holds, also where the CPU has bf16."""


@pytest.fixture
def begin() -> Iterator[Begin]:
    """Start servers whose loads a gate may hold."""
    with ExitStack() as stack:

        def _begin(*arguments: str) -> Server:
            server = Server(sys.executable, str(SCRIPT), *arguments, OFTEN, EXACT)
            stack.callback(server.close)
            return server

        yield _begin


@pytest.fixture
def slow(tmp_path: Path, gate: Gate) -> Path:
    """A repository whose version 1 loads when the gate is open."""
    return put(tmp_path / "slow", 1, gate)


def put(base: Path, version: int, gate: Gate | None = None, sample: int = 1) -> Path:
    beside = base.parent / "beside"
    shutil.copytree(SAMPLE / str(sample), beside)
    if gate:
        (beside / "slow").write_text(gate.path)
    base.mkdir(exist_ok=True)
    beside.rename(base / str(version))
    return base


def test_a_slow_model_holds_neither_the_ports_nor_later_changes(
    begin: Begin, slow: Path, gate: Gate, tmp_path: Path
) -> None:
    file = tmp_path / "config.json"
    models = {"digits": str(SAMPLE), "slow": str(slow)}
    server = begin(*several(file, models), "--open_ports_early").ready()
    until(lambda: serves(server, 2))
    for name in ("second", "third"):
        models[name] = str(SAMPLE)
        several(file, models)
        until(lambda name=name: serves(server, 2, name))  # type: ignore[misc]
    with Load(server, ["digits", "second", "third"]) as load:
        assert states(server, "slow") == {1: LOADING}
        assert server.rest.get("/v2/health/ready").status_code == 503
        gate.open()
        until(lambda: serves(server, 1, "slow"))
    assert load.failures == []


def test_a_load_that_takes_too_long_has_failed_until_it_ends(
    begin: Begin, slow: Path, gate: Gate
) -> None:
    """Its failure, its success and its states stand in the metrics."""
    flags = ("--load_timeout_seconds=0.5", "--metrics_path=/metrics")
    server = begin("model", "--model_name=m", f"--model_path={slow}", *flags).ready()
    assert states(server, "m") == {1: LOADING}
    assert "0.5" in failure(server, 1, "m")
    assert f"load takes too long model=m version=1 base_path={slow}" in server.log
    assert 'ie_serving_versions{model_name="m",state="LOADING"} 1' in metrics(server)
    gate.open()
    until(lambda: serves(server, 1, "m"))
    assert failure(server, 1, "m") == ""
    assert 'ie_serving_versions{model_name="m",state="AVAILABLE"} 1' in metrics(server)
    (put(slow, 2) / "2" / "model.xml").write_text("<net/>")
    until(lambda: any(f in metrics(server) for f in failures(1, 2, 3)))
    states_now = 'ie_serving_versions{model_name="m",state="%s"} 1'
    assert all(states_now % state in metrics(server) for state in ("AVAILABLE", "LOADING"))
    assert 'ie_serving_loads_total{model_name="m",result="ok"} 1' in metrics(server)


def metrics(server: Server) -> str:
    return server.rest.get("/metrics").text


def failures(*counts: int) -> list[str]:
    return [
        f'ie_serving_loads_total{{model_name="m",result="failed"}} {count}\n' for count in counts
    ]


def test_files_that_are_replaced_while_the_engine_has_read_some_serve_no_mix(
    begin: Begin, slow: Path, gate: Gate
) -> None:
    server = begin(
        "model", "--model_name=digits", f"--model_path={slow}", "--open_ports_early"
    ).ready()
    until(lambda: waits_at(gate, server))
    for name in ("model.bin", "model.xml"):
        shutil.copy(SAMPLE / "2" / name, slow / "1" / f"{name}.new")
        (slow / "1" / f"{name}.new").rename(slow / "1" / name)
    gate.open(2)
    until(lambda: serves(server, 1))
    expected = directly(2)["probabilities"]
    np.testing.assert_allclose(over_grpc(server, None, IMAGES)["probabilities"], expected, 1e-5)
    assert "version failed to load model=digits version=1" in server.log


def test_a_reload_waits_for_new_models_and_not_for_versions_that_a_policy_adds(
    begin: Begin, slow: Path, gate: Gate, tmp_path: Path
) -> None:
    """What `HandleReloadConfigRequest` of TensorFlow Serving does, too."""
    put(slow, 2, sample=2)
    model = {"base_path": str(slow), "model_version_policy": {"specific": {"versions": [2]}}}
    server = begin(*several(tmp_path / "config.json", {"digits": model})).ready()
    both = "model_version_policy { all { } }"
    reload(server, listed(both, digits=slow))
    until(lambda: waits_at(gate, server))
    assert states(server) == {1: LOADING, 2: AVAILABLE}
    answers = over_grpc(server, None, IMAGES), over_rest(server, None, IMAGES)
    for each in answers:
        np.testing.assert_allclose(each["digit"], directly(2)["digit"])
    gate.open()
    until(lambda: serves(server, 1))
    with ThreadPoolExecutor(1) as thread:
        asked = thread.submit(reload, server, listed(both, digits=slow, new=slow))
        until(lambda: waits_at(gate, server))
        assert not asked.done()
        gate.open()
        assert asked.result().status.error_code == 0
    assert states(server, "new") == {1: AVAILABLE, 2: AVAILABLE}


def waits_at(gate: Gate, server: Server) -> bool:
    """Whether a load has come to the gate: its process has the FIFO open."""
    files = Path(f"/proc/{server.pids()[1]}/fd").iterdir()
    return gate.path in map(target, files)


def target(descriptor: Path) -> str:
    with suppress(FileNotFoundError):  # closed meanwhile
        return str(descriptor.readlink())
    return ""


def test_a_labelled_version_stays_and_a_poll_that_is_asked_for_sees_what_is_new(
    begin: Begin, tmp_path: Path
) -> None:
    base = put(tmp_path / "m", 1)
    model = {"base_path": str(base), "version_labels": {"stable": 1}, "poll_wait_seconds": 0}
    server = begin(*several(tmp_path / "config.json", {"digits": model})).ready()
    put(base, 2, sample=2)
    assert states(server) == {1: AVAILABLE}
    reply = server.rest.post("/v1/models/digits:poll")
    assert reply.status_code == 200
    assert [each["version"] for each in reply.json()["model_version_status"]] == ["2", "1"]
    until(lambda: states(server) == {1: AVAILABLE, 2: AVAILABLE})
    labelled = server.rest.get("/v1/models/digits/labels/stable").json()
    assert [each["version"] for each in labelled["model_version_status"]] == ["1"]
    expected = directly(2)["probabilities"]
    np.testing.assert_allclose(over_grpc(server, None, IMAGES)["probabilities"], expected, 1e-5)
