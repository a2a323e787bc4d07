"""Konduit's steps for pictures and classes, over the built-in steps of graphs."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from ie_serving.compat.konduit.data import Data, Image
from ie_serving.compat.konduit.pipeline.definition import PipelineStep
from ie_serving.core.values.errors import InvalidRequest, LoadFailed
from ie_serving.core.values.tensors import Array, strings
from ie_serving.engines.python.asking import NamedModels
from ie_serving.engines.steps import images, texts
from ie_serving.wire.image import encoded

RunStep = Callable[[Data, NamedModels], Data]
"""Computes a step; the second are the server's models."""

_FITS: Mapping[str, str] = {"CENTER_CROP": images.CROP, "STRETCH": images.STRETCH}
_LAYOUTS: Mapping[str, str] = {"CHANNELS_FIRST": "NCHW", "CHANNELS_LAST": "NHWC"}
_COLOURS: Mapping[str, str] = {"RGB": "RGB", "BGR": "BGR", "GRAYSCALE": "GREY"}
_DTYPES: Mapping[str, str] = {"FLOAT": "float", "UINT8": "uint8"}
_LISTS: Final = ("NONE", "BATCH", "LIST_OUT", "FIRST")
_VGG: Final = (123.68, 116.779, 103.939)
"""Means of red, green and blue. Source: ImageNormalization."""


def kept(keys: Mapping[str, Any], data: Data, *taken: str, word: str = "keepOtherValues") -> Data:
    """Give the data beside those that a step has taken; nothing where the step keeps none."""
    return {n: v for n, v in data.items() if keys.get(word, True) and n not in taken}


# -- classes and columns ------------------------------------------------------------------------


def _rows(data: Data, step: PipelineStep) -> Array:
    """Give the array that a step is about, as rows. Raises: InvalidRequest."""
    arrays = [n for n, v in data.items() if isinstance(v, np.ndarray) and v.dtype.kind in "iuf"]
    listed = step.keys.get("inputNames")
    named = step.keys.get("inputName") or (listed[0] if isinstance(listed, list) else listed)
    name = named or (arrays[0] if len(arrays) == 1 else "")
    if name not in data:
        there = ", ".join(data) or "nothing"
        raise InvalidRequest(f'inputName "{name}" is not there: name one of {there}')
    array = np.asarray(data[name])
    if array.ndim not in (1, 2) or array.dtype.kind not in "iuf":
        raise InvalidRequest(f'"{name}" is {array.dtype} {list(array.shape)}; expected rows')
    return np.atleast_2d(array)


def _unwrapped(rows: list[Any]) -> Any:  # noqa: ANN401 (a list, or what its one row holds)
    return rows[0] if len(rows) == 1 else rows


def classifier(step: PipelineStep) -> RunStep:
    """Name the best classes of each row. Source: ClassifierOutputStep and its runner."""
    keys, top = step.keys, step.keys.get("topN") or 1
    named = keys.get("labels") or []
    if not isinstance(named, list) or not isinstance(top, int) or top < 1:
        raise LoadFailed("expected labels as a list, and topN as a number from 1 on")
    wanted = {
        item: keys.get(f"{item}Name") or item
        for item in ("label", "index", "prob")
        if keys.get(f"return{item.title()}", True)
    }

    def run(data: Data, _: NamedModels) -> Data:
        rows = _rows(data, step)
        words = tuple(map(str, named))
        found = texts.classifier_output(rows, labels=words, top_n=top, softmax=False)
        plain = {**found, "label": _decoded(found["label"]), "prob": found["prob"].astype(float)}
        given = {
            alias: _unwrapped((plain[item][:, 0] if top == 1 else plain[item]).tolist())
            for item, alias in wanted.items()
        }
        if keys.get("allProbabilities"):
            given["allProbabilities"] = _unwrapped([*rows.astype(float)])
        return {**data, **given}

    return run


def _decoded(texts: Array) -> Array:
    words = np.empty(texts.shape, object)
    words.reshape(-1)[:] = [text.decode() for text in texts.reshape(-1)]
    return words


def regression(step: PipelineStep) -> RunStep:
    """Name columns. Source: RegressionOutputStep."""
    names = step.keys["names"]
    numbers = names.values() if isinstance(names, Mapping) else ()
    if not numbers or not all(isinstance(at, int) and at >= 0 for at in numbers):
        raise LoadFailed('names: expected fields with their columns, such as {"price": 0}')

    def run(data: Data, _: NamedModels) -> Data:
        found = texts.regression_output(_rows(data, step), names=dict(names))
        return {**data, **{n: _unwrapped(each.astype(float).tolist()) for n, each in found.items()}}

    return run


# -- pictures -----------------------------------------------------------------------------------


def to_array(step: PipelineStep) -> RunStep:
    """Make the input of a model of pictures. Source: ImageToNDArrayConfig."""
    config = step.keys.get("config") or {}
    if step.keys.get("metadata"):
        raise LoadFailed("metadata: facts about pictures are not added to the data: remove it")
    if not isinstance(config, Mapping):
        raise LoadFailed("config: expected an object")
    options = _tensor_options(config)
    many = _word(config, "listHandling", {each: each for each in _LISTS}, "NONE")
    batched = config.get("includeMinibatchDim", True)

    def one(files: list[bytes]) -> Array:
        return images.image_to_tensor(strings(files), **options)["tensor"]

    def run(value: Any) -> Any:  # noqa: ANN401 (a picture, or a list of them)
        if isinstance(value, Image):
            return one([value.data]) if batched else one([value.data])[0]
        files = [each.data for each in value]
        if many == "NONE" or not files:
            raise InvalidRequest(
                f"{len(files)} pictures came, and listHandling is {many}; expected"
                f" {'one' if files else 'at least one'}"
            )
        if many == "BATCH":
            return one(files)
        arrays = [one([each]) if batched else one([each])[0] for each in files]
        return arrays[0] if many == "FIRST" else arrays

    return _of_pictures(step, "keys", run)


def _tensor_options(config: Mapping[str, Any]) -> dict[str, Any]:
    """Give the options of `images.image_to_tensor`. Raises: LoadFailed."""
    options: dict[str, Any] = {
        "height": size_of(config, "height"),
        "width": size_of(config, "width"),
        "fit": _word(config, "aspectRatioHandling", _FITS, "CENTER_CROP"),
        "layout": _word(config, "format", _LAYOUTS, "CHANNELS_FIRST"),
        "colors": _word(config, "channelLayout", _COLOURS, "RGB"),
        "dtype": _word(config, "dataType", _DTYPES, "FLOAT"),
    }
    mean, scale = _normalization(config.get("normalization", {}), options)
    return {**options, "mean": mean, "scale": scale}


def resized(step: PipelineStep) -> RunStep:
    """Give pictures another size. Source: ImageResizeStep."""
    height, width = size_of(step.keys, "height"), size_of(step.keys, "width")
    fit = _word(step.keys, "aspectRatioHandling", _FITS, "STRETCH")

    def run(value: Any) -> Any:  # noqa: ANN401
        if not isinstance(value, Image):
            return [run(each) for each in value]
        pixels = images.resize(np.array(value.data, object), height=height, width=width, fit=fit)[
            "pixels"
        ]
        return Image("PNG", encoded(pixels, "png"))

    return _of_pictures(step, "inputNames", run)


def _of_pictures(step: PipelineStep, key: str, change: Callable[[Any], Any]) -> RunStep:
    """Make a step that changes the pictures of the data: those that are named, or all."""
    names, aliases = step.keys.get(key), step.keys.get("outputNames")
    if aliases and (not names or len(aliases) != len(names)):
        raise LoadFailed(f"outputNames: expected as many as {key}")

    def run(data: Data, _: NamedModels) -> Data:
        chosen = names or [name for name, value in data.items() if is_picture(value)]
        for name in chosen:
            if not is_picture(data.get(name)):
                raise InvalidRequest(
                    f'"{name}" is no picture; expected an object with @ImageFormat and @ImageData'
                )
        made = {alias: change(data[n]) for n, alias in zip(chosen, aliases or chosen, strict=True)}
        return {**kept(step.keys, data, *chosen), **made}

    return run


def is_picture(value: object) -> bool:
    """Tell whether a value is a picture, or a list of some."""
    several = value if isinstance(value, list) and value else [value]
    return all(isinstance(each, Image) for each in several)


def size_of(config: Mapping[str, Any], key: str) -> int:
    """Read a number of pixels. Raises: LoadFailed."""
    size = config.get(key)
    if not isinstance(size, int) or not 0 < size <= 16_384:
        raise LoadFailed(f"{key} is {size!r}; expected a number of pixels")
    return size


def _word(config: Mapping[str, Any], key: str, known: Mapping[str, str], default: str) -> str:
    word = str(config.get(key) or default)
    if word not in known:
        raise LoadFailed(f"{key} is {word}, which is not supported; expected {', '.join(known)}")
    return known[word]


def _normalization(
    given: Any,  # noqa: ANN401 (whatever JSON has)
    options: Mapping[str, Any],
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Give each colour's subtrahend and divisor. Default: to [0, 1]."""
    given = {"type": "NONE"} if given is None else given
    kind = given.get("type", "SCALE") if isinstance(given, Mapping) else None
    most = float(given.get("maxValue") or 255.0) if kind else 255.0
    known: Mapping[Any, tuple[Any, Any]] = {
        "NONE": ((0.0,), (1.0,)),
        "SCALE": ((0.0,), (most,)),
        "SCALE_01": ((0.0,), (most,)),
        "INCEPTION": ((most / 2,), (most / 2,)),
        "VGG_SUBTRACT_MEAN": (_VGG, (1.0,)),
        "SUBTRACT_MEAN": (given.get("meanRgb") if kind else None, (1.0,)),
        "STANDARDIZE": ((given.get("meanRgb"), given.get("stdRgb")) if kind else (None, None)),
    }
    if kind not in known or not all(known[kind]):
        raise LoadFailed(f"normalization {given!r} is not supported; expected {', '.join(known)}")
    if options["dtype"] == "uint8" and kind != "NONE":
        raise LoadFailed("normalization: pictures of UINT8 have none; give it the type NONE")
    step = -1 if options["colors"] == "BGR" else 1  # both are named in the order of RGB
    mean, scale = (tuple(map(float, each))[::step] for each in known[kind])
    return mean, scale
