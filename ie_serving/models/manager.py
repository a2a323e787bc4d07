"""All models: reconciles what the configuration wants with what is loaded, and gives out handles.

A new configuration is prepared beside the present one: models that are new, or that must be loaded
anew, get a stream of their own and load first. Only then, in one step on the event loop, do names
change hands; what is replaced or removed retires afterwards. So a request sees the old
configuration or the new one, and a change that fails leaves no trace.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ie_serving.errors import InvalidRequest, LoadFailed, NotFound, StorageError
from ie_serving.models.handle import Servable
from ie_serving.models.labels import check_labels, version_of
from ie_serving.models.stream import ModelStream, VersionStatus
from ie_serving.models.version_policy import Latest
from ie_serving.requests import ModelSpec
from ie_serving.settings import ModelConfig
from ie_serving.telemetry.logs import Event

log = logging.getLogger(__name__)

OpenStream = Callable[[ModelConfig], ModelStream]
"""Makes the stream of one model, not yet started."""


@dataclass(frozen=True)
class _Served:
    config: ModelConfig
    stream: ModelStream


class ModelManager:
    """The models of this process. Lives on one event loop."""

    def __init__(
        self,
        open_stream: OpenStream,
        *,
        labels_for_unavailable: bool,
        allow_unavailable_models: bool,
        require_available: bool,
    ) -> None:
        self._open_stream = open_stream
        self._labels_for_unavailable = labels_for_unavailable
        self._allow_unavailable_models = allow_unavailable_models
        self._require_available = require_available
        self._served: dict[str, _Served] = {}
        self._applying = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    # -- requests ----------------------------------------------------------------------------

    def handle(self, spec: ModelSpec) -> Servable:
        """Find the servable that `spec` means; enter it to hold it for one request.

        Raises:
            NotFound: no such model, or that version is not AVAILABLE.
            UnknownLabel: the label is not assigned.
        """
        served = self._served.get(spec.name)
        if spec.label is not None:
            version: int | None = version_of(served.stream.labels if served else {}, spec.label)
        else:
            version = spec.version
        if served is None:
            raise self._no_such_model(spec.name, version)
        stream = served.stream
        version = _meant(stream, version)
        found = stream.default if version is None else stream.available.get(version)
        if found is None:
            raise _no_such_version(stream, version)
        return found

    def statuses(self, name: str, version: int | None = None) -> list[VersionStatus]:
        """Status of one version, or of all, highest first.

        Raises:
            NotFound: the model, or the version, was never seen.
        """
        served = self._served.get(name)
        known = served.stream.statuses() if served else []
        version = _meant(served.stream, version) if served else version
        if version is not None:
            known = [status for status in known if status.version == version]
            if not known:
                raise NotFound(f"Could not find version {version} of model {name}")
        if not known:
            raise NotFound(f"Could not find any versions of model {name}{self._why_none(served)}")
        return known

    def resolve_label(self, name: str, label: str) -> int:
        """Give the version that `label` of model `name` means.

        Raises:
            UnknownLabel: the label is not assigned.
        """
        served = self._served.get(name)
        return version_of(served.stream.labels if served else {}, label)

    def names(self) -> list[str]:
        """Names of all configured models, sorted."""
        return sorted(self._served)

    def _no_such_model(self, name: str, version: int | None) -> NotFound:
        names = ", ".join(self.names()[:20]) or "none"
        return NotFound(f"{_not_found(name, version)}: no such model; served models: {names}")

    def _why_none(self, served: _Served | None) -> str:
        if served is None:
            return f": no such model; served models: {', '.join(self.names()[:20]) or 'none'}"
        if served.stream.trouble:
            return f": {served.stream.trouble}"
        return f": no version directory under {served.config.base_path} is complete"

    # -- configuration -----------------------------------------------------------------------

    async def start(self, configs: Sequence[ModelConfig]) -> None:
        """Load the first configuration; returns when each first load is done or has failed.

        Raises:
            StorageError: a base path cannot be listed, unless that is allowed.
            LoadFailed: a model has failed to load although each is required.
            PreconditionFailed: a label names a version that does not serve.
        """
        self._check_labels(configs)
        opened = [self._open(config) for config in configs]
        self._served = {served.config.name: served for served in opened}
        await asyncio.gather(*(self._start_stream(served) for served in opened))

    async def apply(self, configs: Sequence[ModelConfig], *, all_or_nothing: bool) -> None:
        """Change to another configuration.

        Args:
            configs: all models wanted from now on.
            all_or_nothing: refuse the change when a model that must be loaded does not become
                AVAILABLE. Otherwise such a model keeps trying, and keeps its predecessor
                serving.

        Raises:
            InvalidRequest: a model's platform would change; nothing has changed.
            PreconditionFailed: a label names a version that does not serve; nothing has changed.
            LoadFailed: a model did not become AVAILABLE; nothing has changed.
        """
        async with self._applying:
            self._check_platforms(configs)
            self._check_labels(configs)
            fresh = [self._open(c) for c in configs if self._must_load(c)]
            try:
                await asyncio.gather(*(self._prepare(served.stream) for served in fresh))
                if all_or_nothing:
                    _require_available(fresh)
            except BaseException:
                self._retire(served.stream for served in fresh)
                raise
            self._commit(configs, {served.config.name: served for served in fresh})

    async def close(self) -> None:
        """Unload everything."""
        served, self._served = self._served, {}
        await asyncio.gather(*(s.stream.retire() for s in served.values()))

    def look(self) -> None:
        """Poll every repository now."""
        for served in self._served.values():
            served.stream.look()

    def _open(self, config: ModelConfig) -> _Served:
        return _Served(config, self._open_stream(config))

    async def _start_stream(self, served: _Served) -> None:
        try:
            await served.stream.start()
        except StorageError:
            if not self._allow_unavailable_models:
                raise
            if not self._require_available:
                return
        await served.stream.first_load()
        while self._require_available and not served.stream.default:
            if served.stream.failures():
                raise LoadFailed(f"1 servable(s) did not become available: {{{_cause(served)}, }}")
            await served.stream.changed()

    async def _prepare(self, stream: ModelStream) -> None:
        try:
            await stream.start()
        except StorageError:
            return  # it goes on polling; logged by the stream
        await stream.first_load()

    def _must_load(self, config: ModelConfig) -> bool:
        served = self._served.get(config.name)
        return served is None or _identity(served.config) != _identity(config)

    def _check_platforms(self, configs: Iterable[ModelConfig]) -> None:
        for config in configs:
            served = self._served.get(config.name)
            before = served.config.platform if served else ""
            if before and config.platform and before != config.platform:
                raise InvalidRequest(
                    f"Illegal to change a model's platform. For model {config.name} platform was"
                    f" {before} and new platform requested is {config.platform}; remove the model"
                    " first"
                )

    def _check_labels(self, configs: Iterable[ModelConfig]) -> None:
        for config in configs:
            served = self._served.get(config.name)
            check_labels(
                config.name,
                config.version_labels,
                served.stream.labels if served else {},
                served.stream.available if served else (),
                unavailable_allowed=self._labels_for_unavailable,
            )

    def _commit(self, configs: Sequence[ModelConfig], fresh: Mapping[str, _Served]) -> None:
        """Let names change hands; no await, so that no request sees a half."""
        before, self._served = self._served, {}
        for config in configs:
            old, new = before.get(config.name), fresh.get(config.name)
            if old and new and old.stream.default and not new.stream.default:
                self._served[config.name] = standing = _standing_in(old, config)
                self._spawn(self._succeed(standing, new))
                continue
            self._served[config.name] = new or replace(before[config.name], config=config)
        for served in self._served.values():
            served.stream.adopt(served.config.version_policy, served.config.version_labels)
        kept = {id(served.stream) for served in self._served.values()}
        self._retire(s.stream for s in before.values() if id(s.stream) not in kept)
        log.info(Event("configuration applied", models=",".join(self._served)))

    async def _succeed(self, old: _Served, new: _Served) -> None:
        """Wait until `new` serves, then let it take over from `old`.

        A configuration that is applied meanwhile puts another entry in place of `old`; it opens a
        successor of its own, since `old` is not what it asks for, and this one retires.
        """
        while not new.stream.default:
            await new.stream.changed()
            if self._served.get(new.config.name) is not old:
                await new.stream.retire()
                return
        self._served[new.config.name] = new
        await old.stream.retire()

    def _retire(self, streams: Iterable[ModelStream]) -> None:
        for stream in streams:
            self._spawn(stream.retire())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _identity(config: ModelConfig) -> ModelConfig:
    """What cannot change without loading anew: everything but policy and labels."""
    return replace(config, version_policy=Latest(), version_labels={})


def _standing_in(old: _Served, config: ModelConfig) -> _Served:
    """Give `old` the policy and labels of `config`; the rest of `config` is not met yet."""
    policy, labels = config.version_policy, config.version_labels
    return replace(old, config=replace(old.config, version_policy=policy, version_labels=labels))


def _require_available(fresh: Collection[_Served]) -> None:
    failed = [served for served in fresh if not served.stream.default]
    if not failed:
        return
    causes = ", ".join(_cause(served) for served in failed)
    raise LoadFailed(
        f"{len(failed)} model(s) did not become available: {{{causes}, }}; the configuration is"
        " unchanged"
    )


def _cause(served: _Served) -> str:
    failures = served.stream.failures()
    if not failures:
        why = served.stream.trouble or f"no complete version under {served.config.base_path}"
        return f"{{{{name: {served.config.name}}} due to error: {why}}}"
    version = max(failures)
    return (
        f"{{{{name: {served.config.name} version: {version}}} due to error: {failures[version]}}}"
    )


def _meant(stream: ModelStream, version: int | None) -> int | None:
    """Give the version that is meant: 0 is the default, unless there is a version 0.

    So clients of 2020 and `ovmsclient` have it, which always set the field.
    """
    if version == 0 and all(status.version for status in stream.statuses()):
        return None
    return version


def _not_found(name: str, version: int | None) -> str:
    """TensorFlow Serving's phrase for a servable that is not there."""
    wanted = f"Latest({name})" if version is None else f"Specific({name}, {version})"
    return f"Servable not found for request: {wanted}"


def _no_such_version(stream: ModelStream, version: int | None) -> NotFound:
    if version is None:
        why = "no version of it is AVAILABLE; its status says why"
    else:
        available = ", ".join(map(str, sorted(stream.available))) or "none"
        why = f"this version is not AVAILABLE; available versions: {available}"
    return NotFound(f"{_not_found(stream.name, version)}: {why}")
