"""Calls of the Open Inference Protocol beside inferences, for REST and gRPC, as Triton extends it.

They describe server and models; index, load and unload models of the repository; and read or
change the settings of the log and of traces. The level of the log can be changed; a change of
anything else is refused, as it has no effect here.

Source: Triton's `extension_model_repository.md`, `extension_logging.md`, `extension_trace.md`.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Final, NamedTuple

from ie_serving.core.values.errors import Forbidden, InvalidRequest, NotSupported
from ie_serving.core.values.hints import Hint
from ie_serving.core.values.signatures import named
from ie_serving.models.admin.model_control import ModelControl
from ie_serving.models.repository.version_policy import VersionPolicy
from ie_serving.models.served_models import ServedModels
from ie_serving.models.version.handle import Servable
from ie_serving.server.fronts.admin.log_pages import LogPages
from ie_serving.server.fronts.kserve_v2.shared_memory import SharedMemory
from ie_serving.telemetry.log import logs
from ie_serving.wire.kserve.model_metadata import (
    READY,
    UNAVAILABLE,
    ModelDescription,
    ModelIndex,
    model_config,
    model_index,
)
from ie_serving.wire.kserve.regions import NoRegions

_INFO, _WARNING, _ERROR = _LEVELS = ("log_info", "log_warning", "log_error")
_VERBOSE: Final = "log_verbose_level"
_FLAGS_OF: Final[Mapping[str, tuple[bool, bool, bool, int]]] = {
    "DEBUG": (True, True, True, 1),
    "INFO": (True, True, True, 0),
    "WARNING": (False, True, True, 0),
    "ERROR": (False, False, True, 0),
}
"""Triton's three flags and its verbose level, by our level."""

_FORMS: Final = {bool: "true or false", int: "a number from 0", str: "a text"}
DEPENDENTS: Final = "unload_dependents"
_REPLACING: Final = ("config", "file:")
"""Beginnings of the parameters by which Triton's clients replace a configuration or files."""


class ServerSettingCalls:
    """The settings of the log and of traces, as Triton's clients know them.

    Args of the constructor:
        log: changes the level in all workers.
        traces_url: URL of the traces' collector; empty where there is none.
    """

    def __init__(self, log: LogPages, traces_url: str) -> None:
        self._log = log
        self._traces_url = traces_url

    def log_settings(self) -> dict[str, Any]:
        """Give the settings of the log."""
        *flags, verbose = _FLAGS_OF[logs.level()]
        return {
            "log_file": "",
            **dict(zip(_LEVELS, flags, strict=True)),
            _VERBOSE: verbose,
            "log_format": "default",
        }

    async def change_log(self, wanted: Mapping[str, object]) -> dict[str, Any]:
        """Change the level of the log; give all settings.

        Raises:
            InvalidRequest: an unknown setting or value, or flags that no level has.
            NotSupported: a setting that cannot be changed while the server runs.
            Forbidden: changes by request are switched off.
        """
        before = self.log_settings()
        for name, value in wanted.items():
            _check(name, value, before)
            if name not in (*_LEVELS, _VERBOSE) and value != before[name]:
                raise NotSupported(
                    f'setting "{name}" cannot be changed while the server runs: it is set at its'
                    " start",
                    Hint(" by {server.log_path} and {server.log_format}"),
                )
        await self._log.set_level(_level({**before, **wanted}, wanted))
        return self.log_settings()

    def trace_settings(self) -> dict[str, Any]:
        """Give the settings of traces; all values are texts, or lists of them."""
        level = "TIMESTAMPS" if self._traces_url else "OFF"
        return {
            "trace_level": [level],
            "trace_count": "-1",
            "log_frequency": "0",
            "trace_mode": "opentelemetry",
        }

    def change_traces(self, wanted: Mapping[str, object]) -> dict[str, Any]:
        """Refuse a change; give all settings where the request changes nothing.

        Raises:
            InvalidRequest: an unknown setting.
            NotSupported: another value than the present one.
        """
        now = self.trace_settings()
        for name, value in wanted.items():
            if name not in (*now, "trace_file", "trace_rate"):
                raise _unknown_settings(name, now)
            # A null, or no value, asks for the server's own setting.
            if value is not None and value != [] and _texts(value) != _texts(now.get(name)):
                raise NotSupported(
                    f'setting "{name}" cannot be changed while the server runs: where traces go is'
                    " set at its start, and which are sampled by OTEL_TRACES_SAMPLER",
                    Hint("; {server.otlp_endpoint} switches them on"),
                )
        return now


def _check(name: str, value: object, known: Mapping[str, object]) -> None:
    if name not in known:
        raise _unknown_settings(name, known)
    expected = type(known[name])
    if type(value) is not expected or (isinstance(value, int) and value < 0):
        raise InvalidRequest(f'setting "{name}" has to be {_FORMS[expected]}')


def _unknown_settings(name: str, known: Mapping[str, object]) -> InvalidRequest:
    return InvalidRequest(f'setting "{name[:200]}" is unknown; expected {", ".join(known)}')


def _level(merged: Mapping[str, Any], wanted: Mapping[str, object]) -> str:
    """Find the level that has these flags. Raises: InvalidRequest."""
    flags = tuple(merged[name] for name in _LEVELS)
    # A request that clears INFO without log_verbose_level clears that too.
    verbose = merged[_VERBOSE] if _VERBOSE in wanted or merged[_INFO] else 0
    for level, (*of_level, least) in _FLAGS_OF.items():
        if tuple(of_level) == flags and (verbose > 0) == (least > 0):
            return level
    raise InvalidRequest(
        f"no level of the log has {_INFO} {flags[0]}, {_WARNING} {flags[1]}, {_ERROR} {flags[2]}"
        f" and {_VERBOSE} {verbose}: a level includes those above it, and errors are always logged"
    )


def _texts(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


class KServeRepository:
    """The models of the configuration, as clients of the protocol see and change them.

    Args of the constructor:
        served: models that the caller may see.
        control: loads and unloads them.
        changes_allowed: whether clients may change the models.
    """

    def __init__(self, served: ServedModels, control: ModelControl, changes_allowed: bool) -> None:
        self._served = served
        self._control = control
        self._changes_allowed = changes_allowed

    async def index(self, *, ready: bool) -> list[ModelIndex]:
        """List every version of every model, and models that are not loaded.

        Args:
            ready: only versions that answer.
        """
        found = [
            model_index(name, status)
            for name, statuses in self._served.all_statuses().items()
            for status in statuses
        ]
        if ready:
            return [each for each in found if each.state == READY]
        unloaded = await self._control.unloaded()
        return [*found, *(ModelIndex(name, "", UNAVAILABLE, "unloaded") for name in unloaded)]

    async def load(self, name: str, parameters: Mapping[str, object]) -> None:
        """Load a model as the configuration has it. Raises: as `ModelControl.load`, Forbidden."""
        self._check(name)
        for each in parameters:
            if each.startswith(_REPLACING):
                raise NotSupported(
                    f'parameter "{each[:200]}" of a load is not supported: the settings of a model'
                    " are in the server's configuration, its files in its repository"
                )
            raise _unknown(each, "a load", "none")
        await self._control.load(name)

    async def unload(self, name: str, parameters: Mapping[str, object]) -> None:
        """Unload a model. Raises: as `ModelControl.unload`, Forbidden."""
        self._check(name)
        for each, value in parameters.items():
            if each != DEPENDENTS or not isinstance(value, bool):
                raise _unknown(each, "an unload", f'"{DEPENDENTS}", true or false')
            if value:
                raise NotSupported(
                    f'"{DEPENDENTS}": true is not supported: unload each model by its name'
                )
        await self._control.unload(name)

    def _check(self, name: str) -> None:
        self._served.entries.get(name)  # raises Forbidden where the caller may not ask for it
        if not self._changes_allowed:
            raise Forbidden(
                "changes of the models by request are switched off",
                Hint(": clients may make them with {server.reload_by_rpc}"),
            )


def _unknown(name: str, of: str, expected: str) -> InvalidRequest:
    return InvalidRequest(f'parameter "{name[:200]}" of {of} is unknown; expected {expected}')


class Management(NamedTuple):
    """The calls for the models that one caller may see.

    Attributes:
        repository: index, load and unload.
        settings: settings of log and traces.
        regions: regions of shared memory, the same for all callers.
    """

    repository: KServeRepository
    settings: ServerSettingCalls
    regions: SharedMemory | NoRegions


MakeManagement = Callable[[ServedModels], Management]


def config_of(servable: Servable, served: ServedModels) -> dict[str, Any]:
    """Describe a version that serves as Triton's ModelConfig. Raises: NotFound."""
    signature = named(
        servable.signatures, "", f'model "{servable.name}" version {servable.version}'
    )
    model = served.entry(servable.name).config
    described = ModelDescription(
        servable.name,
        _policy(model.version_policy),
        servable.compiled.at_once(signature),
        model.batching.rows,
        model.batching.batch_timeout_micros,
        model.keeps_sequences,
        model.declared.max_batch_size if model.declared else 0,
    )
    return model_config(described, signature)


def _policy(policy: VersionPolicy) -> dict[str, Any]:
    fields = asdict(policy)
    shown = {k: sorted(v) if isinstance(v, frozenset) else v for k, v in fields.items()}
    return {type(policy).__name__.lower(): shown}
