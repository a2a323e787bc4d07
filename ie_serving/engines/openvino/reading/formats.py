"""Finds the model format of a version directory, and tells whether its files are complete.

The formats, in the order of search: OpenVINO IR (`*.xml` with `*.bin` of the same stem), a
TensorFlow SavedModel, binary or as text, one `.onnx`, one `.tflite`, PaddlePaddle's `.pdmodel` with
`.pdiparams`, or a frozen graph of TensorFlow (`.pb`); a `.tflite` comes first where it is
preferred. Two models of one format are refused as ambiguous.
"""

import logging
import re
from collections.abc import Collection, Iterable
from pathlib import Path, PurePosixPath

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.image_form import BGR
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

IR = ".xml"
SAVED_MODEL = "saved_model.pb"
SAVED_MODEL_TEXT = "saved_model.pbtxt"
TFLITE = ".tflite"
ONNX = ".onnx"
PADDLE = ".pdmodel"
FROZEN = ".pb"
WEIGHTS = {IR: ".bin", PADDLE: ".pdiparams"}
"""The file with the weights beside a file with the graph, by suffix."""
COLOURS = dict.fromkeys((IR, PADDLE), BGR)
"""Order of an image's colours, by suffix, as OpenVINO Model Server decodes it: IR and PaddlePaddle
come from there, with clients that count on it. Models of other formats are trained with RGB."""
BESIDE_SAVED_MODEL = frozenset({"fingerprint.pb", "keras_metadata.pb"})
"""Files that TensorFlow writes beside a SavedModel, whose own file may not have arrived yet."""
PYTORCH = (".pt2", ".pt", ".pth", ".torchscript", ".jit", ".ptl", ".ts")

_INDEX = "variables/variables.index"
_SHARD = re.compile(r"variables/variables\.data-(\d{5})-of-(\d{5})")
_NOTHING = (
    f"the model is missing: expected *.xml with *.bin, {SAVED_MODEL} or {SAVED_MODEL_TEXT},"
    " *.onnx, *.tflite, *.pdmodel with *.pdiparams, or *.pb"
)


def missing(files: Collection[str]) -> str | None:
    """Name the missing files of a directory of `files`; None when it is complete."""
    top = {name for name in files if "/" not in name}
    if xmls := _with_suffix(top, IR):
        return _without_weights(xmls, top, IR)
    if top & {SAVED_MODEL, SAVED_MODEL_TEXT}:
        return _missing_variables(set(files))
    if _with_suffix(top, ONNX) or _with_suffix(top, TFLITE):
        return None
    if graphs := _with_suffix(top, PADDLE):
        return _without_weights(graphs, top, PADDLE)
    if any(name.startswith("variables/") for name in files):
        return f"{SAVED_MODEL} is missing beside variables/"
    return None if _frozen(top) else _without_graph(top)


def model_file(directory: Path, *, prefer_tflite: bool = False) -> Path:
    """Give the file to read: the one with the graph.

    Raises:
        LoadFailed: none, or more than one of a format.
    """
    names = {path.name for path in directory.iterdir() if path.is_file()}
    # The order of `missing`, so that the model found complete is the one that is read.
    order = [
        _with_suffix(names, IR),
        names & {SAVED_MODEL},
        names & {SAVED_MODEL_TEXT},
        _with_suffix(names, ONNX),
        _with_suffix(names, TFLITE),
        _with_suffix(names, PADDLE),
        _frozen(names),
    ]
    preferred = _with_suffix(names, TFLITE) if prefer_tflite else []
    for found in (preferred, *order):
        if len(found) > 1:
            raise LoadFailed(
                f"the version holds several models: {', '.join(sorted(found))}; keep one of them"
            )
        if found:
            used = next(iter(found))
            _warn_of_others(directory, used, order)
            return directory / used
    raise LoadFailed(_without_graph(names))


def _warn_of_others(directory: Path, used: str, order: Iterable[Collection[str]]) -> None:
    same = {used, SAVED_MODEL_TEXT} if used == SAVED_MODEL else {used}
    if ignored := sorted({name for found in order for name in found} - same):
        facts = {"path": directory, "used": used, "ignored": ",".join(ignored)}
        log.warning(Event("version holds several models", **facts))


def _with_suffix(names: Collection[str], suffix: str) -> list[str]:
    return sorted(name for name in names if name.endswith(suffix))


def _frozen(names: Collection[str]) -> list[str]:
    return [name for name in _with_suffix(names, FROZEN) if name not in BESIDE_SAVED_MODEL]


def _without_weights(graphs: Collection[str], top: Collection[str], suffix: str) -> str | None:
    for graph in graphs:
        weights = graph.removesuffix(suffix) + WEIGHTS[suffix]
        if weights not in top:
            return f"{weights} is missing beside {graph}"
    return None


def _without_graph(top: Collection[str]) -> str:
    """Name the missing graph file beside the present files."""
    for graph, weights in WEIGHTS.items():
        if found := _with_suffix(top, weights):
            return f"{PurePosixPath(found[0]).stem}{graph} is missing beside {found[0]}"
    for name in sorted(top):
        if name.endswith(PYTORCH):
            return (
                f"{name} can be read by PyTorch alone: convert it with openvino.convert_model, or"
                " export it with torch.onnx.export, and upload the .xml with its .bin, or the .onnx"
            )
    return _NOTHING


def _missing_variables(files: Collection[str]) -> str | None:
    # A graph with constants only, such as a frozen one, has no such directory.
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
