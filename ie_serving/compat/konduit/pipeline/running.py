"""Versions that are pipelines of Konduit, and one request to a pipeline: which of its steps run.

`config_file.py` makes such a version of the files of Konduit.
"""

import dataclasses
import json
import logging
import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ie_serving.compat.konduit import FILE
from ie_serving.compat.konduit.data import Data, Image, decode, encode
from ie_serving.compat.konduit.pipeline import boxes, built_in
from ie_serving.compat.konduit.pipeline.built_in import RunStep
from ie_serving.compat.konduit.pipeline.definition import (
    ANY,
    LOGGING,
    MERGE,
    MODEL,
    MODELS,
    PYTHON,
    REQUEST,
    SWITCH,
    SWITCH_OUTPUT,
    Pipeline,
    PipelineStep,
    read,
)
from ie_serving.compat.konduit.pipeline.script import Script
from ie_serving.core.values.errors import (
    ConfigError,
    InvalidRequest,
    LoadFailed,
    ServingError,
    placed,
)
from ie_serving.core.values.tensors import Arrays, DataType, TensorSpec
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.driver_params import check_known
from ie_serving.engines.kernels import CodeSource, KernelOptions
from ie_serving.engines.python import driver
from ie_serving.engines.python.asking import NamedModels
from ie_serving.engines.python.context import Context, LoadContext
from ie_serving.engines.python.kernel import Kernel
from ie_serving.engines.python.kernel_model import KernelModel
from ie_serving.engines.run.function import one_line
from ie_serving.telemetry.log.logs import Event, carried

log = logging.getLogger(__name__)
LONGEST_SHOWN = 100
"""Characters of a client's value in an error; it may be as long as the request."""

INT_SWITCH, STRING_SWITCH = "INT_SWITCH", "STRING_SWITCH"

step_log = logging.getLogger("ie_serving.kernel")
LONGEST_LOGGED = 200
"""Characters of a value that a LOGGING step writes: pictures would fill the log."""
AT_A_TIME = 8
"""Requests that a pipeline without Python code works on at once: they mostly wait for models."""
DATA = "data"


class RunningPipeline:
    """A pipeline that is loaded. Used in several threads at once.

    Args of the constructor:
        pipeline: pipeline as written.

    Raises:
        LoadFailed: naming the step.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._about = carried()
        self._runs: dict[str, RunStep] = {}
        for step in pipeline.steps:
            try:
                self._prepare(step)
            except LoadFailed as error:
                raise LoadFailed(f"{step}: {error}") from error
            except (Exception, SystemExit) as error:
                cause = f"{type(error).__name__}: {one_line(error)}"
                raise LoadFailed(f"{step} cannot be loaded: {cause}") from error

    def _prepare(self, step: PipelineStep) -> None:
        if step.type == SWITCH:
            _check_switch(step.keys["switchFn"])
        elif step.type == SWITCH_OUTPUT:
            if not isinstance(step.keys["outputNum"], int):
                raise LoadFailed("outputNum: expected a number")
        elif step.type not in (MERGE, ANY):
            self._runs[step.name] = made(step)

    def __call__(self, data: Data, models: NamedModels) -> Data:
        """Answer a request.

        Raises:
            ServingError: naming the step.
        """
        # None stands for a step that a switch did not choose, and for all steps that need it.
        given: dict[str, Data | None] = {REQUEST: data}
        chosen: dict[str, int] = {}
        for step in self._pipeline.steps:
            given[step.name] = self._run_step(step, given, chosen, models)
        found = given[self._pipeline.output]
        if found is None:
            raise ServingError(
                f'no step gives "{self._pipeline.output}" its data: a switch chose another branch'
            )
        return found

    def _run_step(
        self,
        step: PipelineStep,
        given: Mapping[str, Data | None],
        chosen: dict[str, int],
        models: NamedModels,
    ) -> Data | None:
        try:
            return self._run(step, given, chosen, models)
        except ServingError as error:
            raise placed(str(step), error) from error
        # SystemExit as well: a script that ends the program ends its request.
        except (Exception, SystemExit) as error:
            with self._about():
                log.error(Event("pipeline step failed", step=step.name), exc_info=error)
            raise ServingError(f"{step}: {type(error).__name__}: {one_line(error)}") from error

    def _run(
        self,
        step: PipelineStep,
        given: Mapping[str, Data | None],
        chosen: dict[str, int],
        models: NamedModels,
    ) -> Data | None:
        several = [(name, found) for name in step.inputs if (found := given[name]) is not None]
        if not several:
            return None
        data = several[0][1]
        if step.type == MERGE:
            return _merged(several)
        if step.type == SWITCH:
            chosen[step.name] = _choice(step.keys["switchFn"], data)
        if step.type == SWITCH_OUTPUT and chosen[step.inputs[0]] != step.keys["outputNum"]:
            return None
        run = self._runs.get(step.name)
        return run(data, models) if run else data


def _merged(several: list[tuple[str, Data]]) -> Data:
    found: dict[str, Any] = {}
    for name, data in several:
        for key in data:
            if key in found:
                raise ServingError(
                    f'"{key}" comes from "{name}" and from another step:'
                    " rename the output of one of them"
                )
        found |= data
    return found


def _check_switch(given: Any) -> None:  # noqa: ANN401 (whatever JSON has)
    kind = given.get("@type") if isinstance(given, Mapping) else None
    whole = isinstance(given, Mapping) and isinstance(given.get("numOutputs"), int)
    if kind not in (INT_SWITCH, STRING_SWITCH) or not whole or not given.get("fieldName"):
        raise LoadFailed(
            f"switchFn: expected {INT_SWITCH} or {STRING_SWITCH} with numOutputs and fieldName"
        )
    if kind == STRING_SWITCH and not isinstance(given.get("map"), Mapping):
        raise LoadFailed('switchFn: expected a map such as {"x": 0, "y": 1}')


def _choice(given: Mapping[str, Any], data: Data) -> int:
    field, count = given["fieldName"], given["numOutputs"]
    if field not in data:
        raise InvalidRequest(f'"{field}" is missing; expected it, since the switch looks at it')
    value = data[field]
    if given["@type"] == STRING_SWITCH:
        if not isinstance(value, str) or value not in given["map"]:
            known = ", ".join(given["map"])
            raise InvalidRequest(f"{field} is {_short_repr(value)}; expected one of {known}")
        value = given["map"][value]
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < count:
        raise InvalidRequest(
            f"{field} is {_short_repr(value)}; expected a number from 0 to {count - 1}"
        )
    return value


def _short_repr(value: object) -> str:
    return repr(value)[:LONGEST_SHOWN]


def made(step: PipelineStep) -> RunStep:
    """Make a step.

    Raises:
        LoadFailed: its keys are at fault.
        Exception: whatever the import code of a script raises.
    """
    if step.type in MODELS:
        return partial(_predict, step)
    return MAKERS[step.type](step)


# -- models -------------------------------------------------------------------------------------


def _predict(step: PipelineStep, data: Data, models: NamedModels) -> Data:
    model = models[step.keys[MODEL]]
    names = step.keys.get("inputNames") or [*model.inputs]
    missing = [name for name in names if name not in data]
    if missing:
        there = ", ".join(data) or "nothing"
        raise InvalidRequest(f'input "{missing[0]}" of the model is missing; there is {there}')
    specs = model.inputs
    given = model.predict({name: _tensor(data[name], specs.get(name)) for name in names})
    wanted = step.keys.get("outputNames") or [*given]
    lacking = [name for name in wanted if name not in given]
    if lacking:
        raise ServingError(f'the model gives no "{lacking[0]}"; it gives {", ".join(given)}')
    return {name: given[name] for name in wanted}


def _tensor(value: Any, spec: Any) -> Any:  # noqa: ANN401
    """Give a value in the dtype of the model's input: a list has no dtype of its own."""
    if isinstance(value, Image):
        return value.data
    if not isinstance(value, list | int | float) or spec is None:
        return value
    dtype = spec.dtype.numpy
    return value if dtype == np.object_ else np.asarray(value, dtype)


# -- Python -------------------------------------------------------------------------------------


def _script(step: PipelineStep) -> RunStep:
    given = step.keys["pythonConfig"]
    if not isinstance(given, Mapping):
        raise LoadFailed("pythonConfig: expected an object")
    script = Script(given)
    return lambda data, _: script(data)


# -- what changes nothing -------------------------------------------------------------------------


def _logging(step: PipelineStep) -> RunStep:
    level = logging.getLevelName(str(step.keys.get("logLevel", "INFO")).replace("TRACE", "DEBUG"))
    shown = str(step.keys.get("log", "KEYS"))
    try:
        wanted = re.compile(step.keys.get("keyFilterRegex", ""))
    except (re.error, TypeError) as error:
        raise LoadFailed(f"keyFilterRegex: expected a regular expression; {error}") from error
    if not isinstance(level, int) or shown not in ("KEYS", "KEYS_AND_VALUES", "VALUES"):
        raise LoadFailed("expected logLevel such as INFO, and log KEYS or KEYS_AND_VALUES")

    def run(data: Data, _: NamedModels) -> Data:
        chosen = [name for name in data if not wanted.pattern or wanted.fullmatch(name)]
        texts = chosen if shown == "KEYS" else [f"{n}={_short(data[n])}" for n in chosen]
        step_log.log(level, "step %s: %s", step.name, ", ".join(texts))
        return data

    return run


def _short(value: object) -> str:
    return repr(value)[:LONGEST_LOGGED]


MAKERS: Mapping[str, Callable[[PipelineStep], RunStep]] = {
    PYTHON: _script,
    LOGGING: _logging,
    "CLASSIFIER_OUTPUT": built_in.classifier,
    "REGRESSION_OUTPUT": built_in.regression,
    "IMAGE_TO_NDARRAY": built_in.to_array,
    "IMAGE_RESIZE": built_in.resized,
    "IMAGE_CROP": boxes.cropped,
    "SSD_TO_BBOX": boxes.ssd,
    "YOLO_BBOX": boxes.yolo,
    "BOUNDING_BOX_FILTER": boxes.box_filter,
    "EXTRACT_BOUNDING_BOX": boxes.extracted,
    "DRAW_BOUNDING_BOX": boxes.draws,
}


def load(directory: Path, options: EngineOptions) -> KernelModel:
    """Make the model of a pipeline. See `engines.drivers.LoadDirectory`."""
    check_known(options, (), "konduit")
    if not (directory / FILE).is_file():
        raise LoadFailed(f"driver konduit runs pipelines of Konduit: expected {FILE}")
    code = pipeline_in(directory).runs_code
    own = dataclasses.replace(
        options.of(KernelOptions),
        source=CodeSource(file=FILE),
        # Scripts share what their import code has made, and few authors think of threads.
        max_concurrency=1 if code else AT_A_TIME,
    )
    # Without a script the pipeline runs no code of users.
    allowed = options.allow_python or not code
    return driver.load(directory, dataclasses.replace(options, allow_python=allowed).having(own))


def pipeline_in(directory: Path) -> Pipeline:
    """Read the pipeline of a version. Raises: LoadFailed."""
    try:
        return read(json.loads((directory / FILE).read_text("utf-8")), "pipeline")
    except (ConfigError, OSError, ValueError) as error:
        raise LoadFailed(f"{FILE}: {error}") from error


def opened(directory: Path, ctx: LoadContext, undone: ExitStack) -> Kernel:
    """Load a pipeline.

    Args:
        directory: directory of the version.
        ctx: tells the model.
        undone: has nothing to undo here.

    Raises:
        LoadFailed: naming the step.
    """
    running = RunningPipeline(pipeline_in(directory))

    def execute(inputs: Arrays, call: Context) -> object:
        data = decode(inputs[DATA].item())
        return {DATA: encode(running(data, call.models))}

    text = {DATA: TensorSpec(DATA, DataType.STRING, (), f"{DATA}:0")}
    return Kernel(name=f"pipeline {ctx.name}", inputs=text, outputs=text, execute=execute)
