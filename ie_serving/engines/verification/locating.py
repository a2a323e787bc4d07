"""Finds the first operation of an ONNX model whose output differs between two engines.

Both engines run a copy of the file that outputs the result of every operation. Engines fuse fewer
operations in it, so the difference may disappear: then no operation is named.
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from ie_serving.core.runtime.scratch import Scratch
from ie_serving.core.values.tensors import Arrays
from ie_serving.engines.base import CompiledModel
from ie_serving.engines.generated import GeneratedRequest
from ie_serving.engines.onnx_file import Node, steps, with_outputs
from ie_serving.engines.verification.comparison import Comparison
from ie_serving.engines.verification.references import Reference
from ie_serving.engines.verification.verdict import ComparisonTask, Findings, differences

LOCATE_S = 10
"""Seconds after which the process that searches for the operation is ended; the verdict stays."""
MOST_OPERATIONS = 1000
"""Most operations of a model that is searched: each output takes memory in both engines."""
NO_TENSORS = frozenset(
    {"Constant", "Optional", "OptionalGetElement", "SequenceConstruct", "SequenceEmpty"}
    | {"SequenceErase", "SequenceInsert", "SequenceMap", "SplitToSequence"}
)
"""Operators whose outputs are not tensors, or need no comparison."""


def first_different(
    task: ComparisonTask,
    request: GeneratedRequest,
    opened: Callable[[Path], Sequence[Reference]],
    compiled: Callable[[Path], CompiledModel],
) -> str:
    """Name the operation by its kind and output; empty if none is found.

    Args:
        task: the comparison.
        request: one that the engines answer differently.
        opened: opens a file by the second engine.
        compiled: compiles a file by OpenVINO.
    """
    file = task.file
    nodes = [node for node in steps(file) if node.kind not in NO_TENSORS]
    if len(nodes) > MOST_OPERATIONS:
        return ""
    given = {name for each in opened(file) for name in each.tensors.outputs}
    added = dict.fromkeys(name for node in nodes for name in node.outputs if name)
    with Scratch(path=task.scratch) as folder:
        copy = folder / file.name
        copy.write_bytes(with_outputs(file.read_bytes(), [n for n in added if n not in given]))
        (reference,) = opened(copy)
        expected = reference.run(request.inputs)
        with closing(compiled(copy)) as model:
            found = Comparison(Findings(), reference.tensors, model).outputs_of(request)
            return next(filter(None, (_told(node, found, expected) for node in nodes)), "")


def _told(node: Node, found: Arrays, expected: Arrays) -> str:
    for name in node.outputs:
        if name in found and differences({name: found[name]}, {name: expected[name]}, ""):
            return f'{node.kind} "{name}"'
    return ""
