"""Log lines: one event, one line, no secret."""

import logging
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.values.errors import ServingError
from ie_serving.telemetry.log import logs
from ie_serving.telemetry.log.logs import (
    MASK,
    TELL_S,
    Event,
    TextFormatter,
    configure,
    hear,
    mask,
    render,
    reopen,
    unhear,
)
from tests.tables import named_by

own = logging.getLogger("ie_serving.models.version.loader")
foreign = logging.getLogger("another.library")

Written = Callable[[], str]


@pytest.fixture
def written(capsys: pytest.CaptureFixture[str]) -> Written:
    """What went to stderr since the last call."""
    return lambda: capsys.readouterr().err


def test_a_line_has_the_format_of_2020(written: Written) -> None:
    configure("INFO")
    own.info(Event("version available", model="resnet", version=7, fetch_s=1.93))
    time = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}"
    text = "version available model=resnet version=7 fetch_s=1.93"
    assert re.fullmatch(rf"{time} - {own.name} - INFO - {text}\n", written())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param("resnet", "resnet", id="a word stands bare"),
        pytest.param("s3://bucket/models", "s3://bucket/models", id="so does a URL"),
        pytest.param("two words", '"two words"', id="blanks ask for quotes"),
        pytest.param("", '""', id="so does nothing at all"),
        pytest.param("a=b", '"a=b"', id="so does what looks like another fact"),
        pytest.param('say "hi"', r'"say \"hi\""', id="quotes are escaped"),
        pytest.param("a\\n", r'"a\\n"', id="a backslash is no line break"),
        pytest.param("one\ntwo", r'"one\ntwo"', id="a line break is escaped"),
        pytest.param("\x1b[31m", r'"\x1b[31m"', id="terminals are not steered"),
        pytest.param("Zürich", "Zürich", id="letters are letters"),
        pytest.param(1.23456789, "1.23457", id="six digits of a float"),
        pytest.param(7, "7", id="an integer"),
        pytest.param(None, "None", id="nothing known"),
        pytest.param(ServingError("it failed"), '"it failed"', id="an error by its text"),
    ],
)
def test_a_value_is_quoted_where_it_needs_it(value: object, text: str) -> None:
    assert render(value) == text


@given(st.text())
def test_whatever_the_value_it_stays_one_printable_line(value: str) -> None:
    assert render(value).isprintable()


@given(st.lists(st.text(), min_size=1))
def test_facts_can_be_told_apart_again(values: list[str]) -> None:
    line = str(Event("e", **{f"f{i}": value for i, value in enumerate(values)}))
    found = re.findall(r' f\d+=(?:"((?:[^"\\]|\\.)*)"|([^\s"]+))', line)
    assert len(found) == len(values)


def test_a_message_of_others_cannot_forge_a_line(written: Written) -> None:
    configure("INFO")
    foreign.warning("bad name: %s", "x\n2026-01-01 00:00:00,000 - root - INFO - all is well")
    assert written().count("\n") == 1


@named_by(
    "level",
    ("level", "ours", "theirs"),
    [
        ("DEBUG", ["DEBUG", "INFO", "WARNING", "ERROR"], ["WARNING", "ERROR"]),
        ("INFO", ["INFO", "WARNING", "ERROR"], ["WARNING", "ERROR"]),
        ("WARNING", ["WARNING", "ERROR"], ["WARNING", "ERROR"]),
        ("ERROR", ["ERROR"], ["ERROR"]),
    ],
)
def test_a_level_shows_our_lines_and_fewer_of_other_libraries(
    written: Written, level: str, ours: list[str], theirs: list[str]
) -> None:
    """Other libraries never log below WARNING: they print credentials there."""
    configure(level)
    for log in (own, foreign):
        for number in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
            log.log(number, "said")
    lines = [line.split(" - ")[1:3] for line in written().splitlines()]
    assert [level for name, level in lines if name == own.name] == ours
    assert [level for name, level in lines if name == foreign.name] == theirs


def test_an_event_below_the_level_is_never_formatted(written: Written) -> None:
    class Dear:
        def __str__(self) -> str:
            raise AssertionError("formatted for nothing")

    configure("INFO")
    own.debug(Event("input decoded", tensor=Dear()))
    assert written() == ""


def test_the_file_gets_the_lines_too_and_is_opened_anew_after_rotation(
    tmp_path: Path, written: Written
) -> None:
    path = tmp_path / "server.log"
    configure("INFO", str(path))
    own.info("first")
    path.rename(tmp_path / "server.log.1")
    own.info("second")
    assert path.read_text().endswith("second\n")
    assert "first" not in path.read_text()
    assert len(written().splitlines()) == 2


def test_a_file_that_is_gone_with_its_directory_fails_no_caller_and_comes_back(
    tmp_path: Path, written: Written
) -> None:
    path = tmp_path / "logs" / "server.log"
    path.parent.mkdir()
    configure("INFO", str(path))
    path.unlink()
    path.parent.rmdir()
    own.info("on stderr alone")
    path.parent.mkdir()
    own.info("in the file again")
    assert path.read_text().endswith("in the file again\n")
    alone, lost, again = written().splitlines()
    assert "alone" in alone and "again" in again
    assert lost.endswith(
        f'log file lines lost path={path} lines=1 cause="No such file or directory"'
    )


def test_a_full_disk_is_said_once_and_then_counted(
    monkeypatch: pytest.MonkeyPatch, written: Written
) -> None:
    configure("INFO", "/dev/full")
    for _ in range(100):
        own.info("a line")
    later = time.monotonic() + 2 * TELL_S
    monkeypatch.setattr(logs.time, "monotonic", lambda: later)
    own.info("a line")
    losses = [line for line in written().splitlines() if "a line" not in line]
    assert len(losses) == 2, "no traceback, and no line for each line"
    assert 'lines=1 cause="No space left on device"' in losses[0]
    assert "lines=101 " in losses[1], "99 lines, the first warning, and the last line"


def test_a_file_is_opened_anew_when_that_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    configure("INFO", str(path))
    path.rename(tmp_path / "server.log.1")
    reopen()
    assert path.read_text() == ""


def test_a_traceback_may_hold_what_utf_8_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure("INFO", str(tmp_path / "server.log"))
    # Without those of pytest, which could not send the line from one process to another.
    ours = [each for each in logging.root.handlers if isinstance(each.formatter, TextFormatter)]
    monkeypatch.setattr(logging.root, "handlers", ours)
    own.error("failed", exc_info=ValueError("half a pair: \ud800"))
    assert (tmp_path / "server.log").read_text().endswith("half a pair: \\ud800\n")


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(ServingError, match=r'"/.*/absent/log" cannot be opened: No such file'):
        configure("INFO", str(tmp_path / "absent" / "log"))


def test_configuring_again_replaces_the_last_handlers(written: Written) -> None:
    configure("INFO")
    configure("INFO")
    own.info("once")
    assert written().count("once") == 1


@named_by(
    "text",
    ("text", "masked"),
    [
        ("https://user:hunter2@host/x", f"https://{MASK}@host/x"),
        ("https://token@host/x", f"https://{MASK}@host/x"),
        ("AWS_SECRET_ACCESS_KEY=hunter2 x", f"AWS_SECRET_ACCESS_KEY={MASK} x"),
        ("{'aws_access_key_id': 'hunter2', 'a': 1}", f"{{'aws_access_key_id': {MASK}, 'a': 1}}"),
        ('{"password": "hunter2 x"}', f'{{"password": {MASK}}}'),
        ("Authorization: Bearer hunter2", f"Authorization: Bearer {MASK}"),
        ("?X-Amz-Signature=hunter2&X-Amz-Date=1", f"?X-Amz-Signature={MASK}&X-Amz-Date=1"),
        ("x-amz-security-token: hunter2", f"x-amz-security-token: {MASK}"),
        ("{'x-api-key': 'hunter2'}", f"{{'x-api-key': {MASK}}}"),
        ("minio_secret_key=hunter2", f"minio_secret_key={MASK}"),
    ],
)
def test_secrets_are_masked(text: str, masked: str) -> None:
    assert mask(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "s3://bucket/models/1",
        "cannot list s3://bucket/a@b: set AWS_SECRET_ACCESS_KEY and AWS_ACCESS_KEY_ID",
        'signature "serving_default" has inputs: x',
        "api_key_file=keys",
        "request refused signature=serving_default",
        "signatures=2 signature_name=serving_default tokens=12",
    ],
)
def test_a_text_that_is_no_secret_stays(text: str) -> None:
    assert mask(text) == text


def test_code_of_users_is_heard_and_libraries_beside_it_are_not(
    written: Written, tmp_path: Path
) -> None:
    configure("INFO")
    files = [
        tmp_path / "1" / "kernel.py",
        tmp_path / "1" / "venv" / "lib" / "site-packages" / "store.py",
        tmp_path / "10" / "kernel.py",
    ]
    hear(f"{tmp_path}/1/")
    try:
        for file in files:
            name = str(file.relative_to(tmp_path))
            code = f"import logging; logging.getLogger('any').info('{name}')"
            exec(compile(code, str(file), "exec"))
    finally:
        unhear(f"{tmp_path}/1/")
    assert written().split()[-1:] == ["1/kernel.py"]


def test_tracebacks_are_masked_too(written: Written) -> None:
    configure("INFO")
    try:
        raise ValueError("https://user:hunter2@host")
    except ValueError:
        own.exception("unexpected")
    text = written()
    assert "ValueError" in text
    assert "hunter2" not in text


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_middle_of_a_long_traceback_is_left_out(written: Written, form: str) -> None:
    configure("INFO", form=form)
    try:
        raise ValueError("password=" + "x" * 1_000_000)
    except ValueError:
        own.exception(Event("kernel failed", kernel="k"))
    lines = written()
    assert len(lines) < 40_000
    assert "characters are left out" in lines and "Traceback" in lines and MASK in lines
