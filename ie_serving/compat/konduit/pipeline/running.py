"""One request to a pipeline: which steps run, and which steps take their outputs."""

import logging
from collections.abc import Mapping
from typing import Any

from ie_serving.compat.konduit.data import Data
from ie_serving.compat.konduit.pipeline.built_in import Run
from ie_serving.compat.konduit.pipeline.definition import (
    ANY,
    MERGE,
    REQUEST,
    SWITCH,
    SWITCH_OUTPUT,
    Pipeline,
    Step,
)
from ie_serving.compat.konduit.pipeline.steps import made
from ie_serving.core.values.errors import InvalidRequest, LoadFailed, ServingError, placed
from ie_serving.engines.python.asking import Named
from ie_serving.engines.run.function import one_line
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

LONGEST_SHOWN = 100
"""Characters of a client's value in an error; it may be as long as the request."""

INT_SWITCH, STRING_SWITCH = "INT_SWITCH", "STRING_SWITCH"


class Running:
    """A pipeline that is loaded. Used in several threads at once.

    Args of the constructor:
        pipeline: as it is written.

    Raises:
        LoadFailed: naming the step.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._runs: dict[str, Run] = {}
        for step in pipeline.steps:
            try:
                self._prepare(step)
            except LoadFailed as error:
                raise LoadFailed(f"{step}: {error}") from error
            except (Exception, SystemExit) as error:
                cause = f"{type(error).__name__}: {one_line(error)}"
                raise LoadFailed(f"{step} cannot be loaded: {cause}") from error

    def _prepare(self, step: Step) -> None:
        if step.type == SWITCH:
            _check_switch(step.keys["switchFn"])
        elif step.type == SWITCH_OUTPUT:
            if not isinstance(step.keys["outputNum"], int):
                raise LoadFailed("outputNum: expected a number")
        elif step.type not in (MERGE, ANY):
            self._runs[step.name] = made(step)

    def __call__(self, data: Data, models: Named) -> Data:
        """Answer a request.

        Raises:
            ServingError: naming the step.
        """
        # None stands for a step that a switch did not choose, and for all steps that need it.
        given: dict[str, Data | None] = {REQUEST: data}
        chosen: dict[str, int] = {}
        for step in self._pipeline.steps:
            given[step.name] = self._named(step, given, chosen, models)
        found = given[self._pipeline.output]
        if found is None:
            raise ServingError(
                f'no step gives "{self._pipeline.output}" its data: a switch chose another branch'
            )
        return found

    def _named(
        self, step: Step, given: Mapping[str, Data | None], chosen: dict[str, int], models: Named
    ) -> Data | None:
        try:
            return self._run(step, given, chosen, models)
        except ServingError as error:
            raise placed(str(step), error) from error
        # SystemExit as well: a script that ends the program ends its request.
        except (Exception, SystemExit) as error:
            log.error(Event("pipeline step failed", step=step.name), exc_info=error)
            raise ServingError(f"{step}: {type(error).__name__}: {one_line(error)}") from error

    def _run(
        self, step: Step, given: Mapping[str, Data | None], chosen: dict[str, int], models: Named
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
                raise ServingError(f'"{key}" comes from "{name}" and from another step')
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
        raise InvalidRequest(f'"{field}" is missing, which the switch looks at')
    value = data[field]
    if given["@type"] == STRING_SWITCH:
        if not isinstance(value, str) or value not in given["map"]:
            known = ", ".join(given["map"])
            raise InvalidRequest(f"{field} is {_shown(value)}; expected one of {known}")
        value = given["map"][value]
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < count:
        raise InvalidRequest(f"{field} is {_shown(value)}; expected a number from 0 to {count - 1}")
    return value


def _shown(value: object) -> str:
    return repr(value)[:LONGEST_SHOWN]
