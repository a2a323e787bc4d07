"""Declares a built-in step: its inputs, options, outputs, and the function that computes it.

A row of `registry.TABLE` is a `BuiltInStep`. Its function gets the inputs as arrays and the options
as keywords, by their declared names; a function for inputs of any name gets them as a mapping. It
returns arrays by the names of the outputs.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.hints import nearest
from ie_serving.core.values.tensors import (
    SERVING_DEFAULT,
    Arrays,
    DataType,
    Signature,
    Specs,
    TensorSpec,
)

StepShape = tuple[int, ...] | None
FindFile = Callable[[str], Path]
"""Finds a file that an option names. Raises: LoadFailed, naming the searched directories."""

NUMBERS = frozenset(each for each in DataType if each not in (DataType.STRING, DataType.BOOL))
ANY = frozenset(DataType)

REQUIRED = object()
"""Mark of an option without a default, which must be given."""


class UnexpectedOption(ValueError):
    """An option has an invalid value; the text names the expected form."""


@dataclass(frozen=True, kw_only=True)
class StepInput:
    """One input of a step.

    Attributes:
        dtype: default of the input's dtype.
        shape: accepted sizes, -1 for any; None accepts any shape.
        also: other dtypes that are accepted unchanged.
        optional: the step also runs without it.
    """

    dtype: DataType = DataType.FP32
    shape: StepShape = None
    also: Collection[DataType] = frozenset()
    optional: bool = False

    def spec(self, name: str, given: TensorSpec | None) -> TensorSpec:
        """Give the expected spec of a tensor whose known spec is `given`."""
        taken = given is not None and given.dtype in self.also
        dtype = given.dtype if given is not None and taken else self.dtype
        return TensorSpec(name, dtype, self.shape, name)


StepInputs = Mapping[str, StepInput]


@dataclass(frozen=True, kw_only=True)
class Option:
    """One key of `with`.

    Attributes:
        read: converts the JSON value to the function's value. Raises: UnexpectedOption. Its second
            argument finds files; with None it reads no file.
        form: the accepted form, for the documentation.
        default: default of a step without the option, or `REQUIRED`.
    """

    read: Callable[[object, FindFile | None], Any]
    form: str
    default: Any = REQUIRED


@dataclass(frozen=True, kw_only=True)
class BuiltInStep:
    """One built-in step.

    Attributes:
        about: its purpose, in a sentence.
        run: computes it, given inputs and options by name.
        outputs: gives the specs of the outputs from those of the inputs, and the options by name.
        inputs: specs by name.
        instead: alternative inputs in place of `inputs`.
        rest: spec of inputs with any other name; None accepts no others.
        options: options by name.
        checks: gives the fault of options that contradict each other; empty for none.
        decodes: it may decode pictures, which takes long for small files too: never on the event
            loop.
        named: the function gets the name of the step as the keyword `step`.
        watches: the function gets the keyword `watch` as well: a `watching.ValueWatch`, or None.
    """

    about: str
    run: Callable[..., Arrays]
    outputs: Callable[..., Specs]
    inputs: StepInputs = field(default_factory=dict)
    instead: StepInputs = field(default_factory=dict)
    rest: StepInput | None = None
    options: Mapping[str, Option] = field(default_factory=dict)
    checks: Callable[..., str] = lambda **_: ""
    decodes: bool = False
    named: bool = False
    watches: bool = False

    def faults(self, given: object) -> list[str]:
        """List the faults of `with` that show without reading files."""
        try:
            self.read(given, None)
        except StepOptionsInvalid as wrong:
            return wrong.faults
        return []

    def read(self, given: object, find: FindFile | None) -> dict[str, Any]:
        """Convert `with` to the function's keywords. Raises: StepOptionsInvalid, LoadFailed."""
        if not isinstance(given, Mapping):
            raise StepOptionsInvalid(["with: expected an object of options"])
        faults = [f"with.{key}: {self._unknown(key)}" for key in given if key not in self.options]
        found: dict[str, Any] = {}
        for name, option in self.options.items():
            if name not in given:
                found[name] = option.default
                if option.default is REQUIRED:
                    faults.append(f"with.{name}: missing; expected {option.form}")
                continue
            try:
                found[name] = option.read(given[name], find)
            except UnexpectedOption as wrong:
                faults.append(f"with.{name}: {given[name]!r} given; expected {wrong}")
        if not faults and (wrong_together := self.checks(**found)):
            faults.append(f"with: {wrong_together}")
        if faults:
            raise StepOptionsInvalid(faults)
        return found

    def _unknown(self, key: str) -> str:
        known = f"expected one of {', '.join(self.options)}" if self.options else "it has none"
        return f"no such option; {known}{nearest(key, self.options)}"

    def taken(self, names: Collection[str]) -> StepInputs:
        """Give the inputs of a step for which a graph fills `names`, or may fill them."""
        required = {name for name, each in self.instead.items() if not each.optional}
        inputs = self.instead if required and required <= {*names} else self.inputs
        left_out = {name for name, each in inputs.items() if each.optional and name not in names}
        named = {name: each for name, each in inputs.items() if name not in left_out}
        rest = self.rest
        return {**named, **{n: rest for n in names if n not in inputs}} if rest else named

    def signature(
        self, given: Mapping[str, TensorSpec | None], options: Mapping[str, Any]
    ) -> Signature:
        """Give the signature of the step.

        Args:
            given: known specs of the tensors that fill its inputs, or may fill them.
            options: options returned by `read`.
        """
        inputs = {n: each.spec(n, given.get(n)) for n, each in self.taken(given).items()}
        known = {n: _shaped(spec, given.get(n)) for n, spec in inputs.items()}
        return Signature(SERVING_DEFAULT, inputs, self.outputs(known, **options))


class StepOptionsInvalid(LoadFailed):
    """A step has invalid options; the text has all faults."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults


def _shaped(spec: TensorSpec, given: TensorSpec | None) -> TensorSpec:
    """Give the expected spec of an input with the shape of the tensor that fills it."""
    if given is None or spec.shape is not None:
        return spec
    return TensorSpec(spec.name, spec.dtype, given.shape, spec.tensor)


def fixed(*outputs: TensorSpec) -> Callable[..., Specs]:
    """Declare outputs that depend on neither inputs nor options."""
    found = {spec.name: spec for spec in outputs}
    return lambda _inputs, **_options: found


MOST_LABELS = 1_000_000
"""Most lines of a file of labels: the largest vocabularies have some hundred thousand."""


def _option(
    form: str,
    fits: Callable[[Any], bool],
    convert: Callable[[Any], Any],
    default: Any = REQUIRED,  # noqa: ANN401
) -> Option:
    """Make an option of a test for the JSON value, and its conversion."""

    def read(value: object, _: FindFile | None) -> Any:  # noqa: ANN401
        if not fits(value):
            raise UnexpectedOption(form)
        return convert(value)

    return Option(read=read, form=form, default=default)


def whole(least: int, most: int, default: Any = REQUIRED) -> Option:  # noqa: ANN401
    """A whole number."""

    def fits(value: object) -> bool:
        # The type is compared exactly: in Python a bool is an int as well.
        return type(value) is int and least <= value <= most

    return _option(f"a whole number from {least} to {most}", fits, int, default)


def real(least: float, most: float, default: Any = REQUIRED) -> Option:  # noqa: ANN401
    """A number."""

    def fits(value: object) -> bool:
        return _is_number(value) and least <= value <= most

    return _option(f"a number from {least:g} to {most:g}", fits, float, default)


def flag(default: bool) -> Option:
    """True or false."""
    return _option("true or false", lambda value: isinstance(value, bool), bool, default)


def word(*words: str, default: Any = REQUIRED) -> Option:  # noqa: ANN401
    """One of a few words."""
    return _option(f"one of {', '.join(words)}", lambda value: value in words, str, default)


def text(form: str, default: Any = REQUIRED) -> Option:  # noqa: ANN401
    """Any text that is not empty."""
    return _option(form, lambda value: isinstance(value, str) and value != "", str, default)


def pattern(default: str) -> Option:
    """A regular expression, compiled."""
    form = "a regular expression"

    def read(value: object, _: FindFile | None) -> "re.Pattern[str]":
        if not isinstance(value, str):
            raise UnexpectedOption(form)
        try:
            return re.compile(value)
        except re.error as error:
            raise UnexpectedOption(f"{form}: {error}") from None

    return Option(read=read, form=form, default=re.compile(default))


def numbers(lengths: Sequence[int], default: tuple[float, ...]) -> Option:
    """A number, or a list whose length is one of `lengths`."""
    form = f"a number, or a list of {' or '.join(map(str, lengths))}"

    def read(value: object, _: FindFile | None) -> tuple[float, ...]:
        several: list[object] = value if isinstance(value, list) else [value]
        found = tuple(float(each) for each in several if _is_number(each))
        if len(several) not in (1, *lengths) or len(found) != len(several):
            raise UnexpectedOption(form)
        return found

    return Option(read=read, form=form, default=default)


def pairs(form: str) -> Option:
    """A list of pairs of numbers; none by default."""

    def fits(value: object) -> bool:
        several: list[Any] = value if isinstance(value, list) else [None]
        return all(
            isinstance(each, list) and len(each) == 2 and all(map(_is_number, each))
            for each in several
        )

    return _option(form, fits, lambda value: tuple((float(a), float(b)) for a, b in value), ())


def names(form: str, default: Any = ()) -> Option:  # noqa: ANN401
    """A list of texts."""
    return _option(form, _are_texts, tuple, default)


def columns(form: str) -> Option:
    """Column numbers by name."""

    def fits(value: object) -> bool:
        found = value.values() if isinstance(value, dict) else ()
        return bool(found) and all(type(each) is int and each >= 0 for each in found)

    return _option(form, fits, dict)


def labels() -> Option:
    """Names of classes by their numbers: a list, or a file with a line for each."""
    form = 'a list of names, or a text file with one in each line, such as "labels.txt"'

    def read(value: object, find: FindFile | None) -> tuple[str, ...]:
        if _are_texts(value):
            return tuple(value)
        if not isinstance(value, str) or not value:
            raise UnexpectedOption(form)
        return _lines(find, value) if find else ()

    return Option(read=read, form=form, default=())


def _lines(find: FindFile, name: str) -> tuple[str, ...]:
    try:
        lines = find(name).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UnexpectedOption(f"a text file in UTF-8: {error}") from None
    if len(lines) > MOST_LABELS:
        raise UnexpectedOption(f"at most {MOST_LABELS} lines")
    return tuple(line.strip() for line in lines)


def _are_texts(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
