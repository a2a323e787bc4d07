"""The list of engines, and the layers around each model's engine, from the innermost outwards.

Separate from the rest of the composition root because `ie_serving check` and `ie_serving tune`
build engines without a server.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ie_serving.config.files.option_files import batching_of
from ie_serving.core.compat import added
from ie_serving.engines.base import REHEARSED, Engine, EngineOptions
from ie_serving.engines.checked_cache import CheckedCompileCache
from ie_serving.engines.drivers import Drivers, every
from ie_serving.engines.graph.engine import models_of as graph_models_of
from ie_serving.engines.layer_options import DeclaredTensors
from ie_serving.engines.layers import sampling
from ie_serving.engines.layers.batching import BatchingEngine
from ie_serving.engines.layers.declared_tensors import as_declared
from ie_serving.engines.layers.images import taking_images
from ie_serving.engines.layers.layer import LayeredEngine, WrapModel
from ie_serving.engines.layers.precision import PrecisionEngine
from ie_serving.engines.layers.response_cache import caching
from ie_serving.engines.layers.sampling import ShadowLayer
from ie_serving.engines.layers.sequence_family import Family
from ie_serving.engines.layers.sequence_layer import keeping_sequences
from ie_serving.engines.onnxruntime.driver import OnnxRuntimeEngine
from ie_serving.engines.openvino.compiling.openvino_engine import OpenVinoEngine
from ie_serving.engines.openvino.compiling.properties import lower_precisions
from ie_serving.engines.tensorflow.fallback import TensorFlowFallback
from ie_serving.engines.verification.verified_engine import VerifiedEngine
from ie_serving.engines.verification.verifier import Verifier
from ie_serving.inference.shadows import AnsweredRequest, Shadows
from ie_serving.inference.warmup import RecordedRequests
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.served_models import ServedModels
from ie_serving.models.traffic.shadow import Shadow
from ie_serving.telemetry.metrics.batch_metrics import BatchMetrics
from ie_serving.telemetry.metrics.layers import CacheMetrics, RecordMetrics, SequenceMetrics
from ie_serving.telemetry.metrics.page import Metrics
from ie_serving.telemetry.request.entry import ReportBatch
from ie_serving.telemetry.request.record_files import SampleFiles
from ie_serving.wire.json.golden_json import read_golden as golden_json
from ie_serving.wire.tfs.predict import parse_request
from ie_serving.wire.tfs.prediction_log import count_records, predict_record, read_requests
from ie_serving.wire.tfs.prediction_log import read_golden as golden_records

if TYPE_CHECKING:
    from ie_serving.commands.tune.search import SearchTools

VERIFIER: Final = Verifier()
"""Compares outputs for all models of this process, in one child process that ends when idle."""

GOLDEN: Final = {"golden.json": golden_json, "golden.tfrecord": golden_records}
"""Readers of golden requests, by file name."""


def engine_of(config: ModelConfig) -> Engine:
    """Build the engine of one model, with its layers, for commands that do not serve."""
    alone = engine(drivers(TensorFlowFallback()), config.engine, config.declared)
    family = Family(config.name, SequenceMetrics())
    REHEARSED.set(True)  # what such a command asks is not recorded
    record = recording(config.name, RecordMetrics())
    return layered(alone, config.engine, BatchMetrics(), family, CacheMetrics(), record=record)


def models_of(directory: Path) -> Mapping[str, frozenset[int]] | None:
    """Return the models that a version calls, which have to serve before it; None if it calls none.

    See `models.graph_dependencies.ModelsOf`.
    """
    for named in added("models_of"):
        found: Mapping[str, frozenset[int]] | None = named(directory)
        if found is not None:
            return found
    return graph_models_of(directory)


def tools(config: ModelConfig) -> "SearchTools":
    """Build the tools that `ie_serving tune` works with."""
    from ie_serving.commands.tune.search import SearchTools  # here: a server does not tune
    from ie_serving.config.schema.model import with_keys

    return SearchTools(
        engine=engine_of(config),
        with_keys=with_keys,
        lower=lower_precisions,
        of_file=_recorded().of_file,
        of_version=_recorded(),
    )


def drivers(fallback: TensorFlowFallback) -> Drivers:
    """Return all drivers; `fallback` runs what OpenVINO cannot convert, where that is allowed."""
    onnx = OnnxRuntimeEngine()
    return every([onnx, VerifiedEngine(OpenVinoEngine(fallback), onnx, VERIFIER)])


def engine(
    every_driver: Drivers, options: EngineOptions, declared: DeclaredTensors | None = None
) -> Engine:
    """Return one model's engine; the driver that the model names decides which files it needs.

    A model that is not as `declared` is refused.
    """
    kept = CheckedCompileCache(every_driver.named(options.driver))
    made = PrecisionEngine(kept, lower_precisions, _recorded())
    return LayeredEngine(made, partial(as_declared, declared=declared)) if declared else made


def layered(
    alone: Engine,
    options: EngineOptions,
    batches: BatchMetrics,
    family: Family,
    caches: CacheMetrics,
    report: ReportBatch | None = None,
    record: WrapModel | None = None,
) -> Engine:
    """Wrap the engine of one model in the layers of `options`.

    `report`, if given, sees each batch. `record`, if given, adds the layer that records requests,
    outside of the one that keeps answers: these are recorded, too.

    Image decoding precedes batching, so that an undecodable image fails no other request. A request
    of a sequence passes these layers in its sequence's turn. Kept answers are given before images
    are decoded, or requests wait for a batch. The layers of `compat/` are outermost, so that hooks
    run for each request, and their outputs share batches too.
    """
    batching = BatchingEngine(alone, batches, batching_of, report)
    cached = LayeredEngine(batching, taking_images, partial(caching, counts=caches))
    recorded = LayeredEngine(cached, record) if record else cached
    whole: Engine = LayeredEngine(recorded, partial(keeping_sequences, family=family))
    for around in added("around"):
        whole = around(whole, options)
    return whole


def recording(model: str, counts: RecordMetrics) -> WrapModel:
    """Return what adds the layer that records requests of `model`, where its options ask for it."""
    return partial(sampling.recording, name=model, encode=predict_record, counts=counts)


def shadows(served: ServedModels, metrics: Metrics) -> Shadows:
    """Make what compares the outputs of models with those of their shadows."""
    return Shadows(served, ShadowLayer, lambda name: metrics.add(name).shadowed, _samples)


def _samples(rule: Shadow) -> SampleFiles:
    def encode(answered: AnsweredRequest) -> bytes:
        return predict_record(
            answered.signature,
            answered.inputs,
            answered.outputs,
            model=answered.model,
            version=answered.version,
            sampling_rate=rule.sampling_rate,
        )

    return SampleFiles(rule.path, rule.max_samples, encode, count_records)


def _recorded() -> RecordedRequests:
    return RecordedRequests(GOLDEN, read_requests, parse_request)
