"""`ie_serving tune`: finds the fastest settings of a model on this machine, within a latency.

search.py          chooses the settings to try, and the winner: pure
bench.py           compiles one setting after the other, and measures it with concurrent callers
trial_requests.py  makes the requests that the callers send
report.py          writes the results
"""

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path

from ie_serving.commands.tune.bench import Bench, TrialOutcome
from ie_serving.commands.tune.report import HEAD, compared, document, row, verdict
from ie_serving.commands.tune.search import Keys, SearchSpace, SearchTools, middle, wins
from ie_serving.commands.tune.trial_requests import requests_for
from ie_serving.config.settings import TuneSettings
from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.hints import Hint
from ie_serving.engines.base import CompiledModel, EngineOptions
from ie_serving.engines.layer_options import Sequences
from ie_serving.engines.layers.joining import refused_by_shapes, rows_of
from ie_serving.engines.layers.precision_trial import TrialRequest
from ie_serving.engines.openvino.options import AUTO, OpenVinoOptions
from ie_serving.engines.run.threads import thread_limit
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.repository.source import VersionSource
from ie_serving.storage.backends.storage_opener import LOCAL, store_of
from ie_serving.storage.base import Storage
from ie_serving.telemetry.log.progress import ProgressLine

_LONGER = Hint("; {tune.seconds} gives more")


def tune(model: ModelConfig, asked: TuneSettings, storage: Storage, tools: SearchTools) -> None:
    """Print the tried settings, and the keys to put into the configuration. Blocking.

    Raises:
        ServingError: the model as configured cannot be loaded, or answers no request.
    """
    if model.engine.of(Sequences).stateful:
        raise LoadFailed(
            "requests of a stateful model follow from each other, and tune sends them in any order:"
            " measure it without stateful, and take the keys without max_batch_size"
        )
    is_local = store_of(model.base_path) == LOCAL
    source = VersionSource(storage, tools.engine, rest_s=0.0, lists_base=is_local, takes_base=True)
    listing = source.poll(model.version_policy.aspired)
    candidates = listing.candidates
    if listing.fault:
        raise LoadFailed(listing.fault)
    if not candidates:
        raise LoadFailed(f"no version under {model.base_path}: expected directories with numbers")
    newest = candidates[max(candidates)]
    # No older version is used instead: the keys are for the version that will serve.
    if newest.fault:
        raise LoadFailed(newest.fault)
    with storage.copy(newest.directory, newest.entries) as directory:
        print(f"model {model.name}, version {newest.version}", flush=True)
        with ProgressLine("measuring", unit="") as progress:
            asyncio.run(_TuningRun(model.engine, asked, directory, tools, progress).run())


class _TuningRun:
    """One run, on an event loop of its own."""

    def __init__(
        self,
        options: EngineOptions,
        asked: TuneSettings,
        directory: Path,
        tools: SearchTools,
        progress: ProgressLine,
    ) -> None:
        self._options = options
        self._asked = asked
        self._directory = directory
        self._tools = tools
        self._progress = progress
        self._tried: list[TrialOutcome] = []

    async def run(self) -> None:
        requests, space = await self._looked_at()
        bench = self._bench(requests)
        self._print(HEAD)
        best, left_out = await bench.best(space)
        if left_out:
            self._print(f"{left_out} more were not tried: the time was over{_LONGER}")
        kept, rounds = await self._decided(bench, space, best)
        self._print("\n".join(rounds))
        if self._asked.output is not None:
            text = json.dumps(document(kept, self._tried), indent=1)
            self._asked.output.write_text(f"{text}\n")

    def _print(self, text: str) -> None:
        self._progress.erase()
        print(text, flush=True)

    async def _looked_at(self) -> tuple[list[TrialRequest], SearchSpace]:
        """Compile the model as configured, once; give requests and the settings to try."""
        tools, asked = self._tools, self._asked
        model = await asyncio.to_thread(tools.engine.compile, self._directory, self._options)
        try:
            requests, what = await requests_for(
                model, self._directory, asked.requests, tools.of_file, tools.of_version
            )
            space = self._space(model, requests)
        finally:
            # Closed before measuring: its threads and memory would slow the first setting.
            model.close()
        self._print(f"requests: {what}; {asked.concurrency} callers at a time")
        return requests, space

    def _space(self, model: CompiledModel, requests: Sequence[TrialRequest]) -> SearchSpace:
        own = self._options.of(OpenVinoOptions)
        signatures = [model.signatures[each.signature] for each in requests]
        in_batches = not any(map(refused_by_shapes, signatures))
        # The rows that all callers send concurrently: a larger batch would never be full.
        rows = max(rows_of(each.inputs) for each in requests) * self._asked.concurrency
        # A precision in plugin_config would contradict the key; `auto` compares precisions at load.
        said = own.says_precision or own.inference_precision == AUTO
        lower = [] if said else _lower(self._tools, own, signatures[0].precision)
        return SearchSpace(
            cpus=(thread_limit() or os.cpu_count() or 1) if own.target_device == "CPU" else 0,
            rows=rows if in_batches else 0,
            precisions=lower,
            plugin_config=own.plugin_config,
            latency_ms=self._asked.latency_ms,
        )

    def _bench(self, requests: Sequence[TrialRequest]) -> Bench:
        def told(tried: TrialOutcome) -> None:
            self._tried.append(tried)
            self._print(row(tried))

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

    async def _decided(
        self, bench: Bench, space: SearchSpace, best: Keys
    ) -> tuple[Keys, list[str]]:
        """Give the winning keys, and the lines of the report about them."""
        first = self._tried[0].measured
        if first is None:
            raise LoadFailed(
                f"it must answer as it is configured, to compare: {self._tried[0].fault}"
            )
        if not best:
            return {}, [*verdict({}, space, first, first)]
        as_it_is, changed = await bench.compared(best)
        kept: Keys = best if wins(space, changed, as_it_is) else {}
        lines = [*compared(as_it_is, changed)]
        return kept, [*lines, *verdict(kept, space, middle(as_it_is), middle(changed))]


def _lower(tools: SearchTools, own: OpenVinoOptions, used: str) -> list[str]:
    """Name the precisions to try: those below f32 that are not in use already."""
    return [precision for precision in tools.lower(own) if precision != used]
