"""Log lines in JSON: one object, one line, no secret."""

import json
import logging
import warnings
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.values.errors import ServingError
from ie_serving.telemetry.log import json_lines, logs
from ie_serving.telemetry.log.logs import MASK, Event

own = logging.getLogger("ie_serving.models.version.loader")
foreign = logging.getLogger("another.library")

Written = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def written(capsys: pytest.CaptureFixture[str]) -> Written:
    """What went to stderr since the last call, which has to be JSON, line by line."""
    return lambda: [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_an_event_is_one_object_with_its_facts_apart(written: Written) -> None:
    logs.configure("INFO", form="json")
    own.info(Event("version loaded", model="resnet", version=7, fetch_s=1.93))
    (line,) = written()
    time = datetime.fromisoformat(line.pop("time").replace("Z", "+00:00"))
    assert abs((datetime.now(timezone.utc) - time).total_seconds()) < 60
    assert line.pop("pid") > 0
    assert line == {
        "level": "INFO",
        "logger": own.name,
        "message": "version loaded",
        "fields": {"model": "resnet", "version": 7, "fetch_s": 1.93},
    }


def test_a_line_of_others_has_a_message_alone(written: Written) -> None:
    logs.configure("INFO", form="json")
    foreign.error("bad name: %s", "x\n{}")
    (line,) = written()
    assert (line["logger"], line["level"]) == ("another.library", "ERROR")
    assert line["message"] == "bad name: x\n{}"
    assert "fields" not in line


def test_an_exception_is_a_field(written: Written) -> None:
    logs.configure("INFO", form="json")
    try:
        raise ValueError("https://user:hunter2@host")
    except ValueError:
        own.exception(Event("load failed by a defect", model="m"))
    (line,) = written()
    assert line["fields"] == {"model": "m"}
    assert line["exception"].startswith("Traceback")
    assert f"https://{MASK}@host" in line["exception"]


def test_a_stack_that_is_asked_for_is_a_field(written: Written) -> None:
    logs.configure("INFO", form="json")
    own.info("here", stack_info=True)
    assert "test_json_lines" in written()[0]["stack"]


def test_warnings_of_python_are_lines_too(written: Written) -> None:
    logs.configure("INFO", form="json")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("soon gone", DeprecationWarning, stacklevel=1)
    (line,) = written()
    assert (line["logger"], line["level"]) == ("py.warnings", "WARNING")
    assert "soon gone" in line["message"]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("two words", "two words"),
        (7, 7),
        (np.int64(7), 7),
        (np.float32(0.5), 0.5),
        (1.23456789, 1.23457),
        (float("nan"), "nan"),
        (True, True),
        (None, None),
        (Path("/m"), "/m"),
        (ServingError("it failed"), "it failed"),
        ("s3://user:hunter2@bucket", f"s3://{MASK}@bucket"),
    ],
    ids=repr,
)
def test_a_value_stands_in_the_line_by_its_type(
    written: Written, value: object, found: object
) -> None:
    logs.configure("INFO", form="json")
    own.info(Event("e", value=value))
    assert written()[0]["fields"] == {"value": found}


@pytest.mark.parametrize("name", ["password", "aws_secret_access_key", "auth_token"])
def test_a_field_named_as_a_secret_is_masked_whole(written: Written, name: str) -> None:
    logs.configure("INFO", form="json")
    own.info(Event("e", **{name: 'hunter2 "hunter2'}))
    assert written()[0]["fields"] == {name: MASK}


def test_a_mask_leaves_json_whole(written: Written) -> None:
    """Over the finished line the mask would take quotes away."""
    logs.configure("INFO", form="json")
    foreign.warning('{"password": "hunter2", "user": "x"}')
    assert written()[0]["message"] == f'{{"password": {MASK}, "user": "x"}}'


@given(st.text(), st.text())
def test_whatever_is_said_it_is_one_line_of_ascii(message: str, value: str) -> None:
    record = logging.LogRecord("n", logging.INFO, "", 0, Event(message, value=value), (), None)
    line = json_lines.JsonFormatter().format(record)
    assert line.isascii()
    assert line.isprintable()
    assert set(json.loads(line)) == {"time", "level", "logger", "message", "pid", "fields"}


def test_times_are_of_utc_with_milliseconds() -> None:
    assert json_lines.written_time(0.0019) == "1970-01-01T00:00:00.001Z"


def test_the_file_gets_the_same_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log"
    logs.configure("INFO", str(path), "json")
    own.info("said")
    assert path.read_text() == capsys.readouterr().err


def test_facts_of_a_load_are_carried_to_events_of_later(written: Written) -> None:
    """As those of requests, which name their model among a thousand."""
    logs.configure("INFO", form="json")
    with logs.about(model="resnet", version=7):
        whose = logs.carried()
    for _ in range(2):
        with whose():
            own.info(Event("batching stopped", signature="s"))
    own.info(Event("batching stopped", signature="s"))
    found = [line["fields"] for line in written()]
    named = {"signature": "s", "model": "resnet", "version": 7}
    assert found == [named, named, {"signature": "s"}]
