"""A time limit on what the present task does, at the cost of one timer."""

import asyncio
from types import TracebackType

from ie_serving.errors import DeadlineExceeded


class Deadline:
    """Context manager that raises DeadlineExceeded when its body takes too long.

    `asyncio.wait_for` would wrap the body in a second task, which costs more than a small
    inference. A cancellation that comes from elsewhere is passed on as it is.
    """

    __slots__ = ("_expired", "_seconds", "_task", "_timer")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._expired = False
        self._task: asyncio.Task[object] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        self._task = asyncio.current_task()
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._expire)

    def _expire(self) -> None:
        self._expired = True
        if self._task:
            self._task.cancel()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._timer:
            self._timer.cancel()
        self._task = None
        if self._expired and kind is asyncio.CancelledError:
            raise DeadlineExceeded(
                "Timed out waiting for notification: the inference took longer than the limit of"
                f" {self._seconds:g} s; send less at once or raise the limit"
            ) from None
