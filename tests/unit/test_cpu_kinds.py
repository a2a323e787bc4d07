"""The kinds of CPU that `make cpu_kinds` runs the engine's tests as."""

import pytest

from tests.cpu_kinds import KINDS, lesser_kinds


@pytest.mark.parametrize(
    ("last", "lesser"),
    [
        pytest.param("AVX2", [], id="its own kind is what make test uses"),
        pytest.param("AVX512_CORE", ["AVX2"], id="without bf16"),
        pytest.param("AVX512_CORE_BF16", [], id="with bf16"),
        pytest.param("AVX512_CORE_AMX", ["AVX512_CORE_BF16"], id="with AMX"),
    ],
)
def test_a_cpu_stands_for_the_kinds_that_it_contains(last: str, lesser: list[str]) -> None:
    names = list(KINDS)
    flags = {"sse", *(flag for name in names[: names.index(last) + 1] for flag in KINDS[name])}
    assert lesser_kinds(flags) == lesser


def test_an_older_cpu_stands_for_none() -> None:
    assert lesser_kinds({"sse", "avx"}) == []
