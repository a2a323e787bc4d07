"""Composition root of one worker: builds each concrete object of the server once."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import cache, partial
from typing import cast

from ie_serving.app import engine_stack, fronts
from ie_serving.app.fronts import (
    kserve_routes,
    management,
    name_lacking,
    openapi_routes,
    page_routes,
)
from ie_serving.app.repositories import Repositories, VersionRepository
from ie_serving.app.workers import Workers
from ie_serving.config import credentials
from ie_serving.config.files import access_file
from ie_serving.config.files.followed_config import FollowedConfig
from ie_serving.config.files.text_proto import from_message
from ie_serving.config.settings import ServerSettings, Settings
from ie_serving.core.compat import added
from ie_serving.core.runtime.budget import BUDGET
from ie_serving.core.runtime.handover import Handovers
from ie_serving.core.runtime.machine_share import SHARE, budget_of, room
from ie_serving.core.runtime.threads import STALL_S, GrowingPool
from ie_serving.core.settings.words import log_level
from ie_serving.core.values.access import Principal
from ie_serving.core.values.requests import CallerPassing
from ie_serving.engines.base import Engine
from ie_serving.engines.graph.engine import GraphEngine
from ie_serving.engines.layers.sequence_family import Families
from ie_serving.engines.other_models import OtherModelsEngine, Surroundings
from ie_serving.engines.process.trial import trial_loads
from ie_serving.engines.tensorflow.fallback import TensorFlowFallback
from ie_serving.inference.examples import ExampleCodec
from ie_serving.inference.golden import GoldenRun, in_turn
from ie_serving.inference.plane import DataPlane
from ie_serving.inference.profiling import Profiler
from ie_serving.inference.request_notes import handing_on
from ie_serving.inference.sequence_elsewhere import open_to_clients
from ie_serving.inference.signature_changes import SignatureChanges
from ie_serving.inference.warmup import WarmUp
from ie_serving.models.admin.label_changes import LabelChanges
from ie_serving.models.admin.model_control import ModelControl
from ie_serving.models.admin.reload_requests import PollRequests, ReloadRequests
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.fleet.watch import Fleet, RepositoryRules
from ie_serving.models.graph_dependencies import GraphDependencies
from ie_serving.models.manager import ModelManager
from ie_serving.models.repository.source import VersionSource
from ie_serving.models.residency import Residency, ResidencyRules
from ie_serving.models.served_models import AllowedModels, PreparedModels, ServedModels
from ie_serving.models.stream import ModelStream
from ie_serving.models.stream_rules import StreamRules
from ie_serving.models.version.loader import Loader
from ie_serving.server.access_log import OptionalWatch
from ie_serving.server.fronts.admin import grpc_health
from ie_serving.server.fronts.admin.config_pages import ConfigPages
from ie_serving.server.fronts.admin.grpc_health import HealthService
from ie_serving.server.fronts.admin.grpc_reflection import ReflectionService
from ie_serving.server.fronts.admin.health import Health, ProcessReadiness
from ie_serving.server.fronts.admin.log_pages import LogPages
from ie_serving.server.fronts.kserve_v2 import lazy_grpc
from ie_serving.server.fronts.kserve_v2.lazy_grpc import LazyInference
from ie_serving.server.fronts.rest.routes import VerbOf
from ie_serving.server.fronts.streams import LazyStreams
from ie_serving.server.fronts.tfs import model_service, prediction_service
from ie_serving.server.fronts.tfs.model_service import ModelService
from ie_serving.server.fronts.tfs.prediction_service import PredictionService, grpc_interface
from ie_serving.server.gate.gate import Gate
from ie_serving.server.gate.in_flight import InFlightLimit
from ie_serving.server.process.deadly_loads import LoadNotes
from ie_serving.server.process.lifecycle import MakeListener
from ie_serving.server.process.ports import BOTH, GRPC, REST
from ie_serving.server.process.tuning import most_connections
from ie_serving.server.transport.connection_limit import limit_of
from ie_serving.server.transport.grpc.services import Services, Unary
from ie_serving.server.transport.http1.messages import App
from ie_serving.storage.backends.storage_opener import check_urls
from ie_serving.storage.options import StorageOptions
from ie_serving.telemetry.log.logs import Event
from ie_serving.telemetry.metrics.page import Metrics
from ie_serving.telemetry.metrics.process import ProcessMetrics
from ie_serving.telemetry.metrics.stores import STORES
from ie_serving.telemetry.metrics.version_metrics import traffic_lines
from ie_serving.wire.protobuf import messages
from ie_serving.wire.tfs import statuses
from ie_serving.wire.tfs.classify_regress import parse_examples, serialize_examples
from ie_serving.wire.tfs.prediction_log import read_requests

log = logging.getLogger(__name__)


class ServingApplication:
    """The models and the front ends over them, as `server.process.lifecycle` runs them."""

    def __init__(
        self,
        settings: Settings,
        storage: StorageOptions,
        handovers: Handovers,
        notes: LoadNotes,
        workers: Workers,
    ) -> None:
        server = settings.server
        # Each part enters its end where it is made, so that the parts end in reverse order.
        self._closing = AsyncExitStack()
        self._limit_s = 0.0  # seconds that requests have to end, once the server closes
        self._workers = workers
        self._gate = Gate(
            server,
            credentials.read,
            access_file.read,
            certificates=handovers.certificates,
            callers=handovers.callers,
        )
        self._closing.callback(self._gate.close)
        most, each = most_connections(server.max_connections), server.max_connections_per_address
        self._connections = limit_of(SHARE.of(most), each)
        told = server.access_log, server.log_format, server.traces_url, server.server_timing
        self._watch = OptionalWatch(*told)
        self._closing.push_async_callback(self._watch.close)
        BUDGET.limit = SHARE.of(budget_of(server.memory_budget_bytes))
        self._notes = notes
        self._settings = settings
        self._storage_options = storage
        self._statuses = statuses.StatusEncoder(is_ovms=server.is_ovms)
        # The order matters: each step uses objects that the steps before it have made.
        self._make_models(server, handovers)
        self._make_interfaces(server)
        self._make_services(server)
        # Downloads and starts stop first, to end while the rest is being closed.
        self._closing.callback(self._fallback.stop)
        self._closing.callback(self._repositories.stop)

    def _make_models(self, server: ServerSettings, handovers: Handovers) -> None:
        """Make the models, their metrics, and the parts that change the configuration."""
        closing = self._closing
        self._repositories = Repositories(self._storage_options)
        closing.callback(self._repositories.shutdown)
        self._fallback = TensorFlowFallback()
        self._drivers = engine_stack.drivers(self._fallback)
        self.loads = GrowingPool(server.load_threads, "load", max(STALL_S, server.load_timeout_s))
        closing.callback(self.loads.shutdown, wait=False, cancel_futures=True)
        self._tried = trial_loads(room, wanted=server.tries_loads)
        self._metrics = Metrics(wanted=bool(server.metrics_paths), is_ovms=server.is_ovms)
        self._sequences = Families(60.0 * server.sequence_cleaner_poll_wait_minutes)
        closing.callback(self._sequences.close)
        self._health = Health()
        self._models = self._manager(server)
        closing.push_async_callback(self._close_models)
        self._fleet = self._watched_fleet(server)
        self._models.list_repository = self._fleet.list_once
        name_lacking(self._health, self._models.lacking, server)
        self._used = GraphDependencies(self._models.within_reach, engine_stack.models_of)
        rules = ResidencyRules(
            budget=SHARE.of_limit(server.model_memory_budget_bytes),
            idle_s=server.idle_unload_timeout_s,
            wait_s=server.load_wait_s,
            is_on_demand=server.is_on_demand,
            used=self._used.used,
        )
        self._residency = Residency(rules)
        closing.callback(self._residency.close)
        self._shadows = engine_stack.shadows(self._models.served, self._metrics)
        closing.callback(self._shadows.close)
        self._process = ProcessMetrics(self._connections, wanted=self._metrics.wanted)
        closing.callback(self._process.end)
        self._show_metrics(self._metrics, self._models.served)
        self._group = self._workers.over(
            self._models,
            self._metrics,
            self._connections,
            lambda among: FollowedConfig(
                self._settings, self._models, handovers, among, self._fleet
            ),
        )
        closing.callback(self._group.end)
        self._config = self._group.config
        closing.callback(self._config.close)
        # Polls, reloads and loads share one: else these would evade the pause between polls of a
        # model.
        polls = PollRequests(self._models.poll)
        closing.callback(polls.close)
        self._poll = polls.once
        self._poll_all = self._group.poll_all(self._poll)
        control = ModelControl(
            self._models,
            self._group.changes.apply,
            self._config.configured,
            self._poll_all,
            is_explicit=server.is_explicit,
        )
        self._log = LogPages(
            log_level,
            self._models.served.unbind,
            allowed=server.reload_by_rpc,
            everywhere=self._group.level_all,
        )
        self._management = management(control, self._log, server)

    def _show_metrics(self, metrics: Metrics, served: ServedModels) -> None:
        metrics.show_states(served.states)
        metrics.show_precisions(served.precisions)
        metrics.show_compared(served.compared)
        metrics.show_versions(served.available)
        metrics.show(self._residency.metrics.lines)
        metrics.show(partial(traffic_lines, served.traffic))
        for part in (self._process, self._gate, STORES):
            metrics.show(part.lines)

    def _make_interfaces(self, server: ServerSettings) -> None:
        """Make the data plane, and the interface through which each front end calls it."""
        self._data_plane = partial(
            DataPlane,
            metrics=self._metrics,
            codec=ExampleCodec(parse_examples, serialize_examples),
            method_name_check=server.method_name_check,
        )
        self._profiler = Profiler()
        self._plane = self._profiler.watched(self._data_plane(self._models.served))
        self._handing_on = partial(handing_on, traced=bool(server.traces_url))
        self._interface = self._handing_on(
            grpc_interface(tensor_content=server.tensor_content, limit_s=server.grpc_limit_s)
        )
        tells_callers = self._settings.engine.allow_python
        self._callers = CallerPassing(tells_callers)
        self._streams = LazyStreams(self._metrics.show, tells_callers=tells_callers)
        self._inference = LazyInference(
            self._health,
            self._streams,
            self._metrics,
            self._management,
            self._handing_on,
            limit_s=server.grpc_limit_s,
            callers=self._callers,
        )

    def _make_services(self, server: ServerSettings) -> None:
        """Make the gRPC services, the readiness check, and the warm-up that calls the services."""
        self._in_flight = InFlightLimit(
            SHARE.of_limit(server.max_in_flight_requests), partial(self._plane.refused, "")
        )
        self._services = self._services_over(self._plane, self._models.served)
        self._grpc_health = HealthService(
            self._services, self._plane.is_ready, drain_delay_s=server.drain_delay_s
        )
        ready = self._group.ready(self._models.ready)
        self._readiness = ProcessReadiness(self._health, self._grpc_health, ready)
        replays = PredictionService(self._plane, self._interface).replays()
        self._warm_up = in_turn(
            GoldenRun(self._plane, engine_stack.GOLDEN),
            WarmUp(read_requests, replays, server.warmup_times),
            SignatureChanges(self._models.served),
            open_to_clients,
        )

    def _services_over(self, plane: DataPlane, served: ServedModels) -> Services:
        named = self._answering
        prediction = PredictionService(plane, self._interface, self._callers)
        return {
            prediction_service.NAME: self._in_flight.grpc(named(prediction.handlers())),
            model_service.NAME: named(self._model_service(plane).handlers()),
            lazy_grpc.NAME: self._in_flight.grpc(self._inference.grpc(plane, served)),
            **self._streams.grpc(plane, self._interface),
        }

    def _answering(self, handlers: Mapping[str, Unary]) -> Mapping[str, Unary]:
        """Restrict the methods of a service to the one model that the settings name, if any."""
        model = self._settings.server.answering_model
        for answering_for in added("one_model"):
            handlers = answering_for(model, handlers)
        return handlers

    def _services_for(self, caller: Principal) -> Services:
        allowed = AllowedModels(self._models.served, caller)
        return self._services_over(self._profiler.watched(self._data_plane(allowed)), allowed)

    def _model_service(self, plane: DataPlane) -> ModelService:
        return ModelService(
            plane,
            self._interface,
            partial(from_message, engine=self._settings.engine),
            partial(check_urls, options=self._storage_options),
            partial(self._group.changes.apply, all_or_nothing=True),
            self._statuses,
            reload_allowed=self._settings.server.reload_by_rpc,
        )

    def _manager(self, server: ServerSettings) -> ModelManager:
        return ModelManager(
            self._open_stream,
            labels_for_unavailable=server.labels_for_unavailable,
            allow_unavailable_models=server.allow_unavailable_models,
            require_available=server.require_available,
            opens_early=server.open_ports_early,
            ready_after_s=server.ready_after_s,
            poll_wait_of=server.poll_wait_of,
            # Removed names end here: their series would otherwise be shown for ever.
            on_names=self._keep,
            on_applied=self._note_applied,
        )

    def _watched_fleet(self, server: ServerSettings) -> Fleet:
        rules = RepositoryRules(
            server.poll_wait_s, server.unload_when_empty, self._workers.leads, self._models.count_in
        )
        return Fleet(self._repositories.directories, self._repositories.polls, rules)

    def _keep(self, names: Collection[str]) -> None:
        self._metrics.keep(names)
        self._residency.keep(names)
        self._used.keep(names)

    def _note_applied(self) -> None:
        # Only the configuration that serves counts: a broken one, or one whose model does not serve
        # yet, changes nothing.
        served = self._models.serving()
        self._callers.note(each.sticky for each in served)
        self._shadows.follow(served)
        self._residency.follow(served)
        # Looked up at the call: the models notify the configuration, which is built from them.
        self._config.leave()

    async def start(self) -> None:
        """See `Application`."""
        self._gate.open()
        self._process.begin()
        await self._group.begin()

    def model_names(self) -> Sequence[str]:
        """See `Application`."""
        return self._models.served.names()

    def listeners(self) -> Mapping[str, Callable[[], MakeListener]]:
        """See `Application`. Modules that one port alone needs are imported if that port is on."""
        rest, grpc = cache(self._rest), cache(self._grpc)
        return {REST: rest, GRPC: grpc, BOTH: partial(self._both, rest, grpc)}

    def _both(self, *prepare: Callable[[], MakeListener]) -> MakeListener:
        from ie_serving.server.transport.shared_port import ProtocolServer, SharedPort

        # Both can take over accepted sockets. grpcio cannot: the configuration refuses it here.
        rest, grpc = (cast("Callable[[], ProtocolServer]", each()) for each in prepare)
        limit, secure = self._connections, self._gate.secure(BOTH)
        return lambda: SharedPort(rest(), grpc(), limit, secure, self._group.sharing)

    async def set_ready(self, ready: bool) -> None:
        """See `Application`: ready once every model has served, or the start may lack some."""
        self._readiness.set_ready(ready)
        self._streams.set_ready(ready)
        self._residency.set_ready(ready)

    async def hand_over(self) -> None:
        """See `Application`: ends health watches and streams; clients open them anew elsewhere."""
        self._readiness.hand_over()
        self._streams.set_ready(False)

    async def reload(self) -> None:
        """See `Application`: reads certificates and configuration anew, polls every repository."""
        await self._gate.renew()
        await self._config.reload()
        self._models.poll_now()

    async def close(self, limit_s: float) -> None:
        """See `Application`."""
        self._limit_s = limit_s
        await self._closing.aclose()

    async def _close_models(self) -> None:
        await self._models.close(self._limit_s)

    def _rest(self) -> MakeListener:
        from ie_serving.server.fronts.rest.replies import refusal
        from ie_serving.server.transport.http1.server import HttpServer

        server, secure = self._settings.server, self._gate.secure(REST)
        answer, wanted = self._rest_chain(server, secure=bool(secure))
        refused = partial(self._plane.refused, "")
        app = self._gate.rest(self._in_flight.rest(answer, refusal), wanted, refusal, refused)
        return partial(
            HttpServer,
            # The access log stands before the gate: it has refused requests, too.
            *self._watch.rest(app, secure=bool(secure)),
            busy_poll_s=server.busy_poll_us / 1e6,
            limit=self._connections,
            secure=secure,
            sharing=self._group.sharing,
        )

    def _rest_chain(self, server: ServerSettings, *, secure: bool) -> tuple[App, VerbOf]:
        """Put the routes of the other front ends of the REST port before the REST API."""
        from ie_serving.server.fronts.other_servers import front_of
        from ie_serving.server.fronts.tfs.rest import RestApi
        from ie_serving.server.fronts.tfs.rest_interface import rest_interface

        interface = self._handing_on(rest_interface(limit_s=server.rest_timeout_s))
        served = self._models.served
        page = page_routes(
            *(self._settings, self._storage_options, served, self._health, self._metrics),
            usage=self._residency.metrics.usage,
        )
        openapi = openapi_routes(server, served, self._gate.rest_caller)
        streams = self._streams.rest(
            self._plane, interface, server.max_message_bytes, any_origin=server.enable_cors
        )
        kserve = kserve_routes(
            (self._plane, served, self._health, self._metrics),
            server,
            self._handing_on,
            partial(self._management, served),
        )
        api = RestApi(
            self._plane,
            interface,
            self._metrics,
            self._health,
            server,
            poll=self._poll_all,
            config=self._config_pages(),
            log=self._log,
            statuses=self._statuses,
            secure=secure,
            around=lambda app: kserve.before(page.before(openapi.before(streams.before(app)))),
        )
        answer, wanted = front_of(self._settings, api, self._plane, served, secure=secure)
        return answer, kserve.wanted(page.wanted(openapi.wanted(wanted)))

    def _config_pages(self) -> ConfigPages:
        server = self._settings.server
        reload = ReloadRequests(self._models, self._poll, self._config.reload_if_changed)
        return ConfigPages(
            self._models.served.all_statuses,
            self._group.reload_all(reload),
            LabelChanges(self._models, self._group.changes.relabel),
            self._statuses,
            config_fault=self._group.config_fault,
            reload_allowed=server.reload_by_rpc,
            limit_s=server.rest_timeout_s,
        )

    def _grpc(self) -> MakeListener:
        messages.POOL.AddSerializedFile(grpc_health.DESCRIPTOR)
        # The messages of health are grpc's own, and reflection answers from one descriptor pool.
        profiled = fronts.profiler_services(self._settings.server, self._profiler)
        names = (*self._services, *profiled, grpc_health.NAME)
        reflection = ReflectionService(names, messages.POOL)
        services = {
            **self._services,
            **profiled,
            **self._grpc_health.services(),
            **reflection.services(),
        }
        refused = partial(self._plane.refused, "")
        admission = self._gate.grpc(services, self._services_for, refused)
        noted, admission = self._watch.grpc(services, admission)
        carrier = fronts.Carrier(
            self._gate,
            self._connections,
            refused,
            self._watch.calls,
            admission,
            self._group.sharing,
        )
        return fronts.listener(self._settings.server, noted, carrier)

    def _open_stream(self, config: ModelConfig) -> ModelStream:
        server: ServerSettings = self._settings.server
        poll_wait_s = server.poll_wait_of(config)
        repository = self._repositories.of(config)
        engine = engine_stack.engine(self._drivers, config.engine, config.declared)
        source = VersionSource(
            repository.storage,
            # This engine serves `missing` alone: engines that load get their layers with each load.
            GraphEngine(engine, self._models.within_reach, _unrecorded),
            rest_s=poll_wait_s,
            ready_marker=config.ready_marker,
            lists_base=repository.is_local,
            takes_base=not server.announce_as_tfs,  # TensorFlow Serving waits for a version
            unload_when_empty=server.unload_when_empty,
            sibling=repository.sibling,
        )
        log.info(Event("model configured", model=config.name, base_path=source.url))
        return ModelStream(
            config.name,
            source,
            partial(self._loader, config, repository, engine),
            self._repositories.polls,
            store=repository.store,
            policy=config.version_policy,
            labels=config.version_labels,
            traffic=config.split,
            rules=self._rules(config, source.url, poll_wait_s),
        )

    def _rules(self, config: ModelConfig, url: str, poll_wait_s: float) -> StreamRules:
        server, name = self._settings.server, config.name
        note_load = self._residency.load_note(config, self._config.note_load)
        return StreamRules(
            labels_wait=not server.labels_for_unavailable,
            poll_wait_s=poll_wait_s,
            drain_timeout_s=server.drain_timeout_s,
            load_timeout_s=server.load_timeout_s,
            reload_changed=server.reload_changed_versions,
            is_found=bool(config.repository),
            retries=not config.fault,
            held=lambda: {*self._used.held(name), *self._shadows.held(name)},
            # Looked up at each failure: a model that was removed and added again has new series.
            on_trouble=lambda: self._metrics.of(name).count_listing_failure(),
            on_changed=lambda: self._metrics.of(name).count_changed_version(),
            on_load=partial(self._loaded, name, url, note_load),
            on_served=partial(self._shadows.wrap, name),
            remark=partial(self._shadows.remark, name),
            on_demand=self._residency.on_demand(config),
            others=self._workers.others,
        )

    def _with_graphs(self, config: ModelConfig, engine: Engine) -> GraphEngine:
        steps = self._metrics.add(config.name).steps
        record, at_hand = self._watch.steps(steps.add), self._at_hand(config)
        return GraphEngine(engine, self._models.within_reach, record, steps, at_hand)

    def _at_hand(self, config: ModelConfig) -> Surroundings:
        # Graphs see one version of each model, though the traffic of clients is split.
        return Surroundings(config.name, PreparedModels(self._models.served, ServedModels()))

    def _loaded(
        self, name: str, url: str, note: Callable[[], None], version: int, succeeded: bool
    ) -> None:
        # `add`, not `of`: a reload loads a new model before the manager announces its name.
        self._metrics.add(name).count_load(url, version, succeeded)
        note()
        self._used.note_load(name, succeeded)

    def _loader(self, config: ModelConfig, repository: VersionRepository, engine: Engine) -> Loader:
        metrics = self._metrics.add(config.name)
        family = self._sequences.of(config.name, metrics.sequences)
        layered = engine_stack.layered(
            OtherModelsEngine(engine, self._at_hand(config)),
            config.engine,
            metrics.batches,
            family,
            metrics.caches,
            self._watch.batches,
            engine_stack.recording(config.name, metrics.recorded),
        )
        return Loader(
            config.name,
            repository.storage,
            self._with_graphs(config, layered),  # outermost: the graph's models have layers
            config.engine,
            self._warm_up,
            self.loads,
            repository.fetches,
            self._notes.noted,
            partial(self._used.before, config.name),
            self._watch.record,
            self._residency.servable(config),
            self._tried,
        )


def _unrecorded(step: str, seconds: float) -> None:
    """Record nothing: a `VersionSource` runs no steps."""
