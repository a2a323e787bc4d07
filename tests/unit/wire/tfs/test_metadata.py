"""Status and metadata as clients of TensorFlow Serving compare them.

To the byte they are in `tests/functional/conformance/cases/versions.py`.
"""

import json

import numpy as np
from google.protobuf import json_format

from ie_serving.core.values.tensors import DataType, Signature, TensorSpec
from ie_serving.core.values.versions import State, VersionStatus
from ie_serving.wire.protobuf import messages
from ie_serving.wire.tfs import metadata, statuses

SIGNATURES = {
    "serving_default": Signature(
        "serving_default",
        {"x": TensorSpec("x", DataType.FP32, (-1, 2), "x:0")},
        {"y": TensorSpec("y", DataType.INT64, None, "out")},
    )
}

MESSAGE_JSON = """{
  "modelSpec": {
    "name": "m",
    "version": "123"
  },
  "metadata": {
    "signature_def": {
      "@type": "type.googleapis.com/tensorflow.serving.SignatureDefMap",
      "signatureDef": {
        "serving_default": {
          "inputs": {
            "x": {
              "name": "x:0",
              "dtype": "DT_FLOAT",
              "tensorShape": {
                "dim": [
                  {
                    "size": "-1"
                  },
                  {
                    "size": "2"
                  }
                ]
              }
            }
          },
          "outputs": {
            "y": {
              "name": "out",
              "dtype": "DT_INT64",
              "tensorShape": {
                "unknownRank": true
              }
            }
          },
          "methodName": "tensorflow/serving/predict"
        }
      }
    }
  }
}"""


def test_a_failed_load_has_the_code_unknown_and_its_text() -> None:
    status = VersionStatus(3, State.LOADING, "Error occurred while loading version")
    (shown,) = json.loads(statuses.StatusEncoder().json([status]))["model_version_status"]
    assert shown["status"] == {"error_code": "UNKNOWN", "error_message": status.error}
    response = messages.GetModelStatusResponse.FromString(
        statuses.StatusEncoder().response([status])
    )
    (entry,) = response.model_version_status
    assert (entry.version, entry.state) == (3, 20)
    assert (entry.status.error_code, entry.status.error_message) == (2, status.error)


def test_metadata_json_shows_every_field() -> None:
    shown = json.loads(metadata.metadata_json("m", 1, SIGNATURES))["metadata"]["signature_def"]
    signature = shown["signature_def"]["serving_default"]
    dims = [{"size": "-1", "name": ""}, {"size": "2", "name": ""}]
    assert signature["inputs"]["x"] == {
        "dtype": "DT_FLOAT",
        "tensor_shape": {"dim": dims, "unknown_rank": False},
        "name": "x:0",
    }
    assert signature["outputs"]["y"]["tensor_shape"] == {"dim": [], "unknown_rank": True}
    assert signature["method_name"] == "tensorflow/serving/predict"


def test_metadata_are_printed_as_in_2020_to_the_byte() -> None:
    assert metadata.message_json("m", 123, SIGNATURES).decode() == MESSAGE_JSON


def test_the_form_of_2020_is_protobufs_own_json() -> None:
    signatures = {
        **SIGNATURES,
        "é": Signature(
            "é",
            {
                "scalar": TensorSpec("scalar", DataType.BOOL, (), ""),
                "empty": TensorSpec("empty", DataType.STRING, (0, -1), "e"),
            },
            {},
        ),
    }
    message = messages.GetModelMetadataResponse.FromString(
        metadata.metadata_response("m", 7, signatures)
    )
    expected = json_format.MessageToDict(message, descriptor_pool=messages.POOL)
    assert json.loads(metadata.message_json("m", 7, signatures)) == expected


def test_defaults_are_shown() -> None:
    x = TensorSpec("x", DataType.FP32, (), "x:0")
    flags = TensorSpec("flags", DataType.STRING, (2,), "flags:0")
    values = {"x": np.float32(0.5)[...], "flags": np.array([b"a", b""], np.object_)}
    signature = Signature("s", {"x": x, "flags": flags}, {}, defaults=values)
    shown = json.loads(metadata.metadata_json("m", 1, {"s": signature}))
    defaults = shown["metadata"]["signature_def"]["signature_def"]["s"]["defaults"]
    assert (defaults["x"]["dtype"], defaults["x"]["float_val"]) == ("DT_FLOAT", [0.5])
    assert defaults["x"]["tensor_shape"] == {"dim": [], "unknown_rank": False}
    assert defaults["flags"]["string_val"] == ["YQ==", ""]
    listed = json.loads(metadata.message_json("m", 1, {"s": signature}))["metadata"]
    camel = listed["signature_def"]["signatureDef"]["s"]["defaults"]
    assert camel["x"] == {"dtype": "DT_FLOAT", "tensorShape": {}, "floatVal": [0.5]}


def test_a_definition_stands_for_what_no_spec_can_say() -> None:
    definition = messages.SignatureDef()
    definition.inputs["s"].coo_sparse.values_tensor_name = "values:0"
    definition.inputs["s"].dtype = 8
    listed = Signature("s", {}, {}, left_out="why", definition=definition.SerializeToString())
    shown = json.loads(metadata.metadata_json("m", 1, {"s": listed}))
    info = shown["metadata"]["signature_def"]["signature_def"]["s"]["inputs"]["s"]
    assert info["dtype"] == "DT_COMPLEX64"
    assert info["coo_sparse"]["values_tensor_name"] == "values:0"
    response = messages.GetModelMetadataResponse.FromString(
        metadata.metadata_response("m", 1, {"s": listed})
    )
    packed = messages.SignatureDefMap.FromString(response.metadata["signature_def"].value)
    assert packed.signature_def["s"] == definition
