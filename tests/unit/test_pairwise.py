from itertools import combinations, product

from tests.pairwise import chosen


def test_each_two_values_meet_in_few_cases() -> None:
    cases = [dict(zip("abcd", each, strict=True)) for each in product(range(4), repeat=4)]
    kept = [cases[place] for place in chosen(cases)]
    assert len(kept) < 32 < len(cases) == 256
    for one, other in combinations("abcd", 2):
        assert {(each[one], each[other]) for each in kept} == {*product(range(4), repeat=2)}
