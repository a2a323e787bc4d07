"""Prepares one signature of a SavedModel so that OpenVINO's front end converts it.

The front end converts only `serving_default`, takes only placeholders as inputs, and loses outputs
that depend on no input, that are an input, or that have two names. So every other signature gets
its own copy of `saved_model.pb`, with only the computation that each request needs; the rest is
answered beside the model (`program.py`):

| in the signature | in the copy | answered by |
|---|---|---|
| an input that is no plain placeholder | a placeholder in its place | |
| an input with a default | a placeholder | the default, where a request leaves it out |
| serialized Examples | inputs for the parsed tensors | `cut_examples.py` |
| an operation that OpenVINO lacks | others that it has (`replace.py`) | |
| `Case` of n branches | `If`s within each other | |
| an output that depends on no input | nothing | its value at load |
| an output that is an input, or its identity | nothing | the input |
| an output under a second name | nothing | the first one |

Computations on strings and tables are cut out of the prepared graph afterwards (`host/`).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import numpy as np

from ie_serving.core.runtime.scratch import Scratch
from ie_serving.core.values.errors import InvalidRequest, LoadFailed
from ie_serving.core.values.tensors import SERVING_DEFAULT, Array, DataType
from ie_serving.engines.savedmodel.constants import constant, tensor_proto
from ie_serving.engines.savedmodel.cut_examples import PARSERS, ExampleParsing, cut_examples
from ie_serving.engines.savedmodel.file import FILE, TAG, DeclaredSignature, TensorInfo
from ie_serving.engines.savedmodel.frames import (
    Frame,
    Library,
    NodeOutput,
    above,
    name_of,
    with_port,
    write_shape,
)
from ie_serving.engines.savedmodel.output_numbers import has_others_than_first, number_outputs
from ie_serving.engines.savedmodel.replace import has_replaced, replace_operations
from ie_serving.wire.protobuf import graph
from ie_serving.wire.protobuf.messages import Proto, TensorShapeProto
from ie_serving.wire.tfs.tensor_proto import decode_tensor

RANDOM = ("Random", "Multinomial", "TruncatedNormal", "Stateful", "Iterator", "Timestamp")
"""Prefixes of operations whose output differs each time, without any input."""
CHECKS = frozenset({"CheckNumerics", "EnsureShape"})
"""Operations that give their input, and refuse some inputs."""

INDEX = "ie_serving_index"
"""Name of the index of a `Case` in the functions that take its place."""
_CASES = {"Case": "If", "StatelessCase": "StatelessIf"}
_BOOL, _INT32 = DataType.BOOL.number, DataType.INT32.number


def unfold_cases(graph_def: Proto) -> bool:
    """Turn each `Case` into `If`s within each other, in functions too; tell whether there is one.

    The last branch is that of every other index, as TensorFlow has it.

    Raises:
        LoadFailed: a branch is no function of the graph.
    """
    numbers, library = count(), graph_def.library
    while True:  # again, for those in functions that were copied before theirs were unfolded
        graphs = [graph_def.node, *(function.node_def for function in library.function)]
        found = [(nodes, node) for nodes in graphs for node in nodes if node.op in _CASES]
        for nodes, case in found:
            is_inside = nodes is not graphs[0]
            _unfold(nodes, is_inside, case, library, f"{case.name}_{next(numbers)}")
        if not found:
            return next(numbers) > 0


def _unfold(nodes: Proto, is_inside: bool, case: Proto, library: Proto, prefix: str) -> None:
    waited_for = [each for each in case.input if each.startswith("^")]
    index, *given = case.input[: len(case.input) - len(waited_for)]
    functions = {each.signature.name: each for each in library.function}
    names = [each.name for each in case.attr["branches"].list.func]
    if not names or not functions.keys() >= {*names}:
        raise LoadFailed(f'{case.op} "{case.name}": its branches {names} are not in the file')
    branches = [
        _with_index(library, functions[name], f"{prefix}_{number}")
        for number, name in enumerate(names)
    ]
    otherwise = branches[-1]
    for number in reversed(range(1, len(branches) - 1)):
        around = library.function.add()
        around.signature.CopyFrom(branches[number].signature)
        around.signature.name = f"{prefix}_from_{number}"
        arguments = [each.name for each in around.signature.input_arg]
        _add_if(
            around.node_def, case, (branches[number], otherwise), number, arguments, INDEX, True
        )
        for at, each in enumerate(around.signature.output_arg):
            around.ret[each.name] = f"{case.name}:output:{at}"
        otherwise = around
    made = _add_if(nodes, case, (branches[0], otherwise), 0, [*given, index], index, is_inside)
    made.input.extend(waited_for)
    nodes.remove(case)


def _with_index(library: Proto, branch: Proto, name: str) -> Proto:
    """Copy a branch with one more argument: both branches of an `If` take the same."""
    copy = library.function.add()
    copy.CopyFrom(branch)
    copy.signature.name = name
    copy.signature.input_arg.add(name=INDEX, type=_INT32)
    return copy


def _add_if(
    nodes: Proto,
    case: Proto,
    branches: tuple[Proto, Proto],
    number: int,
    inputs: Sequence[str],
    index: str,
    is_inside: bool,
) -> Proto:
    """Add an `If` with the name of a `Case`, which compares the index with a number."""
    constant = nodes.add(name=f"{case.name}_place_{number}", op="Const")
    constant.attr["value"].tensor.CopyFrom(tensor_proto(np.array(number, np.int32)))
    constant.attr["dtype"].type = _INT32
    equal = nodes.add(name=f"{case.name}_is_{number}", op="Equal")
    equal.input.extend([index, f"{constant.name}:output:0" if is_inside else constant.name])
    equal.attr["T"].type = _INT32
    made = nodes.add(name=case.name, op=_CASES[case.op])
    made.input.extend([f"{equal.name}:z:0" if is_inside else equal.name, *inputs])
    for name in ("Tin", "Tout", "output_shapes"):
        made.attr[name].CopyFrom(case.attr[name])
    made.attr["Tin"].list.type.append(_INT32)
    made.attr["Tcond"].type = _BOOL
    for name, branch in zip(("then_branch", "else_branch"), branches, strict=True):
        made.attr[name].func.name = branch.signature.name
    return made


@dataclass
class PreparedGraph:
    """The graph for the front end to convert, and the parts answered beside it.

    Attributes:
        signature: signature declared by the file.
        inputs: inputs of the model to convert, by alias; those of `signature` but for parsed
            Examples.
        outputs: outputs of the model to convert, by alias.
        parsings: parsed tensors, by the alias of the input that holds the Examples.
        constants: values of outputs, by alias.
        computed: outputs that depend on no input and that OpenVINO computes once.
        echoes: outputs that are inputs: alias to the alias of the input, or to the name of a parsed
            tensor.
        repeats: outputs under a second name: alias to the alias in `outputs`.
        defaults: values of inputs that a request may leave out.
        above: the node outputs from which `outputs` are computed.
        graph_def: the changed graph; None where it is the file's.
    """

    signature: DeclaredSignature
    inputs: dict[str, TensorInfo]
    outputs: dict[str, TensorInfo]
    parsings: list[tuple[str, ExampleParsing]] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    computed: dict[str, TensorInfo] = field(default_factory=dict)
    echoes: dict[str, str] = field(default_factory=dict)
    repeats: dict[str, str] = field(default_factory=dict)
    defaults: dict[str, Array] = field(default_factory=dict)
    above: list[NodeOutput] = field(default_factory=list)
    graph_def: Proto | None = None

    @property
    def as_declared(self) -> bool:
        """Whether the model to convert is the whole signature."""
        beside = self.parsings or self.constants or self.computed or self.echoes or self.repeats
        return not beside


def prepare(meta_graph: Proto, signature: DeclaredSignature) -> PreparedGraph:
    """Sort a signature's inputs and outputs, and rewrite the graph where it must be.

    Raises:
        LoadFailed: a tensor is not in the graph, or its Examples cannot be parsed here.
    """
    prepared = PreparedGraph(signature, dict(signature.inputs), dict(signature.outputs))
    _check_names(signature)
    frame = Frame(Library(meta_graph.graph_def), meta_graph.graph_def)
    _set_outputs_apart(prepared, frame)
    _find_defaults(prepared, frame, meta_graph.signature_def[signature.name].defaults)
    fed = {alias: frame.node_output(info.tensor) for alias, info in prepared.inputs.items()}
    if any(node_output.node.op != "Placeholder" for node_output in fed.values()):
        _feed(prepared, own_frame(prepared, meta_graph))
    frame = frame_of(prepared, meta_graph)
    outputs = [frame.node_output(info.tensor) for info in prepared.outputs.values()]
    prepared.above = list(above(outputs))
    if any(
        node_output.node is not None and node_output.node.op in PARSERS
        for node_output in prepared.above
    ):
        frame = own_frame(prepared, meta_graph)
        _cut_examples(prepared, frame)
        outputs = [frame.node_output(info.tensor) for info in prepared.outputs.values()]
        prepared.above = list(above(outputs))
    return prepared


def _check_names(signature: DeclaredSignature) -> None:
    for alias, info in [*signature.inputs.items(), *signature.outputs.items()]:
        if not info.tensor:
            raise LoadFailed(
                f"{alias!r} is no dense tensor; split it into dense tensors in the model"
            )
    fed = {with_port(info.tensor): alias for alias, info in signature.inputs.items()}
    for alias, info in signature.inputs.items():
        if (other := fed[with_port(info.tensor)]) != alias:
            raise LoadFailed(
                f"its inputs {alias!r} and {other!r} are one tensor, {info.tensor!r}, which"
                " TensorFlow does not take twice: export it with one of them"
            )


def frame_of(prepared: PreparedGraph, meta_graph: Proto) -> Frame:
    """Give the graph as it is prepared so far."""
    graph_def = meta_graph.graph_def if prepared.graph_def is None else prepared.graph_def
    return Frame(Library(graph_def), graph_def)


def own_frame(prepared: PreparedGraph, meta_graph: Proto) -> Frame:
    """Give the graph for changing: a copy of the file's, made once."""
    if prepared.graph_def is None:
        prepared.graph_def = graph.GraphDef()
        prepared.graph_def.CopyFrom(meta_graph.graph_def)
    return frame_of(prepared, meta_graph)


def _set_outputs_apart(prepared: PreparedGraph, frame: Frame) -> None:
    """Leave in `outputs` those that the model must compute for each request, once."""
    # `first` has, for each tensor that the model computes, the alias under which it does.
    fed = {with_port(info.tensor): alias for alias, info in prepared.inputs.items()}
    fed_nodes = {name_of(name) for name in fed}
    first: dict[str, str] = {}
    are_plain = all(frame.node_output(name).node.op == "Placeholder" for name in fed)
    for alias, info in prepared.signature.outputs.items():
        tensor = with_port(info.tensor)
        # Above another fed tensor nothing is computed, so an output there is no placeholder's.
        if are_plain and tensor not in fed:
            tensor = _placeholder(frame.node_output(info.tensor)) or tensor
        if tensor in fed:
            prepared.echoes[alias] = fed[tensor]
        elif tensor in first:
            prepared.repeats[alias] = first[tensor]
        elif _is_constant(frame.node_output(info.tensor), fed_nodes):
            value = constant(frame.node_output(info.tensor))
            if value is None:
                prepared.computed[alias] = info
            else:
                prepared.constants[alias] = value
        else:
            first[tensor] = alias
            continue
        del prepared.outputs[alias]


def _placeholder(node_output: NodeOutput) -> str:
    """Name the placeholder of the graph that an output passes on; empty where there is none."""
    origin = node_output.origin()
    if origin.frame.parent is not None or origin.node.op != "Placeholder":
        return ""
    passed = {each.node.op for each in above([node_output]) if each.node is not None}
    return "" if passed & CHECKS else f"{origin.node.name}:0"


def _is_constant(node_output: NodeOutput, fed_nodes: set[str]) -> bool:
    for source in deciding([node_output]):
        node = source.node
        if node is None:
            continue
        # Inputs are nodes of the graph itself; a node of a function may bear the same name.
        if source.frame.parent is None and node.name in fed_nodes:
            return False
        if node.op == "Placeholder" or _is_random(node):
            return False
    return True


def deciding(node_outputs: list[NodeOutput]) -> list[NodeOutput]:
    """Give the sources of values, and of the conditions that select their branches.

    A constant in a branch of TensorFlow 1 has no inputs, and only waits for its branch.
    """
    found = list(above(node_outputs))
    ops = {source.node.op for source in found if source.node is not None}
    if "Merge" not in ops:
        return found
    constants = [each for each in found if each.node is not None and each.node.op == "Const"]
    waited_for = [each.frame.node_output(name) for each in constants for name in each.node.input]
    return list(above([*node_outputs, *waited_for]))


def _is_random(node: Proto) -> bool:
    # The name of a call does not tell whether it is random: its function is walked as well.
    operation: str = node.op
    return operation.startswith(RANDOM) and operation != "StatefulPartitionedCall"


def _find_defaults(prepared: PreparedGraph, frame: Frame, declared: Mapping[str, Proto]) -> None:
    """Read the defaults of the signature and of every PlaceholderWithDefault."""
    for alias, info in prepared.inputs.items():
        node = frame.node_output(info.tensor).node
        if alias in declared:
            try:
                prepared.defaults[alias] = decode_tensor(declared[alias], alias)
            except InvalidRequest as error:
                raise LoadFailed(f"the default of {alias!r}: {error}") from error
        elif node.op == "PlaceholderWithDefault":
            value = constant(frame.node_output(node.input[0]))
            if value is not None:
                prepared.defaults[alias] = value


def _feed(prepared: PreparedGraph, frame: Frame) -> None:
    """Put a placeholder where an input is something else.

    TensorFlow feeds any tensor of a graph and computes nothing that lies above it.
    """
    for number, (alias, info) in enumerate(prepared.inputs.items()):
        node = frame.node_output(info.tensor).node
        if node.op != "Placeholder":
            name = f"ie_serving_fed_{number}"
            frame.add_argument(name, info.dtype, _shape_proto(node, info))
            _read_instead(frame, with_port(info.tensor), name)
            prepared.inputs[alias] = TensorInfo(f"{name}:0", info.shape, info.dtype)


def _read_instead(frame: Frame, tensor: str, name: str) -> None:
    """Let everything that reads `tensor` read the node `name`."""
    # The first output of a node is referred to with its number and without.
    frame.replace({tensor: name, tensor.removesuffix(":0"): name})


def _shape_proto(node: Proto, info: TensorInfo) -> Proto:
    """Give the shape of an input: the signature's, or else the placeholder's own."""
    if info.shape is None and node.op == "PlaceholderWithDefault":
        return node.attr["shape"].shape
    shape = TensorShapeProto()
    write_shape(shape, info.shape)
    return shape


def _cut_examples(prepared: PreparedGraph, frame: Frame) -> None:
    node_outputs = {
        alias: frame.node_output(info.tensor) for alias, info in prepared.outputs.items()
    }
    keys = {alias: node_output.origin().key for alias, node_output in node_outputs.items()}
    aliases = {name_of(info.tensor): alias for alias, info in prepared.inputs.items()}
    for parsing in cut_examples(list(node_outputs.values())):
        if parsing.examples not in aliases:
            raise LoadFailed(
                f"Examples are parsed from {parsing.examples!r}, which is no input:"
                " export the signature with it as an input"
            )
        prepared.parsings.append((aliases[parsing.examples], parsing))
        for name, dtype in parsing.inputs.items():
            prepared.inputs[name] = TensorInfo(f"{name}:0", None, dtype)
        for alias, key in keys.items():
            if key in parsing.given:
                prepared.echoes[alias] = parsing.given[key]
                del prepared.outputs[alias]
    # An input that only the parser read is none of the model that is left.
    read = nodes_above(prepared.outputs, frame)
    for alias, parsing in prepared.parsings:
        if parsing.examples not in read:
            prepared.inputs.pop(alias, None)


def nodes_above(outputs: Mapping[str, TensorInfo], frame: Frame) -> set[str]:
    """Name the nodes of the graph itself that outputs are computed from."""
    node_outputs = [frame.node_output(info.tensor) for info in outputs.values()]
    found = (node_output.node for node_output in above(node_outputs) if node_output.frame is frame)
    return {node.name for node in found if node is not None}


@contextmanager
def directory_for(
    directory: Path, meta_graph: Proto, prepared: PreparedGraph, index: bytes | None = None
) -> Iterator[Path]:
    """Give a directory that OpenVINO reads as the prepared signature: a copy where it must be.

    Args:
        directory: directory of the version.
        meta_graph: MetaGraph of its file.
        prepared: the signature.
        index: index of the variables, in place of the file's.
    """
    # A copy costs a second pass over the graph, so the file is read in place wherever it can be.
    clash = prepared.inputs.keys() & prepared.outputs.keys()
    same = prepared.graph_def is None and prepared.as_declared and not clash
    same = same and index is None and not has_replaced(meta_graph.graph_def)
    same = same and not has_others_than_first(meta_graph)
    # OpenVINO takes the first graph that has the tag, whichever others that graph has.
    same = same and list(meta_graph.meta_info_def.tags) == [TAG]
    if same and prepared.signature.name == SERVING_DEFAULT and (directory / FILE).is_file():
        yield directory
        return
    graph_def = meta_graph.graph_def if prepared.graph_def is None else prepared.graph_def
    model = _model(graph_def, meta_graph, prepared.inputs, prepared.outputs)
    with _directory(directory, model, index) as private:
        yield private


OUTPUT = "ie_serving_output_"
"""Prefix of an output's alias in a copy. The front end loses an output with an input's name, such
as an input `ids` with an output `ids`."""

ZERO = "ie_serving_zero"
"""Alias of the inputs that `directory_of_constants` adds, followed by the number of a dtype."""


@contextmanager
def directory_of_constants(
    directory: Path, meta_graph: Proto, prepared: PreparedGraph
) -> Iterator[Path]:
    """Give a directory that OpenVINO reads as the outputs in `prepared.computed`.

    The front end loses outputs that depend on no input, so a zero that is one is added to each.
    """
    graph_def = graph.GraphDef()
    graph_def.CopyFrom(meta_graph.graph_def)
    frame = Frame(Library(graph_def), graph_def)
    inputs: dict[str, TensorInfo] = {}
    outputs: dict[str, TensorInfo] = {}
    for number, (alias, info) in enumerate(prepared.computed.items()):
        zero = f"{ZERO}_{info.dtype}"
        if zero not in inputs:
            frame.add_argument(zero, info.dtype, TensorShapeProto())
            inputs[zero] = TensorInfo(f"{zero}:0", (), info.dtype)
        name = f"ie_serving_constant_{number}"
        _add_sum(graph_def, name, info, zero)
        outputs[alias] = TensorInfo(f"{name}:0", None, info.dtype)
    with _directory(directory, _model(graph_def, meta_graph, inputs, outputs)) as private:
        yield private


def _add_sum(graph_def: Proto, name: str, info: TensorInfo, zero: str) -> None:
    """Add an operation that changes no value: x + 0, or x or false."""
    node = graph_def.node.add(name=name)
    node.input.extend([info.tensor.removesuffix(":0"), zero])
    if info.dtype == DataType.BOOL.number:
        node.op = "LogicalOr"
    else:
        node.op = "AddV2"
        node.attr["T"].type = info.dtype


def _model(
    graph_def: Proto,
    meta_graph: Proto,
    inputs: Mapping[str, TensorInfo],
    outputs: Mapping[str, TensorInfo],
) -> bytes:
    """Serialize a SavedModel with one signature, called serving_default."""
    model = graph.SavedModel()
    part = model.meta_graphs.add()
    part.CopyFrom(meta_graph)
    part.graph_def.CopyFrom(graph_def)
    replace_operations(part.graph_def)
    number_outputs(part)
    part.signature_def.clear()
    if TAG not in part.meta_info_def.tags:
        part.meta_info_def.tags.append(TAG)
    definition = part.signature_def[SERVING_DEFAULT]
    definition.method_name = "tensorflow/serving/predict"
    named = {f"{OUTPUT}{alias}": info for alias, info in outputs.items()}
    _declare(definition.inputs, inputs)
    _declare(definition.outputs, named)
    return bytes(model.SerializeToString())


def _declare(infos: Proto, tensors: Mapping[str, TensorInfo]) -> None:
    """Fill in the inputs or the outputs of a SignatureDef."""
    for alias, info in tensors.items():
        infos[alias].name = info.tensor
        infos[alias].dtype = info.dtype
        write_shape(infos[alias].tensor_shape, info.shape)


@contextmanager
def _directory(directory: Path, model: bytes, index: bytes | None = None) -> Iterator[Path]:
    """Give a directory with this model and the variables and assets of another."""
    with Scratch() as private:
        # Links, since variables may be gigabytes and are only read.
        for part in ("variables", "assets"):
            if (directory / part).is_dir() and (index is None or part != "variables"):
                (private / part).symlink_to((directory / part).resolve())
        if index is not None:
            (private / "variables").mkdir()
            (private / "variables" / "variables.index").write_bytes(index)
            for data in (directory / "variables").glob("variables.data-*"):
                (private / "variables" / data.name).symlink_to(data.resolve())
        (private / FILE).write_bytes(model)
        yield private
