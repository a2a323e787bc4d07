"""Load by `wrk` (REST) and `h2load` (gRPC), which cost far less than any server under test.

Debian packages `wrk` and `nghttp2-client`. Both replies and bytes are counted: h2load takes any
HTTP 200 for a success, and a gRPC error is one.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import uvloop

from benchmarks.calls import Call, WrongReplyError
from benchmarks.load import HOST, Sample, ask_grpc, ask_rest

PROGRAMS = {"wrk": "wrk", "h2load": "nghttp2-client"}
"""Program to Debian package."""

FIRST = ("chrt", "--fifo", "1")
"""Before a command: runs it whenever it can run, before every thread that has no such priority.
Needs root. Source: chrt(1), of util-linux."""

MOST_OPEN = 64
"""Requests of a steady stream that may be open at once."""
GRPC_OPTIONS = (
    *("-w30", "-W30"),
    *("-H", "content-type: application/grpc", "-H", "te: trailers"),
)
JSON_OPTIONS = ("--h1", "-H", "content-type: application/json")

WRK_SCRIPT = """
wrk.method = "POST"
%s
wrk.body = io.open("%s", "rb"):read("*a")
function done(summary, latency, requests)
  print(string.format(
    '{"replies": %%d, "us": %%d, "p50_us": %%f, "p99_us": %%f, "bytes": %%d, "errors": %%d}',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    summary.bytes, summary.errors.status + summary.errors.read + summary.errors.timeout))
end
"""


def need() -> None:
    """Install the Debian packages of the load generators, or say which are missing."""
    missing = [p for name, p in PROGRAMS.items() if not shutil.which(name)]
    if not missing:
        return
    command = ["apt-get", "install", "--yes", "--no-install-recommends", *missing]
    if not shutil.which("apt-get") or subprocess.run(command, check=False).returncode:
        sys.exit(f"install the packages {' and '.join(missing)} first: {' '.join(command)}")


def wrk(port: int, call: Call, concurrency: int, seconds: float) -> Sample:
    """Load over REST, one connection for each concurrent request."""
    body_bytes = len(uvloop.run(ask_rest(port, call)))
    url = f"http://{HOST}:{port}{call.path}"
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "body").write_bytes(call.body)
        script = Path(folder) / "script.lua"
        headers = "\n".join(f'wrk.headers["{name}"] = "{value}"' for name, value in call.headers)
        script.write_text(WRK_SCRIPT % (headers, Path(folder) / "body"))
        options = ("-t1", f"-c{concurrency}", f"-d{max(1, round(seconds))}s", "--timeout", "30s")
        output = _run("wrk", *options, "-s", str(script), url)
    seen = json.loads(output.splitlines()[-1])
    if seen["errors"] or not seen["replies"] or seen["bytes"] < seen["replies"] * body_bytes:
        raise WrongReplyError(f"{call.path}: {seen}, expected {body_bytes} bytes in each body")
    rps = seen["replies"] / seen["us"] * 1e6
    return Sample(rps, seen["p50_us"] / 1000, seen["p99_us"] / 1000, seen["replies"] + 1)


def h2load(
    port: int, call: Call, concurrency: int, seconds: float, *, connections: int = 1
) -> Sample:
    """Load over gRPC, `concurrency` streams in all, divided among so many connections."""
    frame_bytes = 5 + len(uvloop.run(ask_grpc(port, call)))
    with tempfile.TemporaryDirectory() as folder:
        data, log = Path(folder) / "frame", Path(folder) / "log"
        data.write_bytes(framed(call))
        streams = (f"-c{connections}", f"-m{concurrency // connections}")
        options = (*streams, f"-D{max(1, round(seconds))}", f"--log-file={log}")
        url = f"http://{HOST}:{port}{call.path}"
        output = _run("h2load", *options, *GRPC_OPTIONS, f"-d{data}", url)
        latencies_s = np.loadtxt(log, usecols=2, ndmin=1) / 1e6
    return _h2load_sample(call, output, frame_bytes, latencies_s.tolist())


def steady(
    transport: str, port: int, call: Call, rps: int, seconds: float, *, client_first: bool = False
) -> list[float]:
    """Send `rps` requests a second, whether earlier ones are answered or not; give all latencies.

    What waits behind a stall is counted: all that would have come meanwhile comes meanwhile, on one
    connection, over REST pipelined.

    Args:
        transport: "gRPC" or "REST".
        port: of 127.0.0.1.
        call: what is asked.
        rps: requests a second.
        seconds: for which they are sent.
        client_first: whether the generator never waits for a CPU, as one on another machine.

    Returns:
        Milliseconds, in no order.
    """
    grpc = transport == "gRPC"
    body = framed(call) if grpc else call.body
    ask = ask_grpc if grpc else ask_rest
    uvloop.run(ask(port, call))
    way = GRPC_OPTIONS if grpc else JSON_OPTIONS
    with tempfile.TemporaryDirectory() as folder:
        data, log = Path(folder) / "body", Path(folder) / "log"
        data.write_bytes(body)
        options = ("-c1", f"-m{MOST_OPEN}", f"-D{max(1, round(seconds))}")
        rate = (f"--rps={rps}", f"--log-file={log}", f"-d{data}")
        first = FIRST if client_first else ()
        output = _run(*first, "h2load", *options, *rate, *way, f"http://{HOST}:{port}{call.path}")
        statuses, microseconds = np.loadtxt(log, usecols=(1, 2), ndmin=2).T
    if not len(statuses) or any(statuses != 200):
        raise WrongReplyError(f"{call.path}: not all were answered:\n{output}")
    return list(microseconds / 1000)


def framed(call: Call) -> bytes:
    """Give the call as one gRPC message on the wire."""
    return b"\0" + len(call.body).to_bytes(4, "big") + call.body


def _h2load_sample(call: Call, output: str, frame_bytes: int, latencies_s: list[float]) -> Sample:
    """Read h2load's summary.

    Raises:
        WrongReplyError: fewer bytes came than so many right replies have.
    """
    rps = float(_found(r"finished in .*?, ([\d.]+) req/s", output))
    replies = int(_found(r"requests: .*? (\d+) succeeded", output))
    data_bytes = int(_found(r"\((\d+)\) data", output))
    if not replies or data_bytes < replies * frame_bytes:
        raise WrongReplyError(f"{call.path}: {replies} replies of {frame_bytes} bytes:\n{output}")
    p50, p99 = np.percentile(latencies_s, (50, 99)) * 1000
    return Sample(rps, float(p50), float(p99), replies + 1)


def _found(pattern: str, output: str) -> str:
    match = re.search(pattern, output)
    if not match:
        raise WrongReplyError(f"no {pattern!r} in:\n{output}")
    return match.group(1)


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
