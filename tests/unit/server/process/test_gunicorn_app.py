"""How soon a dead worker is replaced; the processes are in tests/functional/test_process.py."""

from hypothesis import given
from hypothesis import strategies as st

from ie_serving.server.process.gunicorn_app import LONGEST_PAUSE_S, pause_before
from tests.tables import named_by


@named_by(
    "deaths", ("deaths", "seconds"), [(1, 0), (2, 1), (3, 2), (4, 4), (6, 16), (7, LONGEST_PAUSE_S)]
)
def test_the_pause_doubles_after_a_first_replacement_at_once(deaths: int, seconds: float) -> None:
    assert pause_before(deaths) == seconds


@given(st.integers(1, 10**9))
def test_the_pause_never_shrinks_and_is_bounded(deaths: int) -> None:
    assert pause_before(deaths) <= pause_before(deaths + 1) <= LONGEST_PAUSE_S
