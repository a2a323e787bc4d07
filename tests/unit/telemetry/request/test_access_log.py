"""The access log: what a line says, and that no request waits for it."""

import fcntl
import json
import logging
import os
import re
import resource
import threading
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from operator import attrgetter
from pathlib import Path

import pytest

from ie_serving.core.values.errors import ServingError
from ie_serving.telemetry.log.logs import reopen
from ie_serving.telemetry.request import access_log
from ie_serving.telemetry.request.access_lines import COLUMNS, writer_of, written_client
from ie_serving.telemetry.request.access_log import AccessLog, LineFile, check
from ie_serving.telemetry.request.entry import (
    CURRENT,
    LONGEST_ID,
    NO_MODEL,
    RequestEntry,
    RequestTarget,
    current,
    made_ids,
    safe_id,
)
from tests.process import PATIENCE_S, until
from tests.tables import named_by


def entry(**known: object) -> RequestEntry:
    """One as it is when a small Predict has ended."""
    made = RequestEntry()
    whose = {"id": b"7f3a", "client": ("127.0.0.1", 5123)}
    asked = {"asked": RequestTarget("REST", "POST", "/v1/models/m:predict")}
    times = {"began": 1.0, "started": 1.001, "inferred": 1.003, "encoded": 1.0035, "ended": 1.004}
    facts = {"answers": ("m", 2), "code": 200, "received": 10, "sent": 20}
    for name, value in {**whose, **asked, **times, **facts, **known}.items():
        setattr(made, name, value)
    return made


ROW = attrgetter(
    *("client", "asked", "answers", "code", "id", "received", "sent"),
    *("began", "started", "inferred", "encoded", "ended"),
)


def written(form: str, *entries: RequestEntry, epoch: float = 0.5) -> str:
    return writer_of(form)(map(ROW, entries), epoch).decode()


def test_a_line_of_text_has_the_format_of_all_log_lines() -> None:
    line = written("text", entry())
    time, logger, level, text = line.rstrip("\n").split(" - ", 3)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,500", time)
    assert (logger, level) == ("ie_serving.access", "INFO")
    assert text == (
        "request answered id=7f3a client=127.0.0.1:5123 interface=REST method=POST"
        " path=/v1/models/m:predict model=m version=2 code=200 bytes_in=10 bytes_out=20"
        " total_ms=4.000 decode_ms=1.000 infer_ms=2.000 encode_ms=0.500"
    )


def test_a_line_of_json_has_the_same_columns() -> None:
    line = json.loads(written("json", entry()))
    assert line["time"] == "1970-01-01T00:00:01.500Z"
    assert (line["level"], line["logger"]) == ("INFO", "ie_serving.access")
    assert (line["message"], line["pid"]) == ("request answered", os.getpid())
    assert tuple(line["fields"]) == COLUMNS
    assert line["fields"]["total_ms"] == 4.0
    assert line["fields"]["client"] == "127.0.0.1:5123"
    assert line["fields"]["version"] == 2


@pytest.mark.parametrize("form", ["text", "json"])
def test_each_line_has_its_own_time(form: str) -> None:
    """Whatever the line before it has: entries of conversations come late."""
    times = (1.5, 1.501, 2.0, 1.999, 0.0)
    lines = written(form, *(entry(began=at) for at in times), epoch=0.0).splitlines()
    found = [re.search(r":(\d\d)[.,](\d{3})", line) for line in lines]
    assert [int(each[1]) + int(each[2]) / 1000 for each in found if each] == list(times)


@pytest.mark.parametrize("form", ["text", "json"])
def test_an_unknown_field_stands_as_unknown(form: str) -> None:
    unknown_ones = {"answers": NO_MODEL, "received": None}
    line = written(form, entry(**unknown_ones, started=0.0, inferred=0.0, encoded=0.0))
    unknown = ("model", "version", "bytes_in", "decode_ms", "infer_ms", "encode_ms")
    if form == "json":
        fields = json.loads(line)["fields"]
        assert [name for name in fields if fields[name] is None] == list(unknown)
    else:
        assert re.findall(r" (\w+)=-", line) == list(unknown)


def test_a_failure_after_the_inputs_has_the_times_until_then() -> None:
    fields = json.loads(written("json", entry(inferred=0.0, encoded=0.0)))["fields"]
    assert (fields["decode_ms"], fields["infer_ms"], fields["total_ms"]) == (1.0, None, 4.0)


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize(
    "path",
    ["/a\nb", "/x y", '/"', "/\\", "/\x1b[31m", "/é", "/%d%%b%", "/?password=hunter2"],
)
def test_text_that_a_client_sends_forges_nothing(form: str, path: str) -> None:
    line = written(
        form, entry(asked=RequestTarget("REST", "POST", path), answered_by=(path, 2), id=b"a=b")
    )
    assert line.count("\n") == 1
    assert line[:-1].isprintable()
    assert "hunter2" not in line
    if form == "json":
        assert json.loads(line)["fields"]["id"] == "a=b"
    else:
        assert ' id="a=b" ' in line


@named_by(
    "client",
    ("client", "written"),
    [
        (("127.0.0.1", 5123), "127.0.0.1:5123"),
        (("::1", 5123, 0, 0), "[::1]:5123"),
        (("::ffff:10.0.0.7", 5123), "10.0.0.7:5123"),
        ("ipv4:127.0.0.1:5123", "127.0.0.1:5123"),
        ("ipv6:%5B::1%5D:5123", "[::1]:5123"),
        ("ipv6:%5B::ffff:10.0.0.7%5D:5123", "10.0.0.7:5123"),
        ("unix:", ""),
        (None, ""),
        ("", ""),
    ],
)
def test_an_address_of_a_client_is_written_with_its_port(client: object, written: str) -> None:
    assert written_client(client) == written


# -- ids -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [b"0f-7.a:b/c=d", b"x" * LONGEST_ID, b"0f"])
def test_a_safe_id_is_taken(given: bytes) -> None:
    assert safe_id(given) == given


@pytest.mark.parametrize(
    "given",
    [b"", b"x" * (LONGEST_ID + 1), b"a b", b"a\nb", b'a"', b"a'", b"a\\", b"\xe9", b"\xff\n"],
)
def test_another_is_not(given: bytes) -> None:
    assert safe_id(given) == b""


def test_ids_of_two_makers_differ() -> None:
    made = {*islice(made_ids(), 100), *islice(made_ids(), 100)}
    assert len(made) == 200
    assert all(each.isalnum() for each in made)


# -- the file ------------------------------------------------------------------------------------


def numbers(path: Path) -> list[int]:
    """Read the versions of all lines that are there; they number the entries."""
    return [int(number) for number in re.findall(r" version=(\d+)", path.read_text())]


def test_every_line_is_written_in_order_and_the_last_ones_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    with closing(AccessLog(str(path))) as log:
        for number in range(1000):
            log.end(entry(answered_by=("m", number)))
    assert numbers(path) == list(range(1000))
    assert log.dropped == 0


def test_a_line_comes_by_itself_while_nothing_follows(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    with closing(AccessLog(str(path))) as log:
        for number in (1, 2):  # the second wakes the thread once more
            log.end(entry(answered_by=("m", number)))
            until(lambda wanted=number: numbers(path)[-1:] == [wanted])


def test_a_file_that_was_moved_is_opened_anew(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    with closing(AccessLog(str(path))) as log:
        log.end(entry(answered_by=("m", 1)))
        until(lambda: numbers(path) == [1])
        path.rename(tmp_path / "access.log.1")
        log.end(entry(answered_by=("m", 2)))
        until(path.exists)
        until(lambda: numbers(path) == [2])
    assert numbers(tmp_path / "access.log.1") == [1]


def test_a_file_that_was_moved_is_let_go_when_that_is_asked(tmp_path: Path) -> None:
    """Although no line follows."""
    path = tmp_path / "access.log"
    with closing(AccessLog(str(path))):
        path.rename(tmp_path / "access.log.1")
        reopen()
        until(path.exists)


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, int]]:
    """Standard output is a pipe without a reader: its two ends."""
    reading, writing = os.pipe()
    monkeypatch.setattr(access_log, "STDOUT_NUMBER", writing)
    yield reading, writing
    os.close(reading)


def test_a_full_pipe_holds_no_request_up_and_lost_lines_are_counted(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    reading, writing = pipe
    monkeypatch.setattr(access_log, "MOST_WAITING_LINES", 500)
    caplog.set_level(logging.WARNING, "ie_serving")
    log = AccessLog("-")
    sent = 0
    while not log.dropped:  # the pipe takes 64 KB, then the queue its 500
        log.end(entry(answered_by=("m", sent)))
        sent += 1
        assert sent < 100_000
    written = b""

    def read() -> None:
        nonlocal written
        while piece := os.read(reading, 1 << 16):
            written += piece

    reader = threading.Thread(target=read)
    reader.start()
    log.close()
    os.close(writing)
    reader.join(PATIENCE_S)
    assert written.count(b"\n") + log.dropped == sent
    (line,) = [each.getMessage() for each in caplog.records]
    cause = "they came faster than they could be written"
    assert line == f'access log lines lost lines={log.dropped} cause="{cause}"'


def test_a_pipe_that_does_not_block_is_waited_for(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that shares standard output may have made it so. Its number may be any."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(2048, hard)), hard))
    reading, low = pipe
    writing = fcntl.fcntl(low, fcntl.F_DUPFD, 1024)
    os.close(low)
    os.set_blocking(writing, False)
    monkeypatch.setattr(access_log, "STDOUT_NUMBER", writing)
    log = AccessLog("-")
    for number in range(1000):
        log.end(entry(answered_by=("m", number)))
    found = b""
    while found.count(b"\n") < 1000:
        found += os.read(reading, 1 << 16)
    log.close()
    os.close(writing)
    assert [int(each) for each in re.findall(rb" version=(\d+)", found)] == list(range(1000))
    assert log.dropped == 0


def test_a_disk_that_takes_nothing_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "ie_serving")
    with closing(AccessLog("/dev/full")) as log:
        for _ in range(3):
            log.end(entry())
            until(lambda: not log.waiting)
    until(lambda: log.dropped == 3)
    assert caplog.records[0].getMessage().endswith('cause="No space left on device"')


def test_the_line_behind_half_a_line_is_a_line_of_its_own(tmp_path: Path) -> None:
    """A full disk takes a part of what is written; here the limit of a file's size does."""
    path = tmp_path / "access.log"
    file = LineFile(str(path))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            file.write(b"first\nsecond\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    for line in (b"third\n", b"fourth\n"):
        file.write(line)
    assert path.read_text().splitlines() == ["first", "seco", "third", "fourth"]


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(ServingError, match=r'access log "/.*/absent/log" cannot be opened: No'):
        check(str(tmp_path / "absent" / "log"))
    check("-")
    check("")


def test_an_entry_is_the_current_one_until_it_has_ended() -> None:
    made = RequestEntry()
    token = CURRENT.set(made)
    assert current() is made
    made.ended = 1.0
    assert current() is None
    CURRENT.reset(token)
