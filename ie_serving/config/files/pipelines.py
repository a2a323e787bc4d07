"""`pipeline_config_list` of OpenVINO Model Server: each pipeline becomes an entry of `graphs`.

A node whose `demultiply_count` is not 0 gives a list, by its first dimension. Nodes that take of it
run for each of its entries, and so do those behind them, up to one that names it in
`gather_from_node`, which takes what the entries gave, stacked; as the pipeline's outputs do.
Source: `schema.cpp` and the pages about its demultiplexer.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from ie_serving.config.values.faults import Faults

KEY = "pipeline_config_list"
REQUEST = "request"
MODEL = "DL model"
KNOWN = ("name", "inputs", "outputs", "nodes", "demultiply_count")


def translated(given: object, faults: Faults) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the place of each pipeline, and the graph that it is; faults are noted.

    Args:
        given: the list.
        faults: of the file.
    """
    if not isinstance(given, list):
        faults.add(KEY, "expected a list of pipelines")
        return
    for index, pipeline in enumerate(given):
        place = f"{KEY}[{index}]"
        try:
            yield place, _Pipeline(pipeline).graph()
        except _Wrong as wrong:
            faults.add(f"{place}{wrong.args[0]}", wrong.args[1])
        except KeyError as error:
            lacks = f"{error.args[0]!r} is missing, in it or in a node"
            faults.add(place, f"not a pipeline as OpenVINO Model Server takes it: {lacks}")
        except (TypeError, AttributeError, ValueError):
            faults.add(place, "not a pipeline as OpenVINO Model Server takes it")


class _Wrong(Exception):
    """What is wrong: where below the pipeline, and why."""


class _Pipeline:
    """One pipeline; its nodes in the order of its list, which need not be that of their needs."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        if unknown := sorted(given.keys() - set(KNOWN)):
            raise _Wrong(f".{unknown[0]}", f"unknown key; expected one of {', '.join(KNOWN)}")
        self._given = given
        self._inputs: list[str] = list(given["inputs"])
        self._nodes: dict[str, Mapping[str, Any]] = {node["name"]: node for node in given["nodes"]}
        self._splits = {name for name, node in self._nodes.items() if node.get("demultiply_count")}
        if given.get("demultiply_count"):
            self._splits.add(REQUEST)
        self._scopes: dict[str, str] = {REQUEST: ""}

    def graph(self) -> dict[str, Any]:
        """Give the entry of `graphs`."""
        outputs = {name: self._ref(source) for name, source in _pairs(self._given["outputs"])}
        steps = {name: self._step(node) for name, node in self._nodes.items()}
        return {"name": self._given["name"], "steps": steps, "outputs": outputs}

    def _step(self, node: Mapping[str, Any]) -> dict[str, Any]:
        name = node["name"]
        if node.get("type") != MODEL:
            library = node.get("library_name", "")
            what = f'custom node "{name}" (library "{library}")'
            raise _Wrong(f".nodes.{name}", f"{what}: libraries of custom nodes are not loaded")
        step: dict[str, Any] = {"model": node["model_name"], "in": {}}
        if node.get("version"):
            step["version"] = node["version"]
        if renamed := {each["alias"]: each["data_item"] for each in node.get("outputs", ())}:
            step["outputs"] = renamed
        scope, items = self._scope(name), dict[str, str]()
        for input_, source in _pairs(node["inputs"]):
            ref = self._ref(source)
            is_item = scope != "" and self._gives(source["node_name"]) == scope
            step["in"][input_] = f"item.{input_}" if is_item else ref
            items |= {input_: ref} if is_item else {}
        return {**step, "for_each": items} if items else step

    def _scope(self, name: str) -> str:
        """Name the node for each of whose entries this one runs; empty where it runs once."""
        if name not in self._scopes:
            self._scopes[name] = ""  # while it is looked at; of a circle the graph tells
            self._scopes[name] = self._found_scope(self._nodes[name])
        return self._scopes[name]

    def _found_scope(self, node: Mapping[str, Any]) -> str:
        name, gathered = node["name"], node.get("gather_from_node", "")
        sources = [source["node_name"] for _, source in _pairs(node["inputs"])]
        scopes = {self._gives(source) for source in sources} - {"", gathered}
        if gathered and gathered not in self._splits:
            raise _Wrong(f".nodes.{name}.gather_from_node", f'"{gathered}" gives no list')
        if len(scopes) > 1 or (scopes and (gathered or name in self._splits)):
            names = ", ".join(sorted(scopes | ({gathered} - {""}) | ({name} & self._splits)))
            raise _Wrong(f".nodes.{name}", f"lists within lists are not supported: {names}")
        return scopes.pop() if scopes else ""

    def _gives(self, source: str) -> str:
        """Name the list that what `source` gives is an entry of; empty where it is of none."""
        if source != REQUEST and source not in self._nodes:
            return ""  # of which the graph tells
        return source if source in self._splits else self._scope(source)

    def _ref(self, source: Mapping[str, Any]) -> str:
        node, item = source["node_name"], source["data_item"]
        if node == REQUEST and item not in self._inputs:
            known = ", ".join(self._inputs)
            raise _Wrong(".inputs", f'lack "{item}", which a node takes; there is {known}')
        return f"{node}.{item}"


def _pairs(given: list[Mapping[str, Any]]) -> list[tuple[str, Mapping[str, Any]]]:
    return [pair for each in given for pair in each.items()]
