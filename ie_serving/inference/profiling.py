"""Records the requests that are answered while a profile is taken.

The methods of the data planes are wrapped for that time alone, so a request costs nothing more
while no profile is taken.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final
from weakref import WeakSet

from ie_serving.core.values.codes import ENDED, code_of
from ie_serving.inference.interface import Interface
from ie_serving.inference.plane import DataPlane
from ie_serving.telemetry.request.entry import (
    CURRENT,
    LONGEST,
    ProfiledRequest,
    RequestEntry,
    current,
    now,
)

MOST: Final = 50_000
"""Requests of one profile, some 500 bytes each; later ones are left out."""
_METHODS: Final = ("predict", "classify", "regress", "multi_inference")


class Profiler:
    """Records requests of data planes. Lives on their event loop."""

    def __init__(self) -> None:
        self._planes: WeakSet[DataPlane] = WeakSet()
        self._records: list[list[ProfiledRequest]] = []

    def watched(self, plane: DataPlane) -> DataPlane:
        """Return `plane`, whose requests are recorded from the next profile on."""
        self._planes.add(plane)
        return plane

    @contextmanager
    def recording(self) -> Iterator[list[ProfiledRequest]]:
        """Record the requests that end during the body."""
        record: list[ProfiledRequest] = []
        self._records.append(record)
        if len(self._records) == 1:
            self._wrap()
        try:
            yield record
        finally:
            # Records are compared by identity: two empty ones are equal.
            self._records = [each for each in self._records if each is not record]
            if not self._records:
                self._unwrap()

    def _wrap(self) -> None:
        for plane in self._planes:
            for name in _METHODS:
                setattr(plane, name, partial(self._profiled, name, getattr(plane, name)))

    def _unwrap(self) -> None:
        for plane in self._planes:
            for name in _METHODS:
                vars(plane).pop(name, None)

    # The methods differ in their arguments, but all have the interface, then the arrival.
    async def _profiled(
        self,
        name: str,
        method: Callable[..., Any],
        *given: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        entry = current()
        own = entry is None
        if entry is None:
            entry = RequestEntry()
            CURRENT.set(entry)
        code = "OK"
        try:
            return await method(*given)
        except ENDED as error:
            code = code_of(error).name
            raise
        finally:
            self._note(name, given, entry, code)
            if own:
                entry.ended = now()

    def _note(self, name: str, given: tuple[Any, ...], entry: RequestEntry, code: str) -> None:
        index = next(at for at, each in enumerate(given) if isinstance(each, Interface))
        model, version = entry.answered_by
        facts = (
            ("interface", given[index].entrypoint),
            ("model", model or given[0].model.name[:LONGEST]),
            ("version", "" if version is None else str(version)),
            ("code", code),
        )
        times = (given[index + 1], entry.started, entry.inferred, entry.encoded, now())
        request = ProfiledRequest(name, tuple(each for each in facts if each[1]), *times)
        for record in self._records:
            if len(record) < MOST:
                record.append(request)
