"""Remote calls between workers: one question and one answer over a private socket pair.

The asking worker creates the pair and sends one end to the other's mailbox. When a worker dies, the
system closes its end, so that the other worker does not wait for it.
"""

import asyncio
import logging
import pickle
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from ie_serving.core.runtime.waits import Tasks
from ie_serving.core.values.errors import NotAvailable, portable
from ie_serving.server.workers.member import Member, WorkerSilent
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

ASK: Final = b"ask"
"""Message: a question; the socket to read it from comes with the message."""
TRIES: Final = 500
AGAIN_S: Final = 0.01
"""Tries to send to a full mailbox, and the seconds between two tries: 5 s in all. The system queues
few messages and does not notify of free space; the reader takes microseconds for each."""
QUESTION_S: Final = 10.0
"""Seconds in which an asking worker has to send its question after its message."""
READ_BYTES: Final = 1 << 18
"""Bytes that one read from a worker takes at most; longer content takes several reads."""
_BROKEN: Final = (OSError, EOFError, pickle.UnpicklingError)
"""Errors of an exchange with a worker that has died meanwhile."""

Handler = Callable[..., Awaitable[Any]]
"""Receives the arguments of a question and returns the answer. Any error is sent to the asker."""


class WorkerGone(NotAvailable):
    """The other worker has died, or does not answer in time."""


class Questions:
    """Asks other workers, and answers them. Lives on one event loop."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._handlers: dict[str, Handler] = {}
        self._tasks = Tasks()
        member.take(ASK, self._take)

    def answer(self, verb: str, handler: Handler) -> None:
        """Register `handler` for questions of `verb`."""
        self._handlers[verb] = handler

    async def ask_all(
        self,
        verb: str,
        *arguments: Any,  # noqa: ANN401
        limit_s: float,
        of_silent: bool = True,
    ) -> list[Any]:
        """Ask this worker and all others that accept requests, concurrently; return the answers.

        Workers that die or do not answer in time are left out, with a log line.

        Raises: the first error, after all have ended; that of a silent worker only if `of_silent`.
        """
        others = (self.ask(slot, verb, *arguments, limit_s=limit_s) for slot in self._member.open)
        own = self._handlers[verb](*arguments)
        answers = []
        for answer in await asyncio.gather(own, *others, return_exceptions=True):
            is_silent = isinstance(answer, WorkerSilent)
            if is_silent or isinstance(answer, WorkerGone):
                log.warning(Event("worker not heard", verb=verb, cause=answer))
            if not isinstance(answer, WorkerGone) and (of_silent or not is_silent):
                answers.append(answer)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return answers

    async def ask(self, slot: int, verb: str, *arguments: Any, limit_s: float) -> Any:  # noqa: ANN401
        """Ask one worker.

        Raises:
            WorkerGone: the worker has died, or does not answer in `limit_s` seconds.
            WorkerSilent: the worker is stopped or hangs.
            ServingError: from the worker's handler.
        """
        member, name = self._member, self._member.name_of(slot)
        member.check(slot)
        exchange = asyncio.ensure_future(self._exchange(slot, pickle.dumps((verb, arguments))))
        exchange.add_done_callback(lambda _: member.notify())
        try:
            await member.until(partial(self._has_come, slot, exchange), limit_s)
            answer = exchange.result()
        except asyncio.TimeoutError as error:
            raise WorkerGone(f"{name} did not answer within {limit_s:g} s: ask again") from error
        except _BROKEN as error:
            raise WorkerGone(f"{name} ended: ask again") from error
        finally:
            exchange.cancel()
            await asyncio.gather(exchange, return_exceptions=True)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _has_come(self, slot: int, exchange: "asyncio.Future[Any]") -> bool:
        if not exchange.done():
            self._member.check(slot)
        return exchange.done()

    async def _exchange(self, slot: int, question: bytes) -> Any:  # noqa: ANN401
        here, there = socket.socketpair()
        with here:
            here.setblocking(False)
            with there:
                await self._send(slot, there.fileno())
            await asyncio.get_running_loop().sock_sendall(here, question)
            here.shutdown(socket.SHUT_WR)
            return pickle.loads(await _content(here))

    async def _send(self, slot: int, there: int) -> None:
        for _ in range(TRIES):
            if self._member.crew.mailboxes.send(slot, ASK, there):
                return
            await asyncio.sleep(AGAIN_S)
        raise asyncio.TimeoutError

    def _take(self, _: bytes, descriptor: int | None) -> None:
        if descriptor is not None:
            self._tasks.begin(self._reply(socket.socket(fileno=descriptor)))

    async def _reply(self, end: socket.socket) -> None:
        with end, suppress(asyncio.TimeoutError, *_BROKEN):  # the asking worker has gone
            end.setblocking(False)
            question = await asyncio.wait_for(_content(end), QUESTION_S)
            answer = await self._answer(*pickle.loads(question))
            # Values are pickled: they are objects of many classes, and both ends run one program.
            await asyncio.get_running_loop().sock_sendall(end, pickle.dumps(answer))

    async def _answer(self, verb: str, arguments: Sequence[Any]) -> Any:  # noqa: ANN401
        try:
            return await self._handlers[verb](*arguments)
        except Exception as error:
            return portable(error)


async def _content(end: socket.socket) -> bytes:
    loop, content = asyncio.get_running_loop(), bytearray()
    while part := await loop.sock_recv(end, READ_BYTES):
        content += part
    return bytes(content)
