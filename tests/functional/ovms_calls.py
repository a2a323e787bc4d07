"""Asks a server with `ovmsclient` and prints what it says as JSON.

    python ovms_calls.py <gRPC port> <REST port>

Run as a program, in a process of its own, since the package brings copies of TensorFlow Serving's
messages.
"""

import json
import sys
from typing import Any

import numpy as np
from ovmsclient import make_grpc_client, make_http_client

IMAGE = np.zeros((1, 64), np.float32)


def calls(client: Any, numbers: Any) -> dict[str, Any]:
    """Every method of a client."""
    outputs = client.predict({"image": numbers}, "digits")
    metadata = client.get_model_metadata("digits")
    return {
        "status": client.get_model_status("digits"),
        "metadata": metadata,
        "digit": np.asarray(outputs["digit"]).tolist(),
        "probabilities": np.asarray(outputs["probabilities"]).tolist(),
        "unknown": _error(lambda: client.get_model_status("nobody")),
        "wrong": _error(lambda: client.predict({"image": numbers[:, 1:]}, "digits")),
    }


def _error(call: Any) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def main(port: str, rest_port: str) -> None:
    clients = {
        "grpc": make_grpc_client(f"127.0.0.1:{port}"),
        "rest": make_http_client(f"127.0.0.1:{rest_port}"),
    }
    print(json.dumps({name: calls(client, IMAGE) for name, client in clients.items()}, default=str))


if __name__ == "__main__":
    main(*sys.argv[1:])
