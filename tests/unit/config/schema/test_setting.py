"""Every parser that is declared reads a value or refuses it with its place; defaults are shown."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.config.schema.catalogue import SETTINGS
from ie_serving.core.settings import words
from ie_serving.core.settings.declaration import (
    BOOLEAN,
    DELAY,
    PORT,
    REQUIRED,
    TEXT,
    declared,
    fields_of,
)
from ie_serving.core.values.errors import ConfigError

PARSERS = {
    **{setting.name: setting.parse for setting in SETTINGS if setting.parse != words.unchecked},
    **{f"{setting.name} read": setting.reads for setting in SETTINGS if setting.reads},
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
# Text that is nearly right goes deeper than any text.
NEARLY = st.text(alphabet='0123456789-:,()[]{}" aeinotu.\n', max_size=40)


@given(name=st.sampled_from(sorted(PARSERS)), value=NEARLY | JSON)
def test_any_value_is_read_or_refused_with_its_place(name: str, value: object) -> None:
    try:
        PARSERS[name](value, "here")
    except ConfigError as error:
        assert error.faults
        assert all(fault.startswith("here") for fault in error.faults)


@dataclass(kw_only=True)
class Owner:
    """Settings of each form of a default."""

    name: str = TEXT.setting(REQUIRED, "what it does", "x")
    port: int = PORT.setting(9000, "what it does", "1")
    enable_cors: bool = BOOLEAN.setting(False, "what it does")
    rest_timeout_s: float = DELAY.setting(30.0, "what it does", "1")
    log_path: str = TEXT.setting("", "what it does", "x")
    host: str = TEXT.setting("", "what it does", "x", shown="every address")


DECLARED = {each.field: each for each in declared("server", Owner, flags=True)}


@pytest.mark.parametrize(
    ("field", "shown"),
    [
        pytest.param("port", "9000", id="the field's own"),
        pytest.param("enable_cors", "false", id="a boolean"),
        pytest.param("rest_timeout_s", "30", id="a number without a tail"),
        pytest.param("log_path", "none", id="empty text"),
        pytest.param("host", "every address", id="in words"),
        pytest.param("name", "required", id="there is none"),
    ],
)
def test_a_default_is_shown_as_it_is_written(field: str, shown: str) -> None:
    assert DECLARED[field].shown_default == shown


def test_help_is_meaning_and_default() -> None:
    assert DECLARED["port"].help == "what it does (default: 9000)"
    assert DECLARED["name"].help == "what it does (required)"


def test_names_follow_from_the_field_and_its_unit() -> None:
    assert DECLARED["rest_timeout_s"].flag == "rest_timeout_seconds"
    assert [each.key for each in declared("server", Owner, keys=True)][1] == "port"
    assert not DECLARED["port"].key
    assert Owner(name="n").port == 9000


def test_fields_are_found_by_their_owner() -> None:
    assert fields_of("s3", {"s3.region": "eu", "minio.region": "us"}) == {"region": "eu"}
