"""A server whose streams nobody opens."""

import subprocess
import sys

CODE = """
import sys
import ie_serving.app.application
import ie_serving.server.fronts.tfs.rest
import ie_serving.server.transport.grpc.http2_server
import ie_serving.server.transport.http1.server
ROOMS = ("inference.stream", "inference.model_stream", "server.transport.websocket")
OTHERS = ("wsproto", "paho", "ie_serving.commands", *(f"ie_serving.{room}" for room in ROOMS))
LATE = ("ie_serving.server.transport.http1.channel", "ie_serving.engines.python.streaming")
print([name for name in sys.modules if name.startswith((*OTHERS, *LATE))])
"""


def test_nothing_of_them_is_imported() -> None:
    command = (sys.executable, "-c", CODE)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
