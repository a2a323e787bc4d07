"""Reads one step of a graph from JSON."""

from collections.abc import Callable, Mapping
from typing import Any

from ie_serving.core.values.hints import nearest
from ie_serving.core.values.requests import ModelSpec
from ie_serving.engines.graph.condition import parse as parse_condition
from ie_serving.engines.graph.definition import (
    ITEM,
    REQUEST,
    AnyStep,
    KernelStep,
    MergeStep,
    ModelStep,
    Ref,
    Step,
    SwitchStep,
    UseStep,
    parse_ref,
)
from ie_serving.engines.kernels import INLINE, PROCESS, THREAD, CodeSource
from ie_serving.engines.steps.registry import TABLE

FOR_ALL = ("when", "fallback", "keep")
CALL = (
    *("in", "outputs", "for_each", "levels", "entries", "gather"),
    *("timeout_ms", "retries", "cache_ms"),
)
"""Keys of every step that computes."""
SERVED = ("version", "version_label", "signature_name", *CALL)
KEYS: Mapping[str, tuple[str, ...]] = {
    "model": SERVED,
    "graph": SERVED,
    "kernel": ("with", "isolation", "max_concurrency", *CALL),
    "use": ("with", *CALL),
    "switch": (),
    "merge": ("on_conflict", "combine"),
    "any": (),
}
"""The keys of each kind of step, by the one that every step of this kind has."""

CALLS = frozenset({"model", "graph", "kernel", "use"})
"""The kinds that compute."""
KINDS = ", ".join(f'"{kind}"' for kind in KEYS)
MOST_RETRIES = 10
"""Tries follow each other at once: more of them would only load a model that fails anyway."""
LONGEST_MS = 86_400_000
"""One day in milliseconds; more is taken for a mistake in the unit."""
MOST_CALLS = 1000
"""Calls of a kernel at a time: each has a thread, or a process, of its own."""
MOST_LEVELS = 8
"""Lists within lists: tensors of models have hardly as many dimensions."""

WHOLE = "expected an object of inputs, or the name of a step whose items have their names"


class StepReader:
    """Reads one step; adds its faults to `faults`.

    Args of the constructor:
        name: name of the step.
        place: place of the step, for faults.
        faults: those of the graph so far.
    """

    def __init__(self, name: str, place: str, faults: list[str]) -> None:
        self._name = name
        self._place = place
        self._faults = faults

    def step(self, given: object, before: tuple[str, ...]) -> Step | None:
        """Read the step; None where that is impossible.

        Args:
            given: the decoded JSON.
            before: steps whose items it takes where it names no source.
        """
        if "." in self._name or self._name in (REQUEST, ITEM, ""):
            self._add("", f'no name for a step: it has no dot, and is not "{REQUEST}" or "{ITEM}"')
        kinds = [kind for kind in KEYS if kind in given] if isinstance(given, Mapping) else []
        if not isinstance(given, Mapping) or len(kinds) != 1:
            self._add("", self._no_kind(given))
            return None
        (kind,) = kinds
        known = (kind, *KEYS[kind], *FOR_ALL)
        for key in sorted(given.keys() - set(known)):
            self._add(key, f"unknown key; expected one of {', '.join(known)}{nearest(key, known)}")
        if "keep" in given and not before:
            self._add("keep", "only a step of a list passes on what came before it")
        read: Callable[[Mapping[str, Any], tuple[str, ...]], Step | None]
        read = getattr(self, f"_{kind}")
        return read(given, before)

    def _add(self, where: str, text: str) -> None:
        self._faults.append(f"{self._place}{where and '.'}{where}: {text}")

    def _no_kind(self, given: object) -> str:
        named = given if isinstance(given, Mapping) else {}
        found = [key for key in KEYS if key in named]
        has = f"; it has {' and '.join(found)}" if found else ""
        return f"expected an object with exactly one of {KINDS}{has}"

    # -- the kinds -----------------------------------------------------------------------------

    def _model(self, given: Mapping[str, Any], before: tuple[str, ...]) -> ModelStep:
        return ModelStep(**self._call(given, before), model=self._spec(given, "model"))

    def _graph(self, given: Mapping[str, Any], before: tuple[str, ...]) -> ModelStep:
        # A step calls a graph like any other model.
        return ModelStep(**self._call(given, before), model=self._spec(given, "graph"))

    def _kernel(self, given: Mapping[str, Any], before: tuple[str, ...]) -> KernelStep:
        source = CodeSource.parse(given["kernel"])
        if source is None:
            self._add("kernel", f"{given['kernel']!r} given; expected FILE.py or FILE.py:NAME")
        params = given.get("with", {})
        if not isinstance(params, Mapping):
            self._add("with", "expected an object: what the kernel finds in ctx.params")
            params = {}
        call = self._call(given, before)
        limit_s = call.pop("timeout_s")
        return KernelStep(
            **call,
            limit_s=limit_s,
            source=source or CodeSource(file=""),
            params=params,
            isolation=self._word(given, "isolation", THREAD, INLINE, PROCESS) or THREAD,
            max_concurrency=max(1, self._number(given, "max_concurrency", MOST_CALLS)),
        )

    def _use(self, given: Mapping[str, Any], before: tuple[str, ...]) -> UseStep:
        name, options = given["use"], given.get("with", {})
        row = TABLE.get(name) if isinstance(name, str) else None
        if row is None:
            near = nearest(str(name), TABLE)
            self._add("use", f"{name!r} given; expected one of {', '.join(TABLE)}{near}")
        else:
            self._faults += [f"{self._place}.{fault}" for fault in row.faults(options)]
        return UseStep(**self._call(given, before), use=str(name), options=options)

    def _call(self, given: Mapping[str, Any], before: tuple[str, ...]) -> dict[str, Any]:
        """Read the keys of every step that computes."""
        items = self._items(given.get("for_each"))
        inputs, split = self._inputs(given.get("in"), items)
        if items and not split:
            self._add("for_each", f'no input takes an item; say "in": {{"x": "{ITEM}"}}')
        levels = self._levels(given.get("levels", 1), split)
        return {
            **self._common(given),
            "inputs": inputs,
            "sources": self._sources(given, before),
            "outputs": self._renamed(given.get("outputs", {})),
            "split": levels,
            "entries": self._entries(given.get("entries", ()), levels),
            "gathers": str(given.get("gather", "")),
            "timeout_s": self._number(given, "timeout_ms", LONGEST_MS) / 1000,
            "retries": self._number(given, "retries", MOST_RETRIES),
            "cache_s": self._number(given, "cache_ms", LONGEST_MS) / 1000,
        }

    def _switch(self, given: Mapping[str, Any], _before: tuple[str, ...]) -> SwitchStep | None:
        switch = given["switch"]
        keys = set(switch) if isinstance(switch, Mapping) else set()
        if {"on", "cases"} <= keys <= {"on", "cases", "default"}:
            return self._by_value(given, switch)
        if {"weights"} <= keys <= {"weights", "sticky"}:
            return self._by_weight(given, switch)
        self._add(
            "switch", 'expected {"on": .., "cases": {..}, "default": ..} or {"weights": {..}}'
        )
        return None

    def _by_value(self, given: Mapping[str, Any], switch: Mapping[str, Any]) -> SwitchStep:
        cases, default = switch["cases"], switch.get("default", "")
        if not _is_map_of(cases, str) or not isinstance(default, str):
            self._add("switch.cases", 'expected steps by value, such as {"en": "english"}')
            cases, default = {}, ""
        return SwitchStep(
            **self._common(given),
            on=self._ref(switch["on"], "switch.on"),
            cases=cases,
            default=default,
        )

    def _by_weight(self, given: Mapping[str, Any], switch: Mapping[str, Any]) -> SwitchStep:
        weights, sticky = switch["weights"], switch.get("sticky")
        whole = _is_map_of(weights, int) and not _is_map_of(weights, bool)
        if not whole or min(weights.values()) < 0 or not any(weights.values()):
            self._add("switch.weights", 'expected shares of steps, such as {"a": 90, "b": 10}')
            weights = {}
        return SwitchStep(
            **self._common(given),
            weights=weights,
            sticky=None if sticky is None else self._ref(sticky, "switch.sticky"),
        )

    def _merge(self, given: Mapping[str, Any], _before: tuple[str, ...]) -> MergeStep:
        return MergeStep(
            **self._common(given),
            of=self._names(given["merge"], "merge"),
            on_conflict=self._word(given, "on_conflict", "last", "prefix"),
            combine=self._word(given, "combine", "mean", "max"),
        )

    def _any(self, given: Mapping[str, Any], _before: tuple[str, ...]) -> AnyStep:
        return AnyStep(**self._common(given), of=self._names(given["any"], "any"))

    # -- their parts ---------------------------------------------------------------------------

    def _common(self, given: Mapping[str, Any]) -> dict[str, Any]:
        fallback = given.get("fallback", "")
        if not isinstance(fallback, str):
            self._add("fallback", f"{fallback!r} given; expected the name of a step")
            fallback = ""
        if not isinstance(given.get("keep", False), bool):
            self._add("keep", "expected true or false")
        condition = self._condition(given.get("when"))
        return {"name": self._name, "fallback": fallback, **condition}

    def _condition(self, given: object) -> dict[str, Any]:
        if given is None:
            return {}
        found = parse_condition(given) if isinstance(given, str) else None
        tested = parse_ref(found.of) if found else None
        if tested is None or tested.step == ITEM:
            self._add("when", f'{given!r} given; expected a test such as "detect.count > 0"')
        return {"when": found, "tested": tested}

    def _spec(self, given: Mapping[str, Any], key: str) -> ModelSpec:
        name, version = given[key], given.get("version", "latest")
        label, signature = given.get("version_label"), given.get("signature_name", "")
        if not isinstance(name, str) or not name:
            self._add(key, f"{name!r} given; expected the name of a served {key}")
        if version != "latest" and (type(version) is not int or version < 0):
            self._add("version", f'{version!r} given; expected a number, or "latest"')
        if not isinstance(label, str | None) or (label is not None and version != "latest"):
            self._add("version_label", "expected a text, and no version beside it")
        if not isinstance(signature, str):
            self._add("signature_name", "expected a text")
        return ModelSpec(str(name), None if version == "latest" else version, label, signature)

    def _items(self, given: object) -> dict[str, Ref]:
        """Read `for_each`: one tensor, or several by name; the name of one alone is empty."""
        if given is None:
            return {}
        named = given if isinstance(given, Mapping) else {"": given}
        found = {name: self._ref(each, "for_each") for name, each in named.items()}
        return {name: ref for name, ref in found.items() if ref}

    def _inputs(
        self, given: object, items: Mapping[str, Ref]
    ) -> tuple[dict[str, Ref], dict[str, str]]:
        """Read `in`: the source of each input; and the item of each split input."""
        inputs: dict[str, Ref] = {}
        split: dict[str, str] = {}
        for name, each in given.items() if isinstance(given, Mapping) else ():
            taken = _item_of(each)
            if taken is None:
                inputs |= {name: ref} if (ref := self._ref(each, f"in.{name}")) else {}
            elif taken in items:
                inputs[name], split[name] = items[taken], taken
            else:
                self._add(f"in.{name}", f"{each!r} given; for_each names no such item")
        return inputs, split

    def _levels(self, given: object, split: Mapping[str, str]) -> dict[str, int]:
        """Read `levels`: how deep the lists are, all or by the names of items."""
        named: Mapping[str, Any]
        named = given if isinstance(given, Mapping) else dict.fromkeys(split.values(), given)
        levels: dict[str, Any] = {name: named.get(item, 1) for name, item in split.items()}
        unknown = sorted(named.keys() - {*split.values()})
        whole = all(type(each) is int and 1 <= each <= MOST_LEVELS for each in levels.values())
        if unknown or not whole or (given != 1 and not split):
            self._add(
                "levels", f"{given!r} given; expected 1 to {MOST_LEVELS}, by item of for_each"
            )
            return dict.fromkeys(split, 1)
        return levels

    def _entries(self, given: object, levels: Mapping[str, int]) -> tuple[int, ...]:
        """Read `entries`: how many there have to be, of one level or of each."""
        several: list[Any] = list(given) if isinstance(given, list | tuple) else [given]
        whole = all(type(each) is int and each >= -1 for each in several)
        if not whole or len(several) > max(levels.values(), default=0):
            self._add("entries", f"{given!r} given; expected the number of entries of for_each")
            return ()
        return tuple(several)

    def _sources(self, given: Mapping[str, Any], before: tuple[str, ...]) -> tuple[str, ...]:
        inputs, gathered = given.get("in"), given.get("gather")
        if gathered is not None and not (isinstance(gathered, str) and gathered):
            self._add("gather", "expected the name of a step that has for_each")
        elif gathered is not None and inputs is None:
            return (gathered,)
        if isinstance(inputs, Mapping):
            return ()
        if isinstance(inputs, str) and inputs:
            return (inputs,)
        if inputs is not None or not before:
            self._add("in", f'{WHOLE}; to take what the client sends say "in": "{REQUEST}"')
        return before

    def _renamed(self, given: object) -> dict[str, str]:
        if isinstance(given, list) and all(isinstance(each, str) for each in given):
            return {each: each for each in given}
        if _is_map_of(given, str) or given == {}:
            return dict(given)  # type: ignore[call-overload, no-any-return]
        self._add("outputs", 'expected outputs of the model by item, such as {"label": "y"}')
        return {}

    def _ref(self, given: object, where: str) -> Ref | None:
        ref = parse_ref(given)
        if ref is None or ref.step == ITEM:
            self._add(where, f'{given!r} given; expected "step.item", such as "{REQUEST}.x"')
        return ref

    def _names(self, given: object, where: str) -> tuple[str, ...]:
        names = given if isinstance(given, list) else []
        if not names or not all(isinstance(each, str) for each in names):
            self._add(where, 'expected a list of steps, such as ["a", "b"]')
            return ()
        return tuple(names)

    def _word(self, given: Mapping[str, Any], key: str, *words: str) -> str:
        found = given.get(key, "")
        if found and found not in words:
            self._add(key, f"{found!r} given; expected one of {', '.join(words)}")
        return str(found)

    def _number(self, given: Mapping[str, Any], key: str, most: int) -> int:
        found = given.get(key, 0)
        # The type is compared exactly: to Python a bool is an int as well.
        if type(found) is not int or not 0 <= found <= most:
            self._add(key, f"{found!r} given; expected a whole number from 0 to {most}")
            return 0
        return found


def _item_of(given: object) -> str | None:
    """Give the name in `item` or `item.NAME`; None for any other text."""
    if given == ITEM:
        return ""
    ref = parse_ref(given)
    return ref.item if ref and ref.step == ITEM else None


def _is_map_of(given: object, kind: type) -> bool:
    if not isinstance(given, Mapping) or not given:
        return False
    return all(isinstance(each, kind) for each in given.values())
