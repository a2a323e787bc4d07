"""`/v1/log_level`: what is shown, changed and refused."""

import json
import logging
from collections.abc import Iterator

import pytest

from ie_serving.core.settings.words import log_level
from ie_serving.core.values.errors import Forbidden, InvalidRequest
from ie_serving.server.fronts.admin.log_pages import LogPages
from ie_serving.telemetry.log import logs


def unbind() -> None:
    """Nothing is bound here."""


@pytest.fixture(autouse=True)
def own(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(logs, "USERS", [])  # users' code that other tests have not closed
    levels = [(each, each.level) for each in (logging.getLogger(), logging.getLogger(logs.OWN))]
    logs.change("INFO")
    yield
    for logger, level in levels:
        logger.setLevel(level)


@pytest.mark.parametrize(
    ("word", "level", "of_libraries"),
    [("DEBUG", "DEBUG", "WARNING"), ("warn", "WARNING", "WARNING"), ("fatal", "ERROR", "ERROR")],
)
async def test_another_level_counts_at_once(
    word: str, level: str, of_libraries: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Libraries stay at WARNING and above: at DEBUG they print credentials."""
    pages = LogPages(log_level, unbind, allowed=True)
    reply = await pages.change("", json.dumps({"log_level": word}).encode())
    assert json.loads(reply) == json.loads(pages.show()) == {"log_level": level}
    assert logging.getLevelName(logging.getLogger("a_library").getEffectiveLevel()) == of_libraries
    assert [each.getMessage() for each in caplog.records] == [f"log level changed level={level}"]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"DEBUG", id="no JSON"),
        pytest.param(b"\xff", id="no text"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b"[" * 100_000, id="very many lists"),
        pytest.param(b'{"log_level": 1}', id="a number"),
        pytest.param(b'{"log_level": "loud"}', id="no such level"),
        pytest.param(b'{"level": "DEBUG"}', id="another key"),
        pytest.param(b'{"log_level": "DEBUG", "x": 1}', id="a key too many"),
    ],
)
async def test_a_body_that_is_no_level_changes_nothing(body: bytes) -> None:
    pages = LogPages(log_level, unbind, allowed=True)
    with pytest.raises(InvalidRequest):
        await pages.change("", body)
    assert logs.level() == "INFO"


async def test_a_change_may_be_switched_off() -> None:
    pages = LogPages(log_level, unbind, allowed=False)
    with pytest.raises(Forbidden, match="switched off"):
        await pages.change("", b'{"log_level": "DEBUG"}')
    assert logs.level() == "INFO"
