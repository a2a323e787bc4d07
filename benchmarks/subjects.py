"""One server with one case: started, checked, loaded, measured."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvloop

from benchmarks import measure, servers
from benchmarks.calls import Call
from benchmarks.load import (
    Ask,
    Sample,
    ask_grpc,
    ask_rest,
    asking_grpc,
    asking_rest,
    load_in_turns,
)
from benchmarks.servers import Running, Server
from benchmarks.wire import Array

Load = Callable[[int, Call, int, float], Sample]
"""Port, call, concurrency, seconds: one load generator."""


@dataclass(frozen=True)
class Question:
    """What is asked of every server, and what the engine itself answers.

    Attributes:
        model: name in requests.
        repository: its numeric version directories.
        inputs: by name, ready for the model.
        expected: the engine's own outputs by name.
    """

    model: str
    repository: Path
    inputs: Mapping[str, Array]
    expected: Mapping[str, Array]

    def judge(self, call: Call) -> Callable[[bytes], None]:
        """Give the check of this call's replies; it raises WrongReplyError."""
        return lambda reply: call.check(reply, self.expected)


@dataclass(frozen=True)
class Measurement:
    """One stretch of load and what it cost.

    Attributes:
        cpu_us: processor time of the server's process tree for each reply.
    """

    sample: Sample
    cpu_us: float


class Subject:
    """A server that runs and answers one question rightly."""

    def __init__(self, server: Server, question: Question, running: Running) -> None:
        self.running = running
        self._server = server
        self._question = question
        ways = {"REST": server.rest, "gRPC": server.grpc, **server.further}
        self._calls = {
            name: dialect(question.model, question.inputs)
            for name, dialect in ways.items()
            if dialect
        }
        for call in self._calls.values():
            for first in call.before:
                uvloop.run(ask_grpc(running.target.grpc_port, first))

    def asked(self, question: Question) -> "Subject":
        """Give the same server with another question to the same model."""
        return Subject(self._server, question, self.running)

    def speaks(self, transport: str) -> bool:
        """Whether `load` may be called for this transport, or way of using one."""
        return transport in self._calls

    def load(self, transport: str, by: Load, concurrency: int, seconds: float) -> Measurement:
        """Load the server in one way, such as `gRPC`; its numbers are checked before and after.

        Raises:
            WrongReplyError: a number, a status or a length was not what it should be.
        """
        port, call = self._address(transport)
        self.check(transport)
        before = measure.cpu_s(self.running.pid)
        sample = by(port, call, concurrency, seconds)
        used = measure.cpu_s(self.running.pid) - before
        self.check(transport)
        return Measurement(sample, used / sample.replies * 1e6)

    def asking(self, transport: str, concurrency: int) -> "AbstractAsyncContextManager[Ask]":
        """Give what asks it over `gRPC` or `REST`."""
        port, call = self._address(transport)
        if transport == "gRPC":
            return asking_grpc(port, call)
        return asking_rest(port, call, concurrency)

    def check(self, transport: str) -> None:
        """Ask once. Raises: WrongReplyError."""
        port, call = self._address(transport)
        ask = ask_rest if transport.startswith("REST") else ask_grpc
        self._question.judge(call)(uvloop.run(ask(port, call)))

    def _address(self, transport: str) -> tuple[int, Call]:
        target = self.running.target
        port = target.rest_port if transport.startswith("REST") else target.grpc_port
        return port, self._calls[transport]


def load_subjects(
    subjects: Sequence[Subject], transport: str, concurrency: int, seconds: float
) -> list[Measurement]:
    """Load servers in turns; see `load.load_in_turns`. Raises: as `Subject.load`."""

    async def load() -> list[Sample]:
        async with AsyncExitStack() as stack:
            asks = [
                await stack.enter_async_context(each.asking(transport, concurrency))
                for each in subjects
            ]
            return await load_in_turns(asks, concurrency, seconds)

    for each in subjects:
        each.check(transport)
    before = [measure.cpu_s(each.running.pid) for each in subjects]
    samples = uvloop.run(load())
    used = [measure.cpu_s(each.running.pid) for each in subjects]
    for each in subjects:
        each.check(transport)
    return [
        Measurement(sample, (after - earlier) / sample.replies * 1e6)
        for sample, earlier, after in zip(samples, before, used, strict=True)
    ]


@contextmanager
def started(server: Server, question: Question, scratch: Path) -> Iterator[Subject]:
    """Start the server in `scratch` and stop it at the end."""
    target = servers.target(question.model, question.repository, scratch)
    probe = server.rest(question.model, question.inputs)
    with servers.running(server, target, probe, question.judge(probe)) as running:
        yield Subject(server, question, running)
