"""The real processes around a tiny application, for test_process.py: no models, no engine.

`python tiny_server.py '{"rest_port": 8000, ...}'`, with the fields of ServerSettings and:

    workers        number of worker processes
    start_gate     FIFO; every start waits until it has taken one byte from it
    start_error    "serving" or "unexpected": the start raises it
    start_marker   file; a start without it creates it, one that finds it raises
    answer_gate    FIFO; a slow request is answered when it has taken one byte from it
"""

import asyncio
import json
import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ie_serving.config.dialects import own_flags
from ie_serving.config.settings import ServerSettings, Settings
from ie_serving.core.values import hints
from ie_serving.core.values.errors import ServingError
from ie_serving.server.process import gunicorn_app
from ie_serving.server.process.gunicorn_app import run
from ie_serving.server.process.lifecycle import MakeListener
from ie_serving.telemetry.log import logs

if TYPE_CHECKING:
    from ie_serving.server.transport.http1.messages import Reply, Request

log = logging.getLogger("ie_serving.tiny")


class Tiny:
    """Answers its process id, at once or when the test says so."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self._marker = Path(options.get("start_marker", os.devnull))

    async def start(self) -> None:
        log.info("starting pid=%d", os.getpid())
        if "start_gate" in self._options:
            await _opened(self._options["start_gate"])
        if "start_error" in self._options:
            raise self._error()
        if "start_marker" in self._options and self._marker.exists():
            raise ServingError("the store is away")
        if "start_marker" in self._options:
            self._marker.touch()

    def _error(self) -> Exception:
        if self._options["start_error"] == "serving":
            return ServingError('model path "/nowhere" does not exist: name a directory')
        return ZeroDivisionError("a defect")

    def model_names(self) -> Sequence[str]:
        return ["tiny"]

    def listeners(self) -> Mapping[str, Callable[[], MakeListener]]:
        return {"REST": self._rest, "gRPC": self._grpc}

    def _rest(self) -> MakeListener:
        from ie_serving.server.transport.http1.server import HttpServer

        return partial(HttpServer, self._answer_http)

    def _grpc(self) -> MakeListener:
        from ie_serving.server.transport.grpc.http2_server import Http2Server

        methods = {"Fast": self._fast, "Slow": self._slow}
        return partial(Http2Server, {"tiny.Tiny": methods}, max_message_bytes=1 << 20)

    async def set_ready(self, ready: bool) -> None:
        log.info("ready=%s", ready)

    async def hand_over(self) -> None:
        log.info("handed over")

    async def reload(self) -> None:
        if self._marker.name == "broken":
            raise ServingError("config.json: not JSON")
        log.info("reloaded pid=%d", os.getpid())

    async def close(self, limit_s: float) -> None:
        log.info("closed")

    async def _fast(self, _request: bytes, _context: object) -> bytes:
        return str(os.getpid()).encode()

    async def _slow(self, request: bytes, context: object) -> bytes:
        log.info("slow request arrived")
        await _opened(self._options["answer_gate"])
        return await self._fast(request, context)

    async def _answer_http(self, request: "Request") -> "Reply":
        from ie_serving.server.transport.http1.messages import Reply

        if request.head.path == b"/deadlock":
            threading.Barrier(2).wait()
        answer = self._slow if request.head.path == b"/slow" else self._fast
        return Reply(200, (), await answer(b"", None))


async def _opened(fifo: str) -> None:
    """Take one byte from `fifo`; in a thread, as a model load would."""
    await asyncio.to_thread(_take, fifo)


def _take(fifo: str) -> None:
    with open(fifo, "rb", buffering=0) as opened:
        opened.read(1)


def build(options: dict[str, Any]) -> Tiny:
    assert threading.active_count() == 1, "the fork must not come after threads"
    return Tiny(options)


def main() -> int:
    options = json.loads(sys.argv[1])
    known = ServerSettings.__dataclass_fields__
    gunicorn_app.LOOK_S = options.get("look_s", gunicorn_app.LOOK_S)  # type: ignore[misc]
    server = ServerSettings(**{name: options[name] for name in options if name in known})
    hints.speak(own_flags.names("model"))
    logs.configure(server.log_level, server.log_path, server.log_format)
    settings = Settings(server=server, models=())
    return run(settings, lambda *_: build(options), environment=os.environ).code


if __name__ == "__main__":
    sys.exit(main())
