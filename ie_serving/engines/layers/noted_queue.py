"""A queue whose batches are told of: which requests shared one, and what was done for it.

Only where traces or `Server-Timing` are on are queues of this kind.
"""

import asyncio
from collections.abc import Mapping
from weakref import WeakKeyDictionary

from ie_serving.core.values.tensors import Array, Signature
from ie_serving.engines.base import CompiledModel
from ie_serving.engines.layers.gathering import Rules
from ie_serving.engines.layers.joining import Arrays
from ie_serving.engines.layers.queue import Parts, Queue, Record
from ie_serving.telemetry.request.entry import CURRENT, Entry, current, now
from ie_serving.telemetry.request.watch import Told


class NotedQueue(Queue):
    """See `Queue`.

    Args of the constructor:
        told: told of each batch whose requests have entries.
        model, signature, rules, record, most_rows: see `Queue`.
    """

    def __init__(
        self,
        told: Told,
        model: CompiledModel,
        signature: Signature,
        rules: Rules,
        record: Record,
        most_rows: int = 0,
    ) -> None:
        super().__init__(model, signature, rules, record, most_rows)
        self._told = told
        self._entries: WeakKeyDictionary[asyncio.Future[Arrays], Entry] = WeakKeyDictionary()

    def _add(self, inputs: Mapping[str, Array], rows: int) -> Parts:
        parts = super()._add(inputs, rows)
        entry = current()
        if entry is not None and entry.parts is not None:
            for part in parts:
                self._entries[part.content] = entry
        return parts

    async def _infer(self, parts: Parts) -> Arrays:
        asked = [(self._entries.get(part.content), part.since) for part in parts]
        members = [(entry, since) for entry, since in asked if entry is not None]
        # The task has the context of whoever was there when the batch was sent.
        own = Entry()
        own.began, own.parts = now(), []
        CURRENT.set(own if members else None)
        try:
            return await super()._infer(parts)
        finally:
            if members:
                self._told(own, members)
