"""Runs signatures of one version in one TensorFlow process, with a program for each signature."""

import asyncio
import json
import logging
import weakref
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ie_serving.core.values.codes import ERROR_OF
from ie_serving.core.values.errors import LoadFailed, NotAvailable, QueueFull, ServingError
from ie_serving.core.values.tensors import Arrays, Outputs, Read, Signature
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.process.child_process import Starts, WorkerProcess, command_of
from ie_serving.engines.process.link import Link, LinkMessage, PeerGone, RemoteFault
from ie_serving.engines.process.protocol import FrameKind, ProcessFrame, words
from ie_serving.engines.process.supervision import ProcessTask, Supervisor
from ie_serving.engines.run.latency_model import LatencyModel
from ie_serving.engines.run.program import Program, RunnableSignature
from ie_serving.engines.run.threads import thread_limit
from ie_serving.engines.tensorflow.options import TensorFlowOptions
from ie_serving.telemetry.log.logs import Event, carried

T = TypeVar("T")

log = logging.getLogger(__name__)

ABANDONED_S = 30.0
"""Seconds that a run may continue after its client has left. TensorFlow cannot cancel a run, so
beyond this the process is killed: runs that hang would in time occupy every lane."""

MOST_AT_ONCE = 8
"""Requests of one signature that TensorFlow runs at once, unless `nireq` is set; more wait. One
request already uses all processors; several hide the time of the transfers."""
SESSION = "ie_serving.engines.tensorflow.tensorflow_session"
"""Module of TensorFlow's process, imported with the job: TensorFlow's import takes seconds."""
COMMAND = command_of(
    "from importlib import import_module; from ie_serving.engines.process.worker import serve;"
    f" serve(lambda job: import_module({SESSION!r}).load(job))"
)
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2"}
"""Defaults of TensorFlow's variables: only errors are logged."""


class RemoteRequest:
    """An infer request with a link to the serving process, opened at its first use.

    Args of the constructor:
        supervisor: supervisor of the process.
        number: number of the signature in that process.
        signature: gives the order of inputs and outputs.
        abandoned_s: limit in seconds, `ABANDONED_S` by default.
    """

    renews = False

    def __init__(
        self,
        supervisor: Supervisor,
        number: int,
        signature: Signature,
        abandoned_s: float,
    ) -> None:
        self._supervisor = supervisor
        self._number = number
        self._name = signature.name
        self._about = carried()
        self._inputs = list(signature.inputs)
        self._outputs = list(signature.outputs)
        self._abandoned_s = abandoned_s
        self._way: tuple[WorkerProcess, Link] | None = None
        self._frame: ProcessFrame | None = None
        self._runs = 0
        self._running = False

    def fill(self, inputs: Arrays) -> None:
        """Copy large inputs into shared memory; waits while the process starts.

        Raises:
            NotAvailable: the process has ended again and again.
            QueueFull: not enough memory, or no descriptor is left.
        """
        self.renew()
        try:
            if self._way is None:
                self._way = self._supervisor.link()
            link = self._way[1]
            link.shrink()
            self._frame = link.pack(
                FrameKind.RUN, self._number, [inputs[name] for name in self._inputs]
            )
        except OSError as error:
            raise _no_room("inputs", error) from error

    def run(self) -> Outputs:
        """Run in the process; give outputs as views of the shared memory.

        Raises:
            PeerGone: the process has ended.
            RemoteFault: TensorFlow refused.
            QueueFull: no memory for the outputs, or no descriptor is left.
        """
        if self._way is None or self._frame is None:
            raise PeerGone
        link = self._way[1]
        self._runs += 1
        self._running = True
        try:
            link.send(self._frame)
            tensors = link.reply().tensors
        except OSError as error:
            raise _no_room("outputs", error) from error
        finally:
            self._running = False
        return dict(zip(self._outputs, tensors, strict=True))

    def run_new(self) -> Outputs:
        """As `run`."""
        return self.run()

    def cancel(self) -> None:
        """Let a run continue for `abandoned_s`, then kill the process. On the event loop."""
        loop = asyncio.get_running_loop()
        loop.call_later(self._abandoned_s, self._end, self._runs)

    def renew(self) -> None:
        """Drop a link whose other end is gone, and report the loss of its process."""
        if self._way is not None and not self._way[1].alive:
            process, link = self._way
            self._way = None
            link.close()
            self._supervisor.lost(process)

    def close(self) -> None:
        """Close the link with its shared memory; no run may be in progress."""
        if self._way is not None:
            self._way[1].close()
        self._way = self._frame = None

    def _end(self, number: int) -> None:
        if self._running and self._runs == number and self._way is not None:
            process = self._way[0]
            facts = {"signature": self._name, "pid": process.pid, "after_s": self._abandoned_s}
            with self._about():
                log.warning(Event("TensorFlow run abandoned, process ended", **facts))
            process.kill()


def _no_room(what: str, error: OSError) -> QueueFull:
    said = f"the {what} cannot be handed over ({error.strerror}): send fewer at once"
    return QueueFull(said)


def serve(
    directory: Path, signatures: Sequence[Signature], options: EngineOptions, starts: Starts
) -> tuple[list[RunnableSignature], list[Signature]]:
    """Start a process for `signatures`, registered with `starts`. Blocks for seconds.

    Returns:
        Programs for the signatures that TensorFlow accepts; and the others, each with the reason.
    """
    supervisor = Supervisor(
        ProcessTask(
            command=COMMAND,
            kind="TensorFlow",
            what="the TensorFlow process of this version",
            job=_job(directory, signatures, options),
            name=str(directory),
            # Sessions have these limits by their configuration, other code by this variable.
            environ={**QUIET, "TF_NUM_INTRAOP_THREADS": str(thread_limit() or 0)},
        )
    )
    try:
        found = starts.run(supervisor)
    except LoadFailed as error:
        return [], [_refused(signature, str(error)) for signature in signatures]
    told = json.loads(words(found.tensors[0]))
    taken: list[RunnableSignature] = [
        TensorFlowProgram(supervisor, number, signature, options.nireq or MOST_AT_ONCE)
        for number, signature in enumerate(_with_defaults(signatures, told["defaults"], found))
        if signature.name not in told["refused"]
    ]
    if not taken:
        supervisor.close()
    refused = told["refused"]
    return taken, [
        _refused(each, refused[each.name]) for each in signatures if each.name in refused
    ]


def _job(directory: Path, signatures: Sequence[Signature], options: EngineOptions) -> str:
    own = options.of(TensorFlowOptions)
    return json.dumps(
        {
            "directory": str(directory),
            "tags": options.saved_model_tags,
            "custom_op_paths": own.custom_op_paths,
            "memory_bytes": own.memory_bytes,
            "threads": thread_limit() or 0,  # 0: one for each core
            "signatures": {
                each.name: {
                    "inputs": {s.name: (s.tensor, s.dtype.name) for s in each.inputs.values()},
                    "outputs": {s.name: (s.tensor, s.dtype.name) for s in each.outputs.values()},
                }
                for each in signatures
            },
        }
    )


def _with_defaults(
    signatures: Sequence[Signature], named: Sequence[tuple[str, str]], found: LinkMessage
) -> list[Signature]:
    """Add the defaults of inputs that the process found, and remove the reasons of refusal."""
    values = {(name, alias): found.tensors[1 + at] for at, (name, alias) in enumerate(named)}
    return [
        replace(
            each,
            left_out="",
            runs_on="TensorFlow, in a process of its own",
            defaults={a: values[each.name, a] for a in each.inputs if (each.name, a) in values},
        )
        for each in signatures
    ]


def _refused(signature: Signature, cause: str) -> Signature:
    return replace(signature, left_out=f"{signature.left_out}; TensorFlow: {cause}")


class TensorFlowProgram:
    """Runs one signature. See `engines.run.program.RunnableSignature`.

    Args of the constructor:
        supervisor: supervisor of the started process.
        number: number of the signature in that process.
        signature: public signature.
        at_once: requests that run at once.
        abandoned_s: seconds that a run may continue after its client has left.
    """

    ahead = False

    def __init__(
        self,
        supervisor: Supervisor,
        number: int,
        signature: Signature,
        at_once: int = MOST_AT_ONCE,
        abandoned_s: float = ABANDONED_S,
    ) -> None:
        self.signature = signature
        self.at_once = at_once
        self._supervisor = supervisor
        make = partial(RemoteRequest, supervisor, number, signature, abandoned_s)
        self._requests = [make() for _ in range(at_once)]
        self._program = Program(
            signature,
            self._requests,
            LatencyModel("async"),
            failures=(PeerGone, RemoteFault),
            blame=_blame,
            # A run that hangs, or waits for a process to start, must not delay other models.
            apart=True,
        )
        # A version still in use after the drain is not closed: its process ends when it is freed.
        weakref.finalize(self, supervisor.abandon)

    def infer(self, inputs: Arrays, read: Read[T]) -> Coroutine[Any, Any, T]:
        """See `CompiledModel.infer`."""
        return self._program.infer(inputs, read)

    def close(self) -> None:
        """End the process, which all signatures of the version share, its links and threads."""
        # The supervisor closes first: a thread may wait for the process, and uses its link.
        self._supervisor.close()
        self._program.close()
        for request in self._requests:
            request.close()


def _blame(error: Exception) -> ServingError:
    if isinstance(error, RemoteFault):
        return ERROR_OF.get(error.code, ServingError)(str(error))
    return NotAvailable(
        "the TensorFlow process of this version ended while it ran this request; it is started"
        " again: send the request again"
    )
