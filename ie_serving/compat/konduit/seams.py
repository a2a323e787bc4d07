"""Where Konduit's parts join the server. See `core.compat.Additions`."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ie_serving.compat.konduit import FILE
from ie_serving.engines.listed import Listed
from ie_serving.server.fronts.rest.routes import Routes

if TYPE_CHECKING:
    from ie_serving.config.dialects.importing import Translated
    from ie_serving.server.fronts.other_servers import Chain, RestParts


def drivers() -> Sequence[Listed]:
    """Give the rows of the table of drivers."""
    place = f"{__package__}.pipeline.driver:load"
    return [Listed(name="konduit", place=place, marks={FILE: re.compile(b"")})]


def models_of(directory: Path) -> Mapping[str, frozenset[int]] | None:
    """Name the models that a pipeline asks; None where the version is none."""
    file = directory / FILE
    if not file.is_file():
        return None
    from ie_serving.compat.konduit.pipeline.definition import models_in

    return dict.fromkeys(models_in(file.read_text("utf-8")), frozenset[int]())


def with_routes(chain: "Chain", parts: "RestParts") -> "Chain":
    """Put the route before `chain` where the configuration has a pipeline."""
    graphs = (model.graph for model in parts.settings.models)
    if not any(graph and graph.file == FILE for graph in graphs):
        return chain
    from ie_serving.compat.konduit.routes import VERB, KonduitRoutes, model_asked

    return chain.behind(
        Routes(model_asked, lambda model: (VERB, model), lambda: KonduitRoutes(parts))
    )


def translated(path: Path, top: Mapping[str, Any]) -> "Translated | None":
    """Give a file of Konduit as ours, for `ie_serving config import`; None for any other file."""
    from ie_serving.compat.konduit import config_file
    from ie_serving.compat.konduit.pipeline.definition import PYTHON
    from ie_serving.config.dialects.importing import MODELS, entry
    from ie_serving.config.files import source

    if not config_file.is_konduit(top):
        return None
    found = source.read(path)
    *models, default = found.models
    assert default.graph is not None  # the pipeline comes last
    pipeline = json.loads(default.graph.text)
    notes = [*found.warnings]
    if found.rest_port:
        notes.append(f"port: give --rest_port {found.rest_port}")
    if any(step["@type"] == PYTHON for step in config_file.steps_of(pipeline)):
        notes.append("steps of type PYTHON run: give --allow_python")
    return {MODELS: [entry(model, {}) for model in models], config_file.KEY: pipeline}, notes
