"""Asks the sample model over both interfaces, in two protocols each, until a file appears.

Exit code 1 if a request failed:

    python deploy/verify_client.py --rest HOST:PORT --grpc TARGET --ready_file FILE --stop_file FILE

It behaves as a client should: it keeps connections, connects anew when the server ends one, spreads
gRPC calls over every address of the name, and repeats nothing that failed. `verify.sh` runs it in a
pod.
"""

import argparse
import http.client
import json
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import grpc
import numpy as np

from ie_serving.wire.protobuf.inference_messages import ModelInferRequest, ModelInferResponse
from ie_serving.wire.protobuf.messages import PredictRequest, PredictResponse

PREDICT = "/tensorflow.serving.PredictionService/Predict"
INFER = "/inference.GRPCInferenceService/ModelInfer"
FLOAT = 1  # tensorflow.DataType
IMAGE = [[0.0] * 64]
PIXELS = np.array(IMAGE, "<f4")
TIMEOUT_S = 10.0
BETWEEN_S = 0.01
"""So as to see what happens within a switch, and not to load the cluster."""


@dataclass
class Seen:
    """What one interface answered."""

    answered: int = 0
    failures: list[str] = field(default_factory=list)

    def line(self, name: str) -> str:
        """Say it in one line, with the first failure."""
        first = f"; the first: {self.failures[0]}" if self.failures else ""
        return f"{name}: {self.answered} answered, {len(self.failures)} failed{first}"


class Rest:
    """One connection, kept as long as the server keeps it."""

    path = "/v1/models/digits:predict"
    body: ClassVar[dict[str, Any]] = {"inputs": {"image": IMAGE}}

    def __init__(self, address: str) -> None:
        self._connection = http.client.HTTPConnection(address, timeout=TIMEOUT_S)
        self._body = json.dumps(self.body)

    def ask(self) -> None:
        """Predict once. Raises: OSError, HTTPException, ValueError."""
        headers = {"Content-Type": "application/json"}
        self._connection.request("POST", self.path, self._body, headers)
        reply = self._connection.getresponse()
        text = reply.read()
        if reply.status != http.client.OK or not self.has_digit(json.loads(text)["outputs"]):
            raise ValueError(f"{reply.status} {text[:200]!r}")

    def has_digit(self, outputs: Any) -> bool:
        return bool(outputs["digit"])


class RestV2(Rest):
    """The same in the words of the Open Inference Protocol."""

    path = "/v2/models/digits/infer"
    body: ClassVar[dict[str, Any]] = {
        "inputs": [{"name": "image", "datatype": "FP32", "shape": [1, 64], "data": IMAGE}]
    }

    def has_digit(self, outputs: Any) -> bool:
        return any(each["name"] == "digit" and each["data"] for each in outputs)


class Grpc:
    """One channel over every address of its name."""

    def __init__(self, target: str) -> None:
        channel = grpc.insecure_channel(target, options=[("grpc.lb_policy_name", "round_robin")])
        self._call = self.call(channel)
        self._request = self.request()

    def ask(self) -> None:
        """Predict once. Raises: RpcError, ValueError."""
        if not self.has_digit(self._call(self._request, timeout=TIMEOUT_S).outputs):
            raise ValueError("the reply has no output named digit")

    def call(self, channel: grpc.Channel) -> Callable[..., Any]:
        return channel.unary_unary(
            PREDICT, PredictRequest.SerializeToString, PredictResponse.FromString
        )

    def request(self) -> Any:
        made = PredictRequest()
        made.model_spec.name = "digits"
        tensor = made.inputs["image"]
        tensor.dtype = FLOAT
        for size in PIXELS.shape:
            tensor.tensor_shape.dim.add(size=size)
        tensor.tensor_content = PIXELS.tobytes()
        return made

    def has_digit(self, outputs: Any) -> bool:
        return "digit" in outputs


class GrpcV2(Grpc):
    """The same in the words of the Open Inference Protocol."""

    def call(self, channel: grpc.Channel) -> Callable[..., Any]:
        return channel.unary_unary(
            INFER, ModelInferRequest.SerializeToString, ModelInferResponse.FromString
        )

    def request(self) -> Any:
        made = ModelInferRequest(model_name="digits", raw_input_contents=[PIXELS.tobytes()])
        made.inputs.add(name="image", datatype="FP32", shape=PIXELS.shape)
        return made

    def has_digit(self, outputs: Any) -> bool:
        return any(each.name == "digit" for each in outputs)


def keep_asking(ask: Callable[[], None], seen: Seen, stop: threading.Event) -> None:
    """Ask until `stop`; every failure counts."""
    while not stop.wait(BETWEEN_S):
        try:
            ask()
            seen.answered += 1
        except (OSError, ValueError, KeyError, http.client.HTTPException, grpc.RpcError) as error:
            seen.failures.append(f"{type(error).__name__}: {error}")


def main() -> int:
    """Ask, and give the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    for name in ("rest", "grpc"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("ready_file", "stop_file"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    given = parser.parse_args()
    asked = {
        "REST": Rest(given.rest),
        "gRPC": Grpc(given.grpc),
        "REST v2": RestV2(given.rest),
        "gRPC v2": GrpcV2(given.grpc),
    }
    for interface in asked.values():
        interface.ask()
    seen = {name: Seen() for name in asked}
    stop = threading.Event()
    threads = [
        threading.Thread(target=keep_asking, args=(asked[name].ask, seen[name], stop))
        for name in asked
    ]
    for thread in threads:
        thread.start()
    given.ready_file.write_text("both interfaces answer\n")
    while not given.stop_file.exists():
        time.sleep(0.1)
    stop.set()
    for thread in threads:
        thread.join()
    for name, each in seen.items():
        print(each.line(name))
    return 0 if all(each.answered and not each.failures for each in seen.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
