"""The data plane that all front ends share: find the servable, check, decode, infer, encode, count.

A front end parses a request, calls one method, and turns the result or error into a reply. The data
plane chooses servable and signature, decides whether work leaves the event loop, keeps the time
limit and counts the request, in the same way for every protocol.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast

from ie_serving.core.values.codes import ENDED, code_of, rejected_for
from ie_serving.core.values.errors import NotLoaded
from ie_serving.core.values.requests import ExamplesRequest, InferRequest, ModelSpec, Task
from ie_serving.core.values.signatures import check_served
from ie_serving.core.values.tensors import SERVING_DEFAULT, Method
from ie_serving.core.values.versions import VersionStatus
from ie_serving.inference import debug_lines, examples
from ie_serving.inference.bound_signature import BoundSignature, check_method
from ie_serving.inference.deadline import Alarm, LimitedWork, within
from ie_serving.inference.interface import (
    Api,
    Interface,
    Results,
    UnencodedOutputs,
    decode_examples,
    decode_large,
)
from ie_serving.inference.request_notes import note_model
from ie_serving.inference.sequence_elsewhere import following
from ie_serving.models.served_models import ServedModels
from ie_serving.models.traffic.split import SplitTraffic, VersionNotChosen
from ie_serving.models.version.handle import Servable
from ie_serving.telemetry.metrics.page import Metrics
from ie_serving.telemetry.metrics.requests import SeriesKey, ServedRequests
from ie_serving.telemetry.metrics.text import SETTLED_AT

T = TypeVar("T")

API_OF = {Method.CLASSIFY: Api.CLASSIFY, Method.REGRESS: Api.REGRESS}


class AnsweringVersion:
    """Facts about a request that become known while it is answered.

    Attributes:
        version: the version that answers the request; None if none does.
    """

    version: int | None = None


class DataPlane:
    """Answers the requests of every front end. Lives on one event loop.

    Each method takes `interface`, the calling front end, and `began`, the `time.perf_counter()` of
    the request's arrival. Each raises ServingError for the front end to turn into a reply.

    Args of the constructor:
        models: gives the handles.
        metrics: counts the requests.
        codec: reads and writes serialized Examples.
        method_name_check: refuse signatures of another method than the request's; Predict may run
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
        self._alarms: dict[float, Alarm] = {}  # by limit: few interfaces, so few limits

    async def predict(self, request: InferRequest, interface: Interface[T], began: float) -> T:
        """Run a signature on named tensors.

        A small request whose inference does not wait is answered without a task, a timer or a turn
        of the event loop. The handle is taken inline, which saves a call per request
        (`version/handle.py`).
        """
        servable = work = None
        try:
            servable = self._models.handle(request.model)
            servable.holders += 1
            bound: BoundSignature[T] = servable.bound.get(
                (interface, request.signature)
            ) or self._bind(servable, request.signature, interface)
            if request.size < interface.large_request:
                inputs, form = request.decode(bound.signature)
            else:
                inputs, form = await decode_large(request, bound.signature)
            work = bound.start(inputs, form, request)
            if bound.served is not None:  # before the model runs: the requests that it accepted
                decoded = bound.served.decoded
                decoded.append(time.perf_counter() - began)
                if len(decoded) >= SETTLED_AT:  # those that fail as well
                    bound.served.settle()
            if interface.limit_s is None:
                reply = await work
            else:
                try:  # as `limited` does, without the call
                    awaited = work.send(None)
                except StopIteration as end:
                    reply = end.value
                else:
                    limit_s = interface.limit_s
                    alarm = self._alarms.get(limit_s) or self._new_alarm(limit_s)
                    reply = await LimitedWork(alarm, work, awaited)
            if type(reply) is UnencodedOutputs:
                reply = await asyncio.to_thread(reply.encode, reply.outputs)  # handle still held
        except ENDED as error:
            if isinstance(error, VersionNotChosen):
                return await self._of_split(error.split, request, interface, began)
            if servable is None and isinstance(error, NotLoaded):
                with self.counting_refusals(request.model.name, interface, Api.PREDICT):
                    await error.load()
                elsewhere: InferRequest | None = request
            else:
                elsewhere = following(self._models, request, error)
            if elsewhere is None:
                version = servable.version if servable is not None else None
                begun = work is not None
                self.refused(
                    request.model.name, error, interface, Api.PREDICT, version, begun=begun
                )
                raise
            return await self.predict(elsewhere, interface, began)
        finally:
            if servable is not None:
                servable.holders -= 1
                if not servable.holders and servable.unheld:
                    servable.unheld.set()
        # A `finally` would count failures: TensorFlow Serving times only the requests that succeed.
        if (served := bound.served) is not None:  # as `ServedRequests.add`, without the call
            served.took.append(time.perf_counter() - began)
        return cast(T, reply)

    async def of_stream(
        self, request: InferRequest, interface: Interface[T]
    ) -> "tuple[Servable, BoundSignature[T]]":
        """Find servable and signature for the stream that a request begins; count an error."""
        with self.counting_refusals(request.model.name, interface, Api.PREDICT) as asked:
            servable = await self._handle(request.model, self._models.main)
            asked.version = servable.version
            bound: BoundSignature[T] = servable.bound.get(
                (interface, request.signature)
            ) or self._bind(servable, request.signature, interface)
            return servable, bound

    async def classify(
        self,
        request: ExamplesRequest,
        interface: Interface[Any],
        began: float,
        encode: Callable[[Results], T],
    ) -> T:
        """Return classes and scores for Examples."""
        return await self._answer(Method.CLASSIFY, request, interface, began, encode)

    async def regress(
        self,
        request: ExamplesRequest,
        interface: Interface[Any],
        began: float,
        encode: Callable[[Results], T],
    ) -> T:
        """Return a value for each Example."""
        return await self._answer(Method.REGRESS, request, interface, began, encode)

    async def multi_inference(
        self,
        request: ExamplesRequest,
        tasks: Sequence[Task],
        interface: Interface[Any],
        began: float,
        encode: Callable[[Sequence[tuple[Method, Results]]], T],
    ) -> T:
        """Run several signatures of one model on the same Examples.

        The tasks name the model, not the request; the first task chooses the version. `encode` gets
        the results in the order of the tasks.
        """
        name, model = tasks[0].model.name if tasks else "", examples.model_of(tasks)
        with (
            self._measured(interface, Api.MULTI_INFERENCE, name, began) as asked,
            await self._shared(model, request.caller, interface) as servable,
        ):
            asked.version = servable.version
            rows = await decode_examples(request)
            check = self._method_name_check
            work = examples.run_tasks(servable, tasks, rows, self._codec, method_check=check)
            results = await within(interface.limit_s, work)
            return await examples.apart(len(rows), partial(encode, results))

    async def metadata(
        self,
        model: ModelSpec,
        interface: Interface[Any],
        began: float,
        encode: Callable[[Servable], T],
    ) -> T:
        """Describe the signatures of a version; a model on demand is loaded for that."""
        with (
            self._measured(interface, Api.METADATA, model.name, began) as asked,
            await self._handle(model, self._models.main) as servable,
        ):
            asked.version = servable.version
            return encode(servable)

    def status(
        self,
        model: ModelSpec,
        interface: Interface[Any],
        began: float,
        encode: Callable[[Sequence[VersionStatus]], T],
    ) -> T:
        """Return the state of one version or of all, highest version first."""
        with self._measured(interface, Api.STATUS, model.name, began):
            version = model.version
            if model.label is not None:
                version = self._models.resolve_label(model.name, model.label)
            return encode(self._models.statuses(model.name, version))

    def is_ready(self, model: ModelSpec) -> bool:
        """Return whether a version serves `model`. For probes: the question is not counted.

        Raises:
            NotFound: no such model is configured.
            UnknownLabel: the label is not assigned.
        """
        return self._models.is_ready(model)

    def answer_ready(self, model: ModelSpec, interface: Interface[Any], began: float) -> bool:
        """Answer ModelReady, which is counted where the model is configured; see `is_ready`."""
        ready = self.is_ready(model)
        if self._metrics.wanted:
            key = SeriesKey("", interface.entrypoint, "ModelReady", "")
            self._metrics.served(model.name, key).add(time.perf_counter() - began)
        return ready

    def models(
        self, interface: Interface[Any], began: float, encode: Callable[[Sequence[str]], T]
    ) -> T:
        """Name the models."""
        with self._measured(interface, Api.MODELS, "", began):
            return encode(self._models.names())

    @contextmanager
    def counting_refusals(
        self, model: str, interface: Interface[Any] | None = None, api: Api | None = None
    ) -> Iterator[AnsweringVersion]:
        """Count, through `refused`, each error that the body raises while it parses a request."""
        asked = AnsweringVersion()
        try:
            yield asked
        except ENDED as error:
            self.refused(model, error, interface, api, asked.version)
            raise

    def refused(
        self,
        model: str,
        error: BaseException,
        interface: Interface[Any] | None = None,
        api: Api | None = None,
        version: int | None = None,
        *,
        begun: bool = False,
    ) -> None:
        """Count a failed or cancelled request; front ends call this if they cannot parse one.

        Args:
            model: name that the request asked for; empty when it could not be read.
            error: error of the request.
            interface: front end that the request came over, where that is known.
            api: operation that the request asked for, where that is known.
            version: version that would have answered the request, where one was found.
            begun: whether the model was called for the request.
        """
        note_model(model, version)
        code = code_of(error)
        entrypoint = interface.entrypoint if interface else ""
        method = _method(interface, api) if api else ""
        key = SeriesKey("" if version is None else str(version), entrypoint, method, "")
        series = self._metrics.count_failed(model, key, code.name, begun=begun)
        if reason := rejected_for(error):
            series.rejected[reason] += 1
        if self._metrics.recent is not None:
            known = model if series is not self._metrics.of("") else ""
            self._metrics.recent.add(known, key, code, error)
        debug_lines.note_refusal(model, code)

    # -- warm-up: on a version that does not serve yet; nothing is counted ---------------------

    async def replay_predict(
        self, servable: Servable, request: InferRequest, interface: Interface[T]
    ) -> "T | UnencodedOutputs[T]":
        """Run the same steps as `predict`, and return the reply."""
        bound: BoundSignature[T] = servable.bound.get((interface, request.signature)) or self._bind(
            servable, request.signature, interface
        )
        if request.size < interface.large_request:
            inputs, form = request.decode(bound.signature)
        else:
            inputs, form = await decode_large(request, bound.signature)
        served = bound.served
        before = len(served.encoded) if served else 0
        try:
            return await bound.start(inputs, form, request)
        finally:
            # The encoder notes its time for warm-up requests as well.
            if served:
                del served.encoded[before:]

    async def replay_examples(
        self, servable: Servable, request: ExamplesRequest, tasks: Sequence[Task]
    ) -> None:
        """Run the steps of `classify`, `regress` and `multi_inference`; make no reply."""
        await examples.run_tasks(servable, tasks, await decode_examples(request), self._codec)

    # -- inside --------------------------------------------------------------------------------

    def _new_alarm(self, limit_s: float) -> Alarm:
        alarm = self._alarms[limit_s] = Alarm(limit_s)
        return alarm

    # Keyed by the name as sent: "" and "serving_default" have an entry each, which costs memory for
    # one entry and saves each request a comparison.
    def _bind(self, servable: Servable, name: str, interface: Interface[T]) -> BoundSignature[T]:
        signature = servable.signatures.get(name or SERVING_DEFAULT)
        if signature is None:
            raise interface.unknown_signature(servable, name or SERVING_DEFAULT)
        check_served(signature)
        if self._method_name_check:
            check_method(signature)
        served: ServedRequests | None = None
        if self._metrics.wanted:
            key = _key(interface, Api.PREDICT, servable.version)
            served = self._metrics.served(servable.name, key)
        bound: BoundSignature[T] = BoundSignature(
            servable, signature, interface, served, self._codec.parse
        )
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
            self._measured(interface, API_OF[method], request.model.name, began) as asked,
            await self._shared(request.model, request.caller, interface) as servable,
        ):
            asked.version = servable.version
            rows = await decode_examples(request)
            name, check = request.signature, self._method_name_check
            work = examples.run(servable, name, method, rows, self._codec, method_check=check)
            results = await within(interface.limit_s, work)
            return await examples.apart(len(rows), partial(encode, results))

    async def _of_split(
        self, split: SplitTraffic, request: InferRequest, interface: Interface[T], began: float
    ) -> T:
        """Let the version answer that the split traffic of the model gives the request to."""
        spec, watched = self._chosen(split, request.model, request.caller, interface)
        with watched:
            return await self.predict(replace(request, model=spec), interface, began)

    def _chosen(
        self, split: SplitTraffic, model: ModelSpec, caller: object, interface: Interface[Any]
    ) -> tuple[ModelSpec, AbstractContextManager[None]]:
        sticky = split.traffic.sticky
        value = interface.caller(caller).headers.get(sticky) if sticky else None
        version = split.choose(value)
        # Timed from here, since a version is not charged with the wait for a load on demand.
        return replace(model, version=version), split.watched(version, time.perf_counter())

    async def _shared(
        self, model: ModelSpec, caller: object, interface: Interface[Any]
    ) -> AbstractContextManager[Servable]:
        """As `_handle`; of split traffic the version that the request goes to, watched."""
        try:
            return await self._handle(model, self._models.handle)
        except VersionNotChosen as not_chosen:
            spec, watched = self._chosen(not_chosen.split, model, caller, interface)
            return _both(watched, self._models.handle(spec))

    async def _handle(self, model: ModelSpec, find: Callable[[ModelSpec], Servable]) -> Servable:
        """Give what `find` gives; await the load of a model that is loaded on demand."""
        while True:
            try:
                return find(model)
            except NotLoaded as absent:
                await absent.load()

    @contextmanager
    def _measured(
        self, interface: Interface[Any], api: Api, model: str, began: float
    ) -> Iterator[AnsweringVersion]:
        """Count the request that the body answers, and its latency if the request succeeds."""
        with self.counting_refusals(model, interface, api) as asked:
            yield asked
        note_model(model, asked.version)
        if not self._metrics.wanted:
            return
        key, series = _key(interface, api, asked.version), self._metrics.of(model)
        # Model names that are not served have no series of their own.
        name = model if series is not self._metrics.of("") else ""
        self._metrics.served(name, key).add(time.perf_counter() - began)


@contextmanager
def _both(watched: AbstractContextManager[None], held: Servable) -> Iterator[Servable]:
    with watched, held:
        yield held


def _key(interface: Interface[Any], api: Api, version: int | None) -> SeriesKey:
    number = "" if version is None else str(version)
    return SeriesKey(number, interface.entrypoint, _method(interface, api), interface.labels[api])


def _method(interface: Interface[Any] | None, api: Api) -> str:
    return interface.methods.get(api, api.value) if interface else api.value
