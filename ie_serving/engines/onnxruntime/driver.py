"""The onnxruntime engine: serves ONNX graphs that OpenVINO cannot compute, or computes differently.

OpenVINO has no operator of `ai.onnx.ml` (trees, scalers, ...), which converters of scikit-learn,
XGBoost and LightGBM write. The library is an extra of this package, imported when a version needs
it.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Final

import numpy as np

from ie_serving.core.values.errors import InvalidRequest, InvalidTensor, LoadFailed
from ie_serving.core.values.tensors import SERVING_DEFAULT, Array, DataType, Signature
from ie_serving.engines import driver_params
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.onnx_file import Node, nodes, uses_domain
from ie_serving.engines.onnxruntime.session import (
    Session,
    SessionFailure,
    SessionOutput,
    SessionRequest,
    input_specs,
    outputs_of,
)
from ie_serving.engines.openvino.unsupported_settings import refuse_unsupported
from ie_serving.engines.run import latency_model
from ie_serving.engines.run.function import one_line
from ie_serving.engines.run.latency_model import LatencyModel
from ie_serving.engines.run.program import CheckArray, CompiledPrograms, Program
from ie_serving.engines.run.threads import thread_limit

DOMAIN = "ai.onnx.ml"
LIBRARY = "onnxruntime"
INSTALL = "pip install '.[onnxruntime]'"
_SCORES, _MASKED = 3, (1, 2)
"""Number of `Attention`'s output with the scores, and the modes in which these are masked but not
yet passed through `Softmax`."""
_PAST = 6
"""Place of the input of `MultiHeadAttention` with the keys of tokens before."""
DIVIDES: Final = frozenset({"Div", "Mod"})
"""Operators that divide integers."""
DIVIDED: Final = frozenset({DataType.INT32, DataType.INT64})
"""Integers whose least number the processor cannot divide by -1. Smaller types become int32."""
EMPTIED: Final = frozenset({"DynamicQuantizeLSTM", "GRU", "LSTM", "QAttention"})
"""Operators that end the process, by SIGABRT or SIGFPE, for an input without elements."""
NEVER_EMPTY: Final = {"Conv": 1, "MultiHeadAttention": 0, "STFT": 2}
"""Operators that hang or end the process where one input has no elements, with its index."""
LASTING: Final = frozenset({"BeamSearch", "GreedySearch", "Loop", "Sampling", "WhisperBeamSearch"})
"""Operators that iterate as often as values say. The latencies of earlier requests do not predict
the next one, so their graphs run in a thread and not on the event loop."""
ONLY_FATAL: Final = 4
"""Level of the library's own log, which it writes past ours: it raises its errors as well."""
FAILED = "Error occurred during inference execution"
"""Phrase of 2020 for any error of the engine."""


class OnnxRuntimeEngine:
    """Compiles a version of one `*.onnx` file. See `engines.base.Driver`."""

    name = LIBRARY

    def missing(self, files: Collection[str]) -> str | None:
        """See `engines.base`."""
        return None if any(map(_is_model, files)) else "the model is missing: expected *.onnx"

    def claims(self, directory: Path) -> bool:
        """See `engines.base`: one ONNX file with operators that only this engine has."""
        models = _models(directory)
        return len(models) == 1 and uses_domain(models[0], DOMAIN)

    def compile(self, directory: Path, options: EngineOptions) -> CompiledPrograms:
        """See `engines.base`."""
        driver_params.check_known(options, (), LIBRARY)
        model = _only_model(directory)
        operators = _operators(model)
        session = _session(model)
        outputs = outputs_of(session)
        signature = Signature(
            SERVING_DEFAULT,
            input_specs(session),
            {output.spec.name: output.spec for output in outputs},
        )
        refuse_unsupported(options, signature, LIBRARY)
        checks = _checks(signature, operators)
        if LASTING & operators.keys() and options.execution == "auto":
            options = replace(options, execution="async")
        program = _program(session, signature, outputs, options, checks)
        return CompiledPrograms([program], runs_on={SERVING_DEFAULT: LIBRARY})


# Models lie at the top level: folders may contain assets, such as the graph of a tokenizer.
def _is_model(file: str) -> bool:
    return file.endswith(".onnx") and "/" not in file


def _models(directory: Path) -> list[Path]:
    return sorted(path for path in directory.iterdir() if path.is_file() and _is_model(path.name))


def _only_model(directory: Path) -> Path:
    models = _models(directory)
    # Several files are refused: neither TensorFlow Serving nor OpenVINO has a rule for them.
    if len(models) != 1:
        raise LoadFailed(f"the version holds {len(models)} *.onnx files; expected one")
    return models[0]


def _operators(model: Path) -> dict[str, set[str]]:
    """Give the operators of a graph, each with the names of its inputs that must not be empty.

    `NEVER_EMPTY` has the operators with such an input. Empty for a file that is no ONNX model.

    Raises:
        LoadFailed: onnxruntime 1.32 computes one of the nodes differently from ONNX.
    """
    found: dict[str, set[str]] = {}
    try:
        for node in nodes(model):
            index = NEVER_EMPTY.get(node.kind, len(node.inputs))
            found.setdefault(node.kind, set()).update(node.inputs[index : index + 1])
            if _gives_masked_scores(node):
                raise LoadFailed(
                    f'Attention "{node.outputs[0]}": {LIBRARY} gives the least float for negative'
                    f' infinity in its output "{node.outputs[_SCORES]}": leave that output out'
                )
            _refuse_past(node)
    except ValueError:
        return {}  # not an ONNX model: the library reports it
    return found


def _gives_masked_scores(node: Node) -> bool:
    given = node.attributes
    masked = given.get("is_causal") and given.get("qk_matmul_output_mode") in _MASKED
    return bool(node.kind == "Attention" and masked and any(node.outputs[_SCORES:]))


def refuse_past(model: Path) -> None:
    """Refuse a model of which onnxruntime 1.32 computes keys from memory that is not theirs.

    Raises:
        LoadFailed: naming the node.
    """
    with suppress(ValueError):  # not an ONNX model: the library reports it
        for node in nodes(model):
            _refuse_past(node)


def _refuse_past(node: Node) -> None:
    if node.kind == "MultiHeadAttention" and node.has(_PAST) and not any(node.outputs[1:]):
        raise LoadFailed(
            f'MultiHeadAttention "{node.outputs[0]}": {LIBRARY} reads beyond keys that have a past'
            " and no output present_key: add that output"
        )


def _session(model: Path) -> Session:
    library = _library(model)
    library.set_default_logger_severity(ONLY_FATAL)
    # The CPU is named: a build for GPUs would prefer another provider.
    providers = ["CPUExecutionProvider"]
    try:
        session: Session = library.InferenceSession(str(model), _options(library), providers)
        return session
    except Exception as error:  # the library's errors have no base class of their own
        raise LoadFailed(f"{model.name} cannot be compiled: {one_line(error)}") from error


def exact_sums(processors: str) -> tuple[str, str]:
    """Give the setting of a session that adds 8-bit products in 32 bits, on any processor.

    Without VNNI sums in 16 bits would saturate. With it the setting is off: it takes some weights
    for a type that the library then has no kernel for. Source:
    onnxruntime_session_options_config_keys.h.
    """
    return "session.x64quantprecision", "0" if "vnni" in processors else "1"


def _processors() -> str:
    try:
        with Path("/proc/cpuinfo").open() as file:
            return file.read(_FIRST)
    except OSError:
        return ""


_FIRST = 8192
"""Characters with which Linux describes the first processor; its flags end within 4,000."""
EXACT_SUMS: Final = exact_sums(_processors())


def _library(model: Path) -> ModuleType:
    try:
        # An extra, and 60 MB: only where a version needs it.
        import onnxruntime
    except ImportError as error:
        raise LoadFailed(
            f"{model.name} needs {LIBRARY}, as every model with operators of {DOMAIN} does, and"
            f" {LIBRARY} is not installed: {INSTALL}"
        ) from error
    library: ModuleType = onnxruntime
    return library


def _options(library: ModuleType) -> object:
    options = library.SessionOptions()
    options.intra_op_num_threads = thread_limit() or 0  # 0: one for each core
    # Threads spin between the operations of an inference: to sleep and wake up takes up to a third
    # of a short one. Between inferences they would take processor time from the event loop.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    options.add_session_config_entry(*EXACT_SUMS)
    options.log_severity_level = ONLY_FATAL
    return options


# Unlike OpenVINO the library reports no optimal number of requests; one a core keeps all busy.
def _program(
    session: Session,
    signature: Signature,
    outputs: Collection[SessionOutput],
    options: EngineOptions,
    checks: Sequence[tuple[str, CheckArray]],
) -> Program:
    make = partial(SessionRequest, session, signature.inputs.values(), outputs)
    latency = LatencyModel(options.execution)
    sample = _zeros(signature)
    seconds = latency_model.latency(make, sample, (SessionFailure,))
    if seconds is not None:
        latency.learn_at_load(sum(array.size for array in sample.values()), seconds)
    nireq = options.nireq or thread_limit() or os.cpu_count() or 1
    requests = [make() for _ in range(nireq)]
    return Program(
        signature, requests, latency, failures=(SessionFailure,), blame=_blame, checks=checks
    )


def _checks(
    signature: Signature, operators: Mapping[str, set[str]]
) -> list[tuple[str, CheckArray]]:
    """Return the checks of inputs at which operators of the graph end the process.

    The least integer divided by -1 ends it by SIGFPE. What the graph itself computes is not seen.
    """
    found: list[tuple[str, CheckArray]] = []
    never_empty = set().union(*operators.values())
    for name, spec in signature.inputs.items():
        if spec.dtype in DIVIDED and not DIVIDES.isdisjoint(operators):
            found.append((name, partial(_refuse_least, name)))
        if name in never_empty or not EMPTIED.isdisjoint(operators):
            found.append((name, partial(_refuse_none, name)))
    return found


def _refuse_none(name: str, array: Array) -> None:
    if not array.size:
        raise InvalidTensor(
            f'input "{name}" of shape {list(array.shape)} has no elements, at which {LIBRARY}'
            " crashes with this model: send at least one"
        )


def _refuse_least(name: str, array: Array) -> None:
    if array.size and array.min() == np.iinfo(array.dtype).min:
        cause = f"{LIBRARY} does not divide the least integer: send others"
        raise InvalidTensor(f'input "{name}": {cause}')


# Open dimensions become 1, the batch of a single request, which is the most frequent.
def _zeros(signature: Signature) -> Mapping[str, Array]:
    return {
        name: np.full(
            [max(size, 1) for size in spec.shape or ()],
            b"" if spec.dtype is DataType.STRING else 0,
            spec.dtype.numpy,
        )
        for name, spec in signature.inputs.items()
    }


def _blame(error: Exception) -> InvalidRequest:
    """Make the error one of the request: the library checks shapes and values while it computes."""
    return InvalidRequest(f"{FAILED}: {one_line(error)}")
