"""The benchmark encodes requests by hand; here they are read by real message classes."""

import json

import numpy as np
import pytest

from benchmarks import wire
from benchmarks.calls import oip_rest_binary
from benchmarks.shared import FOLDER, oip_grpc_shared
from ie_serving.wire.protobuf.inference_messages import ModelInferRequest, ModelInferResponse
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
    assert wire.read_varint(wire.varint(size), 0) == (size, len(wire.varint(size)))


def test_tensors_behind_the_json_are_read_in_its_order() -> None:
    call = oip_rest_binary("mnist", {"x": PIXELS})
    head = int(dict(call.headers)["Inference-Header-Content-Length"])
    assert call.body[head:] == PIXELS.tobytes()
    described = json.loads(call.body[:head])
    described["outputs"] = described.pop("inputs")
    reply = json.dumps(described).encode() + PIXELS.tobytes()
    np.testing.assert_array_equal(call.decode(reply)["x"], PIXELS)


def test_a_request_by_shared_memory_names_regions_that_hold_its_numbers() -> None:
    call = oip_grpc_shared("mnist", {"x": PIXELS})
    request = ModelInferRequest.FromString(call.body)
    [given], [wanted] = request.inputs, request.outputs
    assert list(given.shape) == [200, 784]
    assert not request.raw_input_contents
    for tensor in (given, wanted):
        region = tensor.parameters["shared_memory_region"].string_param
        assert (FOLDER / region).stat().st_size == PIXELS.nbytes
        assert tensor.parameters["shared_memory_offset"].int64_param == 0
        assert tensor.parameters["shared_memory_byte_size"].int64_param == PIXELS.nbytes
    source = given.parameters["shared_memory_region"].string_param
    assert (FOLDER / source).read_bytes() == PIXELS.tobytes()
    (FOLDER / region).write_bytes(PIXELS.tobytes())
    reply = ModelInferResponse()
    reply.outputs.add(name="y", datatype="FP32", shape=[200, 784])
    np.testing.assert_array_equal(call.decode(reply.SerializeToString())["y"], PIXELS)
