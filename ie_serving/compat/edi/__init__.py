"""IBM EDI (Deep Learning Impact): packages with `model.json`, and the route of its clients."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ie_serving.core.compat import Additions

if TYPE_CHECKING:
    from ie_serving.engines.drivers import DriverRow
    from ie_serving.server.fronts.other_servers import AppChain, RestParts


def register() -> Additions:
    """See `core.compat`."""
    return Additions(
        drivers=f"{__name__}:drivers",
        kernels={"model.json": f"{__name__}.package.kernel:opened"},
        foreign_kernels=f"{__name__}:is_package",
        token_headers=("x-auth-token", "x-user-token"),
        routes=f"{__name__}:with_routes",
    )


def drivers() -> "Sequence[DriverRow]":
    """Give the rows of the table of drivers."""
    from ie_serving.engines.drivers import DriverRow

    marks = {"model.json": re.compile(rb'"kernel_path"\s*:')}
    return [DriverRow(name="edi", reference=f"{__name__}.package.kernel:load", marks=marks)]


def is_package(directory: Path) -> bool:
    """Tell whether a directory is a package, whose kernel reads the body in whatever form."""
    from ie_serving.compat.edi.package import described

    return described(directory) is not None


def with_routes(chain: "AppChain", parts: "RestParts") -> "AppChain":
    """Put the routes before `chain` where packages may be run."""
    if not parts.settings.engine.allow_python:
        return chain
    from ie_serving.compat.edi.routes import EdiRoutes, asked
    from ie_serving.server.fronts.rest.routes import Routes

    return chain.behind(Routes(asked, lambda found: found, lambda: EdiRoutes(parts)))
