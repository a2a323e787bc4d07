"""Whether what traces need is there; without importing it."""

from importlib.util import find_spec
from typing import Final

from ie_serving.core.values.errors import ServingError
from ie_serving.core.values.hints import Hint

_EXPORTER: Final = "opentelemetry.exporter.otlp.proto.http"
_PROTOCOL: Final = "http/protobuf"


def check(url: str, protocol: str) -> None:
    """See that spans can be sent.

    Args:
        url: what they are posted to; empty: there are none.
        protocol: of OTLP, that is asked for.

    Raises:
        ServingError: the extra is not installed, or another protocol is asked for.
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
            "traces need the extra otel: pip install 'ie_serving[otel]', or trace nothing",
            Hint(": {server.otel_disabled}=true"),
        )


def _is_there() -> bool:
    try:
        return find_spec(_EXPORTER) is not None
    except ModuleNotFoundError:  # of a package around it
        return False
