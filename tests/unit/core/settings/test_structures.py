"""Objects of settings: JSON is strict, and each fault names the key."""

from typing import Any

import pytest

from ie_serving.core.settings.faults import Parser
from ie_serving.core.settings.structures import json_text, plugin_config
from ie_serving.core.values.errors import ConfigError
from ie_serving.models.configuration import version_labels, version_policy
from ie_serving.models.repository.version_policy import All, Latest, Specific


@pytest.mark.parametrize(
    ("parse", "value", "meant"),
    [
        pytest.param(version_policy, {"latest": {}}, Latest(1), id="latest is 1 by default"),
        pytest.param(version_policy, '{"latest": {"num_versions": 3}}', Latest(3), id="as text"),
        pytest.param(version_policy, {"all": {}}, All(), id="all"),
        pytest.param(
            version_policy,
            {"specific": {"versions": [3, 1, 3]}},
            Specific(frozenset({1, 3})),
            id="specific",
        ),
        pytest.param(
            plugin_config,
            '{"NUM_STREAMS": 2, "PERF_COUNT": true}',
            {"NUM_STREAMS": "2", "PERF_COUNT": "YES"},
            id="properties become text",
        ),
        pytest.param(version_labels, {"stable": 3}, {"stable": 3}, id="labels"),
    ],
)
def test_a_value_means_the_same_as_text_and_as_json(
    parse: Parser[Any], value: object, meant: object
) -> None:
    assert parse(value, "p") == meant


@pytest.mark.parametrize(
    ("parse", "value", "fault"),
    [
        pytest.param(version_policy, {}, "exactly one of", id="no policy"),
        pytest.param(version_policy, {"all": {}, "latest": {}}, "exactly one of", id="two"),
        pytest.param(version_policy, {"newest": {}}, "exactly one of", id="unknown policy"),
        pytest.param(
            version_policy,
            {"latest": {"num_versions": 0}},
            "p.latest.num_versions: 0 given",
            id="latest 0, which served all in 2020",
        ),
        pytest.param(
            version_policy,
            {"specific": {"versions": [1, "x"]}},
            "p.specific.versions[1]: 'x' given",
            id="one wrong version",
        ),
        pytest.param(
            version_policy, {"specific": {"versions": []}}, "one version or more", id="none"
        ),
        pytest.param(version_policy, {"all": {"n": 1}}, "unknown n", id="key in all"),
        pytest.param(plugin_config, {"A": []}, "p.A: [] given", id="list as a property"),
        pytest.param(plugin_config, '{"A": "1", "A": "2"}', "twice", id="property twice"),
        pytest.param(version_policy, "latest", 'expected exactly one of {"latest": {', id="word"),
        pytest.param(version_labels, "a=1", "not JSON: Expecting value; expected an", id="text"),
        pytest.param(version_labels, {"": 1}, "a label is empty", id="label without name"),
        pytest.param(version_labels, {256 * "l": 1}, "expected 255 at most", id="long label"),
    ],
)
def test_a_fault_names_its_key(parse: Parser[Any], value: object, fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(value, "p")
    assert fault in str(caught.value)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param('{\n "a": }', "f:2:7: not JSON", id="line and column"),
        pytest.param(" ", "f:1:2: not JSON: the text is empty", id="empty"),
        pytest.param('{"a": 1,\n}', "a comma stands before the closing }", id="comma in object"),
        pytest.param('{"a": [1, ]}', "a comma stands before the closing ]", id="comma in list"),
        pytest.param('{"a": 1 "b": 2}', "not JSON: Expecting ',' delimiter", id="no comma"),
        pytest.param('{"a": NaN}', "NaN is not a number", id="NaN"),
        pytest.param("[" * 200_000, "not JSON", id="nesting without end"),
        pytest.param("1" * 10_000, "not JSON", id="number without end"),
        pytest.param('{"a": 1, "a": 2}', 'key "a" stands twice', id="key twice"),
    ],
)
def test_json_is_strict(text: str, fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        json_text(text, "f")
    assert fault in str(caught.value)
