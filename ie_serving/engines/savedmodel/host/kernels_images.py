"""Kernels that decode images, by Pillow: JPEG and PNG to 8 bits a channel; plain BMP and GIF.

Pillow's wheels hold libjpeg-turbo, as TensorFlow does. PNG is equal in every bit, and so is JPEG
with `dct_method="INTEGER_ACCURATE"`. TensorFlow's default is the faster, rougher transform, which
Pillow does not offer: there a value differs by about 1 of 255 on average, at sharp edges by up to
15. What the two read in other ways is refused: palettes, 16 bits a channel, CMYK, animations.
Source: decode_image_op.cc, jpeg_mem.cc and png_io.cc of TensorFlow.
"""

import io
from collections.abc import Mapping
from types import MappingProxyType, ModuleType
from typing import Any, Final

import numpy as np

from ie_serving.core.values.errors import InvalidRequest, LoadFailed
from ie_serving.core.values.tensors import Array, DataType
from ie_serving.engines.savedmodel.host.allowance import make_room
from ie_serving.engines.savedmodel.host.host_kernel import (
    Attributes,
    Compute,
    HostKernel,
    Output,
    in_thread,
)

INSTALL = "pip install '.[images]'"
MODES: Final[Mapping[int, str]] = {1: "L", 3: "RGB", 4: "RGBA"}
"""Pillow's mode for a number of channels."""

READ: Final[Mapping[str, Mapping[str, frozenset[int]]]] = {
    "JPEG": MappingProxyType({"L": frozenset({1, 3}), "RGB": frozenset({1, 3})}),
    "PNG": MappingProxyType(
        {
            "L": frozenset({1, 3, 4}),
            "RGB": frozenset({3, 4}),
            "RGBA": frozenset({3, 4}),
        }
    ),
}
"""Supported numbers of channels, by the format and the mode of the file. Others, such as the grey
of a coloured PNG, TensorFlow computes in its own way."""
_FORMS: Final[Mapping[str, str]] = {"MPO": "JPEG"}
"""Formats that Pillow and TensorFlow name differently: a JPEG followed by further pictures, as
phones write them. The first is read."""
BMP: Final[Mapping[str, Mapping[str, frozenset[int]]]] = {
    "BMP": MappingProxyType({"RGB": frozenset({3})})
}
GIF: Final[Mapping[str, Mapping[str, frozenset[int]]]] = {
    "GIF": MappingProxyType({"P": frozenset({3}), "L": frozenset({3})})
}
"""Files that the other branches of `tf.image.decode_image` of TensorFlow 1 accept."""
_TAKEN: Final[Mapping[str, str]] = {
    "BMP": "24 bits a pixel",
    "GIF": "one opaque frame that fills the picture",
    "JPEG": "8-bit grey or RGB",
    "PNG": "8-bit grey or RGB",
}
"""Advice on the files to send, by format."""


def _pillow(attributes: Attributes) -> ModuleType:
    try:
        from PIL import Image
    except ImportError as error:
        node = attributes.node
        raise LoadFailed(f"{node.op} {node.name!r} decodes images: {INSTALL}") from error
    # `make_room` limits images, with advice in its error.
    Image.MAX_IMAGE_PIXELS = None
    module: ModuleType = Image
    return module


def _decode(attributes: Attributes) -> Compute:
    channels = attributes.integer("channels")
    if channels not in (0, *MODES):
        raise attributes.refused(f"has channels={channels}")
    if attributes.dtype("dtype", DataType.UINT8) is not DataType.UINT8:
        raise attributes.refused("has another dtype than uint8")
    if attributes.integer("ratio", 1) != 1 or not attributes.flag("fancy_upscaling", True):
        raise attributes.refused("has ratio or fancy_upscaling")
    image = _pillow(attributes)
    return lambda contents: decoded(image, contents.item(), channels)


def _decode_bmp(attributes: Attributes) -> Compute:
    if attributes.integer("channels") not in (0, 3):
        raise attributes.refused("has other channels than 3")
    image = _pillow(attributes)
    return lambda contents: decoded(image, contents.item(), 3, BMP)


def _decode_gif(attributes: Attributes) -> Compute:
    image = _pillow(attributes)
    return lambda contents: decoded(image, contents.item(), 3, GIF)[np.newaxis]


def decoded(
    library: ModuleType,
    data: bytes,
    channels: int,
    read: Mapping[str, Mapping[str, frozenset[int]]] = READ,
) -> Array:
    """Decode an image as TensorFlow does. Raises: InvalidRequest."""
    try:
        # No other decoder of Pillow's may see a client's bytes.
        with library.open(io.BytesIO(data), formats=list(read)) as image:
            held, form = image.mode, _FORMS.get(image.format, image.format)
            wanted = channels or len(image.getbands())
            taken = read[form].get(held, frozenset())
            composed = form == "GIF" and _is_composed(image)
            if wanted not in taken or "transparency" in image.info or composed:
                raise InvalidRequest(
                    f"the image is {form} of mode {held}; {wanted} channels of it are not"
                    f" decoded here: send {_TAKEN[form]}"
                )
            # The header alone was read: a file of a few kilobytes can announce any size.
            make_room((image.height, image.width, wanted), np.uint8)
            mode = MODES[wanted]
            if form == "JPEG":
                image.draft(mode, None)  # as grey, a JPEG's stored luminance
            # A view of the bytes that Pillow makes; `convert` would copy where nothing changes.
            pixels = np.asarray(image if image.mode == mode else image.convert(mode))
    except (OSError, SyntaxError, ValueError) as error:
        raise InvalidRequest(
            f"Unknown image file format, or invalid data: {error}; send {' or '.join(read)}"
        ) from error
    return pixels.reshape(*pixels.shape[:2], wanted)


def _is_composed(gif: Any) -> bool:  # noqa: ANN401
    """Tell whether a GIF has several frames, or one that does not fill the picture."""
    filled = gif.tile[0][1] == (0, 0, *gif.size)
    return not filled or gif.n_frames > 1


_PIXELS = (Output("", DataType.UINT8),)

KERNELS: Final[Mapping[str, HostKernel]] = {
    **dict.fromkeys(
        ("DecodeImage", "DecodeJpeg", "DecodePng"), in_thread(HostKernel(_decode, _PIXELS))
    ),
    "DecodeBmp": in_thread(HostKernel(_decode_bmp, _PIXELS)),
    "DecodeGif": in_thread(HostKernel(_decode_gif, _PIXELS)),
}
