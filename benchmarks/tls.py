"""Measure what TLS costs beside plain ports: a small request, a large one, a new connection.

The same server three times: plain, and with a certificate of each usual kind of key. `h2load` asks
each in turns, and looks at no certificate; both sides prefer TLS 1.3 with AES-GCM.
"""

import argparse
import json
import re
import ssl
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks import measure, servers
from benchmarks.calls import WrongReplyError, tfs_grpc, tfs_rest
from benchmarks.engine import Loop
from benchmarks.environments import PROJECT
from benchmarks.generators import GRPC_OPTIONS, JSON_OPTIONS, framed, need
from benchmarks.load import HOST
from benchmarks.quick import NEWEST, SAMPLE
from benchmarks.report import ratio, spread, table
from benchmarks.servers import Running, Server, project, with_flags
from benchmarks.subjects import Question
from benchmarks.wire import Array

PLAIN, ECDSA, RSA = "plain", "ECDSA P-256", "RSA 2048"
KEYS: Mapping[str, Sequence[str]] = {
    ECDSA: ("ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
    RSA: ("rsa:2048",),
}
"""What openssl is told to make."""
ROWS_OF_1_MB = 4096
MOST_UNEVEN = 1.2
"""Factor between the bytes of replies: h2load counts data of replies that are under way at its end.
"""
CONNECTIONS = 1000
"""New ones in a measurement, each with one request."""


@dataclass(frozen=True)
class Case:
    """One way to ask.

    Attributes:
        over: `gRPC` or `REST`.
        options: of h2load.
        rows: of the sample in a request.
        anew: the options say how many connections; else for how long is added.
    """

    over: str
    options: Sequence[str]
    rows: int = 1
    anew: bool = False


CASES: Mapping[str, Case] = {
    "gRPC, 1 call at a time": Case("gRPC", ("-c1", "-m1")),
    "gRPC, 16 calls at a time": Case("gRPC", ("-c1", "-m16")),
    "REST, 1 connection": Case("REST", ("-c1", "-m1")),
    "REST, 16 connections": Case("REST", ("-c16", "-m1")),
    "gRPC, 1 MB a request": Case("gRPC", ("-c1", "-m1"), rows=ROWS_OF_1_MB),
    **{
        f"{over}, a new connection each": Case(
            over, (f"-c{CONNECTIONS}", f"-n{CONNECTIONS}", "-m1"), anew=True
        )
        for over in ("gRPC", "REST")
    },
}


class Measured(NamedTuple):
    """One measurement: requests a second, the server's processor time and bytes for each."""

    rps: float
    cpu_us: float
    data_bytes: float


Results = Mapping[tuple[str, str], list[Measured]]
"""By case and server: one measurement a round."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="make bench-tls", description=__doc__)
    parser.add_argument("--seconds", type=int, default=1, help="load for each measurement")
    parser.add_argument("--rounds", type=int, default=6)
    given = parser.parse_args()
    need()
    found: dict[tuple[str, str], list[Measured]] = defaultdict(list)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        plain = project("working-tree", None)
        running = {name: _started(stack, _server(plain, folder, name)) for name in (PLAIN, *KEYS)}
        for turn in range(given.rounds):
            for title, case in CASES.items():
                for name in list(running)[:: -1 if turn % 2 else 1]:
                    measured = _ask(running[name], case, given.seconds, tls=name != PLAIN)
                    found[title, name].append(measured)
    print(table(["case", "plain/s", "TLS/s", "ratio", "plain µs", *KEYS], list(_rows(found))))


def _rows(found: Results) -> Iterator[list[str]]:
    """Tabulate; the speed is that with ECDSA, and µs are processor time of the server."""
    for title in CASES:
        plain, tls = ([each.rps for each in found[title, name]] for name in (PLAIN, ECDSA))
        costs = [spread([each.cpu_us for each in found[title, name]]) for name in (PLAIN, *KEYS)]
        yield [title, spread(plain), spread(tls), ratio(tls, plain), *costs]
        sizes = [each.data_bytes for name in (PLAIN, *KEYS) for each in found[title, name]]
        # h2load takes any HTTP 200 for a success, and a gRPC error is one, with less data.
        if max(sizes) > MOST_UNEVEN * min(sizes):
            raise WrongReplyError(f"{title}: replies of {min(sizes)} to {max(sizes)} bytes")


def _started(stack: ExitStack, server: Server) -> Running:
    inputs = sample_inputs(1)
    question = Question("digits", SAMPLE, inputs, Loop(NEWEST, inputs).outputs())
    scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    target = servers.target("digits", SAMPLE, scratch)
    probe = tfs_rest("digits", inputs)
    return stack.enter_context(servers.running(server, target, probe, question.judge(probe)))


def _server(plain: Server, folder: Path, name: str) -> Server:
    if name == PLAIN:
        return plain
    key, certificate = folder / f"{name}.key", folder / f"{name}.crt"
    make = ("openssl", "req", "-x509", "-nodes", "-subj", "/CN=localhost", "-newkey", *KEYS[name])
    files = ("-keyout", str(key), "-out", str(certificate))
    subprocess.run([*make, *files], check=True, capture_output=True)
    believing = ssl.create_default_context(cafile=str(certificate))
    believing.check_hostname = False
    flags = ("--tls_certificate", str(certificate), "--tls_key", str(key))
    return replace(with_flags(plain, flags), tls=believing)


def sample_inputs(rows: int) -> Mapping[str, Array]:
    """Give so many rows of the sample's first held-out image."""
    pixels = json.loads((PROJECT / "examples/digits/held_out.json").read_text())["image"]
    return {"image": np.tile(np.array(pixels[:1], np.float32), (rows, 1))}


def _ask(running: Running, case: Case, seconds: int, *, tls: bool) -> Measured:
    """Load one server.

    Raises:
        WrongReplyError: a request failed.
    """
    grpc, target = case.over == "gRPC", running.target
    call = (tfs_grpc if grpc else tfs_rest)("digits", sample_inputs(case.rows))
    way = GRPC_OPTIONS if grpc else JSON_OPTIONS
    port = target.grpc_port if grpc else target.rest_port
    url = f"{'https' if tls else 'http'}://{HOST}:{port}{call.path}"
    duration = () if case.anew else (f"-D{seconds}",)
    with tempfile.NamedTemporaryFile() as data:
        data.write(framed(call) if grpc else call.body)
        data.flush()
        command = ("h2load", *case.options, *duration, *way, f"-d{data.name}", url)
        before = measure.cpu_s(running.pid)
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        used = measure.cpu_s(running.pid) - before
    return _summary(output, used)


def _summary(output: str, used_s: float) -> Measured:
    rate = re.search(r"finished in .*?, ([\d.]+) req/s", output)
    counted = re.search(r"(\d+) succeeded, (\d+) failed, (\d+) errored", output)
    data = re.search(r"\((\d+)\) data", output)
    if not (rate and counted and data) or any(map(int, counted.groups()[1:])):
        raise WrongReplyError(output)
    replies = int(counted[1])
    return Measured(float(rate[1]), used_s / replies * 1e6, int(data[1]) / replies)


if __name__ == "__main__":
    main()
