"""Options of every driver, and of single ones beside them."""

from dataclasses import dataclass

from ie_serving.engines.base import EngineOptions


@dataclass(frozen=True)
class Trees:
    depth: int = 3


@dataclass(frozen=True)
class Nets:
    layers: int = 5


def test_a_driver_finds_its_own_options_or_their_defaults() -> None:
    options = EngineOptions(own=(Trees(depth=1),))
    assert options.of(Trees) == Trees(depth=1)
    assert options.of(Nets) == Nets()


def test_new_options_of_a_driver_replace_those_of_its_type_alone() -> None:
    options = EngineOptions(nireq=2).having(Trees(1)).having(Nets(2)).having(Trees(4))
    assert (options.nireq, options.of(Trees), options.of(Nets)) == (2, Trees(4), Nets(2))


def test_defaults_that_are_set_equal_those_that_are_not() -> None:
    assert EngineOptions().having(Trees(1)).having(Trees()) == EngineOptions()
