"""`ie_serving tune`: finds the fastest settings of a model on this machine, within a latency.

search.py  chooses the settings to try, and the winner: pure
bench.py   compiles one setting after the other, and measures it with concurrent callers

The requests that callers send and the printed report are made here.
"""

import asyncio
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from ie_serving.commands.tune.bench import Bench, TrialOutcome, warm
from ie_serving.commands.tune.search import (
    Keys,
    Measurement,
    ReadSamples,
    SearchSpace,
    SearchTools,
    middle,
    wins,
)
from ie_serving.config.settings import TuneSettings
from ie_serving.core.values.errors import LoadFailed, ServingError
from ie_serving.core.values.hints import Hint
from ie_serving.core.values.tensors import SERVING_DEFAULT
from ie_serving.engines.base import CompiledModel, EngineOptions
from ie_serving.engines.layer_options import Sequences
from ie_serving.engines.layers.joining import refused_by_shapes, rows_of
from ie_serving.engines.layers.joining import requests as made_up
from ie_serving.engines.layers.precision_trial import TrialRequest, asked_of
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


MOST_REQUESTS = 200
"""Most requests that callers take in turn: the first ones of a longer recording."""

_GIVE = Hint("; give recorded ones by {tune.requests}")


async def requests_for(
    model: CompiledModel,
    directory: Path,
    file: Path | None,
    of_file: ReadSamples,
    of_version: ReadSamples,
) -> tuple[list[TrialRequest], str]:
    """Give requests that the model answers, and a description of them.

    Raises:
        LoadFailed: the model answers none.
    """
    if file is not None:
        found = await _accepted(model, _of_file(model, file, of_file))
        if not found:
            raise LoadFailed(f"{file}: the model answers none of its Predicts; record them anew")
        return found, f"{len(found)} of {file.name}"
    found = await _accepted(
        model, asked_of(model, list(islice(of_version(directory), MOST_REQUESTS)))
    )
    if found:
        return found, f"{len(found)} that the version brings along"
    return [await _random(model)], f"random numbers{_GIVE}"


def _of_file(model: CompiledModel, file: Path, read: ReadSamples) -> list[TrialRequest]:
    try:
        return asked_of(model, list(islice(read(file), MOST_REQUESTS)))
    except (OSError, ServingError) as error:
        raise LoadFailed(f"{file} cannot be used: {error}") from error


async def _accepted(model: CompiledModel, asked: Sequence[TrialRequest]) -> list[TrialRequest]:
    """Leave out requests that the model refuses."""
    found = []
    for each in asked:
        try:
            await warm(model, [each])
        except ServingError:
            # A recording may be of another version, and a refusal would end the measurement.
            continue
        found.append(each)
    return found


async def _random(model: CompiledModel) -> TrialRequest:
    """Make a random request of one row for the default signature, or else the first."""
    served = {n: s for n, s in model.signatures.items() if not (s.left_out or s.definition)}
    name = SERVING_DEFAULT if SERVING_DEFAULT in served else min(served)
    problem = ""
    for inputs in made_up(served[name]):
        asked = TrialRequest("random", name, inputs)
        try:
            await warm(model, [asked])
        except ServingError as error:
            problem = str(error)
            continue
        return asked
    raise LoadFailed(f"random numbers are refused: {problem}{_GIVE}")


AS_IT_IS = "the configuration as it is"
WIDTH = 60
HEAD = f"{'tried':{WIDTH}} {'requests/s':>10} {'p50 ms':>9} {'p99 ms':>9}"


def row(tried: TrialOutcome) -> str:
    """Write the line of one result."""
    found = tried.measured
    if found is None:
        return f"{named(tried.keys):{WIDTH}} not possible: {tried.fault}"
    numbers = f"{found.requests_s:10.1f} {found.p50_ms:9.2f} {found.p99_ms:9.2f}"
    return f"{named(tried.keys):{WIDTH}} {numbers}"


def named(keys: Keys) -> str:
    """Write keys and values; properties of plugin_config by their own names."""
    inner = keys.get("plugin_config", {})
    flat = {name: value for name, value in keys.items() if name != "plugin_config"}
    return ", ".join(f"{name}={value}" for name, value in {**flat, **inner}.items()) or AS_IT_IS


def compared(as_it_is: Sequence[Measurement], changed: Sequence[Measurement]) -> Iterator[str]:
    """Write the rounds of both, and their noise."""
    ratio = middle(changed).requests_s / middle(as_it_is).requests_s
    yield f"{len(as_it_is)} rounds in turn, requests/s (least to most) and p99 in ms (median):"
    yield f"  {AS_IT_IS}: {_spread(as_it_is)}"
    faster = sum(b.requests_s > a.requests_s for a, b in zip(as_it_is, changed, strict=True))
    yield (
        f"  the best of these: {_spread(changed)}; {ratio:.2f} times as many, more in {faster} of"
        f" {len(changed)} rounds"
    )
    # Noise is the spread of one setting; between the two a difference may be the gain.
    least, most = _ends(as_it_is)
    share = (most - least) / middle(as_it_is).requests_s
    yield f"  noise: the same setting differs by {share:.0%} between rounds"


def _spread(rounds: Sequence[Measurement]) -> str:
    least, most = _ends(rounds)
    found = middle(rounds)
    return f"{found.requests_s:.1f} ({least:.1f} to {most:.1f}), p99 {found.p99_ms:.2f}"


def _ends(rounds: Sequence[Measurement]) -> tuple[float, float]:
    found = [each.requests_s for each in rounds]
    return min(found), max(found)


def verdict(
    keys: Keys, space: SearchSpace, as_it_is: Measurement, changed: Measurement
) -> Iterator[str]:
    """Write the advice, and whether the wanted latency is met."""
    kept = changed if keys else as_it_is
    if keys:
        yield "put into the model's entry of the configuration file:"
        yield json.dumps(keys)
    else:
        yield f"keep {AS_IT_IS}: nothing won beyond the noise"
    if not space.meets(kept):
        yield (
            f"its p99 of {kept.p99_ms:.2f} ms is above the {space.latency_ms:g} ms that are wanted,"
            " and nothing that was tried meets them: fewer callers at a time may"
        )


def document(keys: Keys, tried: Sequence[TrialOutcome]) -> Mapping[str, Any]:
    """Give the report as JSON."""
    return {"keys": keys, "tried": [_entry(each) for each in tried]}


def _entry(tried: TrialOutcome) -> Mapping[str, Any]:
    found = tried.measured
    if found is None:
        return {"keys": tried.keys, "fault": tried.fault}
    return {
        "keys": tried.keys,
        "requests_s": round(found.requests_s, 1),
        "p50_ms": round(found.p50_ms, 3),
        "p99_ms": round(found.p99_ms, 3),
    }
