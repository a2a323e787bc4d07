"""Translates `mediapipe_config_list` of OpenVINO Model Server to entries of `graphs`.

Nodes around models (`OpenVINOInferenceCalculator`) and Python nodes (`PythonExecutorCalculator`)
are steps; other calculators are refused by their names. A graph file names no dtypes: tensors of
Python nodes are taken and given as they are, where the entry's `params` declares nothing.
Source: "Integration with mediapipe" and "Python Execution" of that server's documentation.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ie_serving.config.files.graph_directories import FILE, KEYS, MODELS
from ie_serving.config.files.graph_directories import GRAPHS as KEY
from ie_serving.config.files.pbtxt import TextMessage, read
from ie_serving.core.settings.faults import Faults

SUBCONFIG: Final = "subconfig.json"

SESSION: Final = ("OpenVINOModelServerSessionCalculator", "ModelAPISessionCalculator")
INFERENCE: Final = ("OpenVINOInferenceCalculator", "ModelAPISideFeedCalculator")
"""Names of the calculators, and those of releases before 2023.1."""
PYTHON: Final = "PythonExecutorCalculator"
PASSING: Final = ("PyTensorOvTensorConverterCalculator", "PassThroughCalculator")
"""The first makes another kind of tensor of one: here there is one kind."""
REQUEST: Final = "request."
ORDERS: Final = ("input_order_list", "output_order_list")

ANY: Final = {"dtype": "any"}
LOOP: Final = "LOOPBACK"
"""Tag of a Python node's stream to itself, by which it is run until its generator ends."""
INCOMPLETE: Final = "ImmediateInputStreamHandler"
"""Runs a node with those inputs that are there."""


class _MediaPipeFault(Exception):
    """Why a graph cannot be had."""


def with_models(top: Mapping[str, Any], origin: Path) -> Mapping[str, Any]:
    """Add the models that the graphs' `subconfig.json` name; faults are reported elsewhere."""
    listed = top.get(MODELS)
    if not isinstance(listed, list):
        return top
    names = {str(_config(each).get("name")) for each in listed}
    more = []
    for entry in _objects_in(top.get(KEY)):
        base = _base(entry, origin)
        for each in _objects_in(_subconfig(base / str(entry.get("subconfig") or SUBCONFIG))):
            config = dict(_config(each))
            if config.get("name") in names:
                continue
            names.add(str(config.get("name")))
            config["base_path"] = str(base / str(config.get("base_path", "")))
            more.append({"config": config})
    return {**top, MODELS: [*listed, *more]} if more else top


def _subconfig(path: Path) -> object:
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found.get(MODELS) if isinstance(found, dict) else None


def _objects_in(given: object) -> list[Mapping[str, Any]]:
    return [each for each in given if isinstance(each, Mapping)] if isinstance(given, list) else []


def _config(entry: object) -> Mapping[str, Any]:
    config = entry.get("config") if isinstance(entry, Mapping) else None
    return config if isinstance(config, Mapping) else {}


def _base(entry: Mapping[str, Any], origin: Path) -> Path:
    return origin / str(entry.get("base_path") or entry.get("name") or "")


def translated(
    given: object, origin: Path, faults: Faults
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the place of each graph, and the entry of `graphs` that it is; faults are noted.

    Args:
        given: the list.
        origin: directory that a relative `base_path` begins at.
        faults: faults of the file.
    """
    if not isinstance(given, list):
        faults.add(KEY, 'expected a list of {"name": .., "base_path": ..}')
        return
    for index, entry in enumerate(given):
        place = f"{KEY}[{index}]"
        try:
            yield place, _entry(entry, origin)
        except _MediaPipeFault as wrong:
            faults.add(place, str(wrong))
        except (TypeError, AttributeError, ValueError, KeyError, IndexError):
            faults.add(
                place,
                "not a graph as OpenVINO Model Server takes it: a key or a field of a node is"
                " missing, or has a value of another type",
            )


def _entry(entry: object, origin: Path) -> Mapping[str, Any]:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
        raise _MediaPipeFault('expected {"name": .., "base_path": ..}')
    if unknown := sorted(entry.keys() - set(KEYS)):
        raise _MediaPipeFault(f"{unknown[0]}: unknown key; expected one of {', '.join(KEYS)}")
    base = _base(entry, origin)
    path = base / str(entry.get("graph_path") or FILE)
    try:
        graph = read(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise _MediaPipeFault(f"{path} cannot be read: {error}") from error
    return {"name": entry["name"], **_Graph(graph, base, entry.get("params") or {}).graph()}


class _Graph:
    """One graph: its streams become tensors, its nodes steps."""

    def __init__(self, given: TextMessage, base: Path, params: Mapping[str, Any]) -> None:
        self._given = given
        self._base = base
        self._params = params
        self._nodes: list[Any] = given.get("node", [])
        # The item behind each stream: of the request or of a step.
        self._refs = {name: f"{REQUEST}{name}" for _, name in _streams(given, "input_stream")}
        self._sessions = dict(map(_session, self._nodes_of(SESSION)))

    def _nodes_of(self, calculators: tuple[str, ...]) -> list[Any]:
        return [node for node in self._nodes if node["calculator"][0] in calculators]

    def graph(self) -> dict[str, Any]:
        """Give `steps` and `outputs`."""
        running = [node for node in self._nodes if node["calculator"][0] not in SESSION]
        names = [_name(node, at) for at, node in enumerate(running)]
        for at, name in enumerate(names):
            if name in names[:at]:
                raise _MediaPipeFault(
                    f'line {running[at].line}: "{name}" is the name of two nodes; rename one'
                )
        for name, node in zip(names, running, strict=True):
            _check_loops(name, node)
            if node["calculator"][0] not in PASSING:
                self._refs |= {
                    stream: f"{name}.{stream}" for _, stream in _streams(node, "output_stream")
                }
        for node in self._nodes_of(PASSING):
            taken, given = (_streams(node, f"{way}put_stream") for way in ("in", "out"))
            for (_, source), (_, made) in zip(taken, given, strict=True):
                self._refs[made] = self._ref(source)
        steps = {
            name: self._step(name, node)
            for name, node in zip(names, running, strict=True)
            if node["calculator"][0] not in PASSING
        }
        outputs = {name: self._ref(name) for _, name in _streams(self._given, "output_stream")}
        # An input that is only passed through has no node that gives its kind.
        passed = [ref.removeprefix(REQUEST) for ref in outputs.values() if ref.startswith(REQUEST)]
        inputs = {"inputs": dict.fromkeys(passed, ANY)} if passed else {}
        return {**inputs, "steps": steps, "outputs": outputs}

    def _ref(self, stream: str) -> str:
        if stream not in self._refs:
            known = ", ".join(self._refs)
            raise _MediaPipeFault(
                f'stream "{stream}" is taken, and nothing gives it; take one of {known}'
            )
        return self._refs[stream]

    def _step(self, name: str, node: TextMessage) -> dict[str, Any]:
        calculator = str(node["calculator"][0])
        if calculator in INFERENCE:
            return self._inference(name, node)
        if calculator == PYTHON:
            return self._python(name, node)
        raise _MediaPipeFault(
            f'node "{name}": calculator {calculator} is not supported: make it a step of'
            ' "graphs", with a kernel or a built-in step'
        )

    def _inference(self, name: str, node: TextMessage) -> dict[str, Any]:
        options = _options(node)
        if lists := [key for key in ORDERS if options.get(key)]:
            raise _MediaPipeFault(
                f'node "{name}": {lists[0]} is not supported: give each tensor a tag'
            )
        ((_, side),) = _streams(node, "input_side_packet")
        if side not in self._sessions:
            raise _MediaPipeFault(
                f'node "{name}" takes session "{side}", which no node gives; add a node'
                f" {SESSION[0]} with this output_side_packet"
            )
        takes, gives = (_tensors(node, options, way) for way in ("input", "output"))
        return {
            **self._sessions[side],
            "in": {tensor: self._ref(stream) for tensor, stream in takes.items()},
            "outputs": {stream: tensor for tensor, stream in gives.items()},
        }

    def _python(self, name: str, node: TextMessage) -> dict[str, Any]:
        (handler,) = _options(node).get("handler_path") or [""]
        if not handler:
            raise _MediaPipeFault(f'node "{name}": handler_path is missing; name its file')
        handlers = node.get("input_stream_handler", [{}])[0].get("input_stream_handler", [])
        missing = {**ANY, "optional": True} if INCOMPLETE in handlers else ANY
        taken, given = _streams(node, "input_stream"), _streams(node, "output_stream")
        names = {
            "node_name": name,
            "input_names": [each for _, each in taken],
            "output_names": [each for _, each in given],
        }
        known = {key: self._params.get(key) or {} for key in ("inputs", "outputs")}
        # `execute` gets them by their tags, `initialize` as they stand in the file.
        inputs = {e: known["inputs"].get(e, missing) for tag, e in sorted(taken) if tag != LOOP}
        outputs = {each: known["outputs"].get(each, ANY) for tag, each in given if tag != LOOP}
        return {
            "kernel": f"{self._base / str(handler)}",
            "with": {"inputs": inputs, "outputs": outputs, "node": names},
            "in": {each: self._ref(each) for each in inputs},
        }


def _check_loops(name: str, node: TextMessage) -> None:
    """Refuse a stream from a later node, but that of a generator to itself."""
    loops = [[s for s in _streams(node, f"{e}put_stream") if s[0] == LOOP] for e in ("in", "out")]
    for info in node.get("input_stream_info", []):
        if info.get("back_edge") != [True]:
            continue
        if not loops[0] or loops[0] != loops[1] or info.get("tag_index") != [f"{LOOP}:0"]:
            raise _MediaPipeFault(
                f'line {info.line}: node "{name}" takes what a later one gives: of loops, only'
                f" that of a Python node's stream {LOOP} to itself is supported"
            )
        return
    if any(loops):
        raise _MediaPipeFault(
            f'line {node.line}: node "{name}" has a stream {LOOP}: take it in and give it out, with'
            f' input_stream_info {{ tag_index: "{LOOP}:0" back_edge: true }}'
        )


def _session(node: TextMessage) -> tuple[str, dict[str, Any]]:
    """Give the name of a session, and which model it means."""
    ((_, side),) = _streams(node, "output_side_packet")
    options = _options(node)
    version = options.get("servable_version") or [""]
    numbered = {"version": int(str(version[0]))} if str(version[0]) not in ("", "0") else {}
    return side, {"model": str(options["servable_name"][0]), **numbered}


def _options(node: TextMessage) -> TextMessage:
    """Give the options of a node, whatever type they name."""
    for given in node.get("node_options", node.get("options", [])):
        assert isinstance(given, dict)
        for options in given.values():
            assert isinstance(options[0], TextMessage)
            return options[0]
    return TextMessage()


def _tensors(node: TextMessage, options: TextMessage, way: str) -> dict[str, str]:
    """Give the stream of each tensor: by the options, else by the tag, else by its own name."""
    given: Any = options.get(f"tag_to_{way}_tensor_names", [])
    names = {str(each.get("key", [""])[0]): str(each["value"][0]) for each in given}
    return {
        names.get(tag) or tag or stream: stream for tag, stream in _streams(node, f"{way}_stream")
    }


def _streams(given: TextMessage, key: str) -> list[tuple[str, str]]:
    """Give the tag of each stream, which may be empty, and its name."""
    found = []
    for each in given.get(key, []):
        tag, _, name = str(each).rpartition(":")
        found.append((tag.partition(":")[0], name))
    return found


def _name(node: TextMessage, at: int) -> str:
    """Give the name of a node, or make one up that no other has."""
    return str((node.get("name") or [f"node_{at}"])[0])
