"""simple_tensorflow_serving: its command, configuration files and HTTP API."""

from typing import TYPE_CHECKING, Final

from ie_serving.app.main import as_other
from ie_serving.core.compat import Additions

if TYPE_CHECKING:
    from ie_serving.server.fronts.other_servers import AppChain, RestParts

STFS: Final = "stfs"
"""Value of `ServerSettings.old_front` where the server is started by this command."""


def register() -> Additions:
    """See `core.compat`."""
    return Additions(
        importing=f"{__name__}.translation:translated", routes=f"{__name__}:with_routes"
    )


def main() -> int:
    """Run as `simple_tensorflow_serving` and `stfs` do; return the exit code."""
    return as_other("simple_tensorflow_serving", f"{__name__}.dialect:parse")


def with_routes(chain: "AppChain", parts: "RestParts") -> "AppChain":
    """Put the API before `chain` where the server was started as this one."""
    if parts.settings.server.old_front != STFS:
        return chain
    from ie_serving.compat.stfs.front import asked, verb_of
    from ie_serving.compat.stfs.front.front import StfsFront
    from ie_serving.server.fronts.rest.routes import Routes

    return chain.behind(Routes(asked, verb_of, lambda: StfsFront(parts)))
