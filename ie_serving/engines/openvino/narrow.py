"""Integers that the CPU plugin would silently cut to 32 bits.

The plugin converts 64-bit and unsigned 32-bit inputs to int32 before it computes: 2**40 becomes 0.
Only what goes straight to an output, or is converted to floating point first, keeps all its bits.
Measured with OpenVINO 2026.4 (`tests/unit/engines/openvino/test_narrow.py`); what the compiled
graph does with each input is read from its runtime model.
"""

from collections.abc import Collection, Mapping

import numpy as np
import openvino as ov

from ie_serving.engines.openvino.specs import Port
from ie_serving.errors import InvalidTensor
from ie_serving.tensors import Array, DataType

INT32 = np.iinfo(np.int32)
RANGES: Mapping[DataType, tuple[int, int]] = {
    DataType.INT64: (INT32.min, INT32.max),
    DataType.UINT64: (0, INT32.max),
    DataType.UINT32: (0, INT32.max),
}


def narrowed(compiled: ov.CompiledModel, ports: tuple[Port, ...]) -> list[Port]:
    """List the inputs whose values must fit into 32 bits."""
    wide = [port for port in ports if port.spec.dtype in RANGES]
    if not wide or "CPU" not in "".join(compiled.get_property("EXECUTION_DEVICES")):
        return []
    whole = _kept_whole(compiled)
    return [port for port in wide if _node_name(compiled, port) not in whole]


def check_range(port: Port, array: Array) -> None:
    """Refuse values that the engine would change.

    Raises:
        InvalidTensor: naming the input and the first such value.
    """
    low, high = RANGES[port.spec.dtype]
    if array.size and (int(array.min()) < low or int(array.max()) > high):
        beyond = array[(array < low) | (array > high)]
        raise InvalidTensor(
            f'input "{port.spec.name}" holds {int(beyond.flat[0])}; this model computes '
            f"{port.spec.dtype.word} in 32 bits and takes {low} to {high}"
        )


def _node_name(compiled: ov.CompiledModel, port: Port) -> str:
    return str(compiled.inputs[port.index].get_node().get_friendly_name())


def _kept_whole(compiled: ov.CompiledModel) -> set[str]:
    """Name the inputs that no 32-bit integer operation reads."""
    try:
        graph = (
            compiled.get_runtime_model()
        )  # kept: its nodes know their readers as long as it lives
        parameters = graph.get_parameters()
    except RuntimeError:  # not every device has a runtime model
        return set()
    return {
        str(parameter.get_friendly_name())
        for parameter in parameters
        if _all_keep(parameter.output(0).get_target_inputs())
    }


def _all_keep(readers: Collection[ov.Input]) -> bool:
    return bool(readers) and all(_keeps(reader.get_node()) for reader in readers)


def _keeps(node: ov.Node) -> bool:
    layer = str(node.get_rt_info()["layerType"].astype(str))
    return layer == "Output" or (layer == "Convert" and _is_real(node))


def _is_real(node: ov.Node) -> bool:
    return bool(node.get_output_element_type(0).is_real())
