"""Goes through the operations of a graph."""

import openvino as ov

from ie_serving.core.giving_way import Steps


def operations(model: ov.Model) -> Steps[ov.Node]:
    """List the operations of a graph, bodies apart, each behind those that it reads."""
    return Steps(model.get_ordered_ops())
