"""The image layer: decodes and resizes images that clients send instead of numbers, in threads.

An input that may be images (`image_forms.py`) takes strings too, each the bytes of a file. They
become one array of the input's own shape, and the inner model sees no difference. Requests with
numbers pass through.
"""

import asyncio
import logging
import os
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from ie_serving.core.runtime.spare_cpu import SPARE_CPU
from ie_serving.core.values.tensors import Array, Arrays, Read, Signature
from ie_serving.engines.around import EngineAround
from ie_serving.engines.base import CompiledModel, EngineOptions
from ie_serving.engines.layers.image_batch import ImageBatch
from ie_serving.engines.layers.image_forms import with_images
from ie_serving.engines.layers.layer import Layer
from ie_serving.engines.preprocessing import Preprocessing
from ie_serving.engines.run.threads import thread_limit
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

T = TypeVar("T")

THREADS = thread_limit() or os.cpu_count() or 1
"""Images of all models that are decoded at a time. More would only divide the processors, and each
may hold some hundred megabytes."""

_threads = ThreadPoolExecutor(THREADS, "image", initializer=SPARE_CPU.settle)


class WithImages(EngineAround):
    """`engine`, whose models take images for inputs that look like images. See `Engine`."""

    def compile(self, directory: Path, options: EngineOptions) -> CompiledModel:
        """See `engines.base`; there is no layer where no input takes images."""
        compiled = self._engine.compile(directory, options)
        if not options.image_inputs:
            return compiled
        chosen = options.of(Preprocessing).color_format
        colours = chosen.client if chosen else ""
        plain = compiled.signatures
        signatures = with_images(plain, colours)
        if signatures is plain:
            return compiled
        return ImageLayer(compiled, {name: _told(each) for name, each in signatures.items()})


class ImageLayer(Layer):
    """Decodes the images of a request before the inner model sees it. See `CompiledModel`.

    Args of the constructor:
        inner: takes numbers.
        signatures: those of `inner`, with the form of images in the specs of inputs.
    """

    def __init__(self, inner: CompiledModel, signatures: Mapping[str, Signature]) -> None:
        super().__init__(inner, signatures)
        self._inputs = {
            signature.name: [name for name, spec in signature.inputs.items() if spec.image]
            for signature in signatures.values()
        }

    def infer(self, signature: Signature, inputs: Arrays, read: Read[T]) -> Coroutine[Any, Any, T]:
        """See `engines.base`. Raises: also as `ImageBatch`."""
        for name in self._inputs[signature.name]:
            if inputs[name].dtype.kind == "O":
                return self._infer_images(signature, inputs, read)
        return self.inner.infer(signature, inputs, read)

    async def _infer_images(self, signature: Signature, inputs: Arrays, read: Read[T]) -> T:
        # One input after the other: the images of each are divided among all threads.
        decoded = {
            name: await _decoded(ImageBatch(signature.inputs[name], inputs[name]))
            for name in self._inputs[signature.name]
            if inputs[name].dtype.kind == "O"
        }
        return await self.inner.infer(signature, {**inputs, **decoded}, read)


async def _decoded(batch: ImageBatch) -> Array:
    """Decode a batch in threads; once the request has ended, no further image is begun."""
    steps = batch.steps(THREADS)
    loop = asyncio.get_running_loop()
    try:
        for side_by_side in steps:
            running = [loop.run_in_executor(_threads, work) for work in side_by_side]
            await asyncio.gather(*running)
    finally:
        batch.abandoned = True
    return batch.array()


def _told(signature: Signature) -> Signature:
    """Say in the words for `ie_serving check`, and in the log, which inputs take images."""
    forms = {name: spec.image.described() for name, spec in signature.inputs.items() if spec.image}
    for name, form in forms.items():
        log.info(Event("images taken", signature=signature.name, input=name, image=form))
    if not forms or not signature.runs_on:
        return signature
    listed = ", ".join(f'"{name}" ({form})' for name, form in forms.items())
    return replace(signature, runs_on=f"{signature.runs_on}; also takes images for {listed}")
