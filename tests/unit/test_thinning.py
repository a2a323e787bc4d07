from itertools import product

from tests.thinning import chosen


def test_each_value_occurs_in_few_cases() -> None:
    cases = [dict(zip("abcd", each, strict=True)) for each in product(range(4), repeat=4)]
    kept = [cases[place] for place in chosen(cases)]
    assert len(kept) == 4
    for name in "abcd":
        assert {each[name] for each in kept} == {*range(4)}
