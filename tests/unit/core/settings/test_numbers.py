"""Numbers: text and JSON mean the same, and each limit refuses what is beyond it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.settings import numbers
from ie_serving.core.settings.faults import Parser
from ie_serving.core.values.errors import ConfigError


@given(st.integers(min_value=0, max_value=65535))
def test_a_number_may_be_written_as_text(number: int) -> None:
    assert numbers.port(number, "p") == numbers.port(f" {number} ", "p") == number


@pytest.mark.parametrize(
    ("parse", "value", "meant"),
    [
        pytest.param(numbers.batch_size, 8, 8, id="integer batch, which broke 2020"),
        pytest.param(numbers.batch_size, "8", 8, id="text batch"),
        pytest.param(numbers.batch_size, "auto", -1, id="auto batch"),
        pytest.param(numbers.batch_size, "1:8", (1, 8), id="range of batches"),
        pytest.param(numbers.batch_size, "4:4", 4, id="range of one batch"),
        pytest.param(numbers.batch_size, 0, None, id="0 keeps the model's batch"),
        pytest.param(numbers.poll_wait, "0.5", 0.5, id="fraction of a second"),
        pytest.param(numbers.poll_wait, "-1", 0.0, id="negative wait is off"),
        pytest.param(numbers.delay, 0, 0.0, id="no delay"),
        pytest.param(numbers.port, "80\x1f", 80, id="a blank that int() does not know"),
    ],
)
def test_a_value_means_the_same_as_text_and_as_json(
    parse: Parser[Any], value: object, meant: object
) -> None:
    assert parse(value, "p") == meant


@pytest.mark.parametrize(
    ("parse", "value", "fault"),
    [
        pytest.param(numbers.port, "65536", "a whole number from 0 to 65535", id="port too high"),
        pytest.param(numbers.port, "-1", "a whole number from 0 to 65535", id="negative port"),
        pytest.param(numbers.port, True, "a whole number", id="a boolean is no number"),
        pytest.param(numbers.port, "1_0", "a whole number", id="Python's underscore"),
        pytest.param(numbers.port, "٣", "a whole number", id="digits of another script"),
        pytest.param(numbers.poll_wait, "nan", "a number of seconds", id="NaN"),
        pytest.param(numbers.poll_wait, "1e999", "at most", id="infinite wait"),
        pytest.param(numbers.timeout, 0, "more than 0 seconds", id="no time at all"),
        pytest.param(numbers.delay, -1, "0 seconds or more", id="negative delay"),
        pytest.param(numbers.batch_size, "Otto", '"auto"', id="unknown batch"),
        pytest.param(numbers.batch_size, "8:1", "low:high", id="range upside down"),
        pytest.param(numbers.batch_size, -2, "a whole number", id="negative batch"),
    ],
)
def test_a_value_beyond_its_limit_is_refused(parse: Parser[Any], value: object, fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(value, "p")
    assert fault in str(caught.value)
