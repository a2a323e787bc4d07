"""Files of every kind become pixels of 8 bits, upright; what is broken or huge is refused."""

import io
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.core.values.errors import InvalidTensor, NotSupported, QueueFull, RequestTooLarge
from ie_serving.core.values.tensors import Array
from ie_serving.wire.image import MOST_PIXELS, MOST_SCANS, decode, pillow
from tests.unit.wire.image.pictures import encoded, noise, png_header, saved, smooth

RGB, GREY = 3, 1
PIXELS = noise(5, 7)


def reference(data: bytes, mode: str) -> Array:
    """What Pillow itself makes of a file, turned by its own function."""
    with Image.open(io.BytesIO(data)) as image:
        plain = np.asarray(ImageOps.exif_transpose(image).convert(mode))
    return plain.reshape(*plain.shape[:2], -1)


@pytest.mark.parametrize("form", ["PNG", "WEBP"])
def test_a_lossless_file_gives_its_pixels(form: str) -> None:
    options = {"lossless": True} if form == "WEBP" else {}
    np.testing.assert_array_equal(decode(encoded(PIXELS, form, **options), RGB), PIXELS)


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"subsampling": 0}])
def test_a_jpeg_gives_the_pixels_of_libjpeg(options: dict[str, Any]) -> None:
    data = encoded(smooth(40, 60), "JPEG", quality=95, **options)
    np.testing.assert_array_equal(decode(data, RGB), reference(data, "RGB"))
    assert np.abs(decode(data, RGB).astype(int) - smooth(40, 60)).max() < 12


@pytest.mark.thinned
@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_turns_the_picture_upright(form: str, orientation: int) -> None:
    data = encoded(smooth(6, 10), form, orientation=orientation)
    upright = decode(data, RGB)
    assert upright.shape[:2] == ((6, 10) if orientation < 5 else (10, 6))
    np.testing.assert_array_equal(upright, reference(data, "RGB"))


@pytest.mark.parametrize("exif", [b"Exif\0\0", b"Exif\0\0II*\0\xff\xff\xff\xff", b"nonsense"])
def test_broken_exif_leaves_the_picture_as_it_is(exif: bytes) -> None:
    data = saved(Image.fromarray(PIXELS), "PNG", exif=exif)
    np.testing.assert_array_equal(decode(data, RGB), PIXELS)


def test_an_orientation_that_is_none_leaves_the_picture_as_it_is() -> None:
    data = encoded(PIXELS, orientation=77)
    np.testing.assert_array_equal(decode(data, RGB), PIXELS)


MODES = {
    "grey": Image.fromarray(PIXELS).convert("L"),
    "black and white": Image.fromarray(PIXELS).convert("1"),
    "palette": Image.fromarray(PIXELS).quantize(16),
    "alpha": Image.fromarray(noise(5, 7, 4)),
    "grey with alpha": Image.fromarray(noise(5, 7, 4)).convert("LA"),
}


@pytest.mark.parametrize("held", MODES)
@pytest.mark.parametrize(("channels", "mode"), [(RGB, "RGB"), (GREY, "L")])
def test_a_png_of_any_mode_becomes_the_pixels_that_the_model_takes(
    held: str, channels: int, mode: str
) -> None:
    data = saved(MODES[held])
    np.testing.assert_array_equal(decode(data, channels), reference(data, mode))


def test_alpha_is_dropped_not_blended() -> None:
    pixels = noise(5, 7, 4)
    np.testing.assert_array_equal(decode(encoded(pixels), RGB), pixels[..., :3])
    np.testing.assert_array_equal(
        decode(encoded(pixels, "WEBP", lossless=True, exact=True), RGB), pixels[..., :3]
    )


def test_a_transparent_palette_gives_its_colours() -> None:
    data = saved(MODES["palette"], transparency=0)
    expected = np.asarray(MODES["palette"].convert("RGB"))
    np.testing.assert_array_equal(decode(data, RGB), expected)


@pytest.mark.parametrize("channels", [RGB, GREY])
def test_of_16_bits_the_upper_8_are_taken(channels: int) -> None:
    values = np.arange(0, 65536, 2000, np.uint16).reshape(3, 11)
    decoded = decode(saved(Image.fromarray(values)), channels)
    assert decoded.shape == (3, 11, channels)
    for channel in range(channels):
        np.testing.assert_array_equal(decoded[..., channel], values >> 8)


def test_a_jpeg_of_four_inks_becomes_colours() -> None:
    data = saved(Image.fromarray(smooth(16, 16)).convert("CMYK"), "JPEG", quality=100)
    decoded = decode(data, RGB).astype(int)
    assert np.abs(decoded - smooth(16, 16)).max() < 12


def test_a_grey_jpeg_becomes_colours_and_back() -> None:
    data = saved(Image.fromarray(smooth(16, 16)).convert("L"), "JPEG")
    assert decode(data, GREY).shape == (16, 16, 1)
    coloured = decode(data, RGB)
    np.testing.assert_array_equal(coloured, np.repeat(decode(data, GREY), 3, axis=2))


FRAMES = [Image.fromarray(smooth(16, 16)), Image.fromarray(255 - smooth(16, 16))]


@pytest.mark.parametrize(
    ("form", "alone", "count", "options"),
    [
        pytest.param("WEBP", "WEBP", 300, {"lossless": True}, id="WebP"),
        pytest.param("PNG", "PNG", 300, {}, id="PNG"),
        pytest.param("PNG", "PNG", 2, {"default_image": True}, id="PNG with a default image"),
        pytest.param(
            "MPO", "JPEG", 2, {"quality": 90}, id="MPO"
        ),  # as phones write photos with a second picture
    ],
)
def test_of_several_pictures_the_first_is_given(
    form: str, alone: str, count: int, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there are: no others are decoded, or counted."""
    others = [FRAMES[i % 2] for i in range(1, count)]
    data = saved(FRAMES[0], form, save_all=True, append_images=others, **options)
    first = decode(saved(FRAMES[0], alone, **options), RGB)
    monkeypatch.setattr(BUDGET, "limit", BUDGET.held + 2 * 20 * 16 * 16)
    np.testing.assert_array_equal(decode(data, RGB), first)


@pytest.mark.parametrize(
    "data",
    [b"", b"\0", b"hello", b"\xff\xd8", b"\x89PNG\r\n\x1a\n", b"RIFF\0\0\0\0WEBP", b"GIF89a\1\0\1"],
)
def test_bytes_that_are_no_image_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidTensor, match="JPEG, PNG or WebP"):
        decode(data, RGB)


@pytest.mark.parametrize("form", ["GIF", "BMP", "TIFF"])
def test_another_format_is_refused(form: str) -> None:
    with pytest.raises(InvalidTensor, match="is no JPEG, PNG or WebP"):
        decode(encoded(PIXELS, form), RGB)


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP"])
@given(share=st.floats(0.0, 0.9))
def test_a_file_that_was_cut_off_is_refused(form: str, share: float) -> None:
    data = encoded(noise(30, 40), form)
    with pytest.raises(InvalidTensor):
        decode(data[: int(share * len(data))], RGB)


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP"])
@given(damage=st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 255)), max_size=8))
def test_damage_gives_pixels_or_a_refusal(form: str, damage: list[tuple[int, int]]) -> None:
    data = bytearray(encoded(noise(12, 16), form, orientation=6))
    for at, value in damage:
        data[at % len(data)] = value
    try:
        decoded = decode(bytes(data), RGB)
    except (InvalidTensor, QueueFull, RequestTooLarge):
        return
    assert decoded.dtype == np.uint8
    assert decoded.ndim == 3


@given(st.binary(max_size=200), st.sampled_from([b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b""]))
def test_any_bytes_give_pixels_or_a_refusal(data: bytes, begin: bytes) -> None:
    try:
        decode(begin + data, GREY)
    except (InvalidTensor, QueueFull, RequestTooLarge):
        return


@pytest.mark.parametrize("size", [(8193, 8193), (1, MOST_PIXELS + 1), (2**31 - 1, 2**31 - 1)])
def test_an_image_is_refused_by_what_its_header_announces(size: tuple[int, int]) -> None:
    taken = BUDGET.taken
    with pytest.raises(InvalidTensor, match=r"pixels; at most 67108864 are decoded|damaged"):
        decode(png_header(*size), RGB)
    assert BUDGET.taken == taken


def test_a_jpeg_of_very_many_scans_is_refused() -> None:
    data = encoded(smooth(16, 16), "JPEG", progressive=True)
    at = data.index(b"\xff\xda")
    scan = data[at : data.index(b"\xff", at + 4)]
    bomb = data[:at] + scan * (MOST_SCANS + 1) + data[at:]
    with pytest.raises(InvalidTensor, match="at most 100 scans"):
        decode(bomb, RGB)


def test_decoding_stays_within_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encoded(noise(300, 300))
    monkeypatch.setattr(BUDGET, "limit", BUDGET.held + 100_000)
    with pytest.raises(RequestTooLarge):
        decode(data, RGB)


def test_pixels_are_counted_while_they_are_used() -> None:
    before = BUDGET.held
    pixels = decode(encoded(noise(300, 300), orientation=6), RGB)
    assert BUDGET.held >= before + 300 * 300 * 12
    view = pixels[:1]
    del pixels
    assert BUDGET.held > before
    del view
    assert BUDGET.held == before


def test_without_pillow_the_client_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encoded(PIXELS)
    monkeypatch.setitem(sys.modules, "PIL", None)
    pillow.cache_clear()
    with pytest.raises(NotSupported, match=r"pip install '.\[images"):
        decode(data, RGB)


def test_a_large_webp_is_refused_by_its_header() -> None:
    data = encoded(noise(4097, 4096, 1)[..., 0] * 0, "WEBP", quality=0, method=0)
    with pytest.raises(InvalidTensor, match="4096 x 4097 pixels; at most 16777216"):
        decode(data, RGB)
