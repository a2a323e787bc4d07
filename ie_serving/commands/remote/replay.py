"""`ie_serving replay FILE`: sends recorded requests again and compares the replies.

    ie_serving replay resnet-20261129T081500Z-1-0.tfrecord --to localhost:9000
    ie_serving replay resnet-20261129T081500Z-1-0.tfrecord --model models/resnet

Exit codes: 0 all replies are as recorded; 1 some are not, or a request is refused; 2 wrong usage,
a file that is no recording among it; 3 the server is unreachable.
"""

import argparse
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np

from ie_serving.commands.remote import server_address
from ie_serving.commands.remote.failures import CommandMisused, ServerRefused, ServerSilent
from ie_serving.commands.remote.rpc import MODEL, PREDICTION, GrpcPort
from ie_serving.core.values.difference import TOLERANCE, drifts
from ie_serving.core.values.errors import InvalidRequest, InvalidTensor
from ie_serving.core.values.versions import State
from ie_serving.wire.protobuf import messages
from ie_serving.wire.protobuf.messages import Proto
from ie_serving.wire.tfs.prediction_log import RecordCutOff, read_logs
from ie_serving.wire.tfs.tensor_proto import decode_tensor

MOST_SHOWN: Final = 10
START_S: Final = 600.0
"""Seconds within which a version has to serve: large ones compile for minutes."""
ANSWER_S: Final = 5.0
STOP_S: Final = 30.0
"""Seconds that its server has to end; it is killed then."""
MOST_SAID: Final = 1000
"""Characters of its log that are shown where it has ended."""
LOOPBACK: Final = "127.0.0.1"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of this command."""
    parser.add_argument("file", metavar="FILE", help="TFRecord file of PredictionLog")
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--to",
        dest="url",
        type=_grpc,
        metavar="HOST:PORT",
        help="gRPC port of a server, as --url grpc://HOST:PORT",
    )
    where.add_argument(
        "--model",
        action=_DirectoryAction,
        metavar="BASE_PATH",
        help="serve this directory of versions meanwhile",
    )
    parser.add_argument(
        "--model_name", metavar="NAME", help="ask this model and not the one of the record"
    )
    parser.add_argument(
        "--tolerance",
        type=_tolerance,
        default=TOLERANCE,
        metavar="T",
        help="share of a number, and of its output's greatest, by which it may differ"
        " (%(default)s)",
    )
    server_address.add_flags(parser)


def run(given: argparse.Namespace, address: server_address.ServerAddress) -> int:
    """Replay and print differences and latencies; give the exit code. Raises: CommandFailure."""
    records = _records(given.file)
    if not given.model:
        return _replayed(given, records, address)
    name = given.model_name or records[0][1].request.model_spec.name
    with _served(given.model, name) as port:
        own = replace(address, scheme="grpc", host=LOOPBACK, port=port, headers={})
        return _replayed(given, records, own)


class _DirectoryAction(argparse.Action):
    """Notes the directory, and that no other server is asked."""

    def __call__(self, _: object, given: argparse.Namespace, value: object, *__: object) -> None:
        given.model, given.url = value, f"grpc://{LOOPBACK}"


def _tolerance(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} given; expected a number from 0 on, such as 0.01")
    return found


def _grpc(text: str) -> str:
    return text if "://" in text else f"grpc://{text}"


def _records(file: str) -> list[tuple[int, Proto]]:
    """Read the Predicts of a file, each with its number in it. Raises: CommandMisused."""
    logs: list[Proto] = []
    try:
        with open(file, "rb") as opened:
            logs.extend(read_logs(opened))
    except (OSError, InvalidRequest) as error:
        if not (logs and isinstance(error, RecordCutOff)):
            raise CommandMisused(
                f"{file} cannot be read as a TFRecord file of PredictionLog: {error}"
            ) from None
        # The server still writes the file, or was killed while it wrote.
        print(f"{file} ends in the middle of record {len(logs)}, which is left out")
    found = [
        (number, log.predict_log)
        for number, log in enumerate(logs)
        if log.WhichOneof("log_type") == "predict_log" and log.predict_log.response.outputs
    ]
    if not found:
        raise CommandMisused(
            f"{file} has {len(logs)} records; expected a Predict with its answer, as request_log"
            " keeps"
        )
    for number, log in found:
        inputs = log.request.inputs.items()
        if dropped := [name for name, each in inputs if each.tensor_shape.unknown_rank]:
            raise CommandMisused(
                f"{file}: record {number} has no values of {', '.join(sorted(dropped))}, which"
                " drop_inputs of the recording leaves out: it cannot be asked again"
            )
        for name, each in log.response.outputs.items():
            try:
                decode_tensor(each, name)
            except InvalidTensor as error:
                raise CommandMisused(f"{file}: the answer of record {number}: {error}") from None
    if len(found) < len(logs):
        print(f"{len(logs) - len(found)} records are no Predict with its answer: left out")
    return found


def _replayed(
    given: argparse.Namespace,
    records: list[tuple[int, Proto]],
    address: server_address.ServerAddress,
) -> int:
    took_ms: list[float] = []
    differing = 0
    with GrpcPort(address) as rpc:
        for number, log in records:
            if given.model_name:
                log.request.model_spec.name = given.model_name
            difference = _difference(rpc, log, given.tolerance, took_ms)
            differing += bool(difference)
            if difference and differing <= MOST_SHOWN:
                print(f"record {number}: {difference}")
    if differing > MOST_SHOWN:
        print(f"and {differing - MOST_SHOWN} more")
    p50, p99 = np.percentile(took_ms, (50, 99))
    times = f"p50 {p50:.2f} ms, p99 {p99:.2f} ms"
    print(f"{len(records)} requests, {differing} answered otherwise; {times}")
    return 1 if differing else 0


def _difference(rpc: GrpcPort, log: Proto, tolerance: float, took_ms: list[float]) -> str:
    """Ask again; say how the reply differs, empty for a reply as recorded. Add the time."""
    began = time.perf_counter()
    try:
        reply = rpc.call(PREDICTION, "Predict", log.request, messages.PredictResponse)
    except ServerRefused as error:
        return f"is refused: {error}"
    finally:
        took_ms.append(1e3 * (time.perf_counter() - began))
    found, recorded = (
        {name: decode_tensor(each, name) for name, each in tensors.items()}
        for tensors in (reply.outputs, log.response.outputs)
    )
    return "; ".join(drifts(found, recorded, tolerance).values())


@contextmanager
def _served(base_path: str, name: str) -> Iterator[int]:
    """Serve a directory of versions by a process of its own; give its gRPC port."""
    path = Path(base_path)
    held = list(path.iterdir()) if path.is_dir() else []
    if not any(each.name.isdecimal() or each.is_file() for each in held):
        raise CommandMisused(
            f"--model {base_path} has no numbered versions: give a directory that has some"
        )
    with socket.create_server((LOOPBACK, 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryFile() as log:
        program = shutil.which(sys.argv[0]) or sys.argv[0]
        command = [sys.executable, program, "model", "--model_name", name]
        command += ["--model_path", base_path, "--port", str(port), "--grpc_bind_address", LOOPBACK]
        command += ["--open_ports_early", "true"]
        child = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            _await(child, port, name, log)
            yield port
        finally:
            _end(child)


def _end(child: "subprocess.Popen[bytes]") -> None:
    child.terminate()
    try:
        child.wait(STOP_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _await(child: "subprocess.Popen[bytes]", port: int, name: str, log: BinaryIO) -> None:
    """Wait until a version serves. Raises: CommandMisused, ServerSilent."""
    own = server_address.ServerAddress(scheme="grpc", host=LOOPBACK, port=port, timeout_s=ANSWER_S)
    request = messages.GetModelStatusRequest()
    request.model_spec.name = name
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        if child.poll() is not None:
            log.seek(0)
            said = log.read().decode(errors="replace").strip()[-MOST_SAID:]
            raise CommandMisused(f"the server for --model has ended; it said: {said}")
        try:
            with GrpcPort(own) as rpc:
                found = rpc.call(MODEL, "GetModelStatus", request, messages.GetModelStatusResponse)
        except (ServerSilent, ServerRefused):
            found = messages.GetModelStatusResponse()
        versions = found.model_version_status
        if any(each.state == State.AVAILABLE for each in versions):
            return
        for each in versions:
            if each.status.error_code:
                raise CommandMisused(
                    f"version {each.version} cannot serve: {each.status.error_message}"
                )
        time.sleep(0.05)
    raise ServerSilent(f"no version of --model serves after {START_S:g} s; name a server by --to")
