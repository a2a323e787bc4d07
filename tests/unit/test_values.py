"""Values of settings: text and JSON mean the same, and what is wrong is a ConfigError."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ie_serving import values
from ie_serving.errors import ConfigError
from ie_serving.model_keys import KEYS
from ie_serving.models.version_policy import All, Latest, Specific
from ie_serving.server_flags import FLAGS, VARIABLES

PARSERS = {
    **{key.name: key.parse for key in KEYS},
    **{flag.name: flag.parse for flag in FLAGS},
    **{variable.name: variable.parse for variable in VARIABLES},
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
# Text that is nearly right goes deeper than any text.
NEARLY = st.text(alphabet='0123456789-:,()[]{}" aeinotu.\n', max_size=40)


@settings(max_examples=500)
@given(name=st.sampled_from(sorted(PARSERS)), value=NEARLY | JSON)
def test_any_value_is_read_or_refused_with_its_place(name: str, value: object) -> None:
    try:
        PARSERS[name](value, "here")
    except ConfigError as error:
        assert error.faults
        assert all(fault.startswith("here") for fault in error.faults)


@given(st.integers(min_value=0, max_value=65535))
def test_a_number_may_be_written_as_text(number: int) -> None:
    assert values.port(number, "p") == values.port(f" {number} ", "p") == number


@pytest.mark.parametrize(
    ("parse", "value", "meant"),
    [
        pytest.param(values.batch_size, 8, 8, id="integer batch, which broke 2020"),
        pytest.param(values.batch_size, "8", 8, id="text batch"),
        pytest.param(values.batch_size, "auto", -1, id="auto batch"),
        pytest.param(values.batch_size, 0, None, id="0 keeps the model's batch"),
        pytest.param(values.poll_wait, "0.5", 0.5, id="fraction of a second"),
        pytest.param(values.poll_wait, "-1", 0.0, id="negative wait is off"),
        pytest.param(values.log_level, "warn", "WARNING", id="level in another server's words"),
        pytest.param(values.log_level, "debug", "DEBUG", id="level in lower case"),
        pytest.param(values.boolean, "True", True, id="boolean in any case"),
        pytest.param(values.version_policy, {"latest": {}}, Latest(1), id="latest is 1 by default"),
        pytest.param(
            values.version_policy, '{"latest": {"num_versions": 3}}', Latest(3), id="as text"
        ),
        pytest.param(values.version_policy, {"all": {}}, All(), id="all"),
        pytest.param(
            values.version_policy,
            {"specific": {"versions": [3, 1, 3]}},
            Specific(frozenset({1, 3})),
            id="specific",
        ),
        pytest.param(
            values.plugin_config,
            '{"NUM_STREAMS": 2, "PERF_COUNT": true}',
            {"NUM_STREAMS": "2", "PERF_COUNT": "YES"},
            id="properties become text",
        ),
        pytest.param(values.version_labels, {"stable": 3}, {"stable": 3}, id="labels"),
        pytest.param(values.file_name, "READY", "READY", id="marker"),
    ],
)
def test_value(parse: values.Parser[Any], value: object, meant: object) -> None:
    assert parse(value, "p") == meant


@pytest.mark.parametrize(
    ("parse", "value", "fault"),
    [
        pytest.param(values.port, "65536", "a whole number from 0 to 65535", id="port too high"),
        pytest.param(values.port, "-1", "a whole number from 0 to 65535", id="negative port"),
        pytest.param(values.port, True, "a whole number", id="a boolean is no number"),
        pytest.param(values.port, "1_0", "a whole number", id="Python's underscore"),
        pytest.param(values.port, "٣", "a whole number", id="digits of another script"),
        pytest.param(values.poll_wait, "nan", "a number of seconds", id="NaN"),
        pytest.param(values.poll_wait, "1e999", "at most", id="infinite wait"),
        pytest.param(values.timeout, 0, "more than 0 seconds", id="no time at all"),
        pytest.param(values.batch_size, "Otto", '"auto"', id="unknown batch"),
        pytest.param(values.batch_size, -2, "a whole number", id="negative batch"),
        pytest.param(values.version_policy, {}, "exactly one of", id="no policy"),
        pytest.param(
            values.version_policy, {"all": {}, "latest": {}}, "exactly one of", id="two policies"
        ),
        pytest.param(values.version_policy, {"newest": {}}, "exactly one of", id="unknown policy"),
        pytest.param(
            values.version_policy,
            {"latest": {"num_versions": 0}},
            "p.latest.num_versions: 0 given",
            id="latest 0, which served all in 2020",
        ),
        pytest.param(
            values.version_policy,
            {"specific": {"versions": [1, "x"]}},
            "p.specific.versions[1]: 'x' given",
            id="one wrong version",
        ),
        pytest.param(
            values.version_policy, {"specific": {"versions": []}}, "one version or more", id="none"
        ),
        pytest.param(values.version_policy, {"all": {"n": 1}}, "unknown n", id="key in all"),
        pytest.param(values.plugin_config, {"A": []}, "p.A: [] given", id="list as a property"),
        pytest.param(values.plugin_config, '{"A": "1", "A": "2"}', "twice", id="property twice"),
        pytest.param(values.version_labels, {"": 1}, "a label is empty", id="label without name"),
        pytest.param(values.precision, "fp8", "one of f32, bf16, f16", id="precision"),
        pytest.param(values.log_level, "loud", "one of DEBUG, INFO", id="log level"),
        pytest.param(values.file_name, "../READY", "relative to the version", id="marker outside"),
        pytest.param(values.url_path, "metrics", "begins with /", id="path without slash"),
        pytest.param(values.address, "::,0.0.0.0", "one address", id="several addresses"),
    ],
)
def test_fault(parse: values.Parser[Any], value: object, fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(value, "p")
    assert fault in str(caught.value)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param('{\n "a": }', "f:2:7: not JSON", id="line and column"),
        pytest.param('{"a": NaN}', "NaN is not a number", id="NaN"),
        pytest.param("[" * 200_000, "not JSON", id="nesting without end"),
        pytest.param("1" * 10_000, "not JSON", id="number without end"),
        pytest.param('{"a": 1, "a": 2}', 'key "a" stands twice', id="key twice"),
    ],
)
def test_json_is_strict(text: str, fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        values.json_text(text, "f")
    assert fault in str(caught.value)


def test_a_fault_shows_a_huge_value_shortly() -> None:
    with pytest.raises(ConfigError) as caught:
        values.port("9" * 100_000, "--port")
    assert len(str(caught.value)) < 200
