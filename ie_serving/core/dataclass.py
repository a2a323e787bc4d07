"""`dataclass` for this package: the standard one, with less to compile at each import.

The standard decorator writes up to six methods as text and compiles each: 0.4 ms for a frozen
class, of which a start imports 170, a sixth of its time. Here `__init__` alone is compiled, and the
others are functions over the names of the fields. Type checkers see the standard decorator.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls: type | None = None, /, **options: bool) -> object:
        """Make a class a dataclass; see `dataclasses.dataclass`.

        Of its options frozen, eq, repr, init, kw_only and slots are taken. `dataclasses.fields`,
        `replace` and `asdict` take such a class.
        """
        return partial(_made, **options) if cls is None else _made(cls, **options)


def _made(
    cls: type,
    *,
    frozen: bool = False,
    eq: bool = True,
    repr: bool = True,
    init: bool = True,
    kw_only: bool = False,
    slots: bool = False,
) -> type:
    methods: dict[str, Any] = {"__repr__": _repr} if repr else {}
    if frozen:
        methods |= {"__setattr__": _fixed, "__delattr__": _fixed}
        methods |= {"__setstate__": _restore} if slots else {}
    own = dict(vars(cls))  # as it is written: slots make another class, which has more
    cls = dataclasses.dataclass(cls, init=False, repr=False, eq=False, kw_only=kw_only, slots=slots)
    if init:
        methods["__init__"] = _init(cls, frozen=frozen, slots=slots)
    if eq:
        equal, hashed = _equality([each.name for each in dataclasses.fields(cls) if each.compare])
        methods["__eq__"] = equal
        if own.get("__hash__") is None:  # Python sets that None beside an `__eq__`
            own.pop("__hash__", None)
            methods["__hash__"] = hashed if frozen else None
    for name, method in methods.items():
        if name not in own:
            setattr(cls, name, method)
    return cls


def _init(cls: type, *, frozen: bool, slots: bool) -> Callable[..., None]:
    """Compile the constructor, with an argument for each field."""
    known: dict[str, Any] = {"_set": object.__setattr__, "_made": object()}
    arguments: dict[bool, list[str]] = {False: [], True: []}
    lines = []
    for field in vars(cls)["__dataclass_fields__"].values():
        if field._field_type is not dataclasses._FIELD:  # type: ignore[attr-defined]
            continue  # it belongs to the class, or only divides the fields
        name, value, given = field.name, field.name, ""
        if field.default is not dataclasses.MISSING:
            known[f"_of_{name}"], given = field.default, f"=_of_{name}"
            value = name if field.init else f"_of_{name}"
        elif field.default_factory is not dataclasses.MISSING:
            known[f"_of_{name}"], given = field.default_factory, "=_made"
            value = f"_of_{name}()" + (f" if {name} is _made else {name}" if field.init else "")
        elif not field.init:
            continue
        if field.init:
            arguments[field.kw_only].append(name + given)
        elif value == f"_of_{name}" and not slots:
            continue  # the class has it
        lines.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    named = ["*", *arguments[True]] if arguments[True] else []
    head = ", ".join(("self", *arguments[False], *named))
    made: dict[str, Any] = {}
    exec(f"def __init__({head}):\n " + "\n ".join(lines or ["pass"]), known, made)
    constructor: Callable[..., None] = made["__init__"]
    constructor.__qualname__ = f"{cls.__qualname__}.__init__"
    return constructor


def _equality(names: list[str]) -> tuple[Callable[..., Any], Callable[[Any], int]]:
    """Give `__eq__` and `__hash__` over fields."""
    values: Callable[[Any], Any] = attrgetter(*names) if names else lambda one: ()

    def equal(self: object, other: object) -> Any:  # noqa: ANN401  NotImplemented has no type
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    return equal, lambda self: hash(values(self))


def _repr(self: Any) -> str:  # noqa: ANN401  any dataclass
    shown = (
        f"{field.name}={getattr(self, field.name)!r}"
        for field in dataclasses.fields(self)
        if field.repr
    )
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _fixed(self: object, name: str, *value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot change field {name!r}")


def _restore(self: object, state: tuple[None, dict[str, object]]) -> None:
    """Set what pickle and copy have kept of fields in slots."""
    for name, value in state[1].items():
        object.__setattr__(self, name, value)
