"""Checks that the libraries for traces are installed, without importing them."""

from importlib.util import find_spec
from typing import Final

from ie_serving.core.values.errors import ServingError
from ie_serving.core.values.hints import Hint

EXPORTER: Final = "opentelemetry.exporter.otlp.proto.http"
"""The module that the extra otel installs."""
_PROTOCOL: Final = "http/protobuf"


def check(url: str, protocol: str) -> None:
    """Check that spans can be sent.

    Args:
        url: destination of spans; empty: no traces.
        protocol: wanted protocol of OTLP.

    Raises:
        ServingError: the extra is not installed, or the protocol is not supported.
    """
    if not url:
        return
    if protocol != _PROTOCOL:
        raise ServingError(
            f'traces are sent by "{_PROTOCOL}", and "{protocol[:40]}" is asked for: name the port'
            " of the collector that takes it, mostly 4318",
            Hint(", and leave {server.otlp_protocol} out"),
        )
    if not _is_there():
        raise ServingError(
            "traces need the extra otel: pip install '.[otel]', or trace nothing",
            Hint(": {server.otel_disabled}=true"),
        )


def _is_there() -> bool:
    try:
        return find_spec(EXPORTER) is not None
    except ModuleNotFoundError:  # a parent package is missing
        return False
