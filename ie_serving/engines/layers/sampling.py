"""Layers that take copies of a share of the requests with their outputs, to record or to compare.

A layer copies the tensors of a sampled request before the outputs leave the engine's memory; for a
recording, a thread encodes and writes them. A request that is not sampled passes at the cost of one
random number.
"""

import random
from collections.abc import Callable, Collection, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ie_serving.core.values.errors import InvalidTensor, LoadFailed
from ie_serving.core.values.tensors import Arrays, Read, Signature, Take, copies, size_of
from ie_serving.engines.base import REHEARSED, CompiledModel, EngineOptions
from ie_serving.engines.layer_options import Recording, RequestLog
from ie_serving.engines.layers.layer import Layer
from ie_serving.telemetry.metrics.layers import RecordMetrics
from ie_serving.telemetry.request.record_files import RecordFiles

T = TypeVar("T")

ChooseSample = Callable[[Signature, Arrays], Take | None]
"""Called with a request that is sampled, before it runs, on the event loop: signature and inputs.
Copies what it keeps; None leaves the request out."""


class SamplingLayer(Layer):
    """See the module.

    Args of the constructor:
        inner: the wrapped model.
        rate: share of the requests that are sampled, 0 to 1.
    """

    def __init__(self, inner: CompiledModel, rate: float) -> None:
        super().__init__(inner)
        self._rate = rate

    def sampled(self, signature: Signature, inputs: Arrays) -> Take | None:
        """See `ChooseSample`."""
        raise NotImplementedError

    def infer(self, signature: Signature, inputs: Arrays, read: Read[T]) -> Coroutine[Any, Any, T]:
        """See `engines.base`."""
        return self.inner.infer(signature, inputs, self._reading(signature, inputs, read))

    def infer_as_sent(
        self,
        signature: Signature,
        inputs: Arrays,
        outputs: Collection[str],
        refusal: InvalidTensor,
        read: Read[T],
    ) -> Coroutine[Any, Any, T]:
        """See `engines.base`."""
        reading = self._reading(signature, inputs, read)
        return self.inner.infer_as_sent(signature, inputs, outputs, refusal, reading)

    def _reading(self, signature: Signature, inputs: Arrays, read: Read[T]) -> Read[T]:
        """Return `read`; for a sampled request, what takes the outputs and then calls `read`."""
        if random.random() >= self._rate or REHEARSED.get():
            return read
        take = self.sampled(signature, inputs)
        if take is None:
            return read

        def reading(outputs: Arrays) -> T:
            take(outputs)
            return read(outputs)

        return reading


class ShadowLayer(SamplingLayer):
    """Hands copies to what compares them with a shadow (`inference/shadows.py`).

    Args of the constructor:
        inner: the wrapped model.
        rate: share of requests, as in `SamplingLayer`.
        sample: function that copies sampled requests, a `ChooseSample`.
    """

    def __init__(self, inner: CompiledModel, rate: float, sample: ChooseSample) -> None:
        super().__init__(inner, rate)
        self._sample = sample

    def sampled(self, signature: Signature, inputs: Arrays) -> Take | None:
        """See `ChooseSample`."""
        return self._sample(signature, inputs)


EncodeRecord = Callable[..., bytes]
"""Gives the bytes of one record in a file: `(signature, inputs, outputs, *, model, version,
sampling_rate, dropped)`, see `wire.tfs.prediction_log.predict_record`."""


def recording(
    model: CompiledModel,
    directory: Path,
    options: EngineOptions,
    *,
    name: str,
    encode: EncodeRecord,
    counts: RecordMetrics,
) -> CompiledModel:
    """Wrap a model whose options ask for it; see the module. `name` is the model's."""
    wanted = options.of(Recording).logging_config
    if wanted is None or wanted.sampling_rate == 0:
        return model
    _check_names(wanted.drop_inputs, model)
    files = RecordFiles(wanted.prefix, wanted.max_file_bytes, counts)
    version = int(directory.name) if directory.name.isdecimal() else 0
    known = {"model": name, "version": version, "sampling_rate": wanted.sampling_rate}
    return Recorder(model, wanted, files, partial(encode, **known))


def _check_names(dropped: frozenset[str], model: CompiledModel) -> None:
    """Refuse names that no signature has: the values that they mean would be recorded.

    Raises:
        LoadFailed: with the names.
    """
    known = {name for signature in model.signatures.values() for name in signature.inputs}
    unknown = sorted(dropped - known)
    if unknown:
        raise LoadFailed(
            f"drop_inputs of logging_config names {', '.join(unknown)}; the model's inputs are"
            f" {', '.join(sorted(known))}: correct the name"
        )


class Recorder(SamplingLayer):
    """Records a share of the requests of one version.

    Args of the constructor:
        inner: the wrapped model.
        wanted: choice of the requests that are recorded.
        files: take the records.
        encode: writes a record of signature, inputs and outputs.
    """

    def __init__(
        self, inner: CompiledModel, wanted: RequestLog, files: RecordFiles, encode: EncodeRecord
    ) -> None:
        super().__init__(inner, wanted.sampling_rate)
        self._dropped = wanted.drop_inputs
        self._files = files
        self._encode = encode

    def sampled(self, signature: Signature, inputs: Arrays) -> Take | None:
        """See `SamplingLayer`: records the request, unless the disk does not keep up."""
        if self._files.is_full():
            return None
        kept = copies({name: a for name, a in inputs.items() if name not in self._dropped})
        encode = partial(self._encode, dropped=inputs.keys() & self._dropped)
        return partial(self._record, partial(encode, signature, kept), kept)

    def _record(self, encode: EncodeRecord, inputs: Arrays, outputs: Arrays) -> None:
        kept = copies(outputs)
        self._files.put(size_of(inputs, kept), partial(encode, kept))

    def close(self) -> None:
        """See `engines.base`."""
        self._files.close()
        super().close()
