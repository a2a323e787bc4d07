"""Konduit Serving: its configuration files, pipelines, data and route."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ie_serving.core.compat import Additions

if TYPE_CHECKING:
    from ie_serving.engines.drivers import DriverRow
    from ie_serving.server.fronts.other_servers import AppChain, RestParts

FILE: Final = "konduit.json"
"""A version that is a pipeline holds it under this name."""


def register() -> Additions:
    """See `core.compat`."""
    return Additions(
        config_file=f"{__name__}.config_file:config_file",
        importing=f"{__name__}.config_file:translated",
        drivers=f"{__name__}:drivers",
        kernels={FILE: f"{__name__}.pipeline.running:opened"},
        models_of=f"{__name__}:models_of",
        routes=f"{__name__}:with_routes",
        tensors=f"{__name__}.data:decoded",
    )


def drivers() -> "Sequence[DriverRow]":
    """Give the rows of the table of drivers."""
    from ie_serving.engines.drivers import DriverRow

    reference = f"{__name__}.pipeline.running:load"
    return [DriverRow(name="konduit", reference=reference, marks={FILE: re.compile(b"")})]


def models_of(directory: Path) -> Mapping[str, frozenset[int]] | None:
    """Name the models that a pipeline asks; None where the version is none."""
    file = directory / FILE
    if not file.is_file():
        return None
    from ie_serving.compat.konduit.pipeline.definition import models_in

    return dict.fromkeys(models_in(file.read_text("utf-8")), frozenset[int]())


def with_routes(chain: "AppChain", parts: "RestParts") -> "AppChain":
    """Put the route before `chain` where the configuration has a pipeline."""
    graphs = (model.graph for model in parts.settings.models)
    if not any(graph and graph.file == FILE for graph in graphs):
        return chain
    from ie_serving.compat.konduit.routes import VERB, KonduitRoutes, model_asked
    from ie_serving.server.fronts.rest.routes import Routes

    return chain.behind(
        Routes(model_asked, lambda model: (VERB, model), lambda: KonduitRoutes(parts))
    )
