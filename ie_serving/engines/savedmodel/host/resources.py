"""Evaluates a model's tables, variables and assets, as far as the host needs them.

A table or variable is a node that other nodes write when the model is loaded: the restore of its
variables, then the init op. `initial_writes.py` finds those nodes, and this module evaluates them.
`state.py` checks that no request writes to them.
"""

import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ie_serving.core.values.errors import InvalidRequest, LoadFailed
from ie_serving.core.values.tensors import Array
from ie_serving.engines.savedmodel.checkpoint import Checkpoint
from ie_serving.engines.savedmodel.constants import held
from ie_serving.engines.savedmodel.frames import Frame, NodeOutput, name_of
from ie_serving.engines.savedmodel.host.host_kernel import Attributes, HostObject, as_tensor
from ie_serving.engines.savedmodel.host.kernels import KERNELS
from ie_serving.engines.savedmodel.host.needs import FUNCTIONS
from ie_serving.engines.savedmodel.host.tables import LookupTable, empty, from_text_file
from ie_serving.engines.savedmodel.initial_writes import (
    RESOURCES,
    InitialWrites,
    Name,
    resource_name,
)
from ie_serving.wire.protobuf.graph import AssetFileDef
from ie_serving.wire.protobuf.messages import Proto

_FROM_LISTS = frozenset(
    {"InitializeTable", "InitializeTableV2", "LookupTableImport", "LookupTableImportV2"}
)
_FROM_FILE = frozenset({"InitializeTableFromTextFile", "InitializeTableFromTextFileV2"})
_INSERTS = frozenset({"LookupTableInsert", "LookupTableInsertV2"})
_ASSIGNMENTS = frozenset({"Assign", "AssignVariableOp"})
_ADDS = frozenset({"AssignAdd", "AssignAddVariableOp"})
_SUBTRACTS = frozenset({"AssignSub", "AssignSubVariableOp"})
_COMPUTED = _ASSIGNMENTS | _FROM_LISTS | _FROM_FILE | _INSERTS | _ADDS | _SUBTRACTS
_ASSETS = "saved_model_assets"


class Resources:
    """Constant values of one model: tables, variables, assets, and values computed from them.

    Args of the constructor:
        directory: directory of the version.
        meta_graph: its graph as the file has it, which is not changed.
        initial: initial state of that graph; None makes one.
    """

    def __init__(
        self, directory: Path, meta_graph: Proto, initial: InitialWrites | None = None
    ) -> None:
        self._directory = directory
        self._meta_graph = meta_graph
        self.initial = initial or InitialWrites(meta_graph)
        self._assets = {
            name_of(asset.tensor_info.name): asset.filename for asset in _assets(meta_graph)
        }
        self._values: dict[tuple[Frame, str, int], Any] = {}
        self._contents: dict[tuple[int, str, Name], Any] = {}

    def value(self, node_output: NodeOutput, reader: NodeOutput | None = None) -> Any:  # noqa: ANN401
        """Evaluate a node output that depends on no input.

        Args:
            node_output: gives an array or a table.
            reader: the reading node: one that runs at load sees the writes before it.

        Raises:
            LoadFailed: an operation is not known here, or it fails.
        """
        origin = node_output.origin()
        if origin.node.op in RESOURCES:
            return self._content(origin, reader)
        kernel = KERNELS.get(origin.node.op)
        at = kernel.position(origin.node, origin.output, origin.index) if kernel else origin.index
        key = (origin.frame, origin.node.name, at)
        if key not in self._values:
            self._values[key] = self._computed(origin, at)
        return self._values[key]

    def _computed(self, node_output: NodeOutput, at: int) -> Any:  # noqa: ANN401
        node = node_output.node
        is_of_graph = node_output.frame.parent is None and not node_output.frame.detached
        if is_of_graph and node.name in self._assets:
            asset = self._own_file(self._directory / "assets" / self._assets[node.name])
            return np.array(os.fsencode(asset), np.object_)
        if node.op == "Const":
            return _constant(node)
        sources = list(node_output.sources())
        if node.op == "RestoreV2":
            if not self.initial.is_of_version(node_output):
                raise LoadFailed(
                    f"RestoreV2 {node.name!r} reads another file than the variables:"
                    " export the model with all that it restores in its own variables"
                )
            whole = self._checkpoint.read(self.value(sources[1]).ravel()[at])
            return _part(whole, self.value(sources[2]).ravel()[at].decode())
        if node.op not in KERNELS or node.op in FUNCTIONS:
            raise LoadFailed(
                f"{node.op} {node.name!r} of constants cannot be computed at load:"
                " export the model with its result as a constant"
            )
        results = KERNELS[node.op].make(Attributes(node))(
            *(self.value(each, node_output) for each in sources)
        )
        result = results[at] if isinstance(results, list) else results
        return result if isinstance(result, HostObject) else as_tensor(result)

    def _own_file(self, path: Path) -> Path:
        """Accept only a file inside the version directory, after resolving links and `..`.

        A graph may name any file of the host, and a look-up would reveal its content.
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
        return self.initial.checkpoint or Checkpoint(self._directory / "variables" / "variables")

    def _content(self, resource: NodeOutput, reader: NodeOutput | None) -> Any:  # noqa: ANN401
        """Give the content of a table or variable after the load, or at the time of `reader`."""
        name = resource_name(resource)
        writer = self.initial.writes.seen_by(reader, name) or self.initial.restores.seen_by(
            reader, name
        )
        if writer is None and resource.node.op.startswith("Mutable"):
            return empty(Attributes(resource.node))
        if writer is None:
            raise LoadFailed(
                f"{_what(resource)} is not initialised when the model is loaded:"
                " export the model with an init op that sets it"
            )
        key = (id(writer.frame), writer.node.name, name)
        if key not in self._contents:
            try:
                self._contents[key] = self._written(resource, writer)
            except (InvalidRequest, LoadFailed, TypeError, ValueError) as error:
                raise LoadFailed(f"{_what(resource)} is set by {_what(writer)}: {error}") from error
        return self._contents[key]

    def _written(self, resource: NodeOutput, writer: NodeOutput) -> Any:  # noqa: ANN401
        op, sources = writer.node.op, list(writer.sources())
        own = sources[0].origin()
        if op not in _COMPUTED:
            raise LoadFailed(
                "the server does not compute this operation at load:"
                " export the model with its result as a constant"
            )
        if own.node.op not in RESOURCES:
            raise LoadFailed(
                f"it writes what {_what(own)} gives, which is not followed at load:"
                " export the model with an init op that names its variable or table itself"
            )
        if op in _FROM_FILE:
            path = self._own_file(Path(os.fsdecode(self.value(sources[1], writer).item())))
            return from_text_file(path, Attributes(writer.node), Attributes(resource.node))
        values = [self.value(each, writer) for each in sources[1:]]
        if op in _ASSIGNMENTS:
            return values[0]
        if op in _FROM_LISTS:
            return LookupTable(values[0], values[1], resource.node.name)
        if op in _INSERTS:
            return self._content(resource, writer).with_inserted(*values)
        change = values[0] if op in _ADDS else -values[0]
        return as_tensor(self._content(resource, writer) + change)


def _part(whole: Array, spec: str) -> Array:
    """Give a slice of a variable: the sizes of all, then `start,length` or `-` for each of them."""
    if not spec:
        return whole
    bounds = (each.partition(",") for each in spec.rpartition(" ")[2].split(":"))
    region = (
        slice(None) if start == "-" else slice(int(start), int(start) + int(length))
        for start, _, length in bounds
    )
    return whole[tuple(region)]


def _what(node_output: NodeOutput) -> str:
    return f"{node_output.node.op} {node_output.node.name!r}"


def _assets(meta_graph: Proto) -> Iterator[Proto]:
    """Give the files that stand for constants; TensorFlow 1 lists them in a collection."""
    yield from meta_graph.asset_file_def
    if _ASSETS in meta_graph.collection_def:
        for packed in meta_graph.collection_def[_ASSETS].any_list.value:
            yield AssetFileDef.FromString(packed.value)


def _constant(node: Proto) -> Array:
    value = held(node)
    if value is None:
        raise LoadFailed(
            f"the constant {node.name!r} has a dtype that is not read here:"
            " export the model with another one, such as float32"
        )
    return value
