"""The one data plane under all front ends: find, check, decode, infer, encode, count.

A front end parses a request, calls one method, and phrases what comes of it. Which servable and
signature are meant, whether work leaves the event loop, how long it may take and what is counted is
decided here, the same for every protocol.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Generic, TypeVar, cast

from ie_serving.core.codes import ENDED, code_of
from ie_serving.core.fit import fit, shed
from ie_serving.core.requests import ExamplesRequest, InferRequest, ModelSpec, Task
from ie_serving.core.tensors import SERVING_DEFAULT, Array, Method, Signature
from ie_serving.core.versions import VersionStatus
from ie_serving.inference import checks, examples, summary
from ie_serving.inference.deadline import Limited, within
from ie_serving.inference.decoding import decode_examples, decode_large
from ie_serving.inference.interface import Api, Encode, Interface, Outputs, Results
from ie_serving.inference.large_reply import Read, Unencoded
from ie_serving.inference.sequences import following
from ie_serving.models.served import ServedModels
from ie_serving.models.version.handle import Servable
from ie_serving.telemetry.metrics import Metrics, Served

T = TypeVar("T")

MOST_FILTERS = 64
"""Output filters whose encoders one version and signature remembers; the oldest is forgotten for a
new one. Clients choose filters, so their number has no other bound."""

API_OF = {Method.CLASSIFY: Api.CLASSIFY, Method.REGRESS: Api.REGRESS}


class DataPlane:
    """Answers for every front end. Lives on one event loop.

    Each method takes `interface`, the front end that asks, and `began`, the `time.perf_counter()`
    of the request's arrival, and raises what is to be phrased as ServingError.

    Args of the constructor:
        models: gives the handles.
        metrics: where requests are counted.
        codec: reads and writes serialized Examples.
        method_name_check: refuse signatures of another method than what is asked; Predict may run
            those of Classify and Regress.
    """

    def __init__(
        self,
        models: ServedModels,
        metrics: Metrics,
        codec: examples.ExampleCodec,
        *,
        method_name_check: bool,
    ) -> None:
        self._models = models
        self._metrics = metrics
        self._codec = codec
        self._method_name_check = method_name_check

    async def predict(self, request: InferRequest, interface: Interface[T], began: float) -> T:
        """Run a signature on named tensors.

        A small request whose inference need not wait is answered without a task, a timer or a turn
        of the event loop. Taking the handle is written out: every request does it (`handle.py`).
        """
        servable = None
        try:
            servable = self._models.handle(request.model)
            servable.holders += 1
            bound: Bound[T] = servable.bound.get((interface, request.signature)) or self._bind(
                servable, request.signature, interface
            )
            if request.size < interface.large_request:
                inputs, form = request.decode(bound.signature)
            else:
                inputs, form = await decode_large(request, bound.signature)
            work = bound.start(inputs, form, request.output_filter)
            if interface.limit_s is None:
                reply = await work
            else:
                try:  # as `limited` does, without the call
                    awaited = work.send(None)
                except StopIteration as end:
                    reply = end.value
                else:
                    reply = await Limited(interface.limit_s, work, awaited)
            if type(reply) is Unencoded:
                reply = await asyncio.to_thread(reply.encode, reply.outputs)  # still held
        except ENDED as error:
            if (elsewhere := following(self._models, request, error)) is None:
                self.refused(request.model.name, error)
                raise
            return await self.predict(elsewhere, interface, began)
        finally:
            if servable is not None:
                servable.holders -= 1
                if not servable.holders and servable.unheld:
                    servable.unheld.set()
        # Not in a `finally`: TensorFlow Serving times the requests that succeed.
        bound.served.add((time.perf_counter() - began) * 1e6)
        return cast(T, reply)

    async def classify(
        self,
        request: ExamplesRequest,
        interface: Interface[Any],
        began: float,
        encode: Callable[[Results], T],
    ) -> T:
        """Give classes and scores for Examples."""
        return await self._answer(Method.CLASSIFY, request, interface, began, encode)

    async def regress(
        self,
        request: ExamplesRequest,
        interface: Interface[Any],
        began: float,
        encode: Callable[[Results], T],
    ) -> T:
        """Give a value for each Example."""
        return await self._answer(Method.REGRESS, request, interface, began, encode)

    async def multi_inference(
        self,
        request: ExamplesRequest,
        tasks: Sequence[Task],
        interface: Interface[Any],
        began: float,
        encode: Callable[[Sequence[tuple[Method, Results]]], T],
    ) -> T:
        """Ask several signatures of one model about the same Examples.

        The tasks name the model, not the request; the first chooses its version. `encode` gets the
        results in the order of the tasks.
        """
        name = tasks[0].model.name if tasks else ""
        with (
            self._measured(interface, Api.MULTI_INFERENCE, name, began),
            self._models.handle(examples.model_of(tasks)) as servable,
        ):
            rows = await decode_examples(request)
            check = self._method_name_check
            work = examples.run_tasks(servable, tasks, rows, self._codec, method_check=check)
            results = await within(interface.limit_s, work)
            return await examples.apart(len(rows), partial(encode, results))

    def metadata(
        self,
        model: ModelSpec,
        interface: Interface[Any],
        began: float,
        encode: Callable[[Servable], T],
    ) -> T:
        """Describe the signatures of a version."""
        with (
            self._measured(interface, Api.METADATA, model.name, began),
            self._models.handle(model) as servable,
        ):
            return encode(servable)

    def status(
        self,
        model: ModelSpec,
        interface: Interface[Any],
        began: float,
        encode: Callable[[Sequence[VersionStatus]], T],
    ) -> T:
        """Tell the state of one version or of all, highest first."""
        with self._measured(interface, Api.STATUS, model.name, began):
            version = model.version
            if model.label is not None:
                version = self._models.resolve_label(model.name, model.label)
            return encode(self._models.statuses(model.name, version))

    def is_ready(self, model: ModelSpec) -> bool:
        """Tell whether a version answers for `model`. For probes: nothing is counted.

        Raises:
            NotFound: no such model is configured.
        """
        return self._models.is_ready(model)

    def models(
        self, interface: Interface[Any], began: float, encode: Callable[[Sequence[str]], T]
    ) -> T:
        """Name the models."""
        with self._measured(interface, Api.MODELS, "", began):
            return encode(self._models.names())

    @contextmanager
    def counting_refusals(self, model: str) -> Iterator[None]:
        """Count, by `refused`, whatever the body raises while it parses a request."""
        try:
            yield
        except ENDED as error:
            self.refused(model, error)
            raise

    def refused(self, model: str, error: BaseException) -> None:
        """Count one that failed or was cancelled; front ends say so of one that they cannot parse.

        Args:
            model: name that it asked for; empty when it could not be read.
            error: what it failed with.
        """
        code = code_of(error)
        self._metrics.of(model).count(code.name)
        summary.note_refusal(model, code)

    # -- warm-up: with a version that does not serve yet; nothing is counted -------------------

    async def replay_predict(
        self, servable: Servable, request: InferRequest, interface: Interface[T]
    ) -> "T | Unencoded[T]":
        """Run what `predict` runs, and give the reply."""
        bound: Bound[T] = servable.bound.get((interface, request.signature)) or self._bind(
            servable, request.signature, interface
        )
        if request.size < interface.large_request:
            inputs, form = request.decode(bound.signature)
        else:
            inputs, form = await decode_large(request, bound.signature)
        return await bound.start(inputs, form, request.output_filter)

    async def replay_examples(
        self, servable: Servable, request: ExamplesRequest, tasks: Sequence[Task]
    ) -> None:
        """Run what `classify`, `regress` and `multi_inference` run; there is no reply."""
        await examples.run_tasks(servable, tasks, await decode_examples(request), self._codec)

    # -- inside --------------------------------------------------------------------------------

    # By the name that was sent: the empty one and "serving_default" are bound apart, which costs
    # one entry and saves a comparison for every request.
    def _bind(self, servable: Servable, name: str, interface: Interface[T]) -> "Bound[T]":
        signature = servable.signatures.get(name or SERVING_DEFAULT)
        if signature is None:
            raise interface.unknown_signature(servable, name or SERVING_DEFAULT)
        checks.check_served(signature)
        if self._method_name_check:
            checks.check_method(signature)
        # `add`, not `of`: a warm-up binds before the manager has told the new model's name.
        label = interface.labels[Api.PREDICT]
        served = self._metrics.add(servable.name).served(label, interface.entrypoint)
        # Decided here, once for a signature: a request pays nothing where no lines are wanted.
        kind: type[Bound[T]] = NotedBound if summary.is_wanted() else Bound
        bound = kind(servable, signature, interface, served, self._codec.parse)
        servable.bound[interface, name] = bound
        return bound

    async def _answer(
        self,
        method: Method,
        request: ExamplesRequest,
        interface: Interface[Any],
        began: float,
        encode: Callable[[Results], T],
    ) -> T:
        with (
            self._measured(interface, API_OF[method], request.model.name, began),
            self._models.handle(request.model) as servable,
        ):
            rows = await decode_examples(request)
            name, check = request.signature, self._method_name_check
            work = examples.run(servable, name, method, rows, self._codec, method_check=check)
            results = await within(interface.limit_s, work)
            return await examples.apart(len(rows), partial(encode, results))

    @contextmanager
    def _measured(
        self, interface: Interface[Any], api: Api, model: str, began: float
    ) -> Iterator[None]:
        """Count the request that the body answers, and its latency if it succeeds."""
        with self.counting_refusals(model):
            yield
        served = self._metrics.of(model).served(interface.labels[api], interface.entrypoint)
        served.add((time.perf_counter() - began) * 1e6)


class Bound(Generic[T]):
    """How one signature of one version answers one interface: all that requests have in common.

    Attributes:
        signature: the signature.
        served: counts the requests that succeed.
    """

    __slots__ = (
        "_encoders",
        "_filtered",
        "_interface",
        "_parse_examples",
        "_servable",
        "served",
        "signature",
    )

    def __init__(
        self,
        servable: Servable,
        signature: Signature,
        interface: Interface[T],
        served: Served,
        parse_examples: examples.Parse,
    ) -> None:
        self.signature = signature
        self.served = served
        self._servable = servable
        self._interface = interface
        self._parse_examples = parse_examples
        self._encoders = self._encoders_for(tuple(signature.outputs))
        self._filtered: dict[tuple[str, ...], Mapping[object, Read[T]]] = {}

    def start(
        self, inputs: Mapping[str, Array], form: object, output_filter: tuple[str, ...]
    ) -> Coroutine[Any, Any, T | Unencoded[T]]:
        """Check the inputs and prepare to run the model; the coroutine gives the reply.

        Args:
            inputs: arrays by alias.
            form: of the reply.
            output_filter: aliases of the outputs to return; empty for all.

        Raises:
            InvalidRequest: names, dtypes or shapes do not fit, or the output filter does not.
        """
        encoders = self._encoders
        if output_filter:
            encoders = self._filtered.get(output_filter) or self._filter(output_filter)
        read = encoders[form]
        signature = self.signature
        fitted, added = fit(signature, inputs)
        if signature.examples is not None:
            return examples.infer_serialized(
                self._servable, signature.examples, fitted, self._parse_examples, read
            )
        if added:
            return self._servable.compiled.infer(signature, fitted, lambda o: read(shed(o, added)))
        return self._servable.compiled.infer(signature, fitted, read)

    def _filter(self, outputs: tuple[str, ...]) -> Mapping[object, Read[T]]:
        checks.check_output_filter(self.signature, outputs)
        # Oldest first, as dicts keep their order: no clock, and nothing to do on a hit.
        if len(self._filtered) >= MOST_FILTERS:
            del self._filtered[next(iter(self._filtered))]
        encoders = self._filtered[outputs] = self._encoders_for(outputs)
        return encoders

    def _encoders_for(self, outputs: tuple[str, ...]) -> Mapping[object, Read[T]]:
        interface = self._interface
        encoders = interface.encoders(self._servable, self.signature, outputs)
        large, check = interface.large_reply, interface.check_large
        if large is None:
            return encoders
        return {
            form: _reader(encode, large, partial(check, form)) for form, encode in encoders.items()
        }


class NotedBound(Bound[T]):
    """A `Bound` whose requests are logged."""

    __slots__ = ()

    def start(
        self, inputs: Mapping[str, Array], form: object, output_filter: tuple[str, ...]
    ) -> Coroutine[Any, Any, T | Unencoded[T]]:
        """See `Bound`."""
        entrypoint = self._interface.entrypoint
        summary.note_tensors(self._servable, self.signature, entrypoint, inputs, output_filter)
        return super().start(inputs, form, output_filter)


def _reader(encode: Encode[T], large: int, check: Callable[[Outputs], None]) -> Read[T]:
    """Encode outputs where they lie, or copy them out when they have `large` elements or more.

    `check` refuses of a large one what `encode` would: while the inference can still fail, and a
    sequence stays as it was.
    """

    def read(outputs: Outputs) -> T | Unencoded[T]:
        size = 0
        for array in outputs.values():
            size += array.size
        if size < large:
            return encode(outputs)
        check(outputs)
        return Unencoded(encode, {alias: array.copy() for alias, array in outputs.items()})

    return read
