"""Encodes REST replies of an inference: JSON, followed by raw tensors where requested.

Source: Open Inference Protocol v2; Triton's "Binary Tensor Data Extension".
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import orjson

from ie_serving.core.values.tensors import BY_NUMPY, Array, DataType, TensorSpec, present, sent_in
from ie_serving.wire.json.response import numbers
from ie_serving.wire.kserve.datatypes import NAME_OF
from ie_serving.wire.kserve.raw import encode_raw, untyped_tensor
from ie_serving.wire.kserve.regions import ReplyRegions
from ie_serving.wire.protobuf.fields import Encoded
from ie_serving.wire.tfs.predict import chosen
from ie_serving.wire.tfs.tensor_encoder import size_of

FEW: Final = 32 * 1024
"""Elements up to which an array of finite numbers is written by one call."""
_NUMPY: Final = orjson.OPT_SERIALIZE_NUMPY
_NULL: Final = b"null"
_END: Final = b"]}"


class InferReply(NamedTuple):
    """A reply to which the request's id may still be added.

    Attributes:
        content: JSON without an id, and raw tensors behind it.
        length: bytes of JSON.
    """

    content: bytes
    length: int

    def body(self, id: bytes | None) -> tuple[bytes, int]:
        """Give the whole body, and how many bytes of it are JSON; the id is JSON already."""
        if id is None:
            return self.content, self.length
        start = b'{"id":%b,' % id
        rest = memoryview(self.content)[1:]
        return b"".join((start, rest)), len(start) + self.length - 1


class ReplyEncoder:
    """Writes the replies of one version.

    Args of the constructor:
        model: name of the model.
        version: its number.
        specs: specs of the outputs by name.
    """

    def __init__(self, model: str, version: int, specs: Mapping[str, TensorSpec]) -> None:
        self._start = _start(model, version)
        self._specs = specs
        self._heads = {name: _head(name, NAME_OF[spec.dtype]) for name, spec in specs.items()}

    def json(self, outputs: Mapping[str, Array]) -> InferReply:
        """Write all outputs as JSON."""
        return self.mixed(outputs, {})

    def binary(self, outputs: Mapping[str, Array]) -> InferReply:
        """Write all outputs raw."""
        return self.mixed(outputs, dict.fromkeys(outputs, True))

    def mixed(self, outputs: Mapping[str, Array], binary: Mapping[str, bool]) -> InferReply:
        """Write those outputs raw that `binary` says, others as JSON; none of them is kept."""
        heads = self._heads
        written: list[bytes] = []
        raw: list[Encoded] = []
        for name, spec in self._specs.items():
            array = outputs[name]
            shape = b",".join([b"%d" % size for size in array.shape])
            if binary.get(name):
                data = encode_raw(array, spec.dtype)
                raw.append(data)
                written.append(
                    b'%b[%b],"parameters":{"binary_data_size":%d}}'
                    % (heads[name], shape, size_of(data))
                )
            else:
                written.append(b"%b[%b],%b}" % (heads[name], shape, _data(array, spec.dtype)))
        text = b"%b%b]}" % (self._start, b",".join(written))
        # A copy, since the outputs' memory is used again.
        return InferReply(b"".join((text, *raw)), len(text))


def region_reply(
    model: str,
    version: int,
    specs: Mapping[str, TensorSpec],
    form: ReplyRegions,
    outputs: Mapping[str, Array],
) -> InferReply:
    """Write some outputs to regions, and the others as `ReplyEncoder.mixed` does.

    Raises:
        InvalidRequest, NotFound: as `ReplyRegions.write`.
    """
    told, start = form.write(specs, outputs), _start(model, version)
    written: list[bytes] = []
    raw: list[bytes] = []
    for name, spec in specs.items():
        if name not in told:
            content, length = ReplyEncoder(model, version, {name: spec}).mixed(outputs, form.binary)
            written.append(content[len(start) : length - len(_END)])
            raw.append(content[length:])
            continue
        shape = orjson.dumps(outputs[name].shape)
        parameters = orjson.dumps(told[name])
        head = _head(name, NAME_OF[spec.dtype])
        written.append(b'%b%b,"parameters":%b}' % (head, shape, parameters))
    text = b"%b%b%b" % (start, b",".join(written), _END)
    return InferReply(b"".join((text, *raw)), len(text))


class OpenReplyEncoder(ReplyEncoder):
    """Writes replies whose outputs are known only when they come; see `core/values/tensors.py`.

    Args of the constructor:
        model: name of the model.
        version: its number.
        wanted: names of the outputs to reply with; empty for all.
    """

    def __init__(self, model: str, version: int, wanted: Sequence[str]) -> None:
        super().__init__(model, version, {})
        self._wanted = wanted

    def mixed(self, outputs: Mapping[str, Array], binary: Mapping[str, bool]) -> InferReply:
        """See `ReplyEncoder`. Raises: InvalidRequest where there is no such output."""
        written: list[bytes] = []
        raw: list[Encoded] = []
        for name, array in present(chosen(outputs, self._wanted)).items():
            word, shape, data = untyped_tensor(array)
            if binary.get(name):
                raw.append(data)
                values = b'"parameters":{"binary_data_size":%d}' % size_of(data)
            elif sent_in(array) is None:
                values = _data(array, BY_NUMPY[array.dtype])
            else:  # of a type that has no values in JSON: its bytes
                values = _data(np.frombuffer(data, np.uint8), DataType.UINT8)
            written.append(b"%b%b,%b}" % (_head(name, word), orjson.dumps(shape), values))
        text = b"%b%b]}" % (self._start, b",".join(written))
        return InferReply(b"".join((text, *raw)), len(text))


def _start(model: str, version: int) -> bytes:
    name, number = orjson.dumps(model), str(version).encode()
    return b'{"model_name":%b,"model_version":"%b","outputs":[' % (name, number)


def _head(name: str, word: str) -> bytes:
    return b'{"name":%b,"datatype":%b,"shape":' % (orjson.dumps(name), orjson.dumps(word))


def _data(array: Array, dtype: DataType) -> bytes:
    """Write the values as a flat list, with whatever must be said of them."""
    flat = array.reshape(-1)
    if dtype is DataType.STRING:
        return _texts(flat.tolist())
    if flat.size <= FEW:
        text = orjson.dumps(flat if flat.flags.c_contiguous else flat.copy(), option=_NUMPY)
        # null stands only for NaN and infinity among numbers and booleans.
        if _NULL not in text:
            return b'"data":' + text
    return b'"data":' + b"".join(numbers(flat))


def _texts(elements: Sequence[bytes]) -> bytes:
    """Write elements of BYTES: as texts, or as base64, which is said, where one is no text."""
    try:
        return b'"data":' + orjson.dumps([element.decode() for element in elements])
    except UnicodeDecodeError:
        coded = [base64.b64encode(element).decode() for element in elements]
        return b'"parameters":{"content_type":"base64"},"data":' + orjson.dumps(coded)
