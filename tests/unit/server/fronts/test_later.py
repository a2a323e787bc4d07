"""Fronts that no client asks, and streams that no client opens, cost a server no import."""

import sys

import pytest

from tests.process import output_of

CODE = """
import sys
import ie_serving.app.application
import ie_serving.server.fronts.admin.health
import ie_serving.server.fronts.admin.grpc_reflection
import ie_serving.server.fronts.tfs.rest
import ie_serving.server.transport.grpc.http2_server
import ie_serving.server.transport.http1.server
print(*sys.modules, sep="\\n")
"""
LATE = {
    "streams": (
        *("ie_serving.server.transport.http1.channel", "ie_serving.engines.python.streaming"),
        *("ie_serving.inference.stream", "ie_serving.inference.model_stream"),
        *("ie_serving.server.transport.websocket", "ie_serving.commands", "wsproto", "paho"),
    ),
    "the Open Inference Protocol": (
        *("ie_serving.wire.kserve", "ie_serving.server.fronts.kserve_v2.grpc_s"),
        "ie_serving.wire.protobuf.inference_messages",
    ),
    "gRPC's own library, which takes 40 ms and memory": ("grpc.",),
}


@pytest.fixture(scope="module")
def imported() -> list[str]:
    return output_of(sys.executable, "-c", CODE)


@pytest.mark.parametrize("what", LATE)
def test_nothing_of_them_is_imported(what: str, imported: list[str]) -> None:
    assert [name for name in imported if f"{name}.".startswith(LATE[what])] == []
