"""Measure what a small request pays for metrics, the access log and API keys.

One server with each of them, and one with none, asked in many short turns: by `h2load`, for the
processor time of the server, and by the clients of `bench-quick`, for what a client notices. A
second server with none shows what two alike servers differ by: less than that is not to be seen
here. All are started anew several times, since two starts of the same server differ as well. Every
client sends the key, also to servers that ask for none: the cost is that of the server alone.
"""

import argparse
import re
import secrets
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

import numpy as np
import psutil
import uvloop

from benchmarks import measure, servers
from benchmarks.calls import Call, WrongReplyError, tfs_grpc, tfs_rest
from benchmarks.engine import Loop
from benchmarks.generators import GRPC_OPTIONS, JSON_OPTIONS, framed, need
from benchmarks.load import HOST, asking_grpc, asking_rest, bursts_in_turns
from benchmarks.quick import CASES as QUICK
from benchmarks.quick import NEWEST, SAMPLE
from benchmarks.report import spread, table
from benchmarks.servers import Running, Server, project, with_flags
from benchmarks.subjects import Question
from benchmarks.tls import sample_inputs

NONE, AGAIN, KEYS = "none of these", "none of these, again", "API keys"
KEY = secrets.token_urlsafe(32)
QUIET = ("--metrics_enable", "false")
CASES: Mapping[str, tuple[str, Sequence[str]]] = {
    "gRPC, 1 at a time": ("gRPC", ("-c1", "-m1", "-n600")),
    "gRPC, 16 at a time": ("gRPC", ("-c1", "-m16", "-n2000")),
    "REST, 16 at a time": ("REST", ("-c16", "-m1", "-n1200")),
}
"""Some 0.2 s each: interface and options of h2load."""


class Turn(NamedTuple):
    """What one turn of load found: requests a second, and the server's processor time for each."""

    rps: float
    cpu_us: float


Results = Mapping[tuple[str, str], list[Turn]]
"""By case and server."""
Waits = dict[tuple[str, int, str], list[tuple[float, float]]]
"""By transport, concurrency and server, for each start: milliseconds of the median burst, and the
median of how much longer a burst took than that of the server with none in the same turn."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="make bench-costs", description=__doc__)
    parser.add_argument("--starts", type=int, default=3, help="how often all servers are started")
    parser.add_argument("--turns", type=int, default=12, help="of each server and case, each start")
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="of a client, for each server, case and start"
    )
    given = parser.parse_args()
    need()
    found: dict[tuple[str, str], list[Turn]] = defaultdict(list)
    waits: Waits = defaultdict(list)
    for _ in range(given.starts):
        _measure(found, waits, given.turns, given.seconds)
    print(table(["", "case", "requests/s", "CPU", "middle half", "CPU µs more"], [*_rows(found)]))
    print()
    heads = ["", "case", "requests at once, ms", "more, by pairs, µs", "of none"]
    print(table(heads, [*_rows_of_waits(waits)]))


def _measure(
    found: dict[tuple[str, str], list[Turn]], waits: Waits, turns: int, seconds: float
) -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        running = {name: _started(stack, server) for name, server in _servers(folder).items()}
        for turn in range(turns):
            for title in CASES:
                for name in list(running)[:: -1 if turn % 2 else 1]:
                    found[title, name].append(_ask(running[name], title))
        for transport, concurrency in QUICK if seconds else ():
            bursts = uvloop.run(_bursts(running, transport, concurrency, seconds))
            for name, own in bursts.items():
                more = np.subtract(own, bursts[NONE])
                noted = float(np.median(own)) * 1e3, float(np.median(more)) * 1e3
                waits[transport, concurrency, name].append(noted)


async def _bursts(
    running: Mapping[str, Running], transport: str, concurrency: int, seconds: float
) -> dict[str, list[float]]:
    async with AsyncExitStack() as stack:
        asks = []
        for server in running.values():
            grpc = transport == "gRPC"
            call = replace((tfs_grpc if grpc else tfs_rest)("digits", sample_inputs(1)), key=KEY)
            target = server.target
            asking = (
                asking_grpc(target.grpc_port, call)
                if grpc
                else asking_rest(target.rest_port, call, concurrency)
            )
            asks.append(await stack.enter_async_context(asking))
        bursts = await bursts_in_turns(asks, concurrency, seconds)
    return dict(zip(running, bursts, strict=True))


def _servers(folder: Path) -> Mapping[str, Server]:
    keys = folder / "keys"
    keys.write_text(f"bench predict * sha256:{sha256(KEY.encode()).hexdigest()}\n")
    flags = {
        NONE: QUIET,
        AGAIN: QUIET,
        "metrics": (),
        "access log": (*QUIET, "--access_log", str(folder / "access.log")),
        KEYS: (*QUIET, "--api_key_file", str(keys)),
    }
    plain = project("working-tree", None)
    return {name: with_flags(plain, each) for name, each in flags.items()}


def _started(stack: ExitStack, server: Server) -> Running:
    inputs = sample_inputs(1)
    question = Question("digits", SAMPLE, inputs, Loop(NEWEST, inputs).outputs())
    scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    probe = replace(tfs_rest("digits", inputs), key=KEY)
    target = servers.target("digits", SAMPLE, scratch)
    return stack.enter_context(servers.running(server, target, probe, question.judge(probe)))


def _ask(running: Running, title: str) -> Turn:
    over, options = CASES[title]
    grpc = over == "gRPC"
    call: Call = (tfs_grpc if grpc else tfs_rest)("digits", sample_inputs(1))
    way = GRPC_OPTIONS if grpc else JSON_OPTIONS
    key = ("-H", f"x-api-key: {KEY}")
    port = running.target.grpc_port if grpc else running.target.rest_port
    with tempfile.NamedTemporaryFile() as data:
        data.write(framed(call) if grpc else call.body)
        data.flush()
        url = f"http://{HOST}:{port}{call.path}"
        command = ("h2load", *options, *way, *key, f"-d{data.name}", url)
        before = _cpu_us(running.pid)
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        used = _cpu_us(running.pid) - before
    rate = re.search(r"finished in .*?, ([\d.]+) req/s", output)
    counted = re.search(r"(\d+) succeeded, 0 failed, 0 errored", output)
    data_bytes = re.search(r"\((\d+)\) data", output)
    # A gRPC error is HTTP 200 as well, without a message.
    if not (rate and counted and data_bytes) or int(data_bytes[1]) < 40 * int(counted[1]):
        raise WrongReplyError(output)
    return Turn(float(rate[1]), used / int(counted[1]))


def _cpu_us(pid: int) -> float:
    """Processor time of all threads; the ticks of `measure.cpu_s` are too long for a turn."""
    total = 0
    for process in measure.tree(pid):
        with suppress(psutil.NoSuchProcess, FileNotFoundError):
            for thread in Path(f"/proc/{process.pid}/task").iterdir():
                total += int((thread / "schedstat").read_text().split()[0])
    return total / 1e3


def _rows(found: Results) -> Iterator[list[str]]:
    for name in dict.fromkeys(name for _, name in found):
        for title in CASES:
            base, own = found[title, NONE], found[title, name]
            pairs = list(zip(own, base, strict=True))
            if name == NONE:
                cpu, rps = (median(each[place] for each in base) for place in (1, 0))
                yield [name, title, f"{rps:,.0f}", f"{cpu:.1f} µs", "", ""]
                continue
            costs = [mine.cpu_us / other.cpu_us for mine, other in pairs]
            low, _, high = quantiles(costs * 2 if len(costs) < 2 else costs, n=4)
            rates = median(mine.rps / other.rps for mine, other in pairs)
            more = median(mine.cpu_us - other.cpu_us for mine, other in pairs)
            middle = f"{low:.3f}-{high:.3f}"
            yield [name, title, f"{rates:.3f}", f"{median(costs):.3f}", middle, f"{more:+.1f}"]


def _percent(parts: Sequence[float]) -> str:
    return f"{median(parts):.1f} % ({min(parts):.1f} to {max(parts):.1f})"


def _rows_of_waits(waits: Waits) -> Iterator[list[str]]:
    for (transport, concurrency, name), starts in waits.items():
        took, more = ([each[place] for each in starts] for place in (0, 1))
        row = [name, f"{transport} c{concurrency}", spread(took, 2)]
        if name != NONE:
            base = [each[0] for each in waits[transport, concurrency, NONE]]
            parts = [100 * each / whole for each, whole in zip(more, base, strict=True)]
            row += [spread([1e3 * each for each in more], 1), _percent(parts)]
        yield row + [""] * (5 - len(row))


if __name__ == "__main__":
    main()
