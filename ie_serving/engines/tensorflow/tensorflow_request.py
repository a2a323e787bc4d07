"""A request that a process of TensorFlow computes. See `engines.run.infer_request.InferRequest`."""

import asyncio
import logging

from ie_serving.core.values.errors import QueueFull
from ie_serving.core.values.tensors import Arrays, Signature
from ie_serving.engines.process.child_process import WorkerProcess
from ie_serving.engines.process.link import Link, PeerGone
from ie_serving.engines.process.protocol import Frame, Kind
from ie_serving.engines.process.supervision import Supervisor
from ie_serving.engines.run.infer_request import Outputs
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

ABANDONED_S = 30.0
"""Seconds that a run may continue after its client has left. TensorFlow cannot cancel a run, so
beyond this the process is killed: runs that hang would in time occupy every lane."""


class RemoteRequest:
    """An infer request with a link to the serving process, opened at its first use.

    Args of the constructor:
        supervisor: of the process.
        number: of the signature in that process.
        signature: gives the order of inputs and outputs.
        abandoned_s: see `ABANDONED_S`.
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
        self._inputs = list(signature.inputs)
        self._outputs = list(signature.outputs)
        self._abandoned_s = abandoned_s
        self._way: tuple[WorkerProcess, Link] | None = None
        self._frame: Frame | None = None
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
            self._frame = link.pack(Kind.RUN, self._number, [inputs[name] for name in self._inputs])
        except OSError as error:
            raise _no_room("inputs", error) from error

    def run(self) -> Outputs:
        """Run in the process; give outputs as views of the shared memory.

        Raises:
            PeerGone: the process has ended.
            Fault: TensorFlow refused.
            QueueFull: no memory for the outputs, or no descriptor is left.
        """
        if self._way is None or self._frame is None:
            raise PeerGone
        link = self._way[1]
        self._runs += 1
        self._running = True
        try:
            link.send(self._frame)
            tensors = link.answer().tensors
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
            log.warning(
                Event(
                    "TensorFlow process ended for a request that nobody waits for",
                    pid=process.pid,
                    after_s=self._abandoned_s,
                )
            )
            process.kill()


def _no_room(what: str, error: OSError) -> QueueFull:
    said = f"the {what} cannot be handed over ({error.strerror}): send fewer at once"
    return QueueFull(said)
