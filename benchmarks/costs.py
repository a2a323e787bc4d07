"""Measure what a small request pays for metrics, the access log and API keys.

One server with each of them, and one with none, asked in many short turns by `h2load`. A second
server with none shows what two alike servers differ by: less than that is not to be seen here. All
are started anew several times, since two starts of the same server differ as well.
"""

import argparse
import re
import secrets
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

import psutil

from benchmarks import measure, servers
from benchmarks.calls import Call, WrongReplyError, tfs_grpc, tfs_rest
from benchmarks.engine import Loop
from benchmarks.generators import GRPC_OPTIONS, JSON_OPTIONS, framed, need
from benchmarks.load import HOST
from benchmarks.quick import NEWEST, SAMPLE
from benchmarks.report import table
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


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="make bench-costs", description=__doc__)
    parser.add_argument("--starts", type=int, default=3, help="how often all servers are started")
    parser.add_argument("--turns", type=int, default=12, help="of each server and case, each start")
    given = parser.parse_args()
    need()
    found: dict[tuple[str, str], list[Turn]] = defaultdict(list)
    for _ in range(given.starts):
        _measure(found, given.turns)
    print(table(["", "case", "requests/s", "CPU", "middle half", "CPU µs more"], [*_rows(found)]))


def _measure(found: dict[tuple[str, str], list[Turn]], turns: int) -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        running = {
            name: _started(stack, server, keyed=name == KEYS)
            for name, server in _servers(folder).items()
        }
        for turn in range(turns):
            for title in CASES:
                for name in list(running)[:: -1 if turn % 2 else 1]:
                    found[title, name].append(_ask(running[name], title, keyed=name == KEYS))


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


def _started(stack: ExitStack, server: Server, *, keyed: bool) -> Running:
    inputs = sample_inputs(1)
    question = Question("digits", SAMPLE, inputs, Loop(NEWEST, inputs).outputs())
    scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    probe = tfs_rest("digits", inputs)
    if keyed:
        probe = replace(probe, key=KEY)
    target = servers.target("digits", SAMPLE, scratch)
    return stack.enter_context(servers.running(server, target, probe, question.judge(probe)))


def _ask(running: Running, title: str, *, keyed: bool) -> Turn:
    over, options = CASES[title]
    grpc = over == "gRPC"
    call: Call = (tfs_grpc if grpc else tfs_rest)("digits", sample_inputs(1))
    way = GRPC_OPTIONS if grpc else JSON_OPTIONS
    key = ("-H", f"x-api-key: {KEY}") if keyed else ()
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
            low, _, high = quantiles(costs, n=4)
            rates = median(mine.rps / other.rps for mine, other in pairs)
            more = median(mine.cpu_us - other.cpu_us for mine, other in pairs)
            middle = f"{low:.3f}-{high:.3f}"
            yield [name, title, f"{rates:.3f}", f"{median(costs):.3f}", middle, f"{more:+.1f}"]


if __name__ == "__main__":
    main()
