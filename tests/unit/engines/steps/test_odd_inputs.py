"""Whatever a request brings, a built-in step answers or refuses: it has no defects of its own."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from ie_serving.core.values.errors import ServingError
from ie_serving.core.values.tensors import BY_NUMPY, DataType, Specs, TensorSpec
from ie_serving.engines.steps.declaration import StepInput
from ie_serving.engines.steps.registry import TABLE

OPTIONS: Mapping[str, Any] = {
    "resize": {"height": 3, "width": 2, "fit": "crop"},
    "image_to_tensor": {"height": 2, "width": 3, "fit": "pad", "mean": [1, 2, 3]},
    "crop": {"height": 2, "width": 2, "margin": 0.5},
    "draw": {"format": "pixels"},
    "yolo_boxes": {"height": 8, "width": 8},
    "classifier_output": {"labels": ["a", "b"], "softmax": True},
    "regression_output": {"names": {"a": 0, "b": 1}},
    "template": {"text": "{x:.2f}"},
}
KINDS = [
    *((name, {}) for name in TABLE),
    ("yolo_boxes", {"form": "v5"}),
    ("yolo_boxes", {"form": "grid", "anchors": [[1, 1]]}),
    ("ssd_boxes", {"overlap": 0.5}),
    ("image_to_tensor", {"colors": "GREY", "mean": 3, "layout": "NHWC"}),
]
SHAPES = st.one_of(
    array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=4),
    st.sampled_from(
        [(1, 1, 3, 7), (1, 6, 5), (1, 5, 6), (4, 3, 3), (1, 2, 4), (1, 6, 2, 2), (0, 7)]
    ),
)


@st.composite
def arrays_of(draw: st.DrawFn, each: StepInput) -> Any:
    """Draw what passes the check of the graph: any dtype that is taken, any shape that fits."""
    dtype = draw(st.sampled_from(sorted({each.dtype, *each.also}, key=lambda d: d.name)))
    shape = draw(SHAPES)
    if each.shape is not None:
        shape = tuple(draw(st.integers(0, 4)) if size == -1 else size for size in each.shape)
    if dtype is DataType.STRING:
        texts = draw(st.lists(st.binary(max_size=8), min_size=1, max_size=3))
        return np.resize(np.array([*texts, b""], np.object_)[:-1], shape)
    return draw(arrays(dtype.numpy, shape))


def taken(inputs: Mapping[str, StepInput], draw: Any) -> dict[str, Any]:
    return {name: draw.draw(arrays_of(each)) for name, each in inputs.items()}


@pytest.mark.parametrize(("name", "more"), KINDS, ids=lambda each: str(each or ""))
@given(st.data())
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_odd_inputs_are_answered_or_refused(name: str, more: Mapping[str, Any], data: Any) -> None:
    row = TABLE[name]
    options = row.read({**OPTIONS.get(name, {}), **more}, None)
    told = {"step": "s"} if row.named else {}
    watched = {"watch": None} if row.watches else {}
    if row.rest:
        given_ = {"inputs": {"x": data.draw(arrays_of(row.rest))}}
    else:
        inputs = row.instead if row.instead and data.draw(st.booleans()) else row.inputs
        given_ = taken(inputs, data)
    try:
        found = row.run(**given_, **options, **told, **watched)
    except ServingError as error:
        assert str(error)
        return
    assert_as_declared(
        row.signature(specs_of(given_.get("inputs", given_)), options).outputs, found
    )


def specs_of(given_: Mapping[str, Any]) -> Any:
    return {
        name: TensorSpec(name, BY_NUMPY[array.dtype], array.shape, name)
        for name, array in given_.items()
    }


def assert_as_declared(specs: Specs, found: Mapping[str, Any]) -> None:
    assert specs.keys() == found.keys()
    for name, spec in specs.items():
        array = np.asarray(found[name])
        assert array.dtype == spec.dtype.numpy, name
        if spec.shape is not None:
            assert len(array.shape) == len(spec.shape), name
            pairs = zip(array.shape, spec.shape, strict=True)
            assert all(declared in (-1, size) for size, declared in pairs), (
                name,
                spec,
                array.shape,
            )
