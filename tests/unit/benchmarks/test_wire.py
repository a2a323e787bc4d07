"""The benchmark encodes requests by hand; here they are read by real message classes."""

import numpy as np
import pytest

from benchmarks import wire
from ie_serving.wire.protobuf.messages import PredictRequest, PredictResponse

PIXELS = np.arange(200 * 784, dtype=np.float32).reshape(200, 784)


def test_a_predict_request_is_what_tensorflow_serving_reads() -> None:
    request = PredictRequest.FromString(wire.tfs_request("mnist", {"x": PIXELS}))
    tensor = request.inputs["x"]
    assert request.model_spec.name == "mnist"
    assert tensor.dtype == 1
    assert [dim.size for dim in tensor.tensor_shape.dim] == [200, 784]
    assert tensor.tensor_content == PIXELS.tobytes()


def test_a_predict_response_is_read_whatever_the_order_of_its_outputs() -> None:
    response = PredictResponse()
    response.model_spec.name = "mnist"
    for name, values in {"y": PIXELS, "digit": np.array([7, 300], np.int32)}.items():
        tensor = response.outputs[name]
        tensor.dtype = wire.TF_DTYPE[values.dtype]
        for size in values.shape:
            tensor.tensor_shape.dim.add(size=size)
        tensor.tensor_content = values.tobytes()
    outputs = wire.tfs_response(response.SerializeToString())
    np.testing.assert_array_equal(outputs["y"], PIXELS)
    np.testing.assert_array_equal(outputs["digit"], [7, 300])


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_384, 1 << 40])
def test_sizes_of_any_length_survive(size: int) -> None:
    assert wire._read_varint(wire._varint(size), 0) == (size, len(wire._varint(size)))
