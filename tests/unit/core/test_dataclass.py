"""The package's dataclasses are the standard library's, but for the time that an import takes."""

import copy
import dataclasses
import pickle
from typing import Any, ClassVar

import pytest

from ie_serving.core.dataclass import dataclass

OPTIONS: list[dict[str, Any]] = [
    {},
    {"frozen": True},
    {"frozen": True, "kw_only": True},
    {"frozen": True, "slots": True},
    {"slots": True},
    {"eq": False},
    {"frozen": True, "eq": False},
    {"repr": False},
]


class Plain:
    """A class as it is written before it is decorated."""

    __annotations__ = {
        "a": int,
        "b": int,
        "c": list[int],
        "shared": ClassVar[int],
        "d": int,
        "e": list[int],
        "f": int,
    }
    b = 2
    c = dataclasses.field(default_factory=list)
    shared = 9
    d = dataclasses.field(default=4, init=False)
    e = dataclasses.field(default_factory=list, init=False, compare=False)
    f = dataclasses.field(default=6, repr=False, kw_only=True)


def both(options: dict[str, Any], **body: Any) -> tuple[Any, Any]:
    """Decorate the same class by the standard library and by ours."""
    written = {**{n: v for n, v in vars(Plain).items() if not n.startswith("__weak")}, **body}
    written.pop("__dict__", None)
    made = [type("Plain", (), copy.copy(written)) for _ in range(2)]
    return dataclasses.dataclass(**options)(made[0]), dataclass(**options)(made[1])


def shown(make: Any) -> Any:
    """Give what an instance shows, or how its construction is refused."""
    try:
        made = make()
    except TypeError as error:
        return str(error)
    fields = {field.name: getattr(made, field.name) for field in dataclasses.fields(made)}
    return fields, type(made).__repr__ is object.__repr__ or repr(made)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize(
    ("given", "named"),
    [
        ((), {}),
        ((1,), {}),
        ((), {"a": 1}),
        ((1, 3), {}),
        ((1, 3, [5]), {"f": 7}),
        ((1, 3, [5], 7), {}),
        ((1,), {"d": 3}),
        ((1,), {"unknown": 3}),
    ],
)
def test_instances_are_made_alike(
    options: dict[str, Any], given: tuple[Any, ...], named: dict[str, Any]
) -> None:
    standard, ours = both(options)
    assert shown(lambda: ours(*given, **named)) == shown(lambda: standard(*given, **named))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_instances_are_compared_hashed_copied_and_guarded_alike(options: dict[str, Any]) -> None:
    def facts(cls: Any) -> list[Any]:
        one, same, other = cls(a=1), cls(a=1), cls(a=2)
        same.e.append(1)
        object.__setattr__(one, "c", ())
        object.__setattr__(same, "c", ())
        found: list[Any] = [one == same, one == other, one == (1, 2), one != other]
        found.append(
            cls.__hash__ is None or cls.__hash__ is object.__hash__ or hash(one) == hash(same)
        )
        for change in (lambda: setattr(one, "a", 5), lambda: delattr(one, "b"), lambda: one.z):
            try:
                found.append(change())
            except AttributeError as error:
                found.append(isinstance(error, dataclasses.FrozenInstanceError))
        found.append(dataclasses.replace(other, a=3).a)
        found.append(copy.copy(other).a)
        found.append(cls.__match_args__)
        return found

    standard, ours = both(options)
    assert facts(ours) == facts(standard)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_methods_of_the_class_stay(options: dict[str, Any]) -> None:
    body = {
        "__repr__": lambda self: "shown",
        "__eq__": lambda self, other: True,
        "__hash__": lambda self: 7,
        "__post_init__": lambda self: object.__setattr__(self, "a", 8),
    }
    for cls in both(options, **body):
        made = cls(a=1)
        assert (repr(made), made == 5, hash(made), made.a) == ("shown", True, 7, 8)


@dataclass(frozen=True, slots=True)
class Slotted:
    a: int
    b: str = "b"


@dataclass(frozen=True, kw_only=True)
class Base:
    a: int = 1


@dataclass(frozen=True, kw_only=True)
class Derived(Base):
    b: int
    a: int = 2


def test_slots_are_pickled() -> None:
    assert pickle.loads(pickle.dumps(Slotted(1))) == Slotted(1, "b")


def test_fields_are_inherited() -> None:
    assert Derived(b=3) == Derived(b=3, a=2) != Derived(b=3, a=1)
    assert repr(Derived(b=3)) == "Derived(a=2, b=3)"
