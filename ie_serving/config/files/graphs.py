"""Reads models without a repository in the JSON file: `graphs`, pipelines and MediaPipe graphs.

A pipeline of OpenVINO Model Server (`pipeline_config_list`) becomes a graph. Its node with
`demultiply_count` gives a list along its first dimension, of any length for -1, and for 0 in files
before 2022. Nodes that read the list run once for each entry, and so do later nodes, up to a node
that names it in `gather_from_node`. That node, like the pipeline's outputs, gets the results of the
entries stacked. Lists may be nested. A custom node is Python code here, if its library names such
code.

Source: `schema.cpp` and the pages about its demultiplexer and its custom nodes.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from ie_serving.config.files.graph_directories import GRAPHS as MEDIAPIPE
from ie_serving.config.files.graph_directories import REPOSITORIES
from ie_serving.config.files.mediapipe import translated as drawn
from ie_serving.core.settings.faults import Faults, shown
from ie_serving.core.settings.numbers import version
from ie_serving.core.settings.words import name as name_of
from ie_serving.core.values.integers import MOST_NESTED
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.graph.definition import Definition, circle, too_deep
from ie_serving.engines.graph.reading import read
from ie_serving.engines.kernels import FORM, CodeSource, GraphFiles
from ie_serving.models.configuration import ConfiguredGraph, ModelConfig

KEY = "graphs"
OWN = ("name", "version")
"""Keys of an entry that `graph.json` does not have: there they follow from the directory."""

PIPELINES = "pipeline_config_list"
LIBRARIES = "custom_node_library_config_list"
REQUEST = "request"
MODEL, CUSTOM = "DL model", "custom"
KNOWN = ("name", "inputs", "outputs", "nodes", "demultiply_count")
ANY = -1
"""Stands for the entries of a list of any length."""
Scope = tuple[str, ...]
"""Demultiplying nodes; another node runs for each of their entries. The outermost comes first."""


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
        faults: faults of the file.
    """
    known: dict[str, Definition | None] = {}
    places: dict[str, str] = {}
    engine = engine.having(GraphFiles(directory=str(origin)))
    pipelines = translated(top.get(PIPELINES) or [], libraries(top, faults), faults)
    mediapipe = drawn(top.get(MEDIAPIPE) or [], origin, faults)
    for place, entry in (*_entries(top, faults), *pipelines, *mediapipe):
        name = faults.take(name_of, entry.get("name"), f"{place}.name")
        number = faults.take(version, entry.get("version", 1), f"{place}.version")
        rest = {key: value for key, value in entry.items() if key not in OWN}
        definition = faults.take(read, rest, place)
        if name in models or name in known:
            text = f'"{name}" is the name of another model already; choose another name'
            faults.add(f"{place}.name", text)
        elif name is not None:
            # A faulty definition is known, too: its users have no fault of their own.
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
    graph = ConfiguredGraph(text=json.dumps(given), version=number)
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
        faults.add(places[found[0]], f"graphs use each other: {' -> '.join(found)}; remove one use")
    elif deep := too_deep(uses):
        chain = " -> ".join(deep)
        text = f"graphs within graphs, at most {MOST_NESTED}: {chain}; make two of them one"
        faults.add(places[deep[0]], text)


def libraries(top: Mapping[str, Any], faults: Faults) -> dict[str, str]:
    """Give the code of custom nodes by the names of their libraries; faults are noted."""
    given = top.get(LIBRARIES) or []
    if not isinstance(given, list) or not all(isinstance(each, Mapping) for each in given):
        faults.add(LIBRARIES, 'expected a list of {"name": .., "base_path": "FILE.py:NAME"}')
        return {}
    found = {}
    for index, each in enumerate(given):
        path = each.get("base_path")
        found[str(each.get("name"))] = str(path)
        if CodeSource.parse(path) is None:
            text = f"{shown(path)} given; libraries are not loaded; expected {FORM}"
            faults.add(f"{LIBRARIES}[{index}].base_path", text)
    return found


def translated(
    given: object, code: Mapping[str, str], faults: Faults
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the place of each pipeline, and its graph; note faults.

    Args:
        given: the list.
        code: code of custom nodes, by their library.
        faults: faults of the file.
    """
    if not isinstance(given, list):
        faults.add(PIPELINES, "expected a list of pipelines")
        return
    for index, pipeline in enumerate(given):
        place = f"{PIPELINES}[{index}]"
        try:
            yield place, _Pipeline(pipeline, code).graph()
        except _GraphFault as wrong:
            faults.add(f"{place}{wrong.args[0]}", wrong.args[1])
        except KeyError as error:
            lacks = f"{error.args[0]!r} is missing, in it or in a node; add it"
            faults.add(place, f"not a pipeline as OpenVINO Model Server takes it: {lacks}")
        except (TypeError, AttributeError, ValueError):
            faults.add(
                place,
                "not a pipeline as OpenVINO Model Server takes it: one of its keys, or of a node's,"
                " has a value of another type",
            )


class _GraphFault(Exception):
    """A fault: its place below the pipeline, and the reason."""


class _Pipeline:
    """One pipeline; its nodes have the order of its list, not necessarily that of execution."""

    def __init__(self, given: Mapping[str, Any], code: Mapping[str, str]) -> None:
        if unknown := sorted(given.keys() - set(KNOWN)):
            raise _GraphFault(f".{unknown[0]}", f"unknown key; expected one of {', '.join(KNOWN)}")
        self._given = given
        self._code = code
        self._inputs: list[str] = list(given["inputs"])
        self._nodes: dict[str, Mapping[str, Any]] = {node["name"]: node for node in given["nodes"]}
        for name in self._nodes:
            if not isinstance(name, str):
                raise _GraphFault(".nodes", f"{shown(name)} given as a name; expected a text")
        counts = {name: node.get("demultiply_count") for name, node in self._nodes.items()}
        counts[REQUEST] = given.get("demultiply_count")
        found = {name: int(each) for name, each in counts.items() if each is not None}
        self._counts = {name: each if each > 0 else ANY for name, each in found.items()}
        self._scopes: dict[str, Scope] = {}

    def graph(self) -> dict[str, Any]:
        """Give the entry of `graphs`."""
        outputs = {name: self._ref(source) for name, source in _pairs(self._given["outputs"])}
        steps = {name: self._step(node) for name, node in self._nodes.items()}
        return {"name": self._given["name"], "steps": steps, "outputs": outputs}

    def _step(self, node: Mapping[str, Any]) -> dict[str, Any]:
        name = node["name"]
        step = {**self._runs(node), "in": {}}
        if renamed := {each["alias"]: each["data_item"] for each in node.get("outputs", ())}:
            step["outputs"] = renamed
        scope, items, levels = self._scope(name), dict[str, str](), dict[str, int]()
        for input_, source in _pairs(node["inputs"]):
            ref = self._ref(source, name)
            depth = min(len(scope), len(self._gives(source["node_name"])))
            step["in"][input_] = f"item.{input_}" if depth else ref
            items |= {input_: ref} if depth else {}
            levels |= {input_: depth} if depth else {}
        entries = [self._counts[each] for each in scope]
        return {**step, **_for_each_keys(items, levels, entries)}

    def _runs(self, node: Mapping[str, Any]) -> dict[str, Any]:
        """Give the step that computes a node."""
        if node.get("type") == MODEL:
            version = {"version": node["version"]} if node.get("version") else {}
            return {"model": node["model_name"], **version}
        library = node.get("library_name", "")
        if node.get("type") != CUSTOM or library not in self._code:
            text = (
                f'"{library}" is no library of {LIBRARIES}; add it there'
                if node.get("type") == CUSTOM
                else f'expected "type": "{MODEL}" or "{CUSTOM}"'
            )
            raise _GraphFault(f".nodes.{node['name']}", text)
        return {"kernel": self._code[library], "with": dict(node.get("params", {}))}

    def _scope(self, name: str) -> Scope:
        """Give the scope of a node; empty for a node that runs once."""
        # A loop, not a recursion: a chain may be longer than Python's stack.
        ahead, begun = [name], set[str]()
        while ahead:
            node = self._nodes[ahead[-1]]
            lacking = [each for each in self._sources(node) if each not in self._scopes]
            if ahead[-1] in self._scopes:
                ahead.pop()
            elif lacking and ahead[-1] not in begun:
                begun.add(ahead[-1])
                ahead += lacking
            else:  # the missing nodes form a cycle, which the graph reports
                self._scopes[ahead.pop()] = self._found_scope(node)
        return self._scopes[name]

    def _sources(self, node: Mapping[str, Any]) -> list[str]:
        named = [source["node_name"] for _, source in _pairs(node["inputs"])]
        return [each for each in named if each in self._nodes]

    def _found_scope(self, node: Mapping[str, Any]) -> Scope:
        name, gathered = node["name"], node.get("gather_from_node", "")
        scopes = {self._gives(source["node_name"]) for _, source in _pairs(node["inputs"])}
        longest = max(scopes, key=len, default=())
        apart = sorted({each for scope in scopes for each in scope if each not in longest})
        if apart:
            both = f"{', '.join(apart)} and of {', '.join(longest)}"
            text = f"takes entries of {both}: take all inputs from entries of one of these"
            raise _GraphFault(f".nodes.{name}", text)
        if gathered and gathered not in self._counts:
            known = ", ".join(self._counts)
            advice = f"name a node that does: {known}" if known else "leave the key out: none does"
            text = f'"{gathered}" gives no list; {advice}'
            raise _GraphFault(f".nodes.{name}.gather_from_node", text)
        if gathered and longest[-1:] != (gathered,):
            innermost = f"name {longest[-1]}" if longest else "leave the key out"
            text = f'"{gathered}" is not the innermost list there; {innermost}'
            raise _GraphFault(f".nodes.{name}.gather_from_node", text)
        return longest[:-1] if gathered else longest

    def _gives(self, source: str) -> Scope:
        """Give the scope of the value of `source`, the outermost list first."""
        own = (source,) if source in self._counts else ()
        # The graph reports a missing source.
        return self._scopes.get(source, ()) + own

    def _ref(self, source: Mapping[str, Any], taker: str = "") -> str:
        node, item = source["node_name"], source["data_item"]
        if node == REQUEST and item not in self._inputs:
            known = ", ".join(self._inputs)
            who = f'node "{taker}"' if taker else "an output"
            raise _GraphFault(".inputs", f'lack "{item}", which {who} takes; there is {known}')
        return f"{node}.{item}"


def _for_each_keys(
    items: Mapping[str, str], levels: Mapping[str, int], entries: list[int]
) -> dict[str, Any]:
    """Give the keys of a step that runs for each entry; none for a step that runs once."""
    if not items:
        return {}
    nested = {} if set(levels.values()) == {1} else {"levels": dict(levels)}
    counted = {} if set(entries) == {ANY} else {"entries": entries}
    return {"for_each": dict(items), **nested, **counted}


def _pairs(given: list[Mapping[str, Any]]) -> list[tuple[str, Mapping[str, Any]]]:
    return [pair for each in given for pair in each.items()]
