"""What a version directory may hold, and whether it is all there.

OpenVINO IR (`*.xml` with `*.bin` of the same stem), a TensorFlow SavedModel, binary or as text, one
`.onnx`, or one `.tflite`, looked for in this order; the last comes first where it is preferred. Two
models of one format are refused: which of them was meant cannot be known.
"""

import re
from collections.abc import Collection
from pathlib import Path, PurePosixPath

from ie_serving.core.errors import LoadFailed

SAVED_MODEL = "saved_model.pb"
SAVED_MODEL_TEXT = "saved_model.pbtxt"
TFLITE = ".tflite"
ONNX = ".onnx"
_INDEX = "variables/variables.index"
_SHARD = re.compile(r"variables/variables\.data-(\d{5})-of-(\d{5})")
_NOTHING = (
    f"the model is missing: expected *.xml with *.bin, {SAVED_MODEL} or {SAVED_MODEL_TEXT},"
    " *.onnx, or *.tflite"
)


def missing(files: Collection[str]) -> str | None:
    """Say what a directory of `files` lacks; None when it is complete."""
    top = {name for name in files if "/" not in name}
    if xmls := _with_suffix(top, ".xml"):
        return _without_weights(xmls, top)
    if top & {SAVED_MODEL, SAVED_MODEL_TEXT}:
        return _missing_variables(set(files))
    if _with_suffix(top, ONNX) or _with_suffix(top, TFLITE):
        return None
    bins = _with_suffix(top, ".bin")
    return f"{PurePosixPath(bins[0]).stem}.xml is missing beside {bins[0]}" if bins else _NOTHING


def model_file(directory: Path, *, prefer_tflite: bool = False) -> Path:
    """Give the file to read: the `.xml`, the SavedModel's, the `.onnx` or the `.tflite`.

    Raises:
        LoadFailed: none, or more than one of a format.
    """
    names = {path.name for path in directory.iterdir() if path.is_file()}
    # The order of `missing`, so that what was found complete is also what is read.
    order = [
        _with_suffix(names, ".xml"),
        names & {SAVED_MODEL},
        names & {SAVED_MODEL_TEXT},
        _with_suffix(names, ONNX),
        _with_suffix(names, TFLITE),
    ]
    for found in order[::-1] if prefer_tflite and order[-1] else order:
        if len(found) > 1:
            raise LoadFailed(
                f"the version holds several models: {', '.join(sorted(found))}; keep one of them"
            )
        if found:
            return directory / next(iter(found))
    raise LoadFailed(_NOTHING)


def _with_suffix(names: Collection[str], suffix: str) -> list[str]:
    return sorted(name for name in names if name.endswith(suffix))


def _without_weights(xmls: Collection[str], top: Collection[str]) -> str | None:
    for xml in xmls:
        weights = f"{xml.removesuffix('.xml')}.bin"
        if weights not in top:
            return f"{weights} is missing beside {xml}"
    return None


def _missing_variables(files: Collection[str]) -> str | None:
    # A graph of constants alone, such as a frozen one, has no such directory.
    if not any(name.startswith("variables/") for name in files):
        return None
    if _INDEX not in files:
        return f"{_INDEX} is missing"
    shards = [found for found in map(_SHARD.fullmatch, files) if found]
    # The number of shards stands in each one's name. Where shards of two exports lie side by side,
    # the larger number is the one to wait for.
    count = max((int(found[2]) for found in shards), default=0)
    have = {int(found[1]) for found in shards if int(found[2]) == count}
    lacking = sorted(set(range(max(count, 1))) - have)
    return f"shard {lacking[0]} of {_INDEX} is missing" if lacking else None
