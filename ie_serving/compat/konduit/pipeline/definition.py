"""A pipeline of Konduit Serving as it is written: steps as a list, or as an object (a graph).

{"steps": [{"@type": "LOGGING"}, {"@type": "PYTHON", "pythonConfig": {...}}]}
{"steps": {"a": {"@type": "ONNX", "@input": "input", ...}}, "outputStep": "a"}

Source: Konduit Serving's classes of pipelines and steps, as its JSON names them.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ie_serving.core.values.errors import ConfigError
from ie_serving.core.values.hints import nearest

REQUEST: Final = "input"
"""The data sent by the client, in place of a step's name."""
MODEL: Final = "model"
"""Key by which the configuration names the served model of a step; no word of Konduit's."""

PYTHON, LOGGING = "PYTHON", "LOGGING"
MERGE, ANY, SWITCH, SWITCH_OUTPUT = "MERGE", "ANY", "SWITCH", "SWITCH_OUTPUT"
MODELS: Final = ("ONNX", "TENSORFLOW", "ND4JTENSORFLOW")
"""Types whose `modelUri` is a model of this server."""

_OF_AUTHORS: Final = frozenset({"names", "classColors", "ioInputs", "ioOutputs"})
"""Keys of objects whose own keys are names that the author chose."""

_CONVERT = "convert the model to ONNX, and make it a step of type ONNX"
_WRITE = "write a step of type PYTHON, or a kernel of your own (docs/guide/own-code.md)"
REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("DEEPLEARNING4J", "SAMEDIFF", "TVM"), _CONVERT),
    "KERAS": "save the model as a SavedModel, and make it a step of type TENSORFLOW",
    "TENSORRT": "make it a step of type ONNX, of the ONNX file that the engine was built from",
    "DOCUMENTPARSER": _WRITE,
    **dict.fromkeys(("VIDEO_CAPTURE", "FRAME_CAPTURE", "SHOW_IMAGE"), "clients send the images"),
}
"""Types that cannot be had, each with what to do instead."""


@dataclass(frozen=True)
class Kind:
    """What a type of step has.

    Attributes:
        required, optional: names of the keys of a step of this type.
        graph_only: it joins or chooses among several steps, which a list does not have.
    """

    required: Collection[str] = ()
    optional: Collection[str] = ()
    graph_only: bool = False


_MODEL_KIND = Kind(("modelUri",), ("inputNames", "outputNames", MODEL))
KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(MODELS, _MODEL_KIND),
    PYTHON: Kind(("pythonConfig",)),
    LOGGING: Kind((), ("logLevel", "log", "keyFilterRegex")),
    "CLASSIFIER_OUTPUT": Kind(
        (),
        (
            *("inputName", "returnLabel", "returnIndex", "returnProb", "labelName", "indexName"),
            # The last as in an example of its documents, for the first.
            *("probName", "labels", "topN", "allProbabilities", "inputNames"),
        ),
    ),
    "REGRESSION_OUTPUT": Kind(("names",), ("inputName",)),
    "IMAGE_TO_NDARRAY": Kind(
        ("config",), ("keys", "outputNames", "keepOtherValues", "metadata", "metadataKey")
    ),
    "IMAGE_RESIZE": Kind(
        ("height", "width"),
        ("inputNames", "outputNames", "aspectRatioHandling", "keepOtherValues"),
    ),
    "SSD_TO_BBOX": Kind((), ("classLabels", "threshold", "outputName", "keepOtherValues")),
    "BOUNDING_BOX_FILTER": Kind(("classesToKeep",), ("inputName", "outputName", "keepOtherValues")),
    "IMAGE_CROP": Kind((), ("imageName", "cropName", "cropPoints", "cropBox", "coordsArePixels")),
    "YOLO_BBOX": Kind(
        (),
        (
            *("input", "output", "nchw", "threshold", "nmsThreshold", "numClasses"),
            *("classLabels", "keepOtherValues"),
        ),
    ),
    "EXTRACT_BOUNDING_BOX": Kind(
        (),
        (
            *("imageName", "bboxName", "outputName", "keepOtherFields", "keepOtherValues"),
            *("resizeH", "resizeW"),
        ),
    ),
    "DRAW_BOUNDING_BOX": Kind(
        (),
        (
            *("imageName", "bboxName", "drawLabel", "drawProbability", "classColors", "color"),
            *("lineThickness", "scale", "drawCropRegion"),
        ),
    ),
    MERGE: Kind(graph_only=True),
    ANY: Kind(graph_only=True),
    SWITCH: Kind(("switchFn",), graph_only=True),
    SWITCH_OUTPUT: Kind(("outputNum",), graph_only=True),
}


@dataclass(frozen=True, kw_only=True)
class PipelineStep:
    """One step.

    Attributes:
        name: key of the step; in a list its number, from 1 on.
        type: `@type`.
        inputs: the steps whose data it takes, `input` for the request.
        keys: keys of the step other than its type and inputs.
    """

    name: str
    type: str
    inputs: tuple[str, ...]
    keys: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f'step "{self.name}" ({self.type})'


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """Steps in an order in which each stands behind its inputs.

    Attributes:
        steps: steps that the output needs.
        output: the step whose data are the reply.
    """

    steps: tuple[PipelineStep, ...]
    output: str

    @property
    def runs_code(self) -> bool:
        """Whether a step is Python code."""
        return any(step.type == PYTHON for step in self.steps)


def read(given: object, place: str) -> Pipeline:
    """Read a pipeline.

    Raises:
        ConfigError: every fault, with its place.
    """
    faults: list[str] = []
    steps = given.get("steps") if isinstance(given, Mapping) else None
    if isinstance(steps, list):
        found = [*_sequence_steps(steps, f"{place}.steps", faults)]
        output = str(len(steps)) if steps else ""
    elif isinstance(steps, Mapping):
        assert isinstance(given, Mapping)
        found = [*_graph_steps(steps, f"{place}.steps", faults)]
        output = given.get("outputStep", "")
    else:
        raise ConfigError([f"{place}.steps: expected a list of steps, or an object of them"])
    names = [step.name for step in found]
    if not faults and output not in names:
        listed = ", ".join(names) or "none"
        faults.append(f"{place}.outputStep: {output!r} is no step; the steps are {listed}")
    if faults:
        raise ConfigError(faults)
    return Pipeline(steps=_ordered(found, output, place), output=output)


def in_camel_case(given: Any) -> Any:  # noqa: ANN401 (whatever JSON has)
    """Name the keys of a pipeline as its JSON does: its YAML has them in snake case."""
    if not isinstance(given, Mapping):
        return given
    steps = given.get("steps")
    if isinstance(steps, list):
        steps = [_camel(each) for each in steps]
    elif isinstance(steps, Mapping):
        steps = {name: _camel(each) for name, each in steps.items()}
    return {**{_camel_word(key): value for key, value in given.items()}, "steps": steps}


def _camel(given: Any, *, of_author: bool = False) -> Any:  # noqa: ANN401
    if isinstance(given, list):
        return [_camel(each) for each in given]
    if not isinstance(given, Mapping):
        return given
    found = {}
    for key, value in given.items():
        name = key if of_author else _camel_word(key)
        found[name] = _camel(value, of_author=name in _OF_AUTHORS)
    return found


def _camel_word(key: Any) -> Any:  # noqa: ANN401 (YAML has keys of all types)
    return re.sub("_([a-z])", lambda found: found[1].upper(), key) if isinstance(key, str) else key


def models_in(text: str) -> Collection[str]:
    """Name the models of a pipeline; none where it cannot be read, which its load says."""
    try:
        pipeline = read(json.loads(text), "pipeline")
    except (ConfigError, ValueError):
        return ()
    return {str(step.keys[MODEL]) for step in pipeline.steps if MODEL in step.keys}


def _sequence_steps(given: list[Any], place: str, faults: list[str]) -> Iterator[PipelineStep]:
    for number, each in enumerate(given, 1):
        before = str(number - 1) if number > 1 else REQUEST
        where = f"{place}[{number - 1}]"
        for step in _step(str(number), each, (before,), where, faults):
            if KINDS[step.type].graph_only:
                faults.append(f"{where}.@type: {step.type} stands in a graph alone: name the steps")
            yield step


def _graph_steps(given: Mapping[str, Any], place: str, faults: list[str]) -> Iterator[PipelineStep]:
    types = {n: each.get("@type") for n, each in given.items() if isinstance(each, Mapping)}
    for name, each in given.items():
        where = f"{place}.{name}"
        taken = each.get("@input") if isinstance(each, Mapping) else None
        listed = taken if isinstance(taken, list) else [taken]
        known = (REQUEST, *given)
        for unknown in [one for one in listed if one not in known]:
            faults.append(f"{where}.@input: {unknown!r} is no step; there are {', '.join(known)}")
        inputs = tuple(one for one in listed if isinstance(one, str))
        for step in _step(name, each, inputs, where, faults):
            if len(inputs) == len(listed) and (fault := _wrong_inputs(step, types)):
                faults.append(f"{where}.@input: {fault}")
            yield step


def _wrong_inputs(step: PipelineStep, types: Mapping[str, Any]) -> str:
    if len(step.inputs) != 1 and step.type not in (MERGE, ANY):
        return f"{step.type} takes one step; {MERGE} joins several"
    of_switch = any(types.get(each) == SWITCH for each in step.inputs)
    if of_switch != (step.type == SWITCH_OUTPUT):
        return f"a {SWITCH} is for a {SWITCH_OUTPUT} alone; take its output by one"
    return ""


def _step(
    name: str, given: object, inputs: tuple[str, ...], place: str, faults: list[str]
) -> Iterator[PipelineStep]:
    type_ = given.get("@type") if isinstance(given, Mapping) else None
    if not isinstance(given, Mapping) or not isinstance(type_, str):
        faults.append(f'{place}: expected an object with "@type"')
        return
    kind = KINDS.get(type_)
    if kind is None:
        known = ", ".join(KINDS)
        advice = REFUSED.get(type_, f"{_WRITE}; there are {known}{nearest(type_, KINDS)}")
        faults.append(f"{place}.@type: steps of type {type_} are not supported: {advice}")
        return
    # Konduit writes null for an option that is not set, and an empty object for constants.
    written = {k: v for k, v in given.items() if v is not None and (k, v) != ("constants", {})}
    keys = {key: value for key, value in written.items() if key not in ("@type", "@input")}
    faults += [f"{place}.{fault}" for fault in _wrong_keys(type_, kind, keys)]
    yield PipelineStep(name=name, type=type_, inputs=inputs, keys=keys)


def _wrong_keys(type_: str, kind: Kind, keys: Collection[str]) -> Iterator[str]:
    """Name the keys that a step lacks, and those that its type does not have."""
    yield from (f"{key}: missing" for key in kind.required if key not in keys)
    known = {*kind.required, *kind.optional}
    listed = ", ".join(sorted(known - {MODEL})) or "no keys"
    yield from (f"{key}: not supported; {type_} has {listed}" for key in keys if key not in known)


def _ordered(steps: list[PipelineStep], output: str, place: str) -> tuple[PipelineStep, ...]:
    """Give the output's steps, each behind its inputs. Raises: ConfigError for a circle."""
    by_name = {step.name: step for step in steps}
    needed, waiting = {output}, [output]
    while waiting:
        inputs = {*by_name[waiting.pop()].inputs} - {REQUEST} - needed
        needed |= inputs
        waiting += inputs
    done: dict[str, PipelineStep] = {}
    left = [step for step in steps if step.name in needed]
    while left:
        ready = [step for step in left if {*step.inputs} <= {REQUEST, *done}]
        if not ready:
            circle = ", ".join(step.name for step in left)
            raise ConfigError([f"{place}.steps: these need each other in a circle: {circle}"])
        done |= {step.name: step for step in ready}
        left = [step for step in left if step.name not in done]
    return tuple(done.values())
