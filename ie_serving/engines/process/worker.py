"""The main loop of a child process that runs signatures of TensorFlow or of a kernel.

The process gets one job, reports the signatures it has loaded, and then gets a link for each of the
server's concurrent requests; each link has a thread. It closes its model and ends when the server
closes the control socket; it ends at once when the server dies.
"""

import ctypes
import json
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ie_serving.core.values.codes import Code
from ie_serving.core.values.tensors import Array
from ie_serving.engines.process.link import Link, LinkMessage, PeerGone, RemoteFault, Segment
from ie_serving.engines.process.protocol import KEPT, FrameKind, ProcessFrame, numbered, text, words

Job = Mapping[str, Any]
"""The model to load; the server's side of each engine writes it."""

_PR_SET_PDEATHSIG = 1
"""Source: prctl(2)."""

_OOM_SCORE = "500"
"""Half of the highest score: when memory runs out the kernel kills this process, which the server
can restart, before the server."""


@dataclass(frozen=True)
class LoadedJob:
    """A loaded job.

    Attributes:
        run: runs the signature with a number; gives its outputs in order. Called by several threads
            at a time. Raises: RemoteFault.
        found: sent to the server, as JSON.
        tensors: sent to the server with `found`.
        lends: `run` gets views of the shared memory, not copies. If it keeps a view, the worker
            reports that, and the server does not write to that memory again.
        stream: answers a stream, and closes its arguments: the socket, the memory to write to and
            the memory to read. Returns at once. None without streams.
        close: called before the process ends, unless it is killed. Raises nothing.
    """

    run: Callable[[int, Sequence[Array]], Sequence[Array]]
    found: Mapping[str, Any] = field(default_factory=dict)
    tensors: Sequence[Array] = ()
    lends: bool = False
    stream: Callable[[socket.socket, Segment, Segment], None] | None = None
    close: Callable[[], object] = lambda: None


def serve(load: Callable[[Job], LoadedJob]) -> None:
    """Run as the server's child until the process ends.

    The command line ends with the number of the control socket and the server's process id.
    """
    descriptor, parent = int(sys.argv[-2]), int(sys.argv[-1])
    _live_and_die_with(parent)
    control = socket.socket(fileno=descriptor)
    link = Link(control)
    try:
        loaded = _begin(link, load)
        if loaded is not None:
            _give_links(control, loaded)
            loaded.close()
    except PeerGone:
        pass
    # Flush the last prints, since `_exit` does not.
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    # `sys.exit` would wait for threads whose results are no longer wanted.
    os._exit(0)


def _live_and_die_with(parent: int) -> None:
    # Ctrl-C and the stop of a container signal the whole group, while the server still drains.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the server died before prctl
        os._exit(1)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE, encoding="ascii")


def _begin(link: Link, load: Callable[[Job], LoadedJob]) -> LoadedJob | None:
    job: Job = json.loads(words(link.receive().tensors[0]))
    if job.get("memory_bytes"):
        _limit_memory(job["memory_bytes"])
    try:
        loaded = load(job)
    except Exception as error:
        link.send(_fault(link, error))
        return None
    found = text(json.dumps(loaded.found))
    link.send(link.pack(FrameKind.READY, 0, [found, *loaded.tensors]))
    return loaded


def _limit_memory(size: int) -> None:
    # Private memory, not the address space: TensorFlow reserves far more addresses than it uses.
    resource.setrlimit(resource.RLIMIT_DATA, (size, size))


def _give_links(control: socket.socket, loaded: LoadedJob) -> None:
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, 1, 3)
        if not data:
            return
        connection, *memories = descriptors
        way = socket.socket(fileno=connection)
        theirs, *ours = map(Segment, memories)
        if ours and loaded.stream:
            loaded.stream(way, ours[0], theirs)
            continue
        link = Link(way, theirs)
        threading.Thread(target=_serve, args=(link, loaded), daemon=True).start()


def _serve(link: Link, loaded: LoadedJob) -> None:
    # The link is closed after any error: otherwise the server would wait for a reply for ever.
    try:
        with suppress(PeerGone):
            while True:
                frame = _reply_to(link, link.receive(), loaded)
                # Checked only now, when the worker itself holds no view of the memory any more.
                kept = loaded.lends and link.is_looked_into and frame.data[0] == FrameKind.RESULT
                link.send(numbered(frame, KEPT) if kept else frame)
    finally:
        link.close()


def _reply_to(link: Link, message: LinkMessage, loaded: LoadedJob) -> ProcessFrame:
    try:
        if loaded.lends:
            # Outputs go after the inputs in memory: an output may be a view of an input.
            outputs = loaded.run(message.number, message.tensors)
            return link.pack(FrameKind.RESULT, 0, outputs, message.shared_bytes)
        # Copies: an operation may keep a tensor that it was fed, in a variable, while the next
        # request overwrites the shared memory.
        tensors = [array.copy() for array in message.tensors]
        return link.pack(FrameKind.RESULT, 0, loaded.run(message.number, tensors))
    except Exception as error:
        return _fault(link, error)


def _fault(link: Link, error: Exception) -> ProcessFrame:
    if isinstance(error, RemoteFault):
        return link.pack(FrameKind.FAULT, error.code, [text(str(error))])
    if isinstance(error, MemoryError):
        said = f"the TensorFlow process has no memory for this request: {error}"
        return link.pack(FrameKind.FAULT, Code.RESOURCE_EXHAUSTED, [text(said)])
    return link.pack(FrameKind.FAULT, Code.INTERNAL, [text(f"{type(error).__name__}: {error}")])
