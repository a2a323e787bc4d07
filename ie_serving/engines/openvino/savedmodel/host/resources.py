"""What a model holds beside its graph, as far as the host needs it: tables, variables, assets.

A table or variable is a node that other nodes write when the model is loaded: the initialiser that
the SavedModel names, and the restore of its variables. Those nodes are found here and evaluated.
That no request writes it as well is `state.py`'s to see.
"""

import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ie_serving.core.errors import LoadFailed
from ie_serving.core.tensors import Array
from ie_serving.engines.openvino.savedmodel.checkpoint import Checkpoint
from ie_serving.engines.openvino.savedmodel.constants import held
from ie_serving.engines.openvino.savedmodel.frames import CALLS, Frame, Library, Place
from ie_serving.engines.openvino.savedmodel.host.attributes import Attributes
from ie_serving.engines.openvino.savedmodel.host.kernel import Held, as_tensor
from ie_serving.engines.openvino.savedmodel.host.kernels import KERNELS
from ie_serving.engines.openvino.savedmodel.host.tables import Table, from_text_file
from ie_serving.wire.protobuf.graph import AssetFileDef
from ie_serving.wire.protobuf.messages import Proto

TABLES = frozenset({"HashTable", "HashTableV2", "MutableHashTable", "MutableHashTableV2"})
VARIABLES = frozenset({"VarHandleOp", "Variable", "VariableV2"})
_FROM_LISTS = frozenset(
    {"InitializeTable", "InitializeTableV2", "LookupTableImport", "LookupTableImportV2"}
)
_FROM_FILE = frozenset({"InitializeTableFromTextFile", "InitializeTableFromTextFileV2"})
_ASSIGNMENTS = frozenset({"Assign", "AssignVariableOp"})
_ASSETS = "saved_model_assets"
_INIT_OP = "__saved_model_init_op"
_COLLECTIONS = ("saved_model_main_op", "legacy_init_op")

_SHARED_BY = ("shared_name", "container")

Node = tuple[str, ...]
"""Names of the calls that lead to a node, and its own: the same in every walk of one graph."""


def path_of(place: Place) -> Node:
    """Name the node of a place."""
    frame, names = place.frame, [place.node.name]
    while frame.parent is not None:
        names.append(frame.call.name)
        frame = frame.parent
    return tuple(reversed(names))


def _names_of(place: Place) -> Iterator[Node]:
    """Give the ways to name a resource: its node, and what nodes elsewhere know it by.

    A graph of TensorFlow 1 that TensorFlow 2 saves again has each table in several functions; that
    they are one, TensorFlow tells by their attributes.
    """
    if not place.frame.detached:
        yield path_of(place)
    attrs = place.node.attr
    shared, container = (attrs[name].s if name in attrs else b"" for name in _SHARED_BY)
    if shared:
        # No node has an empty name, so this is no path.
        yield "", container.decode(errors="replace"), shared.decode(errors="replace")


class Resources:
    """Constant values of one model: what tables, variables and assets hold, and what comes of it.

    Args of the constructor:
        directory: of the version.
        meta_graph: its graph as the file has it, which is not changed.
    """

    def __init__(self, directory: Path, meta_graph: Proto) -> None:
        self._directory = directory
        self._meta_graph = meta_graph
        self._frame = Frame(Library(meta_graph.graph_def), meta_graph.graph_def)
        self._assets = {
            asset.tensor_info.name.partition(":")[0]: asset.filename
            for asset in _assets(meta_graph)
        }
        self._values: dict[tuple[Frame, str, int], Any] = {}

    def value(self, place: Place) -> Any:  # noqa: ANN401 (an array or a table)
        """Evaluate what depends on no input.

        Raises:
            LoadFailed: an operation is not known here, or it fails.
        """
        origin = place.origin()
        kernel = KERNELS.get(origin.node.op)
        at = kernel.position(origin.node, origin.output, origin.index) if kernel else origin.index
        key = (origin.frame, origin.node.name, at)
        if key not in self._values:
            self._values[key] = self._computed(origin, at)
        return self._values[key]

    def _computed(self, place: Place, at: int) -> Any:  # noqa: ANN401
        node = place.node
        is_of_graph = place.frame.parent is None and not place.frame.detached
        if is_of_graph and node.name in self._assets:
            asset = self._own(self._directory / "assets" / self._assets[node.name])
            return np.array(os.fsencode(asset), np.object_)
        if node.op == "Const":
            return _constant(node)
        if node.op in TABLES:
            return self._table(place)
        if node.op in VARIABLES:
            return self._variable(place)
        sources = list(place.sources())
        if node.op == "RestoreV2":
            return self._checkpoint.read(self.value(sources[1]).ravel()[at])
        if node.op not in KERNELS:
            raise LoadFailed(f"{node.op} {node.name!r} of constants cannot be computed at load")
        results = KERNELS[node.op].make(Attributes(node))(*map(self.value, sources))
        result = results[at] if isinstance(results, list) else results
        return result if isinstance(result, Held) else as_tensor(result)

    def _own(self, path: Path) -> Path:
        """Let a file pass that lies in the version, also behind links and `..`.

        A graph may name any file of the host, and a look-up would hand out what it holds.
        """
        try:
            own = path.resolve().is_relative_to(self._directory.resolve())
        except (OSError, RuntimeError, ValueError) as error:  # links in a circle; a zero byte
            raise LoadFailed(f"the file {str(path)!r} cannot be found: {error}") from error
        if not own:
            raise LoadFailed(
                f"the file {str(path)!r} lies outside of the version:"
                " save the model with it as an asset"
            )
        return path

    @cached_property
    def _checkpoint(self) -> Checkpoint:
        return Checkpoint(self._directory / "variables" / "variables")

    def _table(self, place: Place) -> Table:
        writer = self._writer(place, _FROM_LISTS | _FROM_FILE)
        sources = list(writer.sources())
        if writer.node.op in _FROM_LISTS:
            return Table(self.value(sources[1]), self.value(sources[2]), place.node.name)
        path = self._own(Path(os.fsdecode(self.value(sources[1]).item())))
        return from_text_file(path, Attributes(writer.node), Attributes(place.node))

    def _variable(self, place: Place) -> Array:
        writer = self._writer(place, _ASSIGNMENTS)
        array: Array = self.value(list(writer.sources())[1])
        return array

    def _writer(self, place: Place, operations: frozenset[str]) -> Place:
        for name in _names_of(place):
            for writer in self._writers.get(name, ()):
                if writer.node.op in operations:
                    return writer
        raise LoadFailed(
            f"{place.node.op} {place.node.name!r} is not initialised when the model is loaded"
        )

    @cached_property
    def _writers(self) -> dict[Node, list[Place]]:
        """Find what writes which resource at load, the initialiser before the restore."""
        found: dict[Node, list[Place]] = {}
        for place in self._run_at_load():
            if place.node.op in _FROM_LISTS | _FROM_FILE | _ASSIGNMENTS:
                resource = next(place.sources()).origin()
                for name in _names_of(resource):
                    found.setdefault(name, []).append(place)
        return found

    def _run_at_load(self) -> Iterator[Place]:
        # The first that writes a resource counts: TensorFlow restores, then initialises.
        for root in (self._init_op(), self._meta_graph.saver_def.restore_op_name):
            if root:
                yield from below_control(self._frame, root)

    def _init_op(self) -> str:
        signatures = self._meta_graph.signature_def
        if _INIT_OP in signatures:
            return next((info.name for info in signatures[_INIT_OP].outputs.values()), "")
        collections = self._meta_graph.collection_def
        named = [collections[name].node_list.value for name in _COLLECTIONS if name in collections]
        return next((str(node) for nodes in named for node in nodes), "")


def _assets(meta_graph: Proto) -> Iterator[Proto]:
    """Give the files that stand for constants; TensorFlow 1 lists them in a collection."""
    yield from meta_graph.asset_file_def
    if _ASSETS in meta_graph.collection_def:
        for packed in meta_graph.collection_def[_ASSETS].any_list.value:
            yield AssetFileDef.FromString(packed.value)


def _constant(node: Proto) -> Array:
    value = held(node)
    if value is None:
        raise LoadFailed(f"the constant {node.name!r} has a dtype that is not read here")
    return value


def below_control(frame: Frame, root: str) -> Iterator[Place]:
    """Give every node that runs when the node `root` does, in the functions that it calls too."""
    seen: set[str] = set()
    waiting = [root]
    while waiting:
        place = frame.place(waiting.pop())
        if place.node is None or place.node.name in seen:
            continue
        seen.add(place.node.name)
        yield place
        if place.node.op in CALLS:
            yield from _inside(frame.called(place.node))
        waiting.extend(place.node.input)


def _inside(frame: Frame) -> Iterator[Place]:
    for node in frame.nodes.values():
        yield Place(frame, node, "", 0)
        if node.op in CALLS:
            yield from _inside(frame.called(node))
