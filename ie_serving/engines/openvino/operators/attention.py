"""`Attention` by the words of ONNX, with windows, and with a past in front of its causal queries.

OpenVINO's front end drops windows, and counts the keys before the first query from the end. Models
without either keep the front end's own, which the plugin computes as one operation.
"""

from functools import reduce

import numpy as np
import openvino as ov
import openvino.opset15 as op
from openvino.frontend import NodeContext

from ie_serving.engines.onnx_file import Node
from ie_serving.engines.openvino.graphs.constants import Operand, float32, int64
from ie_serving.engines.openvino.operators.reading import floats, given, rank_of, sizes

PAST = 4
"""Place of the input with the keys of tokens before."""
PACKED = 3
"""Dimensions where the heads of a token lie one behind the other."""
MASKED = np.float32(-np.inf)
RAW, CAPPED, BIASED, WEIGHTS = range(4)
"""What the fourth output is."""


def is_needed(node: Node) -> bool:
    """Tell whether the front end's own is not right."""
    given = node.attributes
    windows = {given.get(f"{side}_window_size", -1) for side in ("left", "right")}
    return windows != {-1} or bool(given.get("is_causal") and node.has(PAST))


def attention(node: NodeContext) -> list[ov.Output]:
    """Compute in float32; a row that is masked in full gives 0."""
    query = node.get_input(0)
    count, readers = (int(node.get_attribute(f"{which}_num_heads", 0)) for which in ("kv", "q"))
    queries = _by_head(query, readers)
    past = [given(node, PAST), given(node, PAST + 1)]
    keys, values = (
        each if before is None else op.concat([before, each], 2)
        for each, before in zip(
            (_by_head(node.get_input(place), count) for place in (1, 2)), past, strict=True
        )
    )
    scores = {RAW: _scores(queries, keys, float(node.get_attribute("scale", 0.0)))}
    scores[CAPPED] = _capped(scores[RAW], float(node.get_attribute("softcap", 0.0)))
    scores[BIASED] = _biased(node, scores[CAPPED], past[0])
    scores[WEIGHTS] = _weights(scores[BIASED])
    out = _weighed(scores[WEIGHTS], values)
    if rank_of(query) == PACKED:
        out = op.reshape(op.transpose(out, int64([0, 2, 1, 3])), int64([0, 0, -1]), True)
    kind = query.get_element_type()
    shown = scores[int(node.get_attribute("qk_matmul_output_mode", RAW))]
    made = op.convert(out, kind), keys, values, op.convert(shown, kind)
    return [each.output(0) if isinstance(each, ov.Node) else each for each in made]


def _by_head(data: ov.Output, heads: int) -> Operand:
    """Give (batch, heads, tokens, size)."""
    if rank_of(data) != PACKED:
        return data
    return op.transpose(op.reshape(data, int64([0, 0, heads, -1]), True), int64([0, 2, 1, 3]))


def _scores(queries: Operand, keys: Operand, scale: float) -> ov.Node:
    by = float32(scale) if scale else op.power(floats(sizes(queries, [3])), float32(-0.5))
    # Queries of the heads that share keys in a dimension of their own, that those are 1 of.
    form = op.concat([sizes(keys, [0, 1]), int64([-1]), sizes(queries, [2, 3])], 0)
    apart = op.reshape(op.multiply(floats(queries), by), form, False)
    shared = op.unsqueeze(floats(keys), int64(2))
    found = op.matmul(apart, shared, False, True)
    whole = op.concat([sizes(queries, [0, 1, 2]), sizes(keys, [2])], 0)
    return op.reshape(found, whole, False)


def _capped(scores: ov.Node, cap: float) -> ov.Node:
    if cap <= 0:
        return scores
    return op.multiply(op.tanh(op.divide(scores, float32(cap))), float32(cap))


def _biased(node: NodeContext, scores: ov.Node, past: ov.Output | None) -> ov.Node:
    """Add the mask, and let only those keys remain that a query may see."""
    if (mask := given(node, 3)) is not None:
        scores = op.add(scores, _bias(mask, scores))
    query, key = (_places(scores, axis) for axis in (2, 3))
    conditions = []
    before: Operand = int64(0)
    if past is not None:
        before = sizes(past, [2])
    elif (lengths := given(node, 6)) is not None:
        counts = op.reshape(op.convert(lengths, "i64"), int64([-1, 1, 1, 1]), False)
        conditions.append(op.less(key, counts))
        before = op.subtract(counts, sizes(scores, [2]))
    place = op.add(op.unsqueeze(query, int64(1)), before)  # of each query, beside the keys
    left, right = (int(node.get_attribute(f"{side}_window_size", -1)) for side in ("left", "right"))
    if node.get_attribute("is_causal", 0):
        conditions.append(op.less_equal(key, place))
    if left >= 0:
        conditions.append(op.greater_equal(key, op.subtract(place, int64(left))))
    if right >= 0:
        conditions.append(op.less_equal(key, op.add(place, int64(right))))
    return (
        op.select(reduce(op.logical_and, conditions), scores, float32(MASKED))
        if conditions
        else scores
    )


def _places(scores: ov.Node, axis: int) -> ov.Node:
    return op.range(int64(0), op.squeeze(sizes(scores, [axis])), int64(1), "i64")


def _bias(mask: ov.Output, scores: ov.Node) -> ov.Node:
    """Give what a mask adds; keys behind its last are masked."""
    is_truth = mask.get_element_type() == ov.Type.boolean
    bias = op.select(mask, float32(0), float32(MASKED)) if is_truth else floats(mask)
    rank = rank_of(mask)
    missing = op.subtract(sizes(scores, [3]), sizes(mask, [rank - 1]))
    end = op.concat([int64([0] * (rank - 1)), missing], 0) if rank > 1 else missing
    return op.pad(bias, int64([0] * rank), end, "constant", float32(MASKED))


def _weights(scores: ov.Node) -> ov.Node:
    is_seen = op.not_equal(scores, float32(MASKED))
    lowest = float32(np.finfo(np.float32).min)
    weights = op.softmax(op.select(is_seen, scores, lowest), 3)
    return op.select(is_seen, weights, float32(0))


def _weighed(weights: ov.Node, values: Operand) -> ov.Node:
    form = op.concat([sizes(values, [0, 1]), int64([-1]), sizes(weights, [2, 3])], 0)
    apart = op.reshape(weights, form, False)
    found = op.matmul(apart, op.unsqueeze(floats(values), int64(2)), False, False)
    whole = op.concat([sizes(weights, [0, 1, 2]), sizes(values, [3])], 0)
    return op.reshape(found, whole, False)
