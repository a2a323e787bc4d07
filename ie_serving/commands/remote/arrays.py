"""Converts requests and answers to and from arrays; only this module of `remote` imports numpy."""

import argparse
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ie_serving.commands.remote.failures import CommandMisused, ServerSilent
from ie_serving.commands.remote.given_request import GivenRequest
from ie_serving.commands.remote.grpc_predict import NamedArrays
from ie_serving.commands.remote.metadata import metadata_of
from ie_serving.commands.remote.rest import RestPort
from ie_serving.commands.remote.server_address import ServerAddress
from ie_serving.core.values.errors import ServingError
from ie_serving.core.values.tensors import SERVING_DEFAULT, Array, DataType, Signature, TensorSpec
from ie_serving.wire.clients.served_signatures import signatures_in


def read_arrays(file: str, data: bytes, name: str) -> NamedArrays:
    """Read a .npy for the input `name`, or a .npz whose arrays have the names of inputs.

    Raises:
        CommandMisused: the file is damaged, or holds Python objects.
    """
    try:
        found = np.load(io.BytesIO(data), allow_pickle=False)
        if isinstance(found, np.ndarray):
            return {name: found}
        with found:
            arrays = {each: found[each] for each in found.files}
    except (ValueError, OSError, EOFError, KeyError) as error:
        raise CommandMisused(
            f"--file {file} cannot be read; expected a .npy or .npz of plain arrays: {error}"
        ) from None
    if name:
        raise CommandMisused(
            "--input is for one array; leave it out: a .npz names its inputs itself"
        )
    return arrays


def json_body(arrays: Mapping[str, Array], signature: str) -> bytes:
    """Write arrays as the body of a `:predict`, in column format."""
    inputs: Any = {name: _to_lists(array) for name, array in arrays.items()}
    named = {"signature_name": signature} if signature else {}
    # An array without a name is for the only input, which the body then does not name either.
    return json.dumps({**named, "inputs": inputs.get("", inputs)}).encode()


def _to_lists(array: Array) -> Any:  # noqa: ANN401  lists of JSON
    if array.dtype.kind in "fiubU":
        return array.tolist()
    if array.dtype.kind == "S":
        return _encoded(array.tolist())
    raise CommandMisused(
        f"an array has the dtype {array.dtype}; expected numbers, texts or booleans"
    )


def _encoded(value: Any) -> Any:  # noqa: ANN401  lists of JSON
    import base64

    if isinstance(value, list):
        return [_encoded(each) for each in value]
    return {"b64": base64.b64encode(value).decode()}


def signature_over_rest(rest: RestPort, given: argparse.Namespace) -> Signature:
    """Fetch the signature that answered from the metadata. Raises: CommandFailure."""
    document = metadata_of(rest, given.model_name, given.version, given.label)
    return _chosen(rest.address, document["metadata"], given.signature)


def known_signatures(
    address: ServerAddress, metadata: Mapping[str, Any], *, with_outputs: bool = True
) -> Mapping[str, Signature]:
    """Read the signatures in metadata; see `signatures_in`. Raises: ServerSilent."""
    try:
        return signatures_in(metadata["signature_def"], with_outputs=with_outputs)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ServerSilent(
            f"{address.url} answers with other metadata than expected of TensorFlow Serving's API:"
            f" {error}"
        ) from None


def _chosen(address: ServerAddress, metadata: Mapping[str, Any], name: str) -> Signature:
    found = known_signatures(address, metadata)
    wanted = name or SERVING_DEFAULT
    if wanted not in found:
        known = ", ".join(sorted(found)) or "none"
        raise CommandMisused(
            f'the model has no signature "{wanted}"; choose one by --signature: {known}'
        )
    return found[wanted]


def from_json(reply: bytes, signature: Signature) -> NamedArrays:
    """Read the reply of a `:predict` as arrays with the signature's dtypes.

    Raises:
        ServerSilent: it is not a reply of this API.
    """
    try:
        document = json.loads(reply)
        found = document["predictions"] if "predictions" in document else document["outputs"]
    except (ValueError, LookupError, TypeError) as error:
        raise ServerSilent(f"expected an answer of :predict, with its outputs: {error}") from None
    outputs = signature.outputs
    alone = next(iter(outputs)) if len(outputs) == 1 else ""
    if isinstance(found, dict):
        columns = found
    elif not alone and isinstance(found, list) and all(isinstance(row, dict) for row in found):
        columns = {name: [row[name] for row in found] for name in (found[0] if found else ())}
    else:
        columns = {alone: found}
    return {name: _array(values, outputs.get(name)) for name, values in columns.items()}


def _array(values: Any, spec: TensorSpec | None) -> Array:  # noqa: ANN401  lists of JSON
    if spec is None or spec.dtype is DataType.STRING:
        return np.asarray(values)
    return np.asarray(values, spec.dtype.numpy)


def ask_over_grpc(
    given: argparse.Namespace, address: ServerAddress, asked: GivenRequest, *, as_json: bool
) -> bytes | NamedArrays:
    """Send a Predict over gRPC; give its reply as JSON, or as arrays of exactly its dtypes.

    Raises:
        CommandFailure: the server does not answer, or the request has no form over gRPC.
    """
    from ie_serving.commands.remote import grpc_predict as tensors

    try:
        return tensors.ask(given, address, asked, _chosen, as_json=as_json)
    except ServingError as error:  # of our own readers and writers of JSON and tensors
        raise CommandMisused(f"--file {given.file}: {error}") from None


def save(output: str, arrays: NamedArrays) -> None:
    """Write arrays to a .npz, or the only one to a .npy. Raises: CommandMisused."""
    plain = {name: _fixed_width(name, array) for name, array in arrays.items()}
    if output.endswith(".npy") and len(plain) != 1:
        raise CommandMisused(
            f"the answer has {len(plain)} outputs ({', '.join(plain)}): write a .npz"
        )
    try:
        with Path(output).open("wb") as file:
            if output.endswith(".npy"):
                np.save(file, next(iter(plain.values())), allow_pickle=False)
            else:
                np.savez(file, **plain)  # type: ignore[arg-type]  # numpy's stub has a flag there
    except OSError as error:
        raise CommandMisused(f"--output {output} cannot be written: {error.strerror}") from None


def _fixed_width(name: str, array: Array) -> Array:
    """Give strings as numpy's fixed-width ones, which files hold without Python objects."""
    if array.dtype != object:
        return array
    plain = array.astype(np.bytes_)
    # numpy drops zero bytes at the end as padding.
    if plain.tolist() != array.tolist():
        raise CommandMisused(
            f'output "{name}" has strings that end with a zero byte: write .json instead'
        )
    return plain
