"""Reads `graphs`, pipelines and MediaPipe graphs in the JSON file: models without a repository."""

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from ie_serving.config.files.graph_directories import GRAPHS as MEDIAPIPE
from ie_serving.config.files.graph_directories import REPOSITORIES
from ie_serving.config.files.mediapipe import translated as drawn
from ie_serving.config.files.pipelines import KEY as PIPELINES
from ie_serving.config.files.pipelines import libraries, translated
from ie_serving.core.settings.faults import Faults
from ie_serving.core.settings.numbers import version
from ie_serving.core.settings.words import name as name_of
from ie_serving.core.values.nesting import MOST_NESTED
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.graph.definition import Definition, circle, too_deep
from ie_serving.engines.graph.reading import read
from ie_serving.engines.kernels import Beside
from ie_serving.models.configuration import Graph, ModelConfig

KEY = "graphs"
OWN = ("name", "version")
"""Keys of an entry that `graph.json` does not have: there they follow from the directory."""


def graphs(
    top: Mapping[str, Any],
    models: Collection[str],
    engine: EngineOptions,
    origin: Path,
    faults: Faults,
) -> Iterator[ModelConfig]:
    """Read the graphs and pipelines of a file; add their faults to `faults`.

    Args:
        top: the file.
        models: names that are taken.
        engine: options that hold for all models.
        origin: directory of the configuration file, where files of steps may be.
        faults: of the file.
    """
    known: dict[str, Definition | None] = {}
    places: dict[str, str] = {}
    engine = engine.having(Beside(directory=str(origin)))
    pipelines = translated(top.get(PIPELINES) or [], libraries(top, faults), faults)
    mediapipe = drawn(top.get(MEDIAPIPE) or [], origin, faults)
    for place, entry in (*_entries(top, faults), *pipelines, *mediapipe):
        name = faults.take(name_of, entry.get("name"), f"{place}.name")
        number = faults.take(version, entry.get("version", 1), f"{place}.version")
        rest = {key: value for key, value in entry.items() if key not in OWN}
        definition = faults.take(read, rest, place)
        if name in models or name in known:
            faults.add(f"{place}.name", f'"{name}" is the name of another model already')
        elif name is not None:
            # Also of a faulty one: else each graph that uses it would have a fault of its own.
            known[name] = definition
            places[name] = place
            if number is not None and definition is not None:
                yield _model(name, number, rest, engine)
    _check_uses(known, places, models, faults, are_all=REPOSITORIES not in top)


def _entries(top: Mapping[str, Any], faults: Faults) -> Iterator[tuple[str, Mapping[str, Any]]]:
    given = top.get(KEY, [])
    if not isinstance(given, list):
        example = '[{"name": "both", "steps": [..], "outputs": {..}}]'
        faults.add(KEY, f"expected a list such as {example}")
        return
    for index, entry in enumerate(given):
        if isinstance(entry, Mapping):
            yield f"{KEY}[{index}]", entry
        else:
            faults.add(f"{KEY}[{index}]", 'expected an object with "name", "steps" and "outputs"')


def _model(name: str, number: int, given: Mapping[str, Any], engine: EngineOptions) -> ModelConfig:
    graph = Graph(text=json.dumps(given), version=number)
    return ModelConfig(name=name, base_path=f"graph:{name}", graph=graph, engine=engine)


def _check_uses(
    graphs: Mapping[str, Definition | None],
    places: Mapping[str, str],
    models: Collection[str],
    faults: Faults,
    *,
    are_all: bool,
) -> None:
    """Report uses of unknown models, unless directories may have them: `are_all` models known."""
    known = {*models, *graphs}
    there = f"the file has {', '.join(sorted(known))}"
    uses = {name: each.models if each else frozenset() for name, each in graphs.items()}
    for name, graph in graphs.items():
        for each in sorted(uses[name] - known) if are_all else ():
            user = f'step "{graph.step_with(each)}" of graph "{name}"' if graph else ""
            faults.add(
                places[name], f'{user} uses model "{each}", which is not configured; {there}'
            )
    if found := circle(uses):
        faults.add(places[found[0]], f"graphs use each other: {' -> '.join(found)}")
    elif deep := too_deep(uses):
        text = f"graphs within graphs, at most {MOST_NESTED}: {' -> '.join(deep)}"
        faults.add(places[deep[0]], text)
