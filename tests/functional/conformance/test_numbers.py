"""Tensors pass the server as they pass TensorFlow's own functions, in each dtype and encoding."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tensorflow.core.framework import tensor_pb2

from tests.functional.asking import predict_request
from tests.functional.conformance.case import OPTIONS, PLAIN
from tests.functional.conformance.models import ELEMENT_TYPES
from tests.functional.servers import Server
from tests.process import PATIENCE_S

INT31 = st.integers(0, 2**31 - 1)
TEXT = st.binary(max_size=5).filter(lambda text: not text.endswith(b"\0"))
VALUES = {
    "double": st.floats(width=32, allow_infinity=False),
    "int64": st.integers(-(2**31), 2**31 - 1),
    "uint32": INT31,
    "uint64": INT31,
    "string": TEXT,
}
"""Where OpenVINO takes less than the dtype holds; docs/design/data.md."""
FEW = settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def samples(word: str) -> st.SearchStrategy[Any]:
    dtype = tf.dtypes.as_dtype(word)
    shape = st.integers(0, 40).map(lambda size: (size,))
    if word == "bfloat16":
        whole = arrays.arrays(np.float32, shape, elements=st.floats(-(2.0**90), 2.0**90, width=32))
        return whole.map(lambda array: array.astype(dtype.as_numpy_dtype))
    if word == "string":
        return st.lists(TEXT, max_size=20).map(lambda texts: np.array(texts, object))
    kind = np.dtype(dtype.as_numpy_dtype)
    finite = {"allow_subnormal": False} if kind.kind == "f" else None
    return arrays.arrays(kind, shape, elements=VALUES.get(word, finite))


def listed(array: Any, dtype: Any) -> Any:
    """The same tensor in its typed list, which is how TensorFlow writes single values."""
    proto = tensor_pb2.TensorProto(dtype=dtype.as_datatype_enum)
    proto.tensor_shape.CopyFrom(tf.make_tensor_proto(array, dtype=dtype).tensor_shape)
    for value in array.reshape(-1):
        single = tf.make_tensor_proto(value, dtype=dtype)
        single.ClearField("tensor_shape")
        proto.MergeFrom(single)
    return proto


@pytest.mark.parametrize("word", ELEMENT_TYPES)
@FEW
@given(data=st.data())
def test_a_tensor_comes_back_as_it_went(
    servers: Mapping[str, Server], word: str, data: st.DataObject
) -> None:
    array = data.draw(samples(word))
    dtype = tf.dtypes.as_dtype(word)
    for proto in (tf.make_tensor_proto(array, dtype=dtype), listed(array, dtype)):
        request = predict_request(word, x=proto)
        output = servers[PLAIN].prediction.Predict(request, PATIENCE_S).outputs["y"]
        assert output.dtype == dtype.as_datatype_enum
        back = tf.make_ndarray(output)
        assert back.dtype == tf.make_ndarray(proto).dtype
        np.testing.assert_array_equal(back, array)
        np.testing.assert_array_equal(tf.io.parse_tensor(output.SerializeToString(), dtype), back)


@FEW
@given(x=arrays.arrays(np.float32, st.integers(0, 40), elements=st.floats(-1e6, 1e6, width=32)))
def test_tensor_content_in_replies_is_tensorflows_own(
    servers: Mapping[str, Server], x: Any
) -> None:
    request = predict_request("plus", x=x)
    output = servers[OPTIONS].prediction.Predict(request, PATIENCE_S).outputs["y"]
    assert not output.float_val
    expected = x * np.float32(0.5) + np.float32(3)
    np.testing.assert_allclose(tf.make_ndarray(output), expected, rtol=1e-6)
