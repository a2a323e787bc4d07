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
    marks = {"kernel.py": re.compile(b""), "model.json": re.compile(rb'"kernel_path"\s*:')}
    return [Listed(name="edi", place=f"{__package__}.package.driver:load", marks=marks)]


def takes_whole_body(directory: Path) -> bool:
    """Tell whether a directory is a package, whose kernel reads the body in whatever form."""
    from ie_serving.compat.edi.package.package_files import described

    return described(directory) is not None


def with_routes(chain: "Chain", parts: "RestParts") -> "Chain":
    """Put the route before `chain` where packages may be run."""
    if not parts.settings.engine.allow_python:
        return chain
    from ie_serving.compat.edi.routes import VERB, EdiRoutes, model_asked

    made = Routes(model_asked, lambda model: (VERB, model), lambda: EdiRoutes(parts.api))
    return chain.behind(made)
