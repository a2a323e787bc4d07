"""A hint names settings as the running command does, or says nothing."""

from collections.abc import Iterator

import pytest

from ie_serving.core.values import hints
from ie_serving.core.values.errors import ServingError
from ie_serving.core.values.hints import Hint

RAISE = Hint(", or raise {server.max_message_bytes}")


@pytest.fixture
def command() -> Iterator[None]:
    hints.speak({"server.max_message_bytes": "--max_message_bytes"})
    yield
    hints.speak({})


@pytest.mark.parametrize(
    ("text", "names", "said"),
    [
        pytest.param("raise {a.b}", {"a.b": "--b"}, "raise --b", id="in the command's words"),
        pytest.param("raise {a.b}", {"a.c": "--c"}, "", id="a command without the setting"),
        pytest.param("{a.b} or {a.c}", {"a.b": "--b"}, "", id="a command without one of two"),
        pytest.param("ask again", {"a.b": "--b"}, "ask again", id="advice without a setting"),
        pytest.param("raise {a.b}", {}, "raise a.b", id="no command runs"),
    ],
)
def test_a_hint_names_settings_as_the_command_does_or_says_nothing(
    text: str, names: dict[str, str], said: str
) -> None:
    assert Hint(text).said(names) == said


def test_a_hint_names_its_fields() -> None:
    assert Hint("{s3.region} or {storage.cache_dir}").fields == ("s3.region", "storage.cache_dir")


@pytest.mark.usefixtures("command")
def test_an_error_is_shown_in_the_words_of_the_running_command() -> None:
    error = ServingError("too large", RAISE)
    assert str(error) == f"{error}" == "too large, or raise --max_message_bytes"


def test_an_error_from_before_a_command_ran_is_shown_in_its_words_afterwards() -> None:
    error = ServingError("too large", RAISE)
    assert str(error) == "too large, or raise server.max_message_bytes"
    hints.speak({"server.port": "--port"})
    try:
        assert str(error) == "too large"
    finally:
        hints.speak({})
