"""Chooses one thread or several for a model, whichever infers faster, measured at load.

The choice takes up to three compiles and as many measurements, most of the time of a small model's
load. A model on demand is loaded again and again, so the choice is remembered beside the version's
compiled models. A fleet has many models of one structure, so the process remembers the choice for
all models of the same operations and shapes. Other work may disturb a measurement: a choice counts
once several loads in a row have made it. In the folder the name of a file holds the choice; each
choice is a new file, which `engines.checked_cache` never takes for a damaged one.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import ClassVar, Final, NamedTuple

import openvino as ov

from ie_serving.core.runtime.spare_cpu import SPARE_CPU
from ie_serving.core.values.tensors import Array
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.checked_cache import warn_not_kept
from ie_serving.engines.openvino.compiling.properties import (
    CACHE,
    HINT,
    STREAMS,
    THREADS,
    in_todays_words,
    properties,
)
from ie_serving.engines.openvino.devices import CPU
from ie_serving.engines.openvino.error_texts import load_failures, openvino_text
from ie_serving.engines.openvino.faults import quantization
from ie_serving.engines.openvino.faults.hazards import Hazards
from ie_serving.engines.openvino.graphs.walk import all_operations, elements, operations
from ie_serving.engines.openvino.interface.tensor_specs import SignaturePorts, zeros
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.openvino.running.shape_inference import ShapeInference
from ie_serving.engines.openvino.running.slot import Slot
from ie_serving.engines.openvino.runtime import core
from ie_serving.engines.run import latency_model
from ie_serving.engines.run.threads import node_limit, thread_limit, threads

TINY_S = 0.001
"""Seconds of an inference; models below this may run on one thread.

The engine's other threads go on spinning for about 300 us after each inference: more CPU time than
all of a small request takes, and where cores are few, it is the event loop's or the client's.
"""
SLOWER = 1.3
"""Factor by which a request may become slower by one thread; beyond it the model keeps them all."""
AS_FAST = 1.03
"""The same for a model whose requests may not become slower. Two measurements differ by so much."""
REQUEST_S = 0.0001
"""Seconds that a request takes at least beside its inference, measured over gRPC."""
MANY_ROWS = 64
"""Size of open dimensions with which one thread has to keep up as well, a batch as clients send."""
MOST_ELEMENTS = 1 << 22
"""Elements that open dimensions of an input multiply to at most in that try: of five dimensions, 64
in each would be a billion. Four have 45 rows each."""
MANY_S = 0.01
"""Seconds of an inference of so many rows beyond which a model keeps its threads, not compared.
Spinning is little beside that, and where others keep the machine busy as it loads, several threads
measure no faster than one: a large network with open sizes, short for images of one pixel, would
have one thread as long as it serves."""
TINY_OPERATIONS = 100
TINY_WEIGHTS = 1 << 18
"""Operations, and elements of all constants, up to which a graph is compiled for one thread first.
It is then most likely fast enough whatever several threads do, and is not compiled for them; a
thousand such models start in half the time."""


@dataclass(frozen=True)
class CompiledCandidate:
    """A compiled model with its properties.

    Attributes:
        model: compiled.
        config: its properties.
        seconds: seconds of one inference of zeros, with one row; None if not known.
        batch_s: the same with `MANY_ROWS` where sizes are open; None if it was not measured.
    """

    model: ov.CompiledModel
    config: Mapping[str, str]
    seconds: float | None
    batch_s: float | None = None


def compile_fastest(
    model: ov.Model,
    ports: SignaturePorts,
    options: EngineOptions,
    hazards: Hazards,
    admission: ShapeInference | None,
    slower: float = SLOWER,
) -> CompiledCandidate:
    """Compile for one thread where that is about as fast as several, unless the user has chosen.

    Args:
        model: model to compile.
        ports: its inputs and outputs.
        options: options of the version.
        hazards: hazards of its graph.
        admission: tells which shapes it takes; None where only one combination is.
        slower: factor by which a request may become slower by one thread.

    Raises:
        LoadFailed: the device does not take the model.
    """
    device = options.of(OpenVinoOptions).target_device
    trials = _Trials(ports, hazards, admission, slower)
    with load_failures(f"the model cannot be compiled for {device}"):
        chosen = _Choice(model, options, trials).made(ports, slower)
        if trials.left_fit(chosen.model):
            return chosen
        return replace(chosen, model=compile_cached(model, device, chosen.config))


class _Choice:
    """The compiles of one graph, and the choice among them."""

    def __init__(self, model: ov.Model, options: EngineOptions, trials: "_Trials") -> None:
        own = options.of(OpenVinoOptions)
        config = properties(options, thread_limit(), node_limit())
        if own.target_device == CPU:
            config = {**quantization.properties_for(model, own), **config}
        self._model = model
        self._options = options
        self._trials = trials
        self._device = own.target_device
        self._several = config
        # A model without streams uses the caller's thread: inference on the event loop or in a lane
        # needs no thread of its own, and a thousand such models do not fill a process with threads.
        # A model that takes an inference ahead continues it in a thread of its own.
        self._single = {**config, THREADS: "1", STREAMS: "1" if options.ahead else "0"}

    def made(self, ports: SignaturePorts, slower: float) -> CompiledCandidate:
        """Compile as the user has chosen, as former loads have, or as is measured now."""
        by_user = set(in_todays_words(self._options.of(OpenVinoOptions).plugin_config))
        if self._device != CPU or by_user & {THREADS, STREAMS, HINT}:
            return self._compiled(self._several)
        processor = core().get_property(CPU, "FULL_DEVICE_NAME")
        config = sorted((name, value) for name, value in self._several.items() if name != CACHE)
        engine = (ov.__version__, processor, config, slower)
        graph = (_structure(self._model), ports.inputs, ports.outputs)
        kept = KeptChoice(self._options.cache_dir, *engine, *graph)
        one = kept.one_thread()
        if one is not None:
            chosen = self._compiled(self._single if one else self._several)
            return replace(chosen, batch_s=kept.batch_s)
        chosen = self._fastest()
        kept.keep(one=chosen.config is self._single, batch_s=chosen.batch_s)
        return chosen

    def _fastest(self) -> CompiledCandidate:
        trials = self._trials
        single = self._compiled(self._single) if looks_tiny(self._model) else None
        if single and trials.keeps_up(single, None):
            return replace(single, batch_s=trials.batch_s)
        several = self._compiled(self._several)
        if several.seconds is None or several.seconds > TINY_S:
            return several
        # A model that looked tiny has been compiled for one thread already. It is measured again,
        # beside the other: imports in other threads at the start may have made it three times as
        # slow (in six of 70 starts).
        single = self._measured(single) if single else self._compiled(self._single)
        if not trials.keeps_up(single, several):
            return several
        # Several threads are measured once more before one is chosen: other work may have disturbed
        # their first measurement.
        again = self._measured(several)
        return single if trials.is_as_fast(single, again) else again

    def _compiled(self, config: Mapping[str, str]) -> CompiledCandidate:
        """Compile, and measure at once: both are needed for the choice."""
        made = compile_cached(self._model, self._device, config)
        return self._measured(CompiledCandidate(made, config, None))

    def _measured(self, made: CompiledCandidate) -> CompiledCandidate:
        return replace(made, seconds=self._trials.latency(made.model, 1))


def looks_tiny(model: ov.Model) -> bool:
    """Tell whether a graph has few operations and small weights."""
    nodes = operations(model)
    return len(nodes) <= TINY_OPERATIONS and _weights(nodes) <= TINY_WEIGHTS


def _structure(model: ov.Model) -> list[tuple[str, ...]]:
    """List the type of each operation, of bodies too, with dtype and shape of its first output.

    Fine-tuned copies of a model have the same structure.
    """
    return [
        (
            node.get_type_name(),
            node.get_output_element_type(0).get_type_name(),
            str(node.get_output_partial_shape(0)),
        )
        for node in all_operations(model)
        if node.get_output_size()
    ]


def _weights(nodes: Sequence[ov.Node]) -> int:
    """Count the elements of all constants."""
    constants = (node for node in nodes if node.get_type_name() == "Constant")
    return sum(elements(node.get_output_partial_shape(0)) or 0 for node in constants)


class _Trials:
    """Measures compiled models with zeros, and knows which of them that has left unfit to serve.

    Of open shapes some do not fit together: those are not tried, since the plugin may read beyond
    their memory. Zeros may be divisors. With 2026.4 whatever is answered next from the same
    compiled model may then be memory of that try.

    Attributes:
        batch_s: seconds of the largest inference by which one thread was last found to keep up
            without a comparison.
    """

    def __init__(
        self,
        ports: SignaturePorts,
        hazards: Hazards,
        admission: ShapeInference | None,
        slower: float,
    ) -> None:
        self._ports = ports
        self._slower = slower
        self._admission = admission
        self._hazards = replace(hazards, refusals=())
        self._is_open = not all(port.static for port in ports.inputs)
        self._failed: list[ov.CompiledModel] = []
        self.batch_s: float | None = None

    def latency(self, model: ov.CompiledModel, rows: int) -> float | None:
        """Give the seconds of one inference with `rows` in each open dimension, where it works."""
        inputs, outputs = self._ports.inputs, self._ports.outputs
        arrays = zeros(inputs, rows)
        if arrays is None or not self._fit(arrays):
            return None
        make = partial(Slot, model.create_infer_request, inputs, outputs, self._hazards)
        found = latency_model.latency(make, arrays, (RuntimeError,))
        if found is None:
            self._failed.append(model)
        return found

    def _fit(self, arrays: Mapping[str, Array]) -> bool:
        if self._admission is None:
            return True
        shapes = tuple(arrays[name].shape for name in self._admission.names)
        _, refusal = self._admission.try_shapes(shapes)
        return refusal is None

    def keeps_up(self, single: CompiledCandidate, several: CompiledCandidate | None) -> bool:
        """Tell whether one thread is about as fast, for many rows too where they may come.

        Without `several` it is compared with the most that several threads can gain, which is its
        time divided by their number; or, of one row, with an inference that takes no time, for
        which it may become slower by `SLOWER`: 30 us, which several threads do not make shorter.
        """
        if several:
            fast = self.is_as_fast(single, several)
        else:
            fast = keeps_pace(single.seconds, 0.0) or self._cannot_gain(single.seconds)
        if not fast:
            return False  # before many rows are tried, which of large images take gigabytes
        if several is None:
            return self._keeps_up_alone(single)
        if not self._is_open:
            return True
        rows = self._many_rows()
        many_s = self.latency(several.model, rows)
        if many_s is not None and many_s > MANY_S:
            return False
        return keeps_pace(self.latency(single.model, rows), many_s, self._slower)

    def _keeps_up_alone(self, single: CompiledCandidate) -> bool:
        self.batch_s = single.seconds
        if not self._is_open:
            return True
        self.batch_s = self.latency(single.model, self._many_rows())
        return self._cannot_gain(self.batch_s)

    def _cannot_gain(self, single_s: float | None) -> bool:
        """Tell whether one thread is about as fast as several that share the work evenly."""
        return single_s is not None and about_as_fast(single_s, single_s / threads(), self._slower)

    def is_as_fast(self, single: CompiledCandidate, several: CompiledCandidate) -> bool:
        """Tell whether one thread is about as fast for the size that both were measured with."""
        return keeps_pace(single.seconds, several.seconds, self._slower)

    def _many_rows(self) -> int:
        opened = [
            sum(low != high for low, high in port.bounds or ()) for port in self._ports.inputs
        ]
        return min(MANY_ROWS, int(MOST_ELEMENTS ** (1 / max(1, *opened))))

    def left_fit(self, model: ov.CompiledModel) -> bool:
        """Tell whether no try of a compiled model has failed, or none that can have spoilt it."""
        if not self._is_open and not self._hazards.spoils:
            return True
        return not any(failed is model for failed in self._failed)


def compile_cached(model: ov.Model, device: str, config: Mapping[str, str]) -> ov.CompiledModel:
    """Compile; without the compile cache when the cache fails, as on a full disk."""
    try:
        compiled = core().compile_model(model, device, config)
        SPARE_CPU.note_engine()
        return compiled
    except RuntimeError as error:
        if CACHE not in config:
            raise
        uncached = {name: value for name, value in config.items() if name != CACHE}
        compiled = core().compile_model(model, device, uncached)
        # This compilation has succeeded, so the cache was the cause.
        warn_not_kept(config[CACHE], openvino_text(error))
        return compiled


def keeps_pace(single_s: float | None, several_s: float | None, slower: float = SLOWER) -> bool:
    """Tell whether one thread is about as fast as several; false where a latency is not known."""
    if single_s is None or several_s is None:
        return False
    return about_as_fast(single_s, several_s, slower)


def about_as_fast(single_s: float, several_s: float, slower: float = SLOWER) -> bool:
    """Tell from the seconds of one inference whether one thread is preferable."""
    return REQUEST_S + single_s <= slower * (REQUEST_S + several_s)


ALIKE: Final = 2
"""Loads in a row whose choice has to be the same before it counts."""

ALIKE_MODELS: Final = 4
"""The same for models of one structure: theirs counts as long as the process lives, and the first
loads of a fleet may disturb each other."""
MOST_SHARED: Final = 4096
"""Structures whose choices a process remembers: 1 MB. One more, and all are forgotten."""


class _ChoiceHistory(NamedTuple):
    """A choice, how many loads in a row made it, and the last load's seconds of a large batch."""

    choice: str = ""
    loads: int = 0
    batch_s: float | None = None

    def and_by(self, measured: str, batch_s: float | None, most: int) -> "_ChoiceHistory":
        """Count one more load, up to `most`, which has measured this choice to be faster."""
        loads = min(self.loads + 1, most) if self.choice == measured else 1
        return _ChoiceHistory(measured, loads, batch_s)


class KeptChoice:
    """The choice for models of one structure, on the present number of threads.

    Args of the constructor:
        folder: folder of the version's compiled models; None where nothing is kept on disk.
        parts: all that the measurements depend on.
    """

    _shared: ClassVar[dict[str, _ChoiceHistory]] = {}

    def __init__(self, folder: Path | None, *parts: object) -> None:
        key = repr((threads(), *parts)).encode("utf-8", "surrogateescape")
        self._folder = folder
        self._name = f"threads-{sha256(key).hexdigest()[:16]}"

    @classmethod
    def forget(cls) -> None:
        """Forget what this process has chosen."""
        cls._shared.clear()

    def one_thread(self) -> bool | None:
        """Tell whether one thread is the choice; None: not known for sure."""
        kept, shared = self._read(), self._in_process()
        if kept.loads >= ALIKE:
            return kept.choice == "one"
        return shared.choice == "one" if shared.loads >= ALIKE_MODELS else None

    @property
    def batch_s(self) -> float | None:
        """Seconds of a large batch, as a model of this process was measured; None: not known."""
        return self._in_process().batch_s

    def keep(self, *, one: bool, batch_s: float | None = None) -> None:
        """Note what a load has measured to be faster, and how long a large batch takes."""
        measured = "one" if one else "several"
        if len(self._shared) >= MOST_SHARED:
            self.forget()
        self._shared[self._name] = self._in_process().and_by(measured, batch_s, ALIKE_MODELS)
        if self._folder:
            with suppress(OSError):  # the engine warns of the same folder
                self._write(self._folder, self._read().and_by(measured, batch_s, ALIKE))

    def _in_process(self) -> _ChoiceHistory:
        return self._shared.get(self._name, _ChoiceHistory())

    def _write(self, folder: Path, chosen: _ChoiceHistory) -> None:
        before = self._files()
        folder.mkdir(parents=True, exist_ok=True)
        new = folder / f"{self._name}-{chosen.choice}-{chosen.loads}"
        new.write_text(chosen.choice)
        for file in before:
            if file != new:
                file.unlink(missing_ok=True)

    def _read(self) -> _ChoiceHistory:
        """Give the choice and its loads in a row; of two that workers left at once, the lesser."""
        named = (file.name.split("-")[-2:] for file in self._files())
        found = (_ChoiceHistory(choice, int(loads)) for choice, loads in named)
        return min(found, key=_loads, default=_ChoiceHistory())

    def _files(self) -> list[Path]:
        if self._folder is None:
            return []
        # Few names, looked for one by one: a pattern would be compiled anew for each model.
        names = (f"{c}-{n}" for c in ("one", "several") for n in range(1, ALIKE + 1))
        files = (self._folder / f"{self._name}-{name}" for name in names)
        return [file for file in files if file.exists()]


def _loads(found: _ChoiceHistory) -> int:
    return found.loads
