"""Reads a `Definition` from JSON. One error reports all faults, each with its step.

    {"steps": {"scale": {"model": "scaler", "in": {"x": "request.x"}},
               "score": {"model": "scorer", "in": {"x": "scale.y"}}},
     "outputs": {"score": "score.p"}}

`steps` as a list is a sequence: a step without `in` takes what the one before it gives.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ie_serving.core.values.errors import ConfigError, LoadFailed
from ie_serving.core.values.hints import nearest
from ie_serving.core.values.tensors import TensorSpec
from ie_serving.engines import driver_params
from ie_serving.engines.graph.definition import (
    ITEM,
    REQUEST,
    CallStep,
    Definition,
    Ref,
    Step,
    circle,
    parse_ref,
)
from ie_serving.engines.graph.reading_steps import CALLS, LONGEST_MS, StepReader

KEYS = ("inputs", "outputs", "steps", "cache_ms", "defaults")
DEFAULTS = ("timeout_ms", "retries", "cache_ms")


def read_text(text: str, place: str) -> Definition:
    """Read the text of a file `graph.json`. Raises: ConfigError."""
    try:
        given = json.loads(text)
    except ValueError as error:
        raise ConfigError([f"{place}: not JSON: {error}"]) from None
    except RecursionError:
        raise ConfigError(
            [f"{place}: lists or objects nest too deep; nest fewer of them"]
        ) from None
    return read(given, place)


def read(given: object, place: str) -> Definition:
    """Read a graph.

    Args:
        given: the decoded JSON.
        place: place named in faults.

    Raises:
        ConfigError: every fault, such as `graphs[0].steps.score.in.x: ...`.
    """
    if not isinstance(given, Mapping):
        raise ConfigError([f'{place}: expected an object such as {{"steps": {{...}}}}'])
    reader = _GraphReader(place)
    found = reader.definition(given)
    if reader.faults:
        raise ConfigError(reader.faults)
    return found


class _GraphReader:
    """Reads one graph and collects its faults."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._defaults: Mapping[str, Any] = {}
        self.faults: list[str] = []

    def definition(self, given: Mapping[str, Any]) -> Definition:
        for key in sorted(given.keys() - set(KEYS)):
            self._add(key, f"unknown key; expected one of {', '.join(KEYS)}{nearest(key, KEYS)}")
        inputs = self._inputs(given.get("inputs", {}))
        self._defaults = self._for_all(given.get("defaults", {}))
        # A graph without steps declares its outputs: they are inputs under other names.
        is_empty = given.get("steps") == {} and inputs
        steps = {} if is_empty else self._steps(given.get("steps"))
        outputs = self._outputs(given.get("outputs"), steps)
        self._check_names(steps, outputs)
        cache_s = self._cache_ms(given.get("cache_ms", 0)) / 1000
        return Definition(steps=steps, outputs=outputs, inputs=inputs, cache_s=cache_s)

    def _add(self, where: str, text: str) -> None:
        self.faults.append(f"{self._place}.{where}: {text}")

    def _inputs(self, given: object) -> dict[str, TensorSpec]:
        try:
            place = f"{self._place}.inputs"
            return {} if given == {} else driver_params.tensors(given, place, takes_any=True)
        except LoadFailed as error:
            self.faults.append(str(error))
            return {}

    def _for_all(self, given: object) -> Mapping[str, Any]:
        """Read `defaults`: keys of every step that computes and does not say otherwise."""
        if isinstance(given, Mapping) and given.keys() <= set(DEFAULTS):
            return given
        self._add("defaults", f"expected an object of {', '.join(DEFAULTS)}")
        return {}

    def _cache_ms(self, given: object) -> int:
        if type(given) is int and 0 <= given <= LONGEST_MS:
            return given
        self._add("cache_ms", f"{given!r} given; expected a whole number from 0 to {LONGEST_MS}")
        return 0

    # -- steps ---------------------------------------------------------------------------------

    def _steps(self, given: object) -> dict[str, Step]:
        if isinstance(given, Mapping) and given:
            return self._read_steps(given)
        if isinstance(given, list) and given:
            return self._sequence(given)
        self._add("steps", 'expected steps, as a list or as an object such as {"a": {"model": ..}}')
        return {}

    def _read_steps(
        self, given: Mapping[str, object], before: Sequence[str] = ()
    ) -> dict[str, Step]:
        steps: dict[str, Step] = {}
        for name, each in given.items():
            computes = isinstance(each, Mapping) and CALLS & each.keys()
            full = {**self._defaults, **each} if computes else each  # type: ignore[dict-item]
            reader = StepReader(name, f"{self._place}.steps.{name}", self.faults)
            if step := reader.step(full, tuple(before)):
                steps[name] = step
        return steps

    def _sequence(self, given: Sequence[object]) -> dict[str, Step]:
        """Read a list: a step takes the items of the step before, and the items that one keeps."""
        steps: dict[str, Step] = {}
        before: tuple[str, ...] = (REQUEST,)
        for index, each in enumerate(given):
            name = self._name(each, index, steps)
            keys = each if isinstance(each, Mapping) else {}
            step = {key: value for key, value in keys.items() if key != "name"} if keys else each
            steps |= self._read_steps({name: step}, before)
            keeps = keys.get("keep") is True
            before = (name, *before) if keeps else (name,)
        return steps

    def _name(self, given: object, index: int, taken: Collection[str]) -> str:
        named = given if isinstance(given, Mapping) else {}
        kinds = (named[key] for key in ("model", "graph", "use") if key in named)
        name = named.get("name", next(kinds, None))
        if not isinstance(name, str) or (name in taken and "name" not in named):
            return f"step{index + 1}"
        if name in taken:
            self._add(f"steps[{index}].name", f'"{name}" is the name of an earlier step')
        return name

    # -- references to steps -------------------------------------------------------------------

    def _outputs(self, given: object, steps: Mapping[str, Step]) -> dict[str, Ref]:
        if not isinstance(given, Mapping) or not given:
            self._add("outputs", 'expected an object such as {"y": "step.item"}')
            return {}
        found = {}
        for name, each in given.items():
            ref = parse_ref(each)
            if ref is None or ref.step == ITEM:
                self._add(f"outputs.{name}", f'{each!r} given; expected "step.item"')
            else:
                found[name] = ref
        return found

    def _check_names(self, steps: Mapping[str, Step], outputs: Mapping[str, Ref]) -> None:
        if self.faults:
            return  # a step that could not be read is no step that is not there
        for name, ref in outputs.items():
            self._check_step(ref.step, {*steps, REQUEST}, f"outputs.{name}")
        for name, step in steps.items():
            for each in sorted(step.needs):
                self._check_step(each, steps.keys(), f"steps.{name}")
            if isinstance(step, CallStep) and step.gathers:
                self._check_gathered(name, step.gathers, steps)
        if found := circle({name: step.needs for name, step in steps.items()}):
            self._add(f"steps.{found[0]}", f"needs itself: {' -> '.join(found)}")
        self._check_used(steps, outputs)

    def _check_step(self, name: str, known: Collection[str], where: str) -> None:
        if name not in known:
            there = f"the graph has {', '.join(sorted(known))}"
            self._add(where, f'no step "{name}"; {there}{nearest(name, known)}')

    def _check_gathered(self, name: str, gathered: str, steps: Mapping[str, Step]) -> None:
        calls = [step for step in steps.values() if isinstance(step, CallStep) and step.split]
        lists = {step.name for step in calls}
        lists |= {step.inputs[each].step for step in calls for each in step.split}
        if gathered not in lists:
            self._add(f"steps.{name}.gather", f'"{gathered}" has no entries: no for_each is of it')

    def _check_used(self, steps: Mapping[str, Step], outputs: Mapping[str, Ref]) -> None:
        used: set[str] = set()
        ahead = [ref.step for ref in outputs.values()]
        while ahead and not self.faults:
            name = ahead.pop()
            if name not in used and name != REQUEST:
                used.add(name)
                ahead += steps[name].needs
        # A step that no output needs would never run: most likely a name is misspelt.
        for name in sorted(steps.keys() - used) if not self.faults else ():
            self._add(f"steps.{name}", "no output needs it: remove it, or name it in outputs")
