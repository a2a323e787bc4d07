"""The calls over REST: JSON for TensorFlow Serving's, binary tensors for the Open Inference one."""

import base64
import json
from collections.abc import Mapping
from functools import partial
from typing import Any, Final
from urllib.parse import quote

import numpy as np

from ie_serving.client.calls import (
    CallHeaders,
    CallOutputs,
    ClientCall,
    Inputs,
    ModelAddress,
    Signatures,
    VersionStatus,
    check,
    typed,
)
from ie_serving.client.failures import ClientError
from ie_serving.core.values.codes import Code
from ie_serving.core.values.tensors import Array, DataType, Signature, Specs, strings
from ie_serving.wire.clients import model_path
from ie_serving.wire.clients.served_signatures import signatures_in
from ie_serving.wire.kserve.datatypes import NAME_OF, datatype
from ie_serving.wire.kserve.raw import decode_raw, encode_raw

LENGTH_HEADER: Final = "inference-header-content-length"
_JSON: Final = {"content-type": "application/json"}


class OtherOutputs(ClientError):
    """A reply has other outputs than the metadata, as of a new version."""

    def __init__(self) -> None:
        super().__init__(Code.INTERNAL, "the answer does not fit the metadata of the signature")


class RestCalls:
    """Calls of the REST API as JSON.

    `predict` needs a signature: JSON has neither dtypes nor the name of a single output.
    """

    def predict(
        self, which: ModelAddress, inputs: Inputs, signature: Signature | None
    ) -> ClientCall[CallOutputs]:
        """Make a body of `:predict` in columns."""
        assert signature is not None
        body: dict[str, Any] = {
            "inputs": {name: _to_lists(*typed(name, value)) for name, value in inputs.items()}
        }
        if which.signature:
            body["signature_name"] = which.signature
        read = partial(_read_predict, signature.outputs)
        return ClientCall(f"{_path(which)}:predict", read, json.dumps(body).encode(), headers=_JSON)

    def infer(self, which: ModelAddress, inputs: Inputs) -> ClientCall[CallOutputs]:
        """Make a body of the binary data extension."""
        check(which)
        heads, raws = [], []
        for name, value in inputs.items():
            array, dtype = typed(name, value)
            raws.append(bytes(encode_raw(array, dtype)))
            size = {"binary_data_size": len(raws[-1])}
            head = {"name": name, "datatype": NAME_OF[dtype], "shape": list(array.shape)}
            heads.append({**head, "parameters": size})
        asked = {"inputs": heads, "parameters": {"binary_data_output": True}}
        text = json.dumps(asked).encode()
        headers = {"content-type": "application/octet-stream", LENGTH_HEADER: str(len(text))}
        version = "" if which.version is None else f"/versions/{which.version}"
        path = f"/v2/models/{quote(which.model, safe='')}{version}/infer"
        return ClientCall(path, _read_infer, b"".join([text, *raws]), headers=headers)

    def metadata(self, which: ModelAddress) -> ClientCall[Signatures]:
        """Make a GET of the metadata."""
        return ClientCall(f"{_path(which)}/metadata", _read_metadata, method="GET")

    def status(self, which: ModelAddress) -> ClientCall[list[VersionStatus]]:
        """Make a GET of the states."""
        return ClientCall(_path(which), _read_status, method="GET")


def _path(which: ModelAddress) -> str:
    check(which)
    return model_path(which.model, which.version, which.label or None)


def _to_lists(array: Array, dtype: DataType) -> object:
    """Give an array as lists; each text in base64, which holds any bytes."""
    if dtype is not DataType.STRING:
        return array.tolist()
    coded = np.empty(array.size, np.object_)
    coded[:] = [{"b64": base64.b64encode(each).decode()} for each in array.ravel().tolist()]
    return coded.reshape(array.shape).tolist()


def _read_predict(specs: Specs, body: bytes, _: CallHeaders) -> CallOutputs:
    found = json.loads(body)["outputs"]
    named = {next(iter(specs)): found} if len(specs) == 1 else found
    if not isinstance(named, Mapping) or not named.keys() <= specs.keys():
        raise OtherOutputs
    try:
        return {name: _array(value, specs[name].dtype) for name, value in named.items()}
    except (TypeError, ValueError) as error:
        raise OtherOutputs from error


def _array(value: object, dtype: DataType) -> Array:
    if dtype is not DataType.STRING:
        return np.array(value, dtype.numpy)
    leaves = np.array(value, np.object_)
    return strings([_text(each) for each in leaves.ravel().tolist()]).reshape(leaves.shape)


def _text(value: Any) -> bytes:  # noqa: ANN401  a part of JSON
    return base64.b64decode(value["b64"]) if isinstance(value, dict) else str(value).encode()


def _read_infer(body: bytes, headers: CallHeaders) -> CallOutputs:
    length = int(headers.get(LENGTH_HEADER, len(body)))
    found, at = {}, length
    for each in json.loads(body[:length])["outputs"]:
        name, shape = each["name"], tuple(each["shape"])
        dtype = datatype(each["datatype"], name)
        size = each.get("parameters", {}).get("binary_data_size")
        if size is None:
            found[name] = _array(each["data"], dtype).reshape(shape)
        else:
            found[name] = decode_raw(body[at : at + size], dtype, shape, name)
            at += size
    return found


def _read_metadata(body: bytes, _: CallHeaders) -> Signatures:
    return signatures_in(json.loads(body)["metadata"]["signature_def"])


def _read_status(body: bytes, _: CallHeaders) -> list[VersionStatus]:
    return [
        VersionStatus(
            int(each["version"]), each["state"], each.get("status", {}).get("error_message", "")
        )
        for each in json.loads(body)["model_version_status"]
    ]
