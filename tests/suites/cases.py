"""The tests of the package `onnx`: models, inputs, and what they give. Nothing is downloaded."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper
from onnx.backend.test import runner
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests

Array = npt.NDArray[Any]
Values = Mapping[str, Array]

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator", "real")
LIGHT = Path(runner.__file__).parents[1] / "data" / "light"
"""Published architectures with constant weights: what stands for the kind "real" in the package."""

RANDOM = "the outputs are random numbers"
SIZE_IN_PARTS = "whether the size that positions follow from is rounded is not specified"
ILL_POSED: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                f"bernoulli{which}{form}"
                for which in ("", "_double", "_seed")
                for form in ("", "_expanded")
            ),
            RANDOM,
        ),
        **dict.fromkeys(
            (f"training_dropout{form}" for form in ("", "_default", "_default_mask", "_mask")),
            RANDOM,
        ),
        "resize_downsample_scales_cubic_align_corners": SIZE_IN_PARTS,
        "resize_downsample_scales_linear_align_corners": SIZE_IN_PARTS,
        "maxunpool_export_with_output_shape": "which shape the indices count in is not specified",
    }
)
"""Tests with more than one right answer, and why: only types and shapes are compared. onnxruntime
differs from each of them, too."""

CARRIED = frozenset(
    {"FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16", "BOOL", "STRING"}
    | {f"{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)}
)
"""Element types, in ONNX's words, that the interfaces have."""


class NotCarried(Exception):
    """The values of a test are of a type that no interface has; the text is the type."""


@dataclass(frozen=True)
class Case:
    """One test.

    Attributes:
        name: as the package names it, without `test_`.
        model: what is served.
        sets: inputs by name, and the outputs that they give.
        rtol: share by which an output may differ, as the test says it.
        atol: amount by which an output may differ beside it.
        not_carried: the type that no request can carry; empty where one can.
    """

    name: str
    model: onnx.ModelProto
    sets: tuple[tuple[Values, Values], ...]
    rtol: float
    atol: float
    not_carried: str = ""


def cases(kinds: Sequence[str] = KINDS) -> list[Case]:
    """All tests of these kinds, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy's, of overflows that the tests are about
        tests = [test for kind in kinds for test in load_model_tests(kind=kind)]
    return sorted(map(case_of, tests), key=lambda case: case.name)


def with_open_sizes(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with each size of its inputs left to the request, as exporters write it."""
    opened = onnx.ModelProto()
    opened.CopyFrom(model)
    del opened.graph.value_info[:]
    for number, each in enumerate(_fed(opened.graph)):
        for axis, size in enumerate(each.type.tensor_type.shape.dim):
            size.dim_param = f"d{number}_{axis}"
    for each in opened.graph.output:
        each.type.tensor_type.ClearField("shape")
    return opened


def case_of(test: TestCase) -> Case:
    """Read one test."""
    model = test.model or onnx.load(_file(test))
    name = test.name.removeprefix("test_")
    try:
        sets = tuple(
            (_named(_fed(model.graph), given), _named(model.graph.output, expected))
            for given, expected in _sets(test, model)
        )
    except NotCarried as kind:
        return Case(name, model, (), test.rtol, test.atol, str(kind))
    return Case(name, model, sets, test.rtol, test.atol)


def _fed(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    constants = {each.name for each in graph.initializer}
    return [each for each in graph.input if each.name not in constants]


def _file(test: TestCase) -> Path:
    if test.model_dir:
        return Path(test.model_dir) / "model.onnx"
    return LIGHT / Path(str(test.url)).name


def _sets(test: TestCase, model: onnx.ModelProto) -> Iterator[tuple[Sequence[Any], Sequence[Any]]]:
    if test.data_sets is not None:
        yield from test.data_sets
    elif test.model_dir:
        for directory in sorted(Path(test.model_dir).glob("test_data_set*")):
            yield _stored(directory, "input"), _stored(directory, "output")
    else:
        file = _file(test)
        yield (
            [runner.Runner.generate_dummy_data(each) for each in _fed(model.graph)],
            [_tensor(file.with_name(f"{file.stem}_output_0.pb"))],
        )


def _stored(directory: Path, what: str) -> list[onnx.TensorProto]:
    count = len(list(directory.glob(f"{what}_*.pb")))
    return [_tensor(directory / f"{what}_{number}.pb") for number in range(count)]


def _tensor(file: Path) -> onnx.TensorProto:
    return onnx.TensorProto.FromString(file.read_bytes())


def _named(specs: Sequence[onnx.ValueInfoProto], values: Sequence[Any]) -> Values:
    pairs = zip(specs, values, strict=True)
    return {spec.name: _array(spec.type, value) for spec, value in pairs}


def _array(kind: onnx.TypeProto, value: Any) -> Array:
    what = str(kind.WhichOneof("value"))
    if what != "tensor_type":
        raise NotCarried(what.removesuffix("_type"))
    word = onnx.TensorProto.DataType.Name(kind.tensor_type.elem_type)
    if word not in CARRIED:
        raise NotCarried(word.lower())
    is_proto = isinstance(value, onnx.TensorProto)
    return numpy_helper.to_array(value) if is_proto else np.asarray(value)
