"""Every parser that is declared reads a value or refuses it with its place; defaults are shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.config.schema.catalogue import SETTINGS
from ie_serving.config.schema.setting import Setting, fields_of
from ie_serving.config.values import words
from ie_serving.core.values.errors import ConfigError

PARSERS = {
    **{setting.place: setting.parse for setting in SETTINGS if setting.parse != words.unchecked},
    **{f"{setting.place} read": setting.reads for setting in SETTINGS if setting.reads},
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


def setting(place: str, default: str = "", *, required: bool = False) -> Setting:
    return Setting(
        place=place,
        parse=words.text,
        form="TEXT",
        meaning="what it does",
        example="x",
        default=default,
        required=required,
    )


@pytest.mark.parametrize(
    ("declared", "shown"),
    [
        pytest.param(setting("server.port"), "9000", id="the field's own"),
        pytest.param(setting("server.enable_cors"), "false", id="a boolean"),
        pytest.param(setting("server.rest_timeout_s"), "30", id="a number without a tail"),
        pytest.param(setting("server.log_path"), "none", id="empty text"),
        pytest.param(setting("server.host", "every address"), "every address", id="in words"),
        pytest.param(setting("model.name", required=True), "required", id="there is none"),
    ],
)
def test_default(declared: Setting, shown: str) -> None:
    assert declared.shown_default == shown


def test_help_is_meaning_and_default() -> None:
    assert setting("server.port").help == "what it does (default: 9000)"
    assert setting("model.name", required=True).help == "what it does (required)"


def test_fields_of_one_owner() -> None:
    assert fields_of("s3", {"s3.region": "eu", "minio.region": "us"}) == {"region": "eu"}
