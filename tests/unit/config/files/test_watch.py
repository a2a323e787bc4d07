"""The configuration file is followed whatever one look at it comes to."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ie_serving.config.files import watch
from ie_serving.config.files.watch import ConfigWatch, ContentState, compare
from ie_serving.core.values.errors import ConfigError
from ie_serving.models.configuration import ModelConfig

LIMIT_S = 10.0
REFUSED = "it is broken"


@pytest.mark.parametrize(
    ("digest", "seen", "refused", "content"),
    [
        pytest.param(None, "a", None, ContentState.UNREADABLE, id="a file that is gone"),
        pytest.param(None, None, None, ContentState.UNREADABLE, id="a file that never was"),
        pytest.param("a", None, None, ContentState.CHANGED, id="a file that has come"),
        pytest.param("b", "a", None, ContentState.CHANGED, id="an edit"),
        pytest.param("c", "b", "b", ContentState.CHANGED, id="an edit of refused content"),
        pytest.param("a", "a", None, ContentState.APPLIED, id="no edit"),
        pytest.param("a", "a", "b", ContentState.APPLIED, id="applied content that is back"),
        pytest.param("b", "b", "b", ContentState.REFUSED, id="refused content that stays"),
    ],
)
def test_a_look_tells_what_the_file_holds(
    digest: str | None, seen: str | None, refused: str | None, content: ContentState
) -> None:
    assert compare(digest, seen, refused) is content


async def test_a_system_without_a_thread_left_does_not_end_the_watch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As in a container at its limit of processes; the next look may find one."""
    file, applied, refusals = tmp_path / "models.json", asyncio.Event(), [2]
    file.write_text("old")

    async def apply(configs: Sequence[ModelConfig]) -> None:
        applied.set()

    async def short_of_threads(call: Callable[..., Any], *arguments: Any) -> Any:
        if refusals[0]:
            refusals[0] -= 1
            raise RuntimeError("can't start new thread")
        return call(*arguments)

    monkeypatch.setattr(watch.asyncio, "to_thread", short_of_threads)
    watching = ConfigWatch(file, lambda path: (), apply, poll_wait_s=0.001)
    file.write_text("new")
    task = asyncio.create_task(watching.run())
    try:
        await asyncio.wait_for(applied.wait(), LIMIT_S)
    finally:
        task.cancel()
    assert "configuration not applied" in caplog.text


class Polled:
    """Polls a file whose content is refused where it is "broken"."""

    def __init__(self, file: Path, content: str) -> None:
        self.file = file
        self.file.write_text(content)
        self._begun = asyncio.Event()
        self.watch = ConfigWatch(
            file, self._load, self._apply, poll_wait_s=0.001, leads=self._begins
        )

    def _begins(self) -> bool:
        self._begun.set()
        return True

    async def fault(self) -> str:
        """Give the fault after a whole poll."""
        for _ in range(2):
            self._begun.clear()
            await asyncio.wait_for(self._begun.wait(), LIMIT_S)
        return self.watch.fault

    def _load(self, path: object) -> Any:
        if self.file.read_text() == "broken":
            raise ConfigError([REFUSED])

    async def _apply(self, content: object) -> None:
        pass


@pytest.fixture
async def polled(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Polled]:
    polled = Polled(tmp_path / "models.json", getattr(request, "param", "good"))
    task = asyncio.create_task(polled.watch.run())
    yield polled
    task.cancel()


@pytest.mark.parametrize("polled", ["broken"], indirect=True)
async def test_a_file_that_a_replacement_worker_finds_broken_stays_a_fault(polled: Polled) -> None:
    polled.watch.note(ConfigError([REFUSED]))
    assert await polled.fault() == REFUSED
    polled.file.write_text("good")
    assert await polled.fault() == ""


async def test_a_broken_file_is_no_longer_unreadable_once_it_is_back(
    polled: Polled, tmp_path: Path
) -> None:
    polled.file.write_text("broken")
    assert await polled.fault() == REFUSED
    polled.file.rename(tmp_path / "away")
    assert "cannot be read" in await polled.fault()
    (tmp_path / "away").rename(polled.file)
    assert await polled.fault() == REFUSED


async def test_a_refused_edit_that_is_taken_back_is_no_fault(polled: Polled) -> None:
    polled.file.write_text("broken")
    assert await polled.fault() == REFUSED
    with pytest.raises(ConfigError):
        await polled.watch.reload_if_changed()
    polled.file.write_text("good")
    assert await polled.fault() == ""
