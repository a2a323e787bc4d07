"""Where EDI's parts join the server. See `core.compat.Additions`."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ie_serving.engines.listed import Listed
from ie_serving.server.fronts.rest.routes import Routes

if TYPE_CHECKING:
    from ie_serving.server.fronts.other_servers import Chain, RestParts


def drivers() -> Sequence[Listed]:
    """Give the rows of the table of drivers."""
    marks = {"model.json": re.compile(rb'"kernel_path"\s*:')}
    return [Listed(name="edi", place=f"{__package__}.package.driver:load", marks=marks)]


def is_package(directory: Path) -> bool:
    """Tell whether a directory is a package, whose kernel reads the body in whatever form."""
    from ie_serving.compat.edi.package.package_files import described

    return described(directory) is not None


def with_routes(chain: "Chain", parts: "RestParts") -> "Chain":
    """Put the routes before `chain` where packages may be run."""
    if not parts.settings.engine.allow_python:
        return chain
    from ie_serving.compat.edi.routes import EdiRoutes, asked

    return chain.behind(Routes(asked, lambda found: found, lambda: EdiRoutes(parts)))
