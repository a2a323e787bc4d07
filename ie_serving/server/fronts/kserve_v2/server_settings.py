"""Answers Triton's calls for the settings of the log and of traces, for REST and gRPC.

Source: Triton's `extension_logging.md` and `extension_trace.md`. The level of the log can be
changed; a change of anything else is refused, as it has no effect here.
"""

from collections.abc import Mapping
from typing import Any, Final

from ie_serving.core.values.errors import InvalidRequest, NotSupported
from ie_serving.core.values.hints import Hint
from ie_serving.server.fronts.admin.log_pages import LogPages
from ie_serving.telemetry.log import logs

_INFO, _WARNING, _ERROR = _LEVELS = ("log_info", "log_warning", "log_error")
_VERBOSE: Final = "log_verbose_level"
_FLAGS_OF: Final[Mapping[str, tuple[bool, bool, bool, int]]] = {
    "DEBUG": (True, True, True, 1),
    "INFO": (True, True, True, 0),
    "WARNING": (False, True, True, 0),
    "ERROR": (False, False, True, 0),
}
"""Triton's three flags and its verbose level, by our level."""


class ServerSettingCalls:
    """The settings of the log and of traces, as Triton's clients know them.

    Args of the constructor:
        log: changes the level in all workers.
        traces_url: where traces go; empty where there are none.
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
                raise _unknown(name, now)
            # A null, or no value, asks for the server's own setting.
            if value is not None and value != [] and _texts(value) != _texts(now.get(name)):
                raise NotSupported(
                    f'setting "{name}" cannot be changed while the server runs: where traces go is'
                    " set at its start, and which are sampled by OTEL_TRACES_SAMPLER",
                    Hint("; {server.otlp_endpoint} switches them on"),
                )
        return now


_FORMS: Final = {bool: "true or false", int: "a number from 0", str: "a text"}


def _check(name: str, value: object, known: Mapping[str, object]) -> None:
    if name not in known:
        raise _unknown(name, known)
    expected = type(known[name])
    if type(value) is not expected or (isinstance(value, int) and value < 0):
        raise InvalidRequest(f'setting "{name}" has to be {_FORMS[expected]}')


def _unknown(name: str, known: Mapping[str, object]) -> InvalidRequest:
    return InvalidRequest(f'setting "{name[:200]}" is unknown; expected {", ".join(known)}')


def _level(merged: Mapping[str, Any], wanted: Mapping[str, object]) -> str:
    """Find the level that has these flags. Raises: InvalidRequest."""
    flags = tuple(merged[name] for name in _LEVELS)
    # Who switches INFO off and does not speak of the verbose level does not want that either.
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
