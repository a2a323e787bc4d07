"""One prepared request in each dialect that a server under test speaks."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import orjson

from benchmarks import wire
from benchmarks.wire import Array

TOLERANCE = 0.02
"""Of the largest output: room for bf16, which rounds differently when work is split otherwise."""


@dataclass(frozen=True)
class Call:
    """A request that is sent again and again, and how to read its reply.

    Attributes:
        path: of the URL; for gRPC `/package.Service/Method`.
        body: the message or the HTTP body, without framing.
        decode: reply body to outputs by name.
        key: sent along over REST, to a server that asks for one.
        headers: further ones of an HTTP request.
        before: what is sent once over gRPC before the first call.
    """

    path: str
    body: bytes
    decode: Callable[[bytes], dict[str, Array]]
    key: str = ""
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "application/json"),)
    before: tuple["Call", ...] = ()

    def check(self, reply: bytes, expected: Mapping[str, Array]) -> None:
        """Compare a reply with the engine's own outputs.

        Raises:
            WrongReplyError: an output is missing or its numbers differ.
        """
        outputs = self.decode(reply)
        for name, values in expected.items():
            if name not in outputs:
                raise WrongReplyError(f"{self.path}: no output {name!r} in {reply[:200]!r}")
            if not np.allclose(outputs[name], values, atol=TOLERANCE * np.abs(values).max()):
                raise WrongReplyError(f"{self.path}: output {name!r} differs from the engine's")


class WrongReplyError(Exception):
    """A server answered something else than the engine does."""


Dialect = Callable[[str, Mapping[str, Array]], Call]


def tfs_grpc(model: str, inputs: Mapping[str, Array]) -> Call:
    """`PredictionService.Predict` of TensorFlow Serving."""
    path = "/tensorflow.serving.PredictionService/Predict"
    return Call(path, wire.tfs_request(model, inputs), wire.tfs_response)


def oip_grpc(model: str, inputs: Mapping[str, Array]) -> Call:
    """`ModelInfer` of the Open Inference Protocol, raw contents."""
    path = "/inference.GRPCInferenceService/ModelInfer"
    return Call(path, wire.oip_request(model, inputs), wire.oip_response)


def tfs_rest(model: str, inputs: Mapping[str, Array]) -> Call:
    """`:predict` of TensorFlow Serving, column form."""
    body = _json({"inputs": dict(inputs)})
    return Call(f"/v1/models/{model}:predict", body, _columns)


def oip_rest(model: str, inputs: Mapping[str, Array]) -> Call:
    """`/infer` of the Open Inference Protocol, JSON numbers."""
    tensors = [
        {"name": n, "shape": v.shape, "datatype": wire.OIP_DTYPE[v.dtype], "data": v.ravel()}
        for n, v in inputs.items()
    ]
    return Call(f"/v2/models/{model}/infer", _json({"inputs": tensors}), _tensors)


def oip_rest_binary(model: str, inputs: Mapping[str, Array]) -> Call:
    """`/infer` of the Open Inference Protocol, tensors as bytes behind the JSON, both ways.

    Source: Triton's extension "binary tensor data".
    """
    tensors = [
        {
            "name": name,
            "shape": values.shape,
            "datatype": wire.OIP_DTYPE[values.dtype],
            "parameters": {"binary_data_size": values.nbytes},
        }
        for name, values in inputs.items()
    ]
    head = _json({"inputs": tensors, "parameters": {"binary_data_output": True}})
    headers = (
        ("Content-Type", "application/octet-stream"),
        ("Inference-Header-Content-Length", str(len(head))),
    )
    body = head + b"".join(values.tobytes() for values in inputs.values())
    return Call(f"/v2/models/{model}/infer", body, _tensors_behind, headers=headers)


def _json(body: object) -> bytes:
    return orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)


def _columns(reply: bytes) -> dict[str, Array]:
    """Read `{"outputs": ...}`; a lone output comes without its name, which is `y` here."""
    outputs = orjson.loads(reply)["outputs"]
    named = outputs if isinstance(outputs, dict) else {"y": outputs}
    return {name: np.asarray(values) for name, values in named.items()}


def _tensors(reply: bytes) -> dict[str, Array]:
    return {
        tensor["name"]: np.asarray(tensor["data"]).reshape(tensor["shape"])
        for tensor in orjson.loads(reply)["outputs"]
    }


def _tensors_behind(reply: bytes) -> dict[str, Array]:
    """Read tensors that lie behind the JSON, in its order."""
    head, at = json.JSONDecoder().raw_decode(reply.decode("latin-1"))
    outputs = {}
    for tensor in head["outputs"]:
        end = at + tensor["parameters"]["binary_data_size"]
        values = np.frombuffer(reply[at:end], wire.OIP_NUMPY[tensor["datatype"]])
        outputs[tensor["name"]] = values.reshape(tensor["shape"])
        at = end
    return outputs
