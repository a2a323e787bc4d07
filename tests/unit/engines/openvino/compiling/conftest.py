import pytest


@pytest.fixture(autouse=True, scope="module")
def one_thread_is_chosen() -> None:
    """Here the server chooses."""
