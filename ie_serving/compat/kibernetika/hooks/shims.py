"""The modules of `ml_serving` that files of hooks import, made anew: for such files alone.

`ml_serving.utils.helpers` reads inputs, `ml_serving.drivers.driver` loads further models.
"""

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import grpc
import numpy as np

from ie_serving.compat.kibernetika.hooks.asking import HookModel
from ie_serving.compat.kibernetika.hooks.linked_model import arrays_of, plain
from ie_serving.core.values.codes import ERROR_OF
from ie_serving.core.values.errors import InvalidRequest, InvalidTensor, ServingError
from ie_serving.core.values.image_form import COLOURED
from ie_serving.core.values.tensors import BY_NUMPY, Array
from ie_serving.engines.python.asking import marked
from ie_serving.wire.image import decode
from ie_serving.wire.protobuf import messages
from ie_serving.wire.tfs.tensor_encoder import TensorEncoder, size_of
from ie_serving.wire.tfs.tensor_proto import decode_tensor

_METHOD = "/tensorflow.serving.PredictionService/Predict"
_OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def predict(inputs: Mapping[str, Any], address: str, limit_s: float) -> dict[str, Array]:
    """Ask the one model at an address.

    Args:
        inputs: values by name: arrays, or what becomes one.
        address: `host:port`.
        limit_s: seconds that the reply may take.

    Raises:
        ServingError: with the code of the reply.
    """
    request = messages.PredictRequest()
    for name, array in arrays_of(inputs, plain).items():
        encoder = TensorEncoder(BY_NUMPY[array.dtype], tensor_content=array.dtype != object)
        body = encoder.body(array)
        request.inputs[name].ParseFromString(encoder.head(array.shape, size_of(body)) + bytes(body))
    with grpc.insecure_channel(address, _OPTIONS) as channel, marked():
        ask = channel.unary_unary(_METHOD, None, messages.PredictResponse.FromString)
        try:
            found = ask(request.SerializeToString(), timeout=limit_s)
        except grpc.RpcError as error:
            raise _failed(error, address) from error
    return {name: decode_tensor(tensor, name) for name, tensor in found.outputs.items()}


def _failed(error: Any, address: str) -> ServingError:  # noqa: ANN401  it is a Call as well
    code: grpc.StatusCode = error.code()
    kind = ERROR_OF.get(code.value[0], ServingError)
    return kind(f"{address} answered {code.name}: {error.details()}")


FRAME_RANK = 3
"""Dimensions of a decoded image: rows, columns, colours."""


def shims(
    load_driver: Callable[[str], type], limit_s: Callable[[], float]
) -> dict[str, ModuleType]:
    """Make the modules of one version.

    Args:
        load_driver: gives the class of a driver by its name.
        limit_s: gives the seconds that another server may take to answer.
    """

    def predict_grpc(inputs: Mapping[str, Any], address: str) -> dict[str, Array]:
        """Ask another server's model, whose name is empty, at `host:port`. Raises: ServingError."""
        # Imported here: few hooks ask elsewhere.

        return predict(inputs, address, limit_s())

    tools = (load_image, get_param, boolean_string, predict_grpc)
    helpers = _module("ml_serving.utils.helpers", *tools)
    driver = _module("ml_serving.drivers.driver")
    vars(driver).update(load_driver=load_driver, ServingDriver=HookModel)
    utils, drivers = _module("ml_serving.utils"), _module("ml_serving.drivers")
    vars(utils)["helpers"] = helpers
    vars(drivers).update(driver=driver, load_driver=load_driver)
    top = _module("ml_serving")
    vars(top).update(utils=utils, drivers=drivers)
    return {each.__name__: each for each in (top, utils, helpers, drivers, driver)}


def _module(name: str, *functions: Callable[..., object]) -> ModuleType:
    made = ModuleType(name)
    vars(made).update({each.__name__: each for each in functions})
    return made


def load_image(inputs: Mapping[str, Any], key: str, rgb: bool = True) -> tuple[Array, bool]:
    """Give an image of a request, as rows x columns x 3, and whether it came decoded.

    Args:
        inputs: inputs of the request.
        key: name of an input: the bytes of a file, alone or as the one element of an array, or a
            frame that is decoded already.
        rgb: order of the colours of a file that is decoded here; else blue comes first.

    Raises:
        InvalidRequest: there is no such input.
        InvalidTensor: it holds no image.
    """
    value = inputs.get(key)
    if value is None:
        raise InvalidRequest(f'the request has no input "{key}": send an image there')
    array = np.asarray(value, None if isinstance(value, np.ndarray) else object)
    if array.dtype.kind != "O" and array.ndim == FRAME_RANK:
        return array, True
    data = array.item() if array.dtype.kind in "OS" and array.size == 1 else None
    if not isinstance(data, bytes):
        raise InvalidTensor(f'input "{key}": expected the bytes of one image, or a decoded frame')
    try:
        pixels = decode(data, COLOURED)
    except InvalidTensor as error:
        raise InvalidTensor(f'input "{key}" {error}') from error
    # A copy: hooks draw into images.
    return np.array(pixels if rgb else pixels[..., ::-1]), False


def get_param(
    inputs: Mapping[str, Any],
    key: str,
    default: Any = None,  # noqa: ANN401  whatever authors say
    raw_bytes: bool = False,
) -> Any:  # noqa: ANN401
    """Give an input as a plain value: of one element that, of several a list.

    Args:
        inputs: inputs of the request.
        key: name of the input.
        default: given where there is no such input.
        raw_bytes: texts come as they are, and not as `str`.
    """
    if inputs.get(key) is None:
        return default
    array = np.asarray(inputs[key])
    values = [each if raw_bytes else _text(each) for each in array.ravel().tolist()]
    return values[0] if len(values) == 1 else values


def _text(value: object) -> object:
    return value.decode() if isinstance(value, bytes) else value


def boolean_string(text: object) -> bool:
    """Read `true` or `false`, in any case. Raises: ValueError."""
    word = str(text).lower()
    if word not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return word == "true"
