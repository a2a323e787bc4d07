"""`ie_serving tune`: which settings of a model win here, for its requests, within a latency.

search.py    what is tried, what is better, what wins: pure
bench.py     compiles and measures one setting after the other
load.py      callers, and what they get
requests.py  what they ask
report.py    what is printed
"""

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path

from ie_serving.commands.tune import report
from ie_serving.commands.tune.bench import Bench, Tried
from ie_serving.commands.tune.search import Keys, Space, middle, wins
from ie_serving.commands.tune.tools import Tools
from ie_serving.commands.tune.tuned_requests import requests_for
from ie_serving.config.settings import TuneSettings
from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.hints import Hint
from ie_serving.engines.base import CompiledModel, EngineOptions
from ie_serving.engines.layers.joining import rows_of
from ie_serving.engines.layers.precision_trial import TrialRequest
from ie_serving.engines.layers.row_trial import refused_by_shapes
from ie_serving.engines.openvino.options import AUTO, OpenVinoOptions
from ie_serving.engines.run.threads import thread_limit
from ie_serving.engines.sequences import Sequences
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.repository.source import Source
from ie_serving.storage.base import Storage
from ie_serving.telemetry.log.progress import Progress

_LONGER = Hint("; {tune.seconds} gives more")


def tune(model: ModelConfig, asked: TuneSettings, storage: Storage, tools: Tools) -> None:
    """Print what was tried, and the keys to put into the configuration. Blocking.

    Raises:
        ServingError: the model cannot be loaded as it is configured, or asked.
    """
    if model.engine.of(Sequences).stateful:
        raise LoadFailed(
            "requests of a stateful model follow from each other, and tune sends them in any order:"
            " measure it without stateful, and take the keys without max_batch_size"
        )
    source = Source(storage, tools.engine, rest_s=0.0)
    candidates = source.poll(model.version_policy.aspired).candidates
    if not candidates:
        raise LoadFailed(f"no version under {model.base_path}: expected directories with numbers")
    newest = candidates[max(candidates)]
    # An older version is not taken instead: the keys are for the one that is to be served.
    if newest.fault:
        raise LoadFailed(newest.fault)
    with storage.copy(newest.directory, newest.entries) as directory:
        print(f"model {model.name}, version {newest.version}", flush=True)
        with Progress("measuring", unit="") as progress:
            asyncio.run(_Tuning(model.engine, asked, directory, tools, progress).run())


class _Tuning:
    """One run, on an event loop of its own."""

    def __init__(
        self,
        options: EngineOptions,
        asked: TuneSettings,
        directory: Path,
        tools: Tools,
        progress: Progress,
    ) -> None:
        self._options = options
        self._asked = asked
        self._directory = directory
        self._tools = tools
        self._progress = progress
        self._tried: list[Tried] = []

    async def run(self) -> None:
        requests, space = await self._looked_at()
        bench = self._bench(requests)
        self._print(report.HEAD)
        best, left_out = await bench.best(space)
        if left_out:
            self._print(f"{left_out} more were not tried: the time was over{_LONGER}")
        kept, rounds = await self._decided(bench, space, best)
        self._print("\n".join(rounds))
        if self._asked.output is not None:
            text = json.dumps(report.document(kept, self._tried), indent=1)
            self._asked.output.write_text(f"{text}\n")

    def _print(self, text: str) -> None:
        self._progress.erase()
        print(text, flush=True)

    async def _looked_at(self) -> tuple[list[TrialRequest], Space]:
        """Compile the model as it is configured, once, to see what it takes."""
        tools, asked = self._tools, self._asked
        model = await asyncio.to_thread(tools.engine.compile, self._directory, self._options)
        try:
            requests, what = await requests_for(
                model, self._directory, asked.requests, tools.of_file, tools.of_version
            )
            space = self._space(model, requests)
        finally:
            # Before anything is measured: its threads and its memory would slow the first setting.
            model.close()
        self._print(f"requests: {what}; {asked.concurrency} callers at a time")
        return requests, space

    def _space(self, model: CompiledModel, requests: Sequence[TrialRequest]) -> Space:
        own = self._options.of(OpenVinoOptions)
        signatures = [model.signatures[each.signature] for each in requests]
        in_batches = not any(map(refused_by_shapes, signatures))
        # So many rows the callers have under way at once: a larger batch would never be full.
        rows = max(rows_of(each.inputs) for each in requests) * self._asked.concurrency
        # A precision in plugin_config would contradict the key; `auto` has made the same comparison
        # at load.
        said = own.says_precision or own.inference_precision == AUTO
        lower = [] if said else _lower(self._tools, own, signatures[0].precision)
        return Space(
            cpus=(thread_limit() or os.cpu_count() or 1) if own.target_device == "CPU" else 0,
            rows=rows if in_batches else 0,
            precisions=lower,
            plugin_config=own.plugin_config,
            latency_ms=self._asked.latency_ms,
        )

    def _bench(self, requests: Sequence[TrialRequest]) -> Bench:
        def told(tried: Tried) -> None:
            self._tried.append(tried)
            self._print(report.row(tried))

        return Bench(
            self._tools.engine,
            self._directory,
            self._options,
            self._tools.with_keys,
            requests,
            callers=self._asked.concurrency,
            seconds=self._asked.seconds,
            tolerance=self._options.of(OpenVinoOptions).precision_tolerance,
            report=told,
        )

    async def _decided(self, bench: Bench, space: Space, best: Keys) -> tuple[Keys, list[str]]:
        """Give the keys that won, and the lines about it."""
        first = self._tried[0].measured
        if first is None:
            raise LoadFailed(f"it cannot be measured as it is configured: {self._tried[0].fault}")
        if not best:
            return {}, [*report.verdict({}, space, first, first)]
        as_it_is, changed = await bench.compared(best)
        kept: Keys = best if wins(space, changed, as_it_is) else {}
        lines = [*report.compared(as_it_is, changed)]
        return kept, [*lines, *report.verdict(kept, space, middle(as_it_is), middle(changed))]


def _lower(tools: Tools, own: OpenVinoOptions, used: str) -> list[str]:
    """Name the precisions to be tried: lower ones than f32 that are not in use already."""
    return [precision for precision in tools.lower(own) if precision != used]
