"""Words, addresses and paths."""

from pathlib import Path
from typing import Any

import pytest

from ie_serving.core.settings import words
from ie_serving.core.settings.faults import Parser
from ie_serving.core.values.errors import ConfigError


@pytest.mark.parametrize(
    ("parse", "value", "meant"),
    [
        pytest.param(words.log_level, "warn", "WARNING", id="level in another server's words"),
        pytest.param(words.log_level, "debug", "DEBUG", id="level in lower case"),
        pytest.param(words.boolean, "True", True, id="boolean in any case"),
        pytest.param(words.boolean, "off", False, id="boolean in another word"),
        pytest.param(words.file_name, "READY", "READY", id="marker"),
        pytest.param(words.one_of("f32", "bf16"), " BF16 ", "bf16", id="choice in any case"),
        pytest.param(words.meant_by({"y": True, "n": False}), "n", False, id="foreign boolean"),
        pytest.param(words.unchecked, " \n", " \n", id="what is not checked stays as it is"),
    ],
)
def test_a_word_means_the_same_in_each_spelling(
    parse: Parser[Any], value: object, meant: object
) -> None:
    assert parse(value, "p") == meant


@pytest.mark.parametrize("given", ["{a}, {b}", ["{a}", "{b}"]], ids=["text", "list"])
def test_files_have_to_be_there(given: str | list[str], tmp_path: Path) -> None:
    named = {"a": str(tmp_path / "a.so"), "b": str(tmp_path / "b.so")}
    with pytest.raises(ConfigError, match=r"a\.so' given; expected a file that exists"):
        words.files(written(given, named), "p")
    for path in named.values():
        Path(path).touch()
    assert words.files(written(given, named), "p") == tuple(named.values())


def written(given: str | list[str], named: dict[str, str]) -> str | list[str]:
    """Put paths in the place of their names."""
    if isinstance(given, str):
        return given.format(**named)
    return [each.format(**named) for each in given]


@pytest.mark.parametrize(
    ("parse", "value", "fault"),
    [
        pytest.param(words.boolean, "perhaps", "true or false", id="boolean"),
        pytest.param(words.one_of("f32", "bf16"), "fp8", "one of f32, bf16", id="choice"),
        pytest.param(words.meant_by({"y": True, "n": False}), "Y", "one of y, n", id="foreign"),
        pytest.param(words.log_level, "loud", "one of DEBUG, INFO", id="log level"),
        pytest.param(words.file_name, "../READY", "relative to the version", id="marker outside"),
        pytest.param(words.url_path, "metrics", "begins with /", id="path without slash"),
        pytest.param(words.address, "::,0.0.0.0", "one address", id="several addresses"),
        pytest.param(words.text, "a\nb", "on one line", id="two lines"),
    ],
)
def test_a_word_that_is_none_is_refused(parse: Parser[Any], value: object, fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(value, "p")
    assert fault in str(caught.value)


@pytest.mark.parametrize("path", ["", "metrics", "/", "/a b", "/a?b", "/a#b", "/\u00e9"])
def test_a_path_that_no_request_can_ask_for(path: str) -> None:
    with pytest.raises(ConfigError, match=r"a path that begins with /, without \? and #"):
        words.url_path(path, "p")


def test_a_path_that_requests_can_ask_for() -> None:
    path = "/v1/a!$%&'()*+,-.:;<=>@[]^_`{|}~"
    assert words.url_path(path, "p") == path
