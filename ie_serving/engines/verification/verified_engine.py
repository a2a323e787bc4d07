"""Compares OpenVINO's models of ONNX and TFLite with a second engine before they serve.

If no driver is configured, onnxruntime or LiteRT serves models that OpenVINO refuses or answers
differently. The comparison runs in a child process, concurrently with the compilation.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, nullcontext, suppress
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import ParamSpec, Protocol

from ie_serving.core.values.errors import LoadFailed, NoModel, ServingError
from ie_serving.core.values.hints import Hint
from ie_serving.core.values.tensors import Evidence, Signature
from ie_serving.engines.base import AUTO, CompiledModel, Driver, EngineAround, EngineOptions
from ie_serving.engines.drivers import TABLE
from ie_serving.engines.generated_requests import ValueKind
from ie_serving.engines.layer_options import Sequences
from ie_serving.engines.layers.layer import Layer
from ie_serving.engines.layers.live_tuning import Way, tuned
from ie_serving.engines.onnx_file import nodes
from ie_serving.engines.openvino.devices import CPU
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.openvino.reading.formats import ONNX, TFLITE, model_file
from ie_serving.engines.openvino.reading.mapping import FILE as MAPPING
from ie_serving.engines.openvino.unsupported_settings import unsupported
from ie_serving.engines.preprocessing import Preprocessing
from ie_serving.engines.verification.comparison import BY_SUFFIX
from ie_serving.engines.verification.second_engine_layer import (
    SecondEngineLayer,
    may_be_slow,
    sooner,
)
from ie_serving.engines.verification.verdict import (
    MORE_SHARE,
    OPENVINO,
    Fail,
    Findings,
    Replace,
    Serve,
    Verdicts,
    choose,
    choose_uncompared,
    may_be_sooner,
)
from ie_serving.engines.verification.verifier import Verifier
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

LITE = "litert"
"""Name of the driver of LiteRT."""
OFF, REQUIRE = "off", "require"
"""Values of `verify`; the third, `auto`, compares if the second engine is installed."""
MOST_BYTES = 1 << 28
"""Bytes of the largest model that is compared: the process takes several times its memory."""

LARGE_BYTES = 1 << 24
"""Bytes from which a model of floats is compiled only once, since a second compilation would double
its load. The server then runs its own model on finite values: usual ones, and more up to a share of
the load's time. Requests that may crash an engine run only in the child process."""

MOST_TUNED = 1 << 26
"""Bytes of the largest version that is tuned: another way takes its memory a second time."""

P = ParamSpec("P")
SecondModel = Future[tuple[CompiledModel, float]]
"""The model compiled concurrently with the comparison, and the seconds that it took."""


class OpenVinoDriver(Driver, Protocol):
    """OpenVINO's driver, which also compiles for known shapes."""

    def compile_for(
        self, directory: Path, options: EngineOptions, shapes: Mapping[str, tuple[int, ...]]
    ) -> CompiledModel:
        """See `OpenVinoEngine.compile_for`."""


class VerifiedEngine(EngineAround):
    """OpenVINO, verified by a second engine. See `engines.base.Driver`.

    Args of the constructor:
        engine: OpenVINO's.
        onnxruntime: the driver of the second engine for ONNX.
        verifier: compares.
    """

    def __init__(self, engine: OpenVinoDriver, onnxruntime: Driver, verifier: Verifier) -> None:
        super().__init__(engine)
        self._driver = engine
        (lite,) = [row for row in TABLE if row.name == LITE]
        self._seconds: Mapping[str, Driver] = {ONNX: onnxruntime, TFLITE: lite}
        self._verifier = verifier

    def claims(self, directory: Path) -> bool:
        """See `engines.base`."""
        return self._driver.claims(directory)

    def compile(self, directory: Path, options: EngineOptions) -> CompiledModel:
        """See `engines.base`."""
        file = _file(directory, options)
        alone = _only_openvino(directory, options)
        if file is None or alone:
            if options.verify == REQUIRE:
                advice = Hint("; set {engine.verify} to auto to serve it")
                raise LoadFailed(f"there is no second engine to compare this format with{advice}")
            if file and (otherwise := _needs_reference(file)):
                raise LoadFailed(f"{otherwise}; it serves the model without {alone}")
            began = time.perf_counter()
            model = self._engine.compile(directory, options)
            took_s = time.perf_counter() - began
            return tuned(model, _ways(self._driver, model, directory, options), options, took_s)
        second = self._seconds[file.suffix]
        return _Load(self._driver, second, self._verifier, file, options).compiled()


def _left_out(model: CompiledModel) -> str:
    """Say why OpenVINO leaves a signature out; empty if it compiles each."""
    return next((s.left_out for s in model.signatures.values() if s.left_out), "")


def _only_openvino(directory: Path, options: EngineOptions) -> str:
    """Name what only OpenVINO has; empty if a second engine may read the file in the same way.

    A mapping renames tensors, a library adds operators, and other devices and their properties
    exist only in OpenVINO.
    """
    own = options.of(OpenVinoOptions)
    found = {
        f"the device {own.target_device}": own.target_device != CPU,
        "plugin_config": own.plugin_config,
        "cpu_extension": own.cpu_extension,
        MAPPING: (directory / MAPPING).exists(),
    }
    return next((name for name, is_given in found.items() if is_given), "")


def _file(directory: Path, options: EngineOptions) -> Path | None:
    """Give the file that OpenVINO would read, if it is of a format that has a second engine."""
    try:
        prefers = options.of(OpenVinoOptions).prefer_tflite_model
        file = model_file(directory, prefer_tflite=prefers)
    except (LoadFailed, OSError):
        return None  # OpenVINO reports the fault
    return file if file.suffix in BY_SUFFIX else None


def _ways(
    engine: OpenVinoDriver, model: CompiledModel, directory: Path, options: EngineOptions
) -> tuple[Way, ...]:
    """Give OpenVINO's way: a graph for known shapes, where the file alone leaves sizes open."""
    own = options.of(OpenVinoOptions)
    changed = own.shape is not None or own.batch_size is not None
    others = options.of(Preprocessing).asked or options.of(Sequences).stateful
    inputs = [each for one in model.signatures.values() for each in one.inputs.values()]
    is_open = any(each.shape is not None and -1 in each.shape for each in inputs)
    if changed or others or not is_open or not _may_be_twice(directory):
        return ()
    opens = _unless_replaced(directory, partial(engine.compile_for, directory, options))
    return (Way("known shapes", opens),)


def _may_be_twice(directory: Path) -> bool:
    """Tell whether the memory of a version may be taken a second time by another way."""
    try:
        return _size(directory) <= MOST_TUNED
    except OSError:  # its files are gone
        return False


def _without_trial(options: EngineOptions) -> EngineOptions:
    """Leave out a precision that no setting asks for."""
    own = options.of(OpenVinoOptions)
    if not own.is_precision_tried:
        return options
    return options.having(replace(own, inference_precision="", is_precision_tried=False))


def _for_usual_values(model: CompiledModel) -> CompiledModel:
    """Leave other values than usual ones to OpenVINO, by a refusal that live tuning takes so.

    OpenVINO refuses some of them. Otherwise clients would be refused until the second engine is
    chosen, and answered from then on.
    """
    return SecondEngineLayer(model, _HANDED_OVER, None, "live tuning leaves it to OpenVINO")


@dataclass(eq=False)
class _Load:
    """One load: runs comparison and compilation concurrently, and decides which engine serves.

    Attributes:
        engine: OpenVINO's.
        driver: driver of the second engine.
        verifier: compares.
        file: file of the model, of a format that has a second engine.
        options: options of the model.
    """

    engine: OpenVinoDriver
    driver: Driver
    verifier: Verifier
    file: Path
    options: EngineOptions

    def __post_init__(self) -> None:
        self._second = BY_SUFFIX[self.file.suffix]
        self._is_installed = self._second.is_installed
        self._took_s = 0.0

    def compiled(self) -> CompiledModel:
        """Compile by the engine that serves. Raises: LoadFailed."""
        beside = ThreadPoolExecutor(1, "compare")
        made: SecondModel = Future()
        began = time.perf_counter()
        # Closes what OpenVINO has compiled, and ends a comparison that waits for it.
        with ExitStack() as unused:
            found = beside.submit(copy_context().run, self._findings, made)
            unused.callback(made.cancel)
            unused.callback(found.cancel)
            beside.shutdown(wait=False)  # it is not awaited for a model that OpenVINO refuses
            model = self._compiled_or_refused()
            refused: LoadFailed | None = None
            if isinstance(model, LoadFailed):
                unused.close()
                refused, first = model, choose_uncompared(refusal=str(model))
            else:
                unused.callback(model.close)
                first = choose_uncompared(left_out=_left_out(model))
            if isinstance(first, Replace):
                with suppress(LoadFailed) if first.or_compare else nullcontext():
                    return self._by_reference(first.cause, refused)
            assert not isinstance(model, LoadFailed)  # a refused model has left above
            self._took_s = time.perf_counter() - began
            made.set_result((model, self._took_s))
            shown = found.result()
            choice = self._choice(shown)
            if isinstance(choice, Serve):
                serving = self._by_openvino(model, shown)
                if (faster := self._faster(serving, shown)) is not None:
                    return faster
                unused.pop_all()
                return serving
        # The model is closed, so that both are not in memory.
        if isinstance(choice, Fail):
            raise LoadFailed(choice.cause)
        return self._without_crashes(self._by_reference(choice.cause), shown)

    def _compiled_or_refused(self) -> CompiledModel | LoadFailed:
        try:
            return self.engine.compile(self.file.parent, self.options)
        except LoadFailed as error:
            return error

    def _choice(self, found: Findings, gain: str = "") -> Serve | Replace | Fail:
        return choose(
            found,
            self._second.library,
            sooner=gain,
            needs_reference=_needs_reference(self.file) if found.why_not else "",
            advice=self._advice() if self.options.verify == REQUIRE else None,
        )

    def _findings(self, made: "SecondModel") -> Findings:
        if self.options.verify == OFF:
            return Findings(why_not="verify is off")
        if not self._is_installed:
            return Findings(why_not=f"{self._second.library} is not installed")
        if random := _operator_among(self.file, RANDOM):
            return Findings(why_not=f"{random} gives other numbers each time")
        try:
            size = _size(self.file.parent)
            if size > MOST_BYTES:
                return Findings(why_not=f"the model is larger than {MOST_BYTES >> 20} MiB")
            plain, folder = _compared_options(self.options), self.options.cache_dir
            is_large = size >= LARGE_BYTES and _computes_plainly(self.options)
            compare = partial(self._compared, plain, made if is_large else None)
            if folder is None:
                return compare()
            return Verdicts(folder, self.file, plain, self._second.package).found(compare)
        except OSError as error:  # the system has no process or memory left, or the disk no room
            return Findings(why_not=f"it cannot be compared: {error.strerror}")

    def _compared(self, plain: EngineOptions, made: "SecondModel | None") -> Findings:
        found = self.verifier.findings(self.file, plain, large=made is not None)
        if isinstance(found, Findings):
            return found
        assert made is not None  # else the process has asked both engines
        try:
            model, took_s = made.result()
            return found.compared_with(model, MORE_SHARE * took_s)
        except MemoryError:
            return Findings(why_not="it takes more memory than there is")
        except ServingError as error:
            return Findings(why_not=str(error))

    def _by_openvino(self, model: CompiledModel, found: Findings) -> CompiledModel:
        """Add the findings; hand over the requests that OpenVINO answers differently."""
        kinds = [kind for kind in _HANDED_OVER if kind in found.differs or kind in found.crashed]
        self._log(found, OPENVINO, ", ".join(kind.value for kind in kinds))
        if self.options.verify == OFF:
            return self._tuned(model, found)
        result = "not_compared" if found.why_not else "handed_over" if kinds else "alike"
        evidence = Evidence(result, found.summary())
        told = _EvidenceLayer(self._tuned(model, found), f"; {found.summary()}", evidence)
        return self._handing_over(told, found, kinds) if kinds else told

    def _without_crashes(self, other: CompiledModel, found: Findings) -> CompiledModel:
        """Refuse kinds of requests that crashed the second engine: it serves in this process."""
        crashed = {k for k, how in found.crashed.items() if self._second.library in how}
        kinds = [kind for kind in _HANDED_OVER if kind in crashed]
        named = " and ".join(kind.value for kind in kinds)
        cause = f"{self._second.library} crashes at {named} with this model: send others"
        return SecondEngineLayer(other, kinds, None, cause) if kinds else other

    def _faster(self, model: CompiledModel, found: Findings) -> CompiledModel | None:
        """Give the second engine's model if OpenVINO may be slow, and this answers faster."""
        may_replace = self._may_replace(model, found, self.options) and self.file.suffix == ONNX
        if not may_replace or not may_be_slow(self.file):
            return None
        with ExitStack() as unused:
            try:
                other = self.driver.compile(self.file.parent, self.options)
            except LoadFailed:  # it lacks an operator
                return None
            unused.callback(other.close)
            choice = self._choice(found, sooner(model, other))
            if not isinstance(choice, Replace):
                return None
            unused.pop_all()
        return self._without_crashes(self._by_second_engine(other, choice.cause), found)

    def _tuned(self, model: CompiledModel, found: Findings) -> CompiledModel:
        """Let live tuning try what OpenVINO has, and the second engine where it was compared."""
        ways = _ways(self.engine, model, self.file.parent, self.options)
        options = _without_trial(self.options)
        is_compared = not found.why_not and self._may_replace(model, found, options)
        if is_compared and _may_be_twice(self.file.parent):
            reopens = self._reopens(options)
            ways += (Way(self._second.library, lambda _: _for_usual_values(reopens())),)
        return tuned(model, ways, self.options, self._took_s)

    def _may_replace(self, model: CompiledModel, found: Findings, options: EngineOptions) -> bool:
        """Tell whether the second engine may serve a model only because it is faster."""
        is_replaceable = self.options.driver == AUTO and self._is_installed
        refused = unsupported(options, next(iter(model.signatures.values())))
        return may_be_sooner(found, is_replaceable=is_replaceable, refused=refused)

    def _handing_over(
        self, model: CompiledModel, found: Findings, kinds: Sequence[ValueKind]
    ) -> CompiledModel:
        named = " and ".join(kind.value for kind in kinds)
        cause = f"{OPENVINO} may compute requests with {named} wrongly for this model"
        # f32, whatever was chosen: OpenVINO's numbers for these requests are wrong.
        plain = replace(self.options.of(OpenVinoOptions), inference_precision="")
        options = self.options.having(plain)
        refused = unsupported(options, next(iter(model.signatures.values())))
        crashed = [found.crashed.get(kind, "") for kind in kinds]
        has_crashed = any(self._second.library in text for text in crashed)
        if refused or has_crashed or not self._second.takes_odd:
            return SecondEngineLayer(model, kinds, None, f"{cause}: send others")
        return SecondEngineLayer(model, kinds, self._reopens(options), cause)

    def _reopens(self, options: EngineOptions) -> Callable[[], CompiledModel]:
        """Give what reads the model by the second engine later."""
        directory = self.file.parent
        return _unless_replaced(directory, partial(self.driver.compile, directory, options))

    def _by_reference(self, why: str, cause: Exception | None = None) -> CompiledModel:
        """Serve by the second engine, if no driver is configured.

        Raises:
            LoadFailed: the file is no model, or a driver is configured, or the second engine is
                not installed, or refuses the model.
        """
        name = self._second.library
        if isinstance(cause, NoModel):
            raise cause
        if self.options.driver != AUTO:
            raise LoadFailed(f"{why}; driver auto lets {name} serve it") from cause
        if not self._is_installed:
            raise LoadFailed(f"{why}; {name} may run it: {self._second.install}") from cause
        try:
            model = self.driver.compile(self.file.parent, self.options)
        except LoadFailed as error:
            if str(error) == why:  # it is no model
                raise
            raise LoadFailed(f"{why}; {name} does not run it: {error}") from error
        return self._by_second_engine(model, why)

    def _by_second_engine(self, model: CompiledModel, why: str) -> CompiledModel:
        name = self._second.library
        log.warning(Event("served by another engine", path=self.file, engine=name, cause=why))
        return _EvidenceLayer(
            model, f", since {why}", Evidence("other_engine", f"served by {name}: {why}")
        )

    def _log(self, found: Findings, engine: str, handed_over: str) -> None:
        if found.why_not and self._is_installed and self.options.verify != OFF:
            log.warning(Event("engines not compared", path=self.file, cause=found.why_not))
            return
        facts = {
            "result": found.summary(),
            "engine": engine,
            "handed_over": handed_over or "nothing",
        }
        log.info(Event("engines compared", path=self.file, **facts))

    def _advice(self) -> str:
        install = "" if self._is_installed else f": {self._second.install}"
        return install + str(Hint("; set {engine.verify} to auto to serve it all the same"))


class _EvidenceLayer(Layer):
    """A model whose signatures describe the findings; otherwise it is the inner model."""

    def __init__(self, inner: CompiledModel, told: str, evidence: Evidence) -> None:
        signatures: Mapping[str, Signature] = {
            name: replace(each, runs_on=f"{each.runs_on}{told}", evidence=evidence)
            for name, each in inner.signatures.items()
        }
        super().__init__(inner, signatures)


_HANDED_OVER = (ValueKind.NAN, ValueKind.INFINITE, ValueKind.EXTREME, ValueKind.EMPTY)
"""Kinds of requests that may go to the second engine while OpenVINO gets the rest."""

RANDOM = frozenset(
    {"Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike"}
    | {"RandomUniform", "RandomUniformLike"}
)
"""Operators whose outputs differ between any two engines."""

COMPUTED_OTHERWISE = "DynamicQuantizeLSTM"
"""An operator of onnxruntime that OpenVINO computes with other numbers. The others are refused by
name (`openvino/reading/onnx_graph.py`); at this one onnxruntime crashes for some requests, which
only the comparison finds."""


def _compared_options(options: EngineOptions) -> EngineOptions:
    """Keep the options of a model that decide how OpenVINO computes its graph.

    The second engine has neither the configured shapes nor the preprocessing: only the model itself
    is compared.
    """
    given = options.of(OpenVinoOptions)
    # The comparison runs in f32: `layers/precision.py` decides about lower precisions.
    own = OpenVinoOptions(
        inference_precision="f32",
        integers=given.integers,
        prefer_tflite_model=given.prefer_tflite_model,
    )
    return EngineOptions(driver=options.driver).having(own)


def _computes_plainly(options: EngineOptions) -> bool:
    """Tell whether a model computes only its file, as the comparison does (`_compared_options`)."""
    own = options.of(OpenVinoOptions)
    plain = replace(
        OpenVinoOptions(inference_precision=own.inference_precision, integers=own.integers),
        precision_tolerance=own.precision_tolerance,
        prefer_tflite_model=own.prefer_tflite_model,
    )
    others = (Preprocessing, Sequences)
    is_full = own.inference_precision in {"", "f32"}
    return is_full and own == plain and all(options.of(each) == each() for each in others)


def _operator_among(file: Path, kinds: Collection[str]) -> str:
    """Name an operator of ONNX among some; OpenVINO reads none of them of TFLite."""
    if file.suffix != ONNX:
        return ""
    try:
        return min((node.kind for node in nodes(file) if node.kind in kinds), default="")
    except (OSError, ValueError):
        return ""  # not a model: OpenVINO reports the fault


def _needs_reference(file: Path) -> str:
    """Say why OpenVINO serves a model only after a comparison; empty if it may without."""
    if not (named := _operator_among(file, {COMPUTED_OTHERWISE})):
        return ""
    return f"{OPENVINO} computes {named} with other numbers than onnxruntime, which defines it"


def _unless_replaced(
    directory: Path, compiles: Callable[P, CompiledModel]
) -> Callable[P, CompiledModel]:
    """Let `compiles` refuse the files of a version if one was replaced since this call."""
    loaded = _stamps(directory)

    def compile_same(*args: P.args, **kwargs: P.kwargs) -> CompiledModel:
        try:
            is_same = loaded.items() <= _stamps(directory).items()
        except OSError:  # a file is gone meanwhile
            is_same = False
        if not is_same:
            raise LoadFailed(
                "the files of the version have changed since it was loaded"
                ": upload changed files as a new version"
            )
        return compiles(*args, **kwargs)

    return compile_same


def _stamps(directory: Path) -> Mapping[Path, tuple[int, int]]:
    """Give size and time of modification of each file, which change if it is replaced."""
    states = {each: each.stat() for each in directory.rglob("*") if each.is_file()}
    return {each: (state.st_size, state.st_mtime_ns) for each, state in states.items()}


def _size(directory: Path) -> int:
    return sum(size for size, _ in _stamps(directory).values())
