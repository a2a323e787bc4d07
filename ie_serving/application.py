"""What one worker runs: the composition root, which builds every concrete object, once."""

import asyncio
import logging
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from ie_serving import config_source
from ie_serving.config_watch import ConfigWatch
from ie_serving.engines.base import Engine
from ie_serving.engines.openvino.compile import OpenVinoEngine
from ie_serving.errors import ConfigError
from ie_serving.models.loader import Loader
from ie_serving.models.manager import ModelManager
from ie_serving.models.source import Source
from ie_serving.models.stream import ModelStream
from ie_serving.server import grpc_health, model_service, prediction_service
from ie_serving.server.calls import Services
from ie_serving.server.grpc_health import HealthService
from ie_serving.server.grpc_reflection import ReflectionService
from ie_serving.server.health import Health
from ie_serving.server.http2.server import Http2Server
from ie_serving.server.lifecycle import AsgiApp, RpcServer
from ie_serving.server.memory import keep_freed_memory
from ie_serving.server.model_service import ModelService
from ie_serving.server.prediction_service import PredictionService
from ie_serving.server.warmup import WarmUp
from ie_serving.server.wire import messages
from ie_serving.server.wire.model_server_config import from_message
from ie_serving.settings import ModelConfig, ServerSettings, Settings
from ie_serving.storage.by_url import open_storage
from ie_serving.storage.options import StorageOptions
from ie_serving.telemetry.logs import Event
from ie_serving.telemetry.metrics import Metrics

log = logging.getLogger(__name__)

LISTING_THREADS = 32
"""Threads for listings, made as they are needed. Stores that hang may hold all of them until their
time-out, so nothing else runs there."""
LONGEST_TURN_S = 0.001
"""How long a thread that decodes or encodes may keep the interpreter from the event loop. A small
request asks for it several times, so Python's default of 5 ms would add up."""
SHORT_THREADS = 32
"""Threads for short blocking work, that of large requests among it, made as they are needed."""


class ServingApplication:
    """Models and the front ends over them. See `server.lifecycle.Application`."""

    def __init__(self, settings: Settings, storage: StorageOptions) -> None:
        self._settings = settings
        self._storage_options = storage
        self._stopping = threading.Event()
        self._engine: Engine = OpenVinoEngine()
        self._loads = ThreadPoolExecutor(settings.server.load_threads, "load")
        self._listings = ThreadPoolExecutor(LISTING_THREADS, "list")
        self._metrics = Metrics()
        self._health = Health()
        self._grpc_health: HealthService | None = None
        self._watch: asyncio.Task[None] | None = None
        self._config: ConfigWatch | None = None
        server = settings.server
        self._models = ModelManager(
            self._open_stream,
            labels_for_unavailable=server.labels_for_unavailable,
            allow_unavailable_models=server.allow_unavailable_models,
            require_available=server.require_available,
        )
        self._prediction = PredictionService(
            self._models,
            self._metrics,
            tensor_content=server.tensor_content,
            method_name_check=server.method_name_check,
        )
        self._warm_up = WarmUp(
            self._prediction.replays(), server.warmup_iterations if server.warmup else 0
        )

    async def start(self) -> None:
        """See `Application`."""
        keep_freed_memory()
        sys.setswitchinterval(LONGEST_TURN_S)
        asyncio.get_running_loop().set_default_executor(
            ThreadPoolExecutor(SHORT_THREADS, "blocking")
        )
        self._config = (
            self._config_watch()
        )  # before the load: an edit meanwhile is noticed after it
        await self._models.start(await asyncio.to_thread(self._configured))
        self._count_models(before=())
        if self._config:
            self._watch = asyncio.create_task(self._config.run(), name="watch configuration")

    def model_names(self) -> Sequence[str]:
        """See `Application`."""
        return self._models.names()

    def rest(self) -> AsgiApp:
        """See `Application`."""
        from ie_serving.server.tfs_rest import RestApi

        server = self._settings.server
        return RestApi(
            self._models,
            self._metrics,
            self._health,
            max_body_bytes=server.max_message_bytes,
            timeout_s=server.rest_timeout_s,
            enable_cors=server.enable_cors,
            metrics_path=server.metrics_path,
        ).app()

    def grpc(self) -> RpcServer:
        """See `Application`."""
        services = self._services()
        server = self._settings.server
        limit = server.max_message_bytes
        if server.grpc_transport == "grpcio":
            from ie_serving.server.grpcio_server import GrpcioServer

            return GrpcioServer(services, max_message_bytes=limit)
        return Http2Server(services, max_message_bytes=limit, busy_poll_s=server.busy_poll_us / 1e6)

    def _services(self) -> Services:
        """Give every gRPC service, health and reflection included."""
        status = ModelService(
            self._models,
            partial(from_message, engine=self._settings.engine),
            partial(self._apply, all_or_nothing=True),
        )
        own: Services = {
            prediction_service.NAME: self._prediction.answers(),
            model_service.NAME: status.answers(),
        }
        self._grpc_health = HealthService(own)
        messages.POOL.AddSerializedFile(grpc_health.DESCRIPTOR)
        reflection = ReflectionService((*own, grpc_health.NAME), messages.POOL)
        return {**own, **self._grpc_health.services(), **reflection.services()}

    async def set_ready(self, ready: bool) -> None:
        """See `Application`."""
        self._health.ready = ready
        if self._grpc_health and not ready:
            self._grpc_health.refuse()

    async def reload(self) -> None:
        """See `Application`: the configuration file again, and every repository now."""
        if self._config:
            await self._config.reload()
        self._models.look()

    async def close(self) -> None:
        """See `Application`."""
        self._stopping.set()
        if self._watch:
            self._watch.cancel()
        await self._models.close()
        for threads in (self._listings, self._loads):
            threads.shutdown(wait=False, cancel_futures=True)

    def _config_watch(self) -> ConfigWatch | None:
        if self._settings.config_path is None:
            return None
        return ConfigWatch(
            self._settings.config_path,
            partial(config_source.load, engine=self._settings.engine),
            partial(self._apply, all_or_nothing=False),
            poll_wait_s=self._settings.server.config_poll_wait_s,
        )

    def _configured(self) -> Sequence[ModelConfig]:
        """Give the models of the file as it is now: this worker may replace one that saw edits.

        While the file is broken, those that the arbiter read at the server's start.
        """
        path = self._settings.config_path
        if path is None:
            return self._settings.models
        try:
            return config_source.read(path, self._settings.engine).models
        except ConfigError as error:
            for fault in error.faults:
                log.error(
                    Event(
                        "configuration is broken, the one of the start is used",
                        path=path,
                        why=fault,
                    )
                )
            return self._settings.models

    async def _apply(self, configs: Sequence[ModelConfig], *, all_or_nothing: bool) -> None:
        before = self._models.names()
        await self._models.apply(configs, all_or_nothing=all_or_nothing)
        self._count_models(before)

    def _count_models(self, before: Sequence[str]) -> None:
        """Give each model series of its own, also one that never answers; drop those of others."""
        names = self._models.names()
        for name in set(before).difference(names):
            self._metrics.drop(name)
        for name in names:
            self._metrics.add(name)

    def _open_stream(self, config: ModelConfig) -> ModelStream:
        server: ServerSettings = self._settings.server
        poll_wait_s = server.poll_wait_s if config.poll_wait_s is None else config.poll_wait_s
        storage = open_storage(config.base_path, self._storage_options, self._stopping)
        source = Source(storage, self._engine, rest_s=poll_wait_s, ready_marker=config.ready_marker)
        loader = Loader(
            config.name, storage, self._engine, config.engine, self._warm_up, self._loads
        )
        log.info(Event("model configured", model=config.name, base_path=storage.url))
        return ModelStream(
            config.name,
            source,
            loader,
            self._listings,
            policy=config.version_policy,
            labels=config.version_labels,
            poll_wait_s=poll_wait_s,
            drain_timeout_s=server.drain_timeout_s,
        )
