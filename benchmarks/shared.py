"""Requests by shared memory: the input is read from, and the output is written to, `/dev/shm`.

Source: Triton's extension "system shared memory".
A request has a region for its inputs, and one for the
output `y`, which may be as large as all inputs together.
"""

import atexit
import itertools
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from benchmarks import wire
from benchmarks.calls import Call
from benchmarks.wire import Array

FOLDER = Path("/dev/shm")
OUTPUT = "y"
_numbers = itertools.count()


def oip_grpc_shared(model: str, inputs: Mapping[str, Array]) -> Call:
    """`ModelInfer` of the Open Inference Protocol, tensors in regions that are registered once."""
    content = b"".join(values.tobytes() for values in inputs.values())
    given, taken = _file(content), _file(bytes(len(content)))
    infer = "/inference.GRPCInferenceService/ModelInfer"
    request = wire.oip_shared_request(model, inputs, OUTPUT, (given.name, taken.name))
    register = [_register(each, len(content)) for each in (given, taken)]
    return Call(infer, request, partial(_decode, taken), before=tuple(register))


def _file(content: bytes) -> Path:
    path = FOLDER / f"bench-{os.getpid()}-{next(_numbers)}"
    path.write_bytes(content)
    atexit.register(path.unlink)
    return path


def _register(path: Path, size: int) -> Call:
    message = wire.oip_register_request(path.name, f"/{path.name}", size)
    return Call(
        "/inference.GRPCInferenceService/SystemSharedMemoryRegister", message, lambda reply: {}
    )


def _decode(region: Path, reply: bytes) -> dict[str, Array]:
    """Read the output from its region; the reply names its type and shape."""
    return wire.oip_shared_response(reply, region.read_bytes())
