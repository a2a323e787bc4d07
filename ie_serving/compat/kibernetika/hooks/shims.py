"""The modules of `ml_serving` that files of hooks import, made anew: for such files alone.

`ml_serving.utils.helpers` reads inputs, `ml_serving.drivers.driver` loads further models.
"""

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from ie_serving.core.values.errors import InvalidRequest, InvalidTensor
from ie_serving.core.values.images import COLOURED
from ie_serving.core.values.tensors import Array
from ie_serving.wire.image.decode import decode

FRAME_RANK = 3
"""Dimensions of a decoded image: rows, columns, colours."""


def shims(load_driver: Callable[[str], type]) -> dict[str, ModuleType]:
    """Make the modules of one version.

    Args:
        load_driver: gives the class of a driver by its name.
    """
    helpers = _module("ml_serving.utils.helpers", load_image, get_param, boolean_string)
    driver = _module("ml_serving.drivers.driver")
    vars(driver)["load_driver"] = load_driver
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
        inputs: of the request.
        key: name of an input: the bytes of a file, alone or as the one element of an array, or a
            frame that is decoded already.
        rgb: order of the colours of what is decoded here; else blue comes first.

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


def get_param(inputs: Mapping[str, Any], key: str, raw_bytes: bool = False) -> Any:  # noqa: ANN401
    """Give an input as a plain value: of one element that, of several a list; None without it.

    Texts come as `str`, or as they are with `raw_bytes`.
    """
    if key not in inputs:
        return None
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
