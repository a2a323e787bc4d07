"""`tensorflow.ProfilerService`: the client in TensorFlow, which TensorBoard uses, takes traces."""

import json
import re
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import grpc
import pytest
from tensorflow.python.profiler.internal import _pywrap_profiler_plugin as plugin
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from tests.functional.servers import ROOT, SAMPLE, Server
from tests.process import PATIENCE_S, Process, until

REQUEST = json.loads((ROOT / "examples" / "digits" / "request.json").read_text())
MONITOR = "/tensorflow.ProfilerService/Monitor"


@pytest.fixture(scope="module", params=["http2", "grpcio"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    digits = ("--model_name=digits", f"--model_path={SAMPLE}", "--enable_profiler")
    transport = f"--grpc_transport={request.param}"
    with closing(Server("ie_serving", "model", *digits, transport)) as server:
        yield server.ready()


TRACE = "plugin.trace(sys.argv[1], sys.argv[2], '', True, 1000, 3, {})"
WATCH = "print(plugin.monitor(sys.argv[1], 500, 1, False))"
IMPORT = """
import sys
from tensorflow.python.profiler.internal import _pywrap_profiler_plugin as plugin
"""


def client(call: str, server: Server, *given: Path) -> Process:
    """TensorFlow's client, in a process of its own: it holds the interpreter's lock."""
    return Process(sys.executable, "-c", f"{IMPORT}{call}", f"localhost:{server.port}", *given)


def asked_until_it_ends(server: Server, client: Process) -> int:
    """Ask over REST until the client has ended; give its exit code."""

    def done() -> bool:
        assert server.rest.post("/v1/models/digits:predict", json=REQUEST).status_code == 200
        return client.popen.poll() is not None

    until(done)
    return client.exit_code()


def test_tensorboard_s_client_takes_a_trace(server: Server, tmp_path: Path) -> None:
    with closing(client(TRACE, server, tmp_path)) as tracing:
        assert asked_until_it_ends(server, tracing) == 0
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
    with closing(client(WATCH, server)) as watching:
        assert asked_until_it_ends(server, watching) == 0
        assert re.search(r"Requests: [1-9]\d* in 0\.5 s", "\n".join(watching.lines))


def test_a_duration_of_no_time_is_refused(server: Server) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        server.channel.unary_unary(MONITOR)(b"", timeout=PATIENCE_S)
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "duration_ms is 0" in refused.value.details()
