"""Refuses element types that OpenVINO's CPU plugin handles wrongly: wide numbers and strings.

The plugin converts 64-bit and unsigned 32-bit inputs to int32 before it computes: 2**40 becomes 0.
Only an input that goes straight to an output, or is first converted to floating point, keeps all
bits. Doubles become floats, and doubles beyond a float's range, infinity included, the largest
float; if the server passes doubles as floats (`interface/tensor_specs.py`) infinity stays.
Measured with OpenVINO 2026.4 (`tests/unit/engines/openvino/faults/test_narrow_inputs.py`); what
the compiled graph does with each input is read from its runtime model.

With OpenVINO 2026.4 `Slice`, `StridedSlice`, `Split`, `VariadicSplit`, `ScatterUpdate`,
`SliceScatter` and `DepthToSpace` copy strings byte by byte, so that two strings own one memory and
the process ends. Operations known to be correct are accepted; every other operation of OpenVINO is
refused at load. Operations of extensions, such as tokenizers, are made for strings and accepted.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import openvino as ov

from ie_serving.core.values.errors import InvalidTensor, LoadFailed
from ie_serving.core.values.tensors import Array, DataType
from ie_serving.engines.openvino.graphs.rules import Ask, Rule, Visit
from ie_serving.engines.openvino.interface.tensor_specs import Port

RIGHT = frozenset(
    {
        *("Parameter", "Constant", "Result", "If", "ShapeOf"),
        *("Reshape", "Squeeze", "Unsqueeze", "Transpose", "Concat", "Gather"),
        *("StringTensorPack", "StringTensorUnpack"),
    }
)
"""Correct operations; `test_operations.py` runs each 200 times with strings that own memory."""
_OWN = "opset"
"""Prefix of the version of OpenVINO's own operations."""

INT32 = np.iinfo(np.int32)
LARGEST_FLOAT = float(np.finfo(np.float32).max)
RANGES: Mapping[DataType, tuple[float, float]] = {
    DataType.FP64: (-LARGEST_FLOAT, LARGEST_FLOAT),
    DataType.INT64: (INT32.min, INT32.max),
    DataType.UINT64: (0, INT32.max),
    DataType.UINT32: (0, INT32.max),
}


def _refuse_strings(node: ov.Node, _: Visit) -> None:
    kind = node.get_type_name()
    is_own = str(node.get_type_info().version_id).startswith(_OWN)
    if is_own and kind not in RIGHT and _has_strings(node):
        raise LoadFailed(
            f"operation {node.get_friendly_name()} is a {kind} of strings, in which OpenVINO"
            " loses their memory: take it out of the model, or do it in the client"
        )


def _has_strings(node: ov.Node) -> bool:
    ports = (*node.inputs(), *node.outputs())
    return any(port.get_element_type() == ov.Type.string for port in ports)


RULES: Sequence[Rule[Ask]] = (Rule("strings_are_freed_twice", "", _refuse_strings),)
"""Applied after `rewrites.READ`, which corrects some operations."""


def narrowed(compiled: ov.CompiledModel, ports: tuple[Port, ...]) -> list[Port]:
    """List the inputs whose values must fit into 32 bits."""
    # Other devices have their own rules, which were not measured; nothing is refused for them.
    wide = [port for port in ports if port.spec.dtype in RANGES]
    if not wide or "CPU" not in "".join(compiled.get_property("EXECUTION_DEVICES")):
        return []
    readers = _readers(compiled)
    names = [str(each.get_node().get_friendly_name()) for each in compiled.inputs]
    return [port for port in wide if not _stays_wide(port, readers.get(names[port.index], []))]


def check_range(port: Port, kind: ov.Type, array: Array) -> None:
    """Refuse values that the plugin would change.

    Args:
        port: port of the compiled model.
        kind: element type that the compiled model takes at this port.
        array: array of a request.

    Raises:
        InvalidTensor: naming the input and the first such value.
    """
    # NaN compares as false with both ends and passes: it stays NaN as a float.
    low, high = RANGES[port.spec.dtype]
    beyond = array[(array < low) | (array > high)]
    if kind == ov.Type.f32:
        beyond = beyond[np.isfinite(beyond)]
    if beyond.size:
        raise InvalidTensor(
            f'input "{port.spec.name}" holds {beyond.flat[0]}; this model computes '
            f"{port.spec.dtype.word} in 32 bits and takes {low} to {high}: send values in"
            " range"
        )


def _readers(compiled: ov.CompiledModel) -> dict[str, list[tuple[str, bool]]]:
    """List, for each input, the operations of the compiled graph that read it."""
    try:
        graph = compiled.get_runtime_model()
        parameters = graph.get_parameters()  # `graph` is kept: its nodes live as long as it
        return {str(each.get_friendly_name()): _read_by(each) for each in parameters}
    except RuntimeError:  # not every device has a runtime model
        return {}


def _read_by(parameter: ov.Node) -> list[tuple[str, bool]]:
    """Give layer type and whether the result is real, for each operation that reads an input."""
    nodes = [reader.get_node() for reader in parameter.output(0).get_target_inputs()]
    return [
        (
            str(node.get_rt_info()["layerType"].astype(str)),
            bool(node.get_output_size() and node.get_output_element_type(0).is_real()),
        )
        for node in nodes
    ]


def _stays_wide(port: Port, readers: Collection[tuple[str, bool]]) -> bool:
    """Tell whether no 32-bit operation reads an input."""
    to_real = port.spec.dtype is not DataType.FP64  # a double made real is made a float
    return bool(readers) and all(
        layer == "Output" or (layer == "Convert" and real and to_real) for layer, real in readers
    )
