"""Reads a version directory to models in memory: one for each signature, with named tensors.

The readers of SavedModels and of TensorFlow Lite are imported with the first version that needs
them, in the thread of its load: together they are a tenth of a server's modules.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import openvino as ov

from ie_serving.core.values.errors import LoadFailed, NoModel
from ie_serving.core.values.image_form import RGB
from ie_serving.core.values.tensors import SERVING_DEFAULT, Method
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.onnx_file import inputs, nodes
from ie_serving.engines.openvino.error_texts import load_failures
from ie_serving.engines.openvino.interface.draft import Draft, Drafts, ModelTensor
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.openvino.reading import formats
from ie_serving.engines.openvino.reading.mapping import Renames, aliases, read_mapping
from ie_serving.engines.openvino.reading.onnx_graph import SQUEEZE, mend_onnx, refuse_unread
from ie_serving.engines.openvino.runtime import core

if TYPE_CHECKING:
    from ie_serving.engines.openvino.operators.converter import Convert
    from ie_serving.engines.savedmodel.sent_shapes import ShapedSignature


def read(
    directory: Path,
    options: OpenVinoOptions,
    tags: Collection[str] = EngineOptions.saved_model_tags,
    as_sent: "ShapedSignature | None" = None,
) -> Drafts:
    """Read the model in `directory`: a draft for each signature that can be converted.

    Args:
        directory: directory of the version.
        options: OpenVINO's own.
        tags: tags of the graph that is read of a SavedModel.
        as_sent: the one signature of a SavedModel to read, with the shapes of its inputs.

    Raises:
        LoadFailed: naming the file, and the operations that OpenVINO lacks.
    """
    with load_failures("the version cannot be read"):
        file = formats.model_file(directory, prefer_tflite=options.prefer_tflite_model)
        renames = read_mapping(directory)
    return _read_file(file, renames, tags, as_sent)


def _read_file(
    file: Path,
    renames: tuple[Renames, Renames],
    tags: Collection[str],
    as_sent: "ShapedSignature | None",
) -> Drafts:
    """Read a model's file as its name has it."""
    _refuse_other(file)
    if file.name in (formats.SAVED_MODEL, formats.SAVED_MODEL_TEXT):
        # Imported on first use: it imports most of the modules that a load can need.
        from ie_serving.engines.openvino.reading.saved_model import read_signatures

        return read_signatures(file.parent, renames, tags, as_sent)
    if file.suffix == formats.FROZEN:
        from ie_serving.engines.openvino.reading.saved_model import read_frozen_graph

        return read_frozen_graph(file, renames)
    if file.suffix == formats.TFLITE:
        from ie_serving.engines.openvino.reading.lite import read_lite

        return read_lite(file, renames)
    with load_failures(f"{file.name} cannot be read"):
        model = _read_model(file)
        draft = _draft_of(model, renames, file)
    colours = formats.COLOURS.get(file.suffix, RGB)
    return Drafts([replace(draft, colours=colours)])


def _refuse_other(file: Path) -> None:
    """Refuse what tools leave in place of a model; parsers would only find it damaged.

    Raises:
        NoModel: the file is a pointer of Git LFS, or a page that a download got.
    """
    with load_failures(f"{file.name} cannot be read"), file.open("rb") as opened:
        begin = opened.read(_BEGIN).lstrip()
    if begin.startswith(_POINTER):
        raise NoModel(f"{file.name} is a pointer of Git LFS and not the model: git lfs pull")
    if begin[:_BEGIN].lower().startswith(_PAGES):
        raise NoModel(
            f"{file.name} is a page of HTML and not the model, as of a download that was refused:"
            " upload the model"
        )


_BEGIN = 100
_POINTER = b"version https://git-lfs.github.com/"
_PAGES = (b"<!doctype html", b"<html")


def _read_model(file: Path) -> ov.Model:
    """Read a file of IR or ONNX.

    Raises:
        LoadFailed: OpenVINO finds no model in a file of ONNX, or would drop a part of the file.
    """
    if file.suffix != formats.ONNX:
        return core().read_model(str(file))
    own = _own_conversions(file)
    if no_axes := refuse_unread(file, own):
        own = {**own, SQUEEZE: _squeezed(no_axes)}
    try:
        model = _read_with(file, own) if own else _read_onnx(file)
    except (RuntimeError, LoadFailed) as error:
        from ie_serving.engines.openvino.reading.onnx_branches import read_simpler

        if (simpler := read_simpler(file, own)) is not None:
            mend_onnx(simpler, file)
            return simpler
        # No front end recognises the file; the text names all front ends.
        if "Available frontends" not in str(error):
            raise
        size = file.stat().st_size
        why = f"its {size} bytes cannot be parsed" if size else "it has 0 bytes"
        raise NoModel(f"{file.name} is no ONNX model, {why}: upload it again") from error
    mend_onnx(model, file)
    return model


def _own_conversions(file: Path) -> Mapping[str, "Convert"]:
    """Give our converters, by name, of operators that OpenVINO lacks or converts wrongly."""
    from ie_serving.engines.openvino.operators.table import needed

    try:
        return needed(nodes(file))
    except ValueError:
        return {}  # no ONNX model: OpenVINO says so


def _squeezed(no_axes: Collection[str]) -> "Convert":
    from ie_serving.engines.openvino.operators.table import squeezed

    return squeezed(no_axes)


def _read_with(file: Path, own: Mapping[str, "Convert"]) -> ov.Model:
    from ie_serving.engines.openvino.operators.converter import read as read_by_own

    return read_by_own(file, own)


def _read_onnx(file: Path) -> ov.Model:
    try:
        return core().read_model(str(file))
    except RuntimeError as error:
        # Operators made of others, as NegativeLogLikelihoodLoss, are read from memory alone.
        if "get_attribute is not implemented" not in str(error):
            raise
        return core().read_model(file.read_bytes(), b"")


def _draft_of(model: ov.Model, renames: tuple[Renames, Renames], file: Path) -> Draft:
    own, ignored = _own_names(model.inputs), frozenset[str]()
    if file.suffix == formats.ONNX:
        declared = inputs(file)
        own = _declared_names(model.inputs, declared, file)
        ignored = frozenset(declared).difference(own)  # the front end drops inputs without effect
    given = _tensors(model.inputs, own, renames[0], "inputs")
    outputs = _tensors(model.outputs, _own_names(model.outputs), renames[1], "outputs")
    return Draft(SERVING_DEFAULT, Method.PREDICT.value, model, given, outputs, ignored=ignored)


def _tensors(
    ports: Sequence[ov.Output], own_names: Sequence[str], renames: Renames, kind: str
) -> list[ModelTensor]:
    """Name ports as 2020 and TF Serving do; outputs that are the same tensor count once."""
    by_name = {name: i for i, name in reversed(list(enumerate(own_names)))}
    chosen = sorted(by_name.items(), key=lambda item: item[1])
    own = [name for name, _ in chosen]
    known = [frozenset({name, *_names(ports[i])}) for name, i in chosen]
    given = aliases(own, known, renames, kind)
    return [
        ModelTensor(alias, alias, i, names | {alias})
        for alias, (_, i), names in zip(given, chosen, known, strict=True)
    ]


def _own_names(ports: Sequence[ov.Output]) -> list[str]:
    """Give the first of each tensor's names in order, or else the name of the layer."""
    return [str(min(port.get_names() or {_layer(port)})) for port in ports]


def _declared_names(ports: Sequence[ov.Output], declared: Sequence[str], file: Path) -> list[str]:
    """Give the name of each input in a file of ONNX.

    The front end gives an input that is also an output the output's name.
    """
    own = [min(_names(port).intersection(declared), default="") for port in ports]
    lost = [name for name in declared if name not in own]
    if own.count("") == len(lost):  # none was dropped
        return [name or lost.pop(0) for name in own]
    passed = {out: node.inputs[0] for node in nodes(file) if node.inputs for out in node.outputs}
    for index, name in enumerate(_own_names(ports)):
        source = name
        while not own[index] and source:
            source = passed.pop(source, "")
            own[index] = source if source in declared else ""
        own[index] = own[index] or name
    return own


def _names(port: ov.Output) -> set[str]:
    return {*map(str, port.get_names()), _layer(port)}


def _layer(port: ov.Output) -> str:
    node = port.get_node()
    if node.get_type_name() != "Result":
        return str(node.get_friendly_name())
    source = node.input_value(0)
    name = str(source.get_node().get_friendly_name())
    several = source.get_node().get_output_size() > 1
    return f"{name}.{source.get_index()}" if several else name
