"""`tensorflow.ProfilerService`: the client in TensorFlow, which TensorBoard uses, takes traces."""

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tensorflow.python.profiler.internal import _pywrap_profiler_plugin as plugin
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from tests.functional.servers import ROOT, SAMPLE_FLAGS, Server, rpc_refused
from tests.process import PATIENCE_S, Process

REQUEST = json.loads((ROOT / "examples" / "digits" / "request.json").read_text())
MONITOR = "/tensorflow.ProfilerService/Monitor"


@pytest.fixture(scope="module", params=["http2", "grpcio"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    digits = (*SAMPLE_FLAGS, "--enable_profiler")
    transport = f"--grpc_transport={request.param}"
    with Server("ie_serving", "model", *digits, transport) as server:
        yield server.ready()


ASKS = """
import sys, urllib.request
url, body = sys.argv[1:]
while urllib.request.urlopen(url, body.encode()).status == 200:
    print("answered", flush=True)
"""


@contextmanager
def asked(server: Server) -> Iterator[None]:
    """Let a process ask over REST meanwhile: TensorFlow's client holds this interpreter's lock."""
    url = f"{server.url}/v1/models/digits:predict"
    with Process(sys.executable, "-c", ASKS, url, json.dumps(REQUEST)) as asking:
        asking.line("answered")
        yield
        assert asking.runs, asking.log


def test_tensorboard_s_client_takes_a_trace(server: Server, tmp_path: Path) -> None:
    with asked(server):
        plugin.trace(f"localhost:{server.port}", str(tmp_path), "", True, 1000, 3, {})
    (file,) = tmp_path.rglob("*.xplane.pb")
    space = xplane_pb2.XSpace.FromString(file.read_bytes())
    (plane,) = space.planes
    names = {number: each.name for number, each in plane.event_metadata.items()}
    facts = {number: each.name for number, each in plane.stat_metadata.items()}
    (line,) = plane.lines
    whole, *stages = line.events[:4]
    assert names[whole.metadata_id] == "predict"
    assert {facts[each.metadata_id]: each.str_value for each in whole.stats} == {
        "interface": "REST",
        "model": "digits",
        "version": "2",
        "code": "OK",
    }
    assert [names[each.metadata_id] for each in stages] == ["decode", "infer", "encode"]
    end = whole.offset_ps + whole.duration_ps
    for each in stages:
        assert whole.offset_ps <= each.offset_ps <= each.offset_ps + each.duration_ps <= end
    shown, _ = plugin.xspace_to_tools_data([str(file)], "trace_viewer")
    assert b"predict" in shown


def test_a_profile_without_requests_is_empty(server: Server, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="No trace event"):
        plugin.trace(f"localhost:{server.port}", str(tmp_path), "", True, 10, 1, {})
    assert not list(tmp_path.rglob("*.pb"))


def test_monitor_says_what_was_answered(server: Server) -> None:
    with asked(server):
        said = plugin.monitor(f"localhost:{server.port}", 500, 1, False)
    assert re.search(r"Requests: [1-9]\d* in 0\.5 s", said)


def test_a_duration_of_no_time_is_refused(server: Server) -> None:
    with rpc_refused("INVALID_ARGUMENT", "duration_ms is 0"):
        server.channel.unary_unary(MONITOR)(b"", timeout=PATIENCE_S)
