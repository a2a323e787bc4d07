"""Generates requests for a model: usual values, and values on which engines are known to differ.

Only the specs of the inputs are known, so most sizes and integers are guesses: `guesses` gives them
in the order of their likelihood, and the caller keeps those that an engine accepts.
"""

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final, TypeAlias

import numpy as np

from ie_serving.core.values.tensors import Array, Arrays, DataType

SEED = 20260703
"""A model gets the same requests in the same order on every load, as many as time allows."""
MOST_ELEMENTS = 1 << 24
"""Elements of one generated input, 64 MB of float32: a larger guess is passed over."""

Dim = int | str
"""A fixed size, or the name of an open one; open ones of one name are of one size."""

LEAST: Final = "the least integer"
"""Label of the request that some libraries end the process at, divided by -1."""
Integers: TypeAlias = "Callable[[np.random.Generator, tuple[int, ...]], Array]"
Floats: TypeAlias = "Callable[[np.random.Generator, tuple[int, ...]], Array]"
SIZES = (2, 3, 1, 4, 8, 16, 32, 64, 224)
"""Sizes that open dimensions are tried with. Not 1 first: many faults of shapes hide behind it."""
LARGE = 1 << 16
"""Elements of a request from which on one row comes first: an inference takes long enough."""
INTEGERS: Mapping[str, Integers] = {
    "integers below 3": lambda random, shape: random.integers(0, 3, shape),
    "ones": lambda random, shape: np.ones(shape, np.int64),
    "integers from 1 to 4": lambda random, shape: random.integers(1, 5, shape),
    "the numbers from 0": lambda random, shape: np.arange(np.prod(shape, dtype=int)).reshape(shape),
    "zeros": lambda random, shape: np.zeros(shape, np.int64),
}
"""Guesses for integers, which are often indices, sizes or axes."""
MORE_INTEGERS: Mapping[str, Integers] = {
    "twos": lambda random, shape: np.full(shape, 2),
    "integers from -5 to 5": lambda random, shape: random.integers(-5, 6, shape),
    "integers below 10": lambda random, shape: random.integers(0, 10, shape),
}
"""Integers that few models take: several equal ones, negative ones. Engines differ on them."""
FEW = 8
"""Floats of a row from which on it is no parameter, such as scales or a threshold."""
PARAMETERS: Mapping[str, Floats] = {
    "normal parameters": lambda random, shape: random.standard_normal(shape),
    "parameters of 0.5": lambda random, shape: np.full(shape, 0.5),
    "scales of 0.6": lambda random, shape: np.where(np.arange(shape[0]) < shape[0] / 2, 1.0, 0.6),
    "scales of 2": lambda random, shape: np.where(np.arange(shape[0]) < shape[0] / 2, 1.0, 2.0),
}
"""Guesses for rows of a few floats. Scales of pictures leave the first half of their axes."""
_BYTES = frozenset({DataType.INT8, DataType.UINT8})
"""Quantized values and pixels mostly: every number of the type is a usual one."""
_WIDE_INTEGERS = frozenset({DataType.INT32, DataType.INT64, DataType.UINT32, DataType.UINT64})


@dataclass(frozen=True)
class GeneratedInput:
    """An input to make values for: its name, its element type and its dimensions."""

    name: str
    dtype: DataType
    dims: tuple[Dim, ...]


class ValueKind(enum.Enum):
    """The kind of values that a request has."""

    FINITE = "finite values"
    NAN = "NaN"
    INFINITE = "infinity"
    EXTREME = "extreme integers"
    EMPTY = "no elements"


@dataclass(frozen=True)
class GeneratedRequest:
    """One generated request.

    Attributes:
        kind: kind of its values.
        label: a description of its values.
        inputs: arrays by the names of inputs.
    """

    kind: ValueKind
    label: str
    inputs: Arrays

    def __str__(self) -> str:
        shapes = ", ".join(f"{name} {list(each.shape)}" for name, each in self.inputs.items())
        return f"{self.label} ({shapes})"


# `np.random` is quoted: it is imported when it is first used, and takes 4 MB.


@dataclass(frozen=True)
class Guess:
    """One guess about a model's inputs.

    Attributes:
        sizes: sizes of open dimensions, by their names.
        integers: a key of `INTEGERS`, or of `MORE_INTEGERS`.
        parameters: a key of `PARAMETERS`.
    """

    sizes: Mapping[str, int]
    integers: str
    parameters: str


def guesses(inputs: Sequence[GeneratedInput]) -> Iterator[Guess]:
    """Give guesses that may be valid for a model, the likeliest first.

    First, all open dimensions have the same size; then the first one differs from the others.
    """
    names = list(dict.fromkeys(d for each in inputs for d in each.dims if isinstance(d, str)))
    kinds = list(INTEGERS) if any(_is_integer(each.dtype) for each in inputs) else ["zeros"]
    firsts = {each.dims[0] for each in inputs if each.dims and isinstance(each.dims[0], str)}
    others = [name for name in names if name not in firsts]
    pairs = [(size, size) for size in SIZES] if names else [(1, 1)]
    if names and sum(_count(each, dict.fromkeys(names, 2)) for each in inputs) > LARGE:
        pairs.sort(key=lambda pair: pair[0] != 1)
    if firsts and others:
        pairs += [(2, size) for size in SIZES[1:]]
    has_parameters = any(_is_parameter(each, inputs) for each in inputs)
    rows = list(PARAMETERS) if has_parameters else ["normal parameters"]
    for (first, other), integers, parameters in product(pairs, kinds, rows):
        sizes = {name: first if name in firsts else other for name in names}
        if all(_count(each, sizes) <= MOST_ELEMENTS for each in inputs):
            yield Guess(sizes, integers, parameters)


def usual(inputs: Sequence[GeneratedInput], guess: Guess) -> GeneratedRequest:
    """Make a request of normally distributed floats, by which guesses are tried."""
    return _request(inputs, guess, ValueKind.FINITE, "normal values", _normal)


def requests(inputs: Sequence[GeneratedInput], guess: Guess) -> Iterator[GeneratedRequest]:
    """Give the requests that a model is tried with beside usual ones, first those that tell most.

    Args:
        inputs: inputs of the model.
        guess: sizes and integers that the model takes.
    """
    has_floats = any(is_float(each.dtype) and not _is_parameter(each, inputs) for each in inputs)
    if any(_is_integer(each.dtype) for each in inputs):
        for integers in (*INTEGERS, *MORE_INTEGERS):
            other = replace(guess, integers=integers)
            yield _request(inputs, other, ValueKind.FINITE, integers, _ties)
    if any(each.dtype is DataType.BOOL for each in inputs):
        yield _request(inputs, guess, ValueKind.FINITE, "false everywhere", _normal, truth=0.0)
    if has_floats:
        yield _request(inputs, guess, ValueKind.NAN, "normal values and NaN", _mixed(np.nan))
        label = "normal values and infinities"
        yield _request(inputs, guess, ValueKind.INFINITE, label, _mixed(np.inf, -np.inf))
        yield _request(inputs, guess, ValueKind.FINITE, "equal values and halves", _ties)
        yield _request(inputs, guess, ValueKind.FINITE, "values up to 100", _wide)
        for value, kind in (
            (np.nan, ValueKind.NAN),
            (-np.inf, ValueKind.INFINITE),
            (np.inf, ValueKind.INFINITE),
        ):
            yield _request(inputs, guess, kind, f"{value} everywhere", _constant(value))
        yield _request(inputs, guess, ValueKind.FINITE, "zeros", _constant(0.0))
    if any(each.dtype in _WIDE_INTEGERS for each in inputs):
        yield _extreme(inputs, guess, "the greatest integer", is_greatest=True)
        yield _extreme(inputs, guess, LEAST, is_greatest=False)
    if guess.sizes:
        empty = replace(guess, sizes=dict.fromkeys(guess.sizes, 0))
        yield _request(inputs, empty, ValueKind.EMPTY, "no elements", _normal)


def _request(
    inputs: Sequence[GeneratedInput],
    guess: Guess,
    kind: ValueKind,
    label: str,
    floats: Floats,
    truth: float = 0.5,
) -> GeneratedRequest:
    random = np.random.default_rng(SEED)
    made = {}
    for each in inputs:
        own = PARAMETERS[guess.parameters] if _is_parameter(each, inputs) else floats
        # A lone number is a scalar of numpy, not an array.
        made[each.name] = np.asarray(_values(each, guess, random, own, truth))
    return GeneratedRequest(kind, label, made)


def _extreme(
    inputs: Sequence[GeneratedInput], guess: Guess, label: str, *, is_greatest: bool
) -> GeneratedRequest:
    made = dict(_request(inputs, guess, ValueKind.EXTREME, label, _normal).inputs)
    for each in inputs:
        if each.dtype in _WIDE_INTEGERS:
            ends = np.iinfo(each.dtype.numpy)
            # One alone: where it is an index or a size, the other numbers still mean something.
            flat = made[each.name].reshape(-1)
            flat[:1] = ends.max if is_greatest else ends.min
    return GeneratedRequest(ValueKind.EXTREME, label, made)


def _values(
    each: GeneratedInput, guess: Guess, random: "np.random.Generator", floats: Floats, truth: float
) -> Array:
    shape = _shape(each, guess.sizes)
    if is_float(each.dtype):
        return floats(random, shape).astype(each.dtype.numpy)
    if each.dtype is DataType.BOOL:
        return random.random(shape) < truth
    if each.dtype is DataType.STRING:
        words = np.array([b"a", b"bc", b"Some words", b""], np.object_)
        return np.asarray(words[random.integers(0, len(words), shape)], np.object_).reshape(shape)
    if each.dtype in _BYTES:
        ends = np.iinfo(each.dtype.numpy)
        return random.integers(ends.min, ends.max, shape, endpoint=True, dtype=each.dtype.numpy)
    make = INTEGERS.get(guess.integers) or MORE_INTEGERS[guess.integers]
    ends = np.iinfo(each.dtype.numpy)
    return np.clip(make(random, shape), ends.min, ends.max).astype(each.dtype.numpy)


def is_float(dtype: DataType) -> bool:
    """Tell whether a dtype is one of floats."""
    return dtype.numpy.kind == "f"


def _is_parameter(each: GeneratedInput, inputs: Sequence[GeneratedInput]) -> bool:
    """Tell whether one of several inputs is a row of a few floats, in a fixed number."""
    (size,) = each.dims if len(each.dims) == 1 < len(inputs) else ("",)
    return is_float(each.dtype) and isinstance(size, int) and 0 < size <= FEW


def _is_integer(dtype: DataType) -> bool:
    return dtype.numpy.kind in "iu" and dtype not in _BYTES


def _shape(each: GeneratedInput, sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(sizes[dim] if isinstance(dim, str) else dim for dim in each.dims)


def _count(each: GeneratedInput, sizes: Mapping[str, int]) -> int:
    return int(np.prod(_shape(each, sizes), dtype=np.int64))


def _normal(random: "np.random.Generator", shape: tuple[int, ...]) -> Array:
    return random.standard_normal(shape)


def _wide(random: "np.random.Generator", shape: tuple[int, ...]) -> Array:
    return random.uniform(-100, 100, shape)


def _ties(random: "np.random.Generator", shape: tuple[int, ...]) -> Array:
    return random.choice([0.5, 1.5, -0.5, 2.5, 0.0, 1.0], shape)


def _mixed(*odd: float) -> Floats:
    """Make normal values; one in eight, and at least one, is from `odd`."""

    def values(random: "np.random.Generator", shape: tuple[int, ...]) -> Array:
        made = random.standard_normal(shape)
        flat = made.reshape(-1)
        indices = random.permutation(flat.size)[: max(1, flat.size // 8)]
        flat[indices] = np.resize(odd, indices.size)
        return made

    return values


def _constant(value: float) -> Floats:
    return lambda random, shape: np.full(shape, value)
