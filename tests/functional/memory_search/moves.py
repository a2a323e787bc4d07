"""Operations that move numbers, look them up, count or choose them."""

from functools import partial

import numpy as np
import openvino.opset16 as op

from ie_serving.core.values.tensors import Array
from tests.functional.memory_search.draw import FLOAT, Case, Draw, covers


@covers("tile")
def tile(d: Draw) -> Case:
    shape = d.shape(1, 5)
    count = max(1, len(shape) + d.pick([-1, 0, 0, 0, 1]))
    return Case([d.data(shape), d.ints([count], 1, 3)], op.tile)


@covers("broadcast")
def broadcast(d: Draw) -> Case:
    target = d.shape(1, 5)
    shape = [1 if d.chance(0.5) else size for size in target][d.rank(0, len(target) - 1) :]
    mode = d.pick(["numpy", "bidirectional"])
    return Case([d.data(shape), np.array(target)], partial(op.broadcast, broadcast_spec=mode))


@covers("concat")
def concat(d: Draw) -> Case:
    shape = d.shape(1, 5)
    axis = d.rank(0, len(shape) - 1)
    first = d.data(shape)
    others = []
    for _ in range(d.rank(0, 3)):
        like = [*shape[:axis], d.size(), *shape[axis + 1 :]]
        others.append(np.asarray(d.values.permutation(np.resize(first, like)), first.dtype))
    return Case([first, *others], lambda *a: op.concat(list(a), axis))


@covers("split", "variadic_split")
def split(d: Draw) -> Case:
    shape = d.shape(1, 5)
    axis = d.rank(0, len(shape) - 1)
    if d.chance(0.5):
        parts = d.pick([1, 2, 3])
        shape[axis] = parts * d.size(1, 3)
        return Case([d.data(shape), np.array(axis)], lambda x, a: op.split(x, a, parts), [1])
    lengths = np.array([d.size(1, 3) for _ in range(d.rank(1, 3))])
    shape[axis] = int(lengths.sum())
    return Case([d.data(shape), np.array(axis), lengths], op.variadic_split, [1])


@covers("gather")
def gather(d: Draw) -> Case:
    shape = d.shape(1, 5)
    axis = d.rank(0, len(shape) - 1)
    batch = d.rank(0, axis) if d.chance(0.4) else 0
    places = d.ints([*shape[:batch], *d.shape(0, 2)], 0, shape[axis] - 1)
    return Case([d.data(shape), places, np.array(axis)], partial(op.gather, batch_dims=batch), [2])


@covers("gather_elements")
def gather_elements(d: Draw) -> Case:
    shape = d.shape(1, 5)
    axis = d.rank(0, len(shape) - 1)
    like = [*shape[:axis], d.size(), *shape[axis + 1 :]]
    places = d.ints(like, 0, shape[axis] - 1)
    return Case([d.data(shape), places], partial(op.gather_elements, axis=axis))


@covers("gather_nd")
def gather_nd(d: Draw) -> Case:
    shape = d.shape(1, 5)
    batch = d.rank(0, min(2, len(shape) - 1))
    depth = d.rank(1, len(shape) - batch)
    rows = [*shape[:batch], d.size()]
    columns = [d.ints([*rows, 1], 0, shape[batch + i] - 1, np.int64) for i in range(depth)]
    places = np.concatenate(columns, -1)
    return Case([d.data(shape), places], partial(op.gather_nd, batch_dims=batch))


@covers("gather_tree")
def gather_tree(d: Draw) -> Case:
    steps, batch, beams = d.size(), d.size(), d.size()
    ids, parents = (d.ints([steps, batch, beams], 0, beams - 1, np.int32) for _ in range(2))
    lengths = d.ints([batch], 1, steps, np.int32)
    return Case([ids, parents, lengths, np.array(beams - 1, np.int32)], op.gather_tree)


@covers("scatter_update")
def scatter_update(d: Draw) -> Case:
    shape = d.shape(1, 4)
    axis = d.rank(0, len(shape) - 1)
    count = d.size(1, shape[axis])
    data = d.data([*shape])
    updates = np.resize(data[::-1], [*shape[:axis], count, *shape[axis + 1 :]])
    places = d.ints([count], 0, shape[axis] - 1)
    return Case([data, places, updates, np.array(axis)], op.scatter_update, [3])


@covers("scatter_elements_update")
def scatter_elements_update(d: Draw) -> Case:
    shape = d.shape(1, 4)
    axis = d.rank(0, len(shape) - 1)
    like = [*shape[:axis], d.size(1, shape[axis]), *shape[axis + 1 :]]
    data = d.data(shape, FLOAT, FLOAT, np.int32)
    updates = np.resize(data[::-1], like)
    kind = d.pick(["none", "none", "sum", "max", "mean", "prod"])
    made = partial(op.scatter_elements_update, reduction=kind, use_init_val=d.chance(0.5))
    return Case([data, d.ints(like, 0, shape[axis] - 1), updates, np.array(axis)], made, [3])


@covers("scatter_nd_update")
def scatter_nd_update(d: Draw) -> Case:
    shape = d.shape(1, 4)
    depth, count = d.rank(1, len(shape)), d.size()
    columns = [d.ints([count, 1], 0, shape[i] - 1, np.int64) for i in range(depth)]
    data = d.data(shape)
    updates = np.resize(data[::-1], [count, *shape[depth:]])
    return Case([data, np.concatenate(columns, -1), updates], op.scatter_nd_update)


def _cuts(d: Draw, shape: list[int], axes: list[int]) -> tuple[Array, Array, Array]:
    cuts = []
    for axis in axes:
        begin = d.size(0, shape[axis] - 1)
        cuts.append((begin, d.size(begin + 1, shape[axis]), d.pick([1, 1, 2])))
    begins, ends, steps = np.array(cuts, np.int64).T
    return begins, ends, steps


@covers("slice", "slice_scatter")
def cut(d: Draw) -> Case:
    shape = d.shape(1, 5)
    axes = sorted(d.form.sample(range(len(shape)), d.rank(1, len(shape))))
    data, cuts = d.data(shape), _cuts(d, shape, axes)
    if d.chance(0.6):
        return Case([data, *cuts, np.array(axes)], op.slice, [4])
    like = list(shape)
    for axis, begin, end, step in zip(axes, *cuts, strict=True):
        like[axis] = len(range(begin, end, step))
    return Case([data, np.resize(data[::-1], like), *cuts, np.array(axes)], op.slice_scatter, [5])


@covers("strided_slice")
def strided_slice(d: Draw) -> Case:
    shape = d.shape(1, 5)
    count = d.rank(1, len(shape))
    masks = {
        name: [int(d.chance(share)) for _ in range(count)]
        for name, share in (("begin_mask", 0.3), ("end_mask", 0.3), ("shrink_axis_mask", 0.2))
    }
    cuts = _cuts(d, shape, list(range(count)))
    if d.chance(0.3):
        masks |= {"ellipsis_mask": [int(i == count // 2) for i in range(count)]}
    made = partial(op.strided_slice, new_axis_mask=[0] * count, **masks)
    return Case([d.data(shape), *cuts], made)


@covers("pad")
def pad(d: Draw) -> Case:
    shape = d.shape(1, 5)
    mode = d.pick(["constant", "edge", "reflect", "symmetric"])
    most = [3 if mode in ("constant", "edge") else max(0, size - 1) for size in shape]
    ends = [np.array([d.size(0, min(2, each)) for each in most]) for _ in range(2)]
    if mode != "constant":
        return Case([d.data(shape), *ends], partial(op.pad, pad_mode=mode))
    data = d.data(shape)
    return Case([data, *ends, data.ravel()[0]], lambda x, b, e, v: op.pad(x, b, e, "constant", v))


@covers("reshape", "transpose", "squeeze", "unsqueeze", "identity", "shape_of", "convert_like")
def form(d: Draw) -> Case:
    shape = d.shape(1, 5)
    kind = d.pick(["reshape", "transpose", "squeeze", "unsqueeze", "identity", "like", "shape"])
    axis = d.rank(0, len(shape) - 1)
    if kind == "squeeze":
        shape[axis] = 1
        return Case([d.data(shape), np.array([axis])], op.squeeze, [1])
    x = d.data(shape)
    if kind == "reshape":
        wanted = [*shape[axis:], *shape[:axis]]
        return Case([x, np.array(wanted)], partial(op.reshape, special_zero=False))
    if kind == "transpose":
        order = d.form.sample(range(len(shape)), len(shape))
        return Case([x, np.array(order)], op.transpose, [1] if d.chance(0.7) else ())
    if kind == "unsqueeze":
        return Case([x, np.array([axis])], op.unsqueeze, [1])
    if kind == "like":
        return Case([x, d.data([1])], op.convert_like)
    return Case([x], op.identity if kind == "identity" else op.shape_of)


@covers("reverse_sequence")
def reverse_sequence(d: Draw) -> Case:
    shape = d.shape(2, 5)
    batch, along = d.form.sample(range(len(shape)), 2)
    lengths = d.ints([shape[batch]], 1, shape[along], np.int32)
    return Case([d.data(shape), lengths], lambda x, n: op.reverse_sequence(x, n, batch, along))


@covers("roll")
def roll(d: Draw) -> Case:
    shape = d.shape(1, 5)
    axes = d.form.sample(range(len(shape)), d.rank(1, len(shape)))
    return Case([d.data(shape), d.ints([len(axes)], -5, 5), np.array(axes)], op.roll, [2])


@covers("range")
def range_(d: Draw) -> Case:
    begin, count, step = d.size(0, 9), d.size(1, 30), d.pick([1, 2, -1])
    dtype = d.pick([np.int32, np.int64, FLOAT])
    ends = [np.array(each, dtype) for each in (begin, begin + count * step, step)]
    kind = {np.int32: "i32", np.int64: "i64"}.get(dtype, "f32")
    return Case(ends, partial(op.range, output_type=kind), [2])


@covers("one_hot", "eye")
def one_hot(d: Draw) -> Case:
    if d.chance(0.4):
        rows = [np.array(d.size(1, 9)) for _ in range(2)]
        return Case([*rows, d.ints([], -3, 3)], lambda *a: op.eye(*a, "f32"))
    shape = d.shape(0, 3)
    ends = d.floats([]), d.floats([])
    axis = d.rank(0, len(shape))
    return Case(
        [d.ints(shape, -2, 9), np.array(d.size(1, 9)), *ends], partial(op.one_hot, axis=axis)
    )


@covers("non_zero", "unique")
def found(d: Draw) -> Case:
    if d.chance(0.5):
        return Case([d.data(d.shape(1, 5), FLOAT, np.int32, np.bool_)], op.non_zero)
    x = d.ints(d.shape(1, 3), 0, 4)
    if d.chance(0.5):
        return Case([x], partial(op.unique, sorted=d.chance(0.5)))
    axis = op.constant(np.int64(d.rank(0, x.ndim - 1)))
    return Case([x], lambda x: op.unique(x, axis, sorted=d.chance(0.5)))


@covers("topk")
def topk(d: Draw) -> Case:
    shape = d.shape(1, 5)
    axis = d.rank(0, len(shape) - 1)
    mode, sort = d.pick(["max", "min"]), d.pick(["value", "index", "none"])
    count = np.array(d.size(1, shape[axis]))
    return Case([d.floats(shape), count], lambda x, k: op.topk(x, k, axis, mode, sort))


@covers("bucketize", "search_sorted")
def places(d: Draw) -> Case:
    if d.chance(0.5):
        edges = np.sort(d.floats([d.size()]))
        return Case([d.floats(d.shape(1, 4)), edges], op.bucketize)
    shape = d.shape(1, 3)
    edges = np.sort(d.floats([*shape[:-1], d.size()]), -1)
    return Case([edges, d.floats(shape)], partial(op.search_sorted, right_mode=d.chance(0.5)))


@covers("depth_to_space", "space_to_depth", "shuffle_channels", "reorg_yolo")
def blocks(d: Draw) -> Case:
    n, h, w = d.size(1, 3), d.size(1, 3), d.size(1, 3)
    mode = d.pick(["blocks_first", "depth_first"])
    kind = d.pick(["depth", "space", "shuffle", "reorg"])
    if kind == "depth":
        return Case([d.data([n, 8, h, w])], lambda x: op.depth_to_space(x, mode, 2))
    if kind == "space":
        return Case([d.data([n, 3, 2 * h, 2 * w])], lambda x: op.space_to_depth(x, mode, 2))
    if kind == "shuffle":
        return Case([d.data([n, 6, h, w])], lambda x: op.shuffle_channels(x, 1, 3))
    return Case([d.floats([n, 8, 2 * h, 2 * w])], lambda x: op.reorg_yolo(x, [2]))


@covers("batch_to_space", "space_to_batch")
def batches(d: Draw) -> Case:
    rank = d.rank(3, 5)
    block = np.array([1, *(d.pick([1, 2]) for _ in range(rank - 1))])
    zeros = np.zeros(rank, np.int64)
    small = [d.size(1, 3) for _ in range(rank)]
    if d.chance(0.5):
        shape = [size * each for size, each in zip(small, block, strict=True)]
        return Case([d.data(shape), block, zeros, zeros], op.space_to_batch, [1])
    shape = [small[0] * int(block.prod()), *small[1:]]
    ends = np.array([0, *(int(b == 2) for b in block[1:])])
    return Case([d.data(shape), block, zeros, ends], op.batch_to_space, [1])


@covers(
    "embedding_bag_offsets",
    "embedding_bag_offsets_sum",
    "embedding_bag_packed",
    "embedding_bag_packed_sum",
    "embedding_segments_sum",
)
def bags(d: Draw) -> Case:
    rows, count = d.size(2, 9), d.size(2, 9)
    table = d.floats([rows, *d.shape(1, 2)])
    kind = d.pick(["offsets", "offsets_sum", "packed", "packed_sum", "segments"])
    mode = d.pick(["sum", "mean"])
    if kind.startswith("packed"):
        ids = d.ints([d.size(), count], 0, rows - 1)
        weights = d.floats(ids.shape)
        if kind == "packed":
            return Case([table, ids], partial(op.embedding_bag_packed, reduction=mode))
        return Case([table, ids, weights], op.embedding_bag_packed_sum)
    ids = d.ints([count], 0, rows - 1, np.int32)
    if kind == "segments":
        bag = np.sort(d.ints([count], 0, 4, np.int32))
        sizes = [np.array(d.size(5, 8), np.int32), np.array(d.size(0, rows - 1), np.int32)]
        if d.chance(0.5):
            return Case([table, ids, bag, sizes[0]], op.embedding_segments_sum)
        return Case([table, ids, bag, *sizes, d.floats([count])], op.embedding_segments_sum)
    offsets = np.sort(d.ints([d.size()], 0, count, np.int32))
    offsets[0] = 0
    default = np.array(d.pick([-1, 0]), np.int32)
    if kind == "offsets":
        return Case(
            [table, ids, offsets, default], partial(op.embedding_bag_offsets, reduction=mode)
        )
    return Case([table, ids, offsets, default, d.floats([count])], op.embedding_bag_offsets_sum)


@covers("sparse_fill_empty_rows")
def sparse_fill_empty_rows(d: Draw) -> Case:
    rows, columns = d.size(2, 6), d.size(1, 4)
    full = d.floats([rows, columns]) * (d.share([rows, columns]) > 0.5)
    full[0, 0] = 1
    indices = np.argwhere(full)
    operands = [full[full != 0], np.array([rows, columns]), indices, d.floats([])]
    return Case(operands, op.sparse_fill_empty_rows)
