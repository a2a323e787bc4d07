"""Operations that compute with each number, with rows and with matrices."""

from functools import partial
from typing import Any

import numpy as np
import openvino.opset16 as op

from ie_serving.engines.openvino.faults.known_operations import named
from tests.functional.memory_search.draw import FLOAT, Case, Draw, covers, wide

UNARY = named(
    "abs acos acosh asin asinh atan atanh ceiling cos cosh erf exp floor hsigmoid hswish "
    "is_finite is_inf is_nan log mish negative relu sigmoid sign sin sinh softplus softsign "
    "sqrt tan tanh"
)
BINARY = named(
    "add subtract multiply divide maximum minimum power squared_difference mod floor_mod prelu"
)
COMPARING = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]
LOGIC = ["logical_and", "logical_or", "logical_xor"]
BITS = ["bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift"]
REDUCING = ["l1", "l2", "max", "mean", "min", "prod", "sum", "logical_and", "logical_or"]


def _unary(name: str, d: Draw) -> Case:
    return Case([d.floats(d.shape(0, 5))], getattr(op, name))


for _name in UNARY:
    covers(_name)(partial(_unary, _name))


@covers("elu", "selu", "gelu", "swish", "hard_sigmoid", "clamp", "round", "convert", "logical_not")
def with_attributes(d: Draw) -> Case:
    x = d.floats(d.shape(0, 5))
    number = partial(op.constant, dtype=FLOAT)
    made = {
        "elu": lambda x: op.elu(x, 1.5),
        "selu": lambda x: op.selu(x, number([1.6]), number([1.1])),
        "gelu": lambda x: op.gelu(x, "TANH"),
        "swish": lambda x: op.swish(x, number(1.5)),
        "hard_sigmoid": lambda x: op.hard_sigmoid(x, number(0.2), number(0.5)),
        "clamp": lambda x: op.clamp(x, -3, 2),
        "round": lambda x: op.round(x, "half_to_even"),
        "convert": partial(op.convert, destination_type=d.pick(["i32", "f16", "boolean", "u8"])),
        "logical_not": lambda x: op.logical_not(op.less(x, number(0))),
    }
    return Case([x], made[d.pick(list(made))])


def _binary(name: str, dtypes: tuple[type, ...], d: Draw) -> Case:
    shape = d.shape(0, 5)
    a = d.data(shape, *dtypes)
    b = np.resize(a.ravel()[::-1], wide(shape, d))
    if name in ("bitwise_left_shift", "bitwise_right_shift"):
        b = b % 3
    return Case([a, np.maximum(b, 1) if name in ("mod", "floor_mod") else b], getattr(op, name))


for _names, _types in (
    (BINARY, (FLOAT, FLOAT, np.int32)),
    (COMPARING, (FLOAT, np.int32)),
    (LOGIC, (np.bool_,)),
    (BITS, (np.int32, np.uint8)),
):
    for _name in _names:
        covers(_name)(partial(_binary, _name, (FLOAT,) if _name == "prelu" else _types))


@covers("bitwise_not")
def bitwise_not(d: Draw) -> Case:
    return Case([d.data(d.shape(1, 4), np.int32, np.uint8)], op.bitwise_not)


def _reduce(name: str, d: Draw) -> Case:
    shape = d.shape(1, 5)
    data = d.data(shape, np.bool_) if "logical" in name else d.data(shape, FLOAT, FLOAT, np.int32)
    axes = sorted(d.form.sample(range(len(shape)), d.rank(1, len(shape))))
    make = partial(getattr(op, f"reduce_{name}"), keep_dims=d.chance(0.5))
    return Case([data, np.array(axes)], make, [1] if d.chance(0.7) else ())


for _name in REDUCING:
    covers(f"reduce_{_name}")(partial(_reduce, _name))


@covers("softmax", "log_softmax")
def softmax(d: Draw) -> Case:
    shape = d.shape(1, 5)
    make = d.pick([op.softmax, op.log_softmax])
    return Case([d.floats(shape)], partial(make, axis=d.rank(0, len(shape) - 1)))


@covers("cum_sum")
def cum_sum(d: Draw) -> Case:
    shape = d.shape(1, 4)
    made = partial(op.cum_sum, exclusive=d.chance(0.5), reverse=d.chance(0.5))
    return Case([d.floats(shape), np.array(d.rank(0, len(shape) - 1))], made, [1])


@covers("mvn", "normalize_l2")
def normalize(d: Draw) -> Case:
    shape = d.shape(2, 5)
    axes = np.array(sorted(d.form.sample(range(1, len(shape)), d.rank(1, len(shape) - 1))))
    if d.chance(0.5):
        return Case(
            [d.floats(shape), axes], lambda x, a: op.mvn(x, a, True, 1e-6, "inside_sqrt"), [1]
        )
    return Case([d.floats(shape), axes], lambda x, a: op.normalize_l2(x, a, 1e-6, "add"), [1])


@covers("lrn", "grn", "group_normalization", "batch_norm_inference")
def normalize_channels(d: Draw) -> Case:
    shape = [d.size(), 4, d.size(), d.size()]
    x, row = d.floats(shape), [d.floats([4]) for _ in range(3)]
    kind = d.pick(["lrn", "grn", "group", "batch"])
    if kind == "lrn":
        axes = op.constant(np.array([d.pick([1, 2])]))
        return Case([x], lambda x: op.lrn(x, axes, 1e-4, 0.75, 1, 3))
    if kind == "grn":
        return Case([x], lambda x: op.grn(x, 0.5))
    if kind == "group":
        return Case([x, *row[:2]], lambda *a: op.group_normalization(*a, 2, 1e-5))
    rows = [*row, d.share([4], 1, 2)]
    return Case([x, *rows], lambda *a: op.batch_norm_inference(*a, 1e-5), [1, 2, 3, 4])


@covers("select")
def select(d: Draw) -> Case:
    shape = d.shape(0, 5)
    a = d.data(shape)
    b = np.resize(a, wide(shape, d))
    return Case([d.data(wide(shape, d), np.bool_), a, b], op.select)


@covers("matmul")
def matmul(d: Draw) -> Case:
    batch, n, k, m = d.shape(0, 2), d.size(), d.size(1, 9), d.size()
    left, right = d.chance(0.3), d.chance(0.3)
    a = d.floats([*batch, k, n] if left else [*batch, n, k])
    b = d.floats([*(batch if d.chance(0.5) else []), *([m, k] if right else [k, m])])
    return Case([a, b], lambda a, b: op.matmul(a, b, left, right))


@covers("einsum")
def einsum(d: Draw) -> Case:
    b, i, j, k = (d.size() for _ in range(4))
    text, one, two = d.pick(
        [("bij,bjk->bik", "bij", "bjk"), ("ij,kj->ik", "ij", "kj"), ("bij,bij->bi", "bij", "bij")]
    )
    size = {"b": b, "i": i, "j": j, "k": k}
    arrays = [d.floats([size[letter] for letter in each]) for each in (one, two)]
    return Case(arrays, lambda a, b: op.einsum([a, b], text))


@covers("scaled_dot_product_attention")
def attention(d: Draw) -> Case:
    b, h, n, m, e = d.size(1, 3), 2, d.size(), d.size(), 8
    q, k, v = d.floats([b, h, n, e]), d.floats([b, h, m, e]), d.floats([b, h, m, e])
    if d.chance(0.5):
        causal = d.chance(0.5)
        return Case([q, k, v], lambda *a: op.scaled_dot_product_attention(*a, causal=causal))
    mask = d.floats([b, 1, n, m])
    return Case([q, k, v, mask], lambda *a: op.scaled_dot_product_attention(*a, causal=False))


@covers("fake_quantize")
def fake_quantize(d: Draw) -> Case:
    shape = [d.size(), d.size(), d.size()]
    per = [1, shape[1], 1] if d.chance(0.4) else []
    low, high = d.share(per, -2, -1), d.share(per, 1, 2)
    held = [1, 2, 3, 4] if d.chance(0.7) else ()
    return Case(
        [d.floats(shape), low, high, low, high], partial(op.fake_quantize, levels=255), held
    )


@covers("dft", "idft", "rdft", "irdft")
def fourier(d: Draw) -> Case:
    shape = [d.size(), d.size(2, 8), d.size(2, 8)]
    axes = np.array(d.pick([[1], [1, 2], [0, 1]]))
    make = d.pick([op.dft, op.idft, op.rdft, op.irdft])
    x = d.floats(shape if make is op.rdft else [*shape, 2])
    if d.chance(0.5):
        return Case([x, axes], make, [1])
    sizes = np.array([d.size(2, 9) for _ in axes])
    return Case([x, axes, sizes], make, [1])


@covers("stft")
def stft(d: Draw) -> Case:
    frame, step = d.pick([4, 8]), d.pick([1, 2, 3])
    x, window = d.floats([d.size(1, 3), d.size(9, 30)]), d.share([d.pick([frame, 4])])
    ints = (op.constant(np.int64(frame)), op.constant(np.int64(step)))
    frames_first = d.chance(0.5)
    return Case([x, window], lambda x, w: op.stft(x, w, *ints, frames_first))


@covers("istft")
def istft(d: Draw) -> Case:
    frame, step = 8, d.pick([2, 3, 4])
    x = d.floats([d.size(1, 3), frame // 2 + 1, d.size(2, 6), 2])
    ints = (op.constant(np.int64(frame)), op.constant(np.int64(step)))
    center, normalized = d.chance(0.5), d.chance(0.5)
    return Case(
        [x, d.share([frame], 0.5, 1)], lambda x, w: op.istft(x, w, *ints, center, normalized)
    )


@covers("inverse")
def inverse(d: Draw) -> Case:
    size = d.size(1, 4)
    eye = np.eye(size, dtype=FLOAT) * 5
    return Case([d.share([d.size(), size, size]) + eye], lambda x: op.inverse(x, False))


@covers("segment_max")
def segment_max(d: Draw) -> Case:
    n = d.size(2, 9)
    ids = np.sort(d.ints([n], 0, 4))
    fill = d.pick(["ZERO", "LOWEST"])
    return Case([d.floats([n, d.size()]), ids], lambda x, i: op.segment_max(x, i, fill_mode=fill))


def _recurrent(d: Draw, kind: str) -> Any:
    gates = {"lstm": 4, "gru": 3, "rnn": 1}[kind]
    size, taken, batch = 3, 2, d.size(1, 4)
    weights = d.share([gates * size, taken], -1), d.share([gates * size, size], -1)
    return size, taken, batch, *weights, d.share([gates * size], -1)


@covers("lstm_cell", "gru_cell", "rnn_cell")
def cells(d: Draw) -> Case:
    kind = d.pick(["lstm", "gru", "rnn"])
    size, taken, batch, w, r, b = _recurrent(d, kind)
    states = [d.floats([batch, size]) for _ in range(2 if kind == "lstm" else 1)]
    operands = [d.floats([batch, taken]), *states, w, r, b]
    first = 1 + len(states)
    make = getattr(op, f"{kind}_cell")
    more = (["tanh"], [], []) if kind == "rnn" else ()
    return Case(operands, lambda *a: make(*a, size, *more), range(first, first + 3))


@covers("lstm_sequence", "gru_sequence", "rnn_sequence")
def sequences(d: Draw) -> Case:
    kind, direction = d.pick(["lstm", "gru", "rnn"]), d.pick(["forward", "reverse"])
    size, taken, batch, w, r, b = _recurrent(d, kind)
    steps = d.size()
    states = [d.floats([batch, 1, size]) for _ in range(2 if kind == "lstm" else 1)]
    lengths = np.full([batch], steps, np.int32)
    if d.chance(0.5):
        lengths = d.ints([batch], 0, steps, np.int32)
    given = [d.floats([batch, steps, taken]), *states, lengths, w[None], r[None], b[None]]
    first = 2 + len(states)
    make = getattr(op, f"{kind}_sequence")
    return Case(given, lambda *a: make(*a, size, direction), range(first, first + 3))
