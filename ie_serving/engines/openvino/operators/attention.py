"""Converts ONNX's `Attention` with windows, and operators that carry a state from token to token.

OpenVINO's front end drops windows, and counts the keys before the first query from the end. Models
without either keep the front end's own, which the plugin computes as one operation.
"""

from functools import reduce

import numpy as np
import openvino as ov
import openvino.opset15 as op
from openvino.frontend import NodeContext

from ie_serving.engines.onnx_file import Node
from ie_serving.engines.openvino.graphs.constants import LAST, Operand, float32, int64
from ie_serving.engines.openvino.operators.converter import (
    floats,
    given,
    in_rank,
    number,
    rank_of,
    size_of,
    sizes,
)

PAST = 4
"""Place of the input with the keys of tokens before."""
PACKED = 3
"""Dimensions where the heads of a token lie one behind the other."""
MASKED = np.float32(-np.inf)
RAW, CAPPED, BIASED, WEIGHTS = range(4)
"""The possible contents of the fourth output."""


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
            (_by_head(node.get_input(index), count) for index in (1, 2)), past, strict=True
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
    query, key = (_indices(scores, axis) for axis in (2, 3))
    conditions = []
    before: Operand = int64(0)
    if past is not None:
        before = sizes(past, [2])
    elif (lengths := given(node, 6)) is not None:
        counts = op.reshape(op.convert(lengths, "i64"), int64([-1, 1, 1, 1]), False)
        conditions.append(op.less(key, counts))
        before = op.subtract(counts, sizes(scores, [2]))
    index = op.add(op.unsqueeze(query, int64(1)), before)  # of each query, beside the keys
    left, right = (int(node.get_attribute(f"{side}_window_size", -1)) for side in ("left", "right"))
    if node.get_attribute("is_causal", 0):
        conditions.append(op.less_equal(key, index))
    if left >= 0:
        conditions.append(op.greater_equal(key, op.subtract(index, int64(left))))
    if right >= 0:
        conditions.append(op.less_equal(key, op.add(index, int64(right))))
    return (
        op.select(reduce(op.logical_and, conditions), scores, float32(MASKED))
        if conditions
        else scores
    )


def _indices(scores: ov.Node, axis: int) -> ov.Node:
    return op.range(int64(0), op.squeeze(sizes(scores, [axis])), int64(1), "i64")


def _bias(mask: ov.Output, scores: ov.Node) -> ov.Node:
    """Give the addend that a mask makes; keys after its last are masked."""
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


RULES = ("linear", "gated", "delta", "gated_delta")
"""Rules of `LinearAttention`, by which a state follows from the one before."""


def causal_convolution(node: NodeContext) -> list[ov.Output]:
    """Convolve each channel with its earlier tokens; also give the last of them as state."""
    data, kernel = node.get_input(0), node.get_input(1)
    bias, past = given(node, 2), given(node, 3)
    before = size_of(kernel, 2) - 1
    if past is None:
        padded = op.pad(data, int64([0, 0, before]), int64([0, 0, 0]), "constant", number(0, data))
    else:
        padded = op.concat([past, data], 2)
    weights = op.unsqueeze(kernel, int64(1))
    out = op.group_convolution(padded, weights, [1], [0], [0], [1])
    if bias is not None:
        out = op.add(out, op.reshape(bias, int64([1, -1, 1]), False))
    if node.get_attribute("activation", "none") != "none":
        exact = floats(out)
        out = op.convert(op.multiply(exact, op.sigmoid(exact)), data.get_element_type())
    end = op.slice(padded, sizes(data, [2]), int64([LAST]), int64([1]), int64([2]))
    return [out.output(0), end.output(0)]


def linear_attention(node: NodeContext) -> list[ov.Output]:
    """Update a state by each token, and read it by the token's queries."""
    query, key, value = (node.get_input(index) for index in range(3))
    past, decay, beta = (given(node, index) for index in range(3, 6))
    heads = int(node.get_attribute("kv_num_heads"))
    readers = int(node.get_attribute("q_num_heads")) // heads
    rule = node.get_attribute("update_rule", RULES[-1])
    if rule not in RULES:
        raise ValueError(f"its rule {rule} is not known")
    tokens = {"k": _by_token(key, heads), "v": _by_token(value, heads)}
    tokens["q"] = _by_token(query, heads, readers)
    if "gated" in rule:
        tokens["g"] = _by_token(decay, heads)
    if "delta" in rule:
        rates = op.reshape(floats(beta), int64([0, 0, -1, 1, 1]), True)
        tokens["b"] = op.transpose(rates, int64([0, 2, 1, 3, 4]))
    state = (
        op.broadcast(
            float32(0),
            op.concat([sizes(tokens["k"], [0, 1, 4]), sizes(tokens["v"], [4])], 0),
        )
        if past is None
        else floats(past)
    )
    out, last = _over_tokens(tokens, state)
    scale = float(node.get_attribute("scale", 0.0))
    by = float32(scale) if scale else op.power(floats(sizes(tokens["q"], [4])), float32(-0.5))
    packed = op.reshape(op.transpose(out, int64([0, 2, 1, 3, 4])), int64([0, 0, -1]), True)
    return [
        op.convert(op.multiply(packed, by), query.get_element_type()).output(0),
        op.convert(last, (query if past is None else past).get_element_type()).output(0),
    ]


def _by_token(data: ov.Output, heads: int, rows: int = 1) -> ov.Node:
    """Give (batch, tokens, heads * rows * size) as (batch, heads, tokens, rows, size), float32."""
    apart = op.reshape(floats(data), int64([0, 0, heads, rows, -1]), True)
    return op.transpose(apart, int64([0, 2, 1, 3, 4]))


def _over_tokens(tokens: dict[str, ov.Node], state: ov.Node) -> tuple[ov.Output, ov.Output]:
    """Give the values read from the state at each token, and the last state."""
    slices = {}
    for name, each in tokens.items():
        shape = each.get_output_partial_shape(0)
        shape[2] = ov.Dimension(1)
        slices[name] = op.parameter(shape, ov.Type.f32)
    before = op.parameter(state.get_output_partial_shape(0), ov.Type.f32)
    rows = {name: op.squeeze(each, int64(2)) for name, each in slices.items()}
    after = _updated(before, rows)
    read = op.unsqueeze(op.matmul(rows["q"], after, False, False), int64(2))
    loop = op.tensor_iterator()
    loop.set_body(ov.Model([read, after], [*slices.values(), before]))
    for name, each in slices.items():
        loop.set_sliced_input(each, tokens[name].output(0), 0, 1, 1, -1, 2)
    loop.set_merged_input(before, state.output(0), after.output(0))
    out = loop.get_concatenated_slices(read.output(0), 0, 1, 1, -1, 2)
    return out, loop.get_iter_value(after.output(0), -1)


def _updated(state: Operand, rows: dict[str, ov.Node]) -> ov.Node:
    """Decay a state, and add a token's contribution. Rows are (batch, heads, 1, size)."""
    column = op.transpose(rows["k"], int64([0, 1, 3, 2]))
    value = rows["v"]
    if "g" in rows:
        state = op.multiply(state, op.exp(op.transpose(rows["g"], int64([0, 1, 3, 2]))))
    if "b" in rows:
        value = op.multiply(
            rows["b"], op.subtract(value, op.matmul(rows["k"], state, False, False))
        )
    return op.add(state, op.multiply(column, value))


def tensor_scatter(node: NodeContext) -> list[ov.Output]:
    """Write an update into a cache, at a position for each row of the batch.

    A row that would be written beyond the cache uses an index out of range, and is refused.
    """
    cache, update, indices = node.get_input(0), node.get_input(1), given(node, 2)
    rank = rank_of(cache)
    axis = in_rank(int(node.get_attribute("axis", -2)), rank)
    if indices is None:
        indices = op.broadcast(int64(0), sizes(cache, [0])).output(0)
    longest, length = (op.squeeze(sizes(each, [axis])) for each in (cache, update))
    begin = op.unsqueeze(indices, int64(1))
    each = op.unsqueeze(op.range(int64(0), longest, int64(1), "i64"), int64(0))
    come = op.subtract(each, begin)
    fits = op.less_equal(length, longest)
    if node.get_attribute("mode", "linear") == "circular":
        come = op.floor_mod(come, longest)
    else:
        ends = op.less_equal(op.add(begin, length), longest)
        fits = op.logical_and(fits, op.logical_and(ends, op.greater_equal(begin, int64(0))))
    is_new = op.logical_and(op.greater_equal(come, int64(0)), op.less(come, length))
    index = op.select(fits, op.select(is_new, come, int64(0)), length)
    new = op.gather(update, index, int64(axis), 1)
    between = list(range(1, axis)) + list(range(axis + 1, rank))
    mask = op.unsqueeze(is_new, int64(between)) if between else is_new
    return [op.select(mask, new, cache).output(0)]
