"""The Open Inference Protocol over gRPC costs nothing before a client asks by it."""

import subprocess
import sys


def test_nothing_of_it_is_imported_with_the_server() -> None:
    program = (
        "import sys, ie_serving.app.application;"
        "print([name for name in sys.modules if 'wire.kserve' in name"
        " or 'inference_messages' in name or 'kserve_v2.grpc_s' in name])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert found.stdout.decode().strip() == "[]"
