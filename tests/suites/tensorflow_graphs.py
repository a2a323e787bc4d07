"""A test of an operation of TensorFlow: its graph, its requests, and TensorFlow's answers."""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1
from tensorflow.python.framework import op_def_registry

from tests.suites.judging import Array
from tests.suites.tensorflow_table import TABLE, Drawn, Form, Given, call

SIZES = ("fixed", "open")
OPERANDS = ("held", "fed")
"""Whether what is given as an array is a constant of the graph, or an input of it."""

DTYPES = tuple(
    np.dtype(tf.as_dtype(word).as_numpy_dtype)
    for word in ["float32", "int32", "float64", "float16", "bfloat16", "int64", "uint8", "bool"]
)
OF_OTHER_FORMS = 1
"""Types of each form of an operation behind its first."""

BASE, OTHERS, NONE = 2, (1, 5), 0
"""Values of the size `n`."""

USUAL = "usual"
FINITE = (USUAL, "ties", "zeros", "negative", "large")
NONFINITE = "not finite"


@dataclass(frozen=True)
class Test:
    """One form of an operation, of one type."""

    op: str
    number: int
    dtype: np.dtype[Any] | None

    @property
    def name(self) -> str:
        return f"{self.op}.{self.number}.{self.dtype or 'given'}"

    @property
    def form(self) -> Form:
        return TABLE[self.op][self.number]

    @property
    def holds(self) -> bool:
        """Whether an array among the inputs is tried as an input of the graph, too."""
        return self.dtype in (None, DTYPES[0], DTYPES[1]) and any(
            not isinstance(each, (Drawn, Given)) for each in _flat(self.form.inputs)
        )


class Request(NamedTuple):
    """Which values, and how large `n`."""

    values: str
    size: int


def tests() -> list[Test]:
    """All tests, by name."""
    return [
        Test(op, number, dtype)
        for op in sorted(TABLE)
        for number, form in enumerate(TABLE[op])
        for dtype in _types(op, form, len(DTYPES) if not number else OF_OTHER_FORMS)
    ]


def _types(op: str, form: Form, most: int) -> list[np.dtype[Any] | None]:
    drawn = [each for each in _flat(form.inputs) if isinstance(each, Drawn) and each.dtype is None]
    if not drawn:
        return [None]
    if form.build is not None:
        return [np.dtype(each) for each in form.dtypes]
    allowed = form.dtypes or _allowed(op, form)
    return [each for each in DTYPES if each in allowed][:most]


def _allowed(op: str, form: Form) -> list[Any]:
    definition = op_def_registry.get(op)
    attrs = {each.name: each for each in definition.attr}
    for argument, given in zip(definition.input_arg, form.inputs, strict=True):
        if any(isinstance(each, Drawn) and each.dtype is None for each in _flat([given])):
            if not (argument.type_attr or argument.type_list_attr):
                return [tf.as_dtype(argument.type).as_numpy_dtype]
            values = attrs[argument.type_attr or argument.type_list_attr].allowed_values.list.type
            return [
                each
                for each in DTYPES
                if not values or tf.as_dtype(each).as_datatype_enum in values
            ]
    return []


def _flat(inputs: Sequence[Any]) -> Iterator[Any]:
    for each in inputs:
        yield from each if isinstance(each, list) else [each]


_ONE_THREAD = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)


class Graph:
    """A test's graph in TensorFlow, with inputs `i0`, `i1` and outputs `o0`, `o1` and so on."""

    def __init__(self, test: Test, sizes: str, operands: str, size: int) -> None:
        self._test, self._sizes, self._fed, self._size = test, sizes, operands == "fed", size
        self.inputs: dict[str, tuple[Any, Any]] = {}
        self.graph = v1.Graph()
        with self.graph.as_default():
            given = [self._input(each, self._type(place)) for place, each in self._places()]
            form = test.form
            made = form.build(*given) if form.build else call(test.op, given, form.attrs)
            self.outputs = {f"o{k}": each for k, each in enumerate(self._tensors(made))}

    @classmethod
    def of(cls, test: Test, sizes: str, operands: str, size: int) -> "Graph | None":
        """Make one; None where TensorFlow has no such form, or none of this type."""
        try:
            made = cls(test, sizes, operands, size)
            with made.session():
                return made
        except (ValueError, TypeError, tf.errors.OpError):
            return None

    def session(self) -> Any:
        """Open a session, whose tables and variables are filled."""
        session = v1.Session(graph=self.graph, config=_ONE_THREAD)
        with self.graph.as_default():
            session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        return session

    def answer(self, session: Any, request: Request) -> dict[str, Array] | None:
        """Give TensorFlow's answer; None where it refuses the request."""
        values = self.values(request)
        fed = {self.inputs[name][0]: value for name, value in values.items()}
        try:
            found: dict[str, Array] = session.run(self.outputs, fed)
        except (ValueError, tf.errors.OpError):
            return None
        return found

    def save(self, directory: Path, session: Any) -> None:
        """Write it as a SavedModel."""
        info = v1.saved_model.utils.build_tensor_info
        signature = v1.saved_model.build_signature_def(
            {name: info(tensor) for name, (tensor, _) in self.inputs.items()},
            {name: info(tensor) for name, tensor in self.outputs.items()},
            "tensorflow/serving/predict",
        )
        with self.graph.as_default():
            builder = v1.saved_model.Builder(str(directory))
            builder.add_meta_graph_and_variables(
                session, ["serve"], {"serving_default": signature}, main_op=v1.tables_initializer()
            )
            builder.save()

    def values(self, request: Request, ours: bool = False) -> dict[str, Array]:
        """Draw what a request brings; `ours` as this server has it within."""
        found = {}
        for name, (tensor, source) in self.inputs.items():
            seed = zlib.crc32(f"{self._test.name} {name} {request}".encode())
            dtype = np.dtype(tensor.dtype.as_numpy_dtype)
            is_drawn = isinstance(source, Drawn)
            found[name] = _drawn(source, dtype, request, seed) if is_drawn else source
            if is_drawn and dtype == np.float64:  # computed as float32
                found[name] = found[name].astype(np.float32).astype(dtype)
            if dtype.name == "bfloat16" and ours:
                found[name] = found[name].astype(np.float32)
        return found

    def _places(self) -> Iterator[tuple[int, Any]]:
        return enumerate(self._test.form.inputs)

    def _type(self, place: int) -> Any:
        """The type of an input's constants where it follows from that of what is drawn."""
        test = self._test
        if test.form.build is not None:
            return None
        arguments = op_def_registry.get(test.op).input_arg
        for other, each in zip(arguments, test.form.inputs, strict=True):
            if other.type_attr and other.type_attr == arguments[place].type_attr:
                for drawn in _flat([each]):
                    if isinstance(drawn, Drawn):
                        return drawn.dtype or test.dtype
        return None

    def _input(self, given: Any, dtype: Any) -> Any:
        if isinstance(given, list):
            return [self._input(each, dtype) for each in given]
        if isinstance(given, Drawn):
            shape = [self._size if each == "n" else each for each in given.shape]
            return self._placeholder(given, given.dtype or self._test.dtype, shape)
        if isinstance(given, Given):
            return self._placeholder(given.value, given.value.dtype, given.value.shape)
        value = np.asarray(given, dtype)
        if not self._fed:
            return tf.constant(value)
        return self._placeholder(value, value.dtype, value.shape)

    def _placeholder(self, source: Any, dtype: Any, shape: Sequence[Any]) -> Any:
        sizes = shape if self._sizes == "fixed" else [None] * len(shape)
        name = f"i{len(self.inputs)}"
        kind = tf.string if dtype == np.object_ else tf.as_dtype(dtype)
        tensor = v1.placeholder(kind, sizes, name)
        self.inputs[name] = (tensor, source)
        return tensor

    @staticmethod
    def _tensors(made: Any) -> list[Any]:
        if tf.is_tensor(made):
            return [made]
        return [each for part in made for each in Graph._tensors(part)]


def _drawn(source: Drawn, dtype: np.dtype[Any], request: Request, seed: int) -> Array:
    shape = [request.size if each == "n" else each for each in source.shape]
    rng = np.random.default_rng(seed)
    is_free = source.low is None
    if dtype.kind == "b":
        values: Any = rng.random(shape) < {"zeros": 0, "negative": 1}.get(request.values, 0.5)
        return np.asarray(values, bool)
    is_real = dtype.kind not in "iu"
    low, high = (-4.0, 4.0) if is_free else (float(source.low or 0), float(source.high or 0))
    if is_free and dtype.kind == "u":
        low, high = 0.0, 8.0
    if request.values == "ties":
        grid = np.clip([-1.5, -0.5, 0.5, 0.5, 1, 1, 2.5], low, high)
        values = rng.choice(grid, shape)
    elif request.values == "zeros":
        values = np.full(shape, np.clip(0, low, high))
    elif request.values == "negative":
        values = np.clip(-rng.uniform(0.25, 4, shape), low, high)
    elif request.values == "large" and is_free:
        return _large(dtype, shape, rng)
    elif request.values == NONFINITE and is_real:
        values = rng.choice([np.nan, np.inf, -np.inf, 0, 1.5], shape)
    else:
        values = rng.uniform(low, high, shape)
    if not is_real:
        values = np.rint(values)
    return np.asarray(values).astype(dtype)


def _large(dtype: np.dtype[Any], shape: Sequence[int], rng: np.random.Generator) -> Array:
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        edges = [limits.max, limits.min, limits.max - 1, limits.max // 2 + 1, 1]
        return np.asarray(rng.choice(np.array(edges, dtype), shape))
    scale = 1e3 if dtype.name == "float16" else 1e6
    return np.asarray(rng.uniform(-scale, scale, shape)).astype(dtype)


def requests_of(test: Test, sizes: str) -> list[list[Request]]:
    """Give the requests of each model: in fixed sizes, one of other sizes has its own."""
    drawn = [each for each in _flat(test.form.inputs) if isinstance(each, Drawn)]
    if not drawn:
        return [[Request(USUAL, BASE)]]
    usual = [Request(values, BASE) for values in (*FINITE, NONFINITE)]
    if not any("n" in each.shape for each in drawn):
        return [usual]
    if sizes == "fixed":
        return [usual, [Request(USUAL, NONE)]] if not test.number else [usual]
    return [[*usual, *(Request(USUAL, size) for size in (*OTHERS, NONE))]]
