"""What a worker begins with, what its file says later, and what it leaves to the next."""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from ie_serving.config.files.followed_config import FollowedConfig, read_applied
from ie_serving.config.settings import ServerSettings, Settings
from ie_serving.core.runtime.handover import Handover, Handovers
from ie_serving.core.values.errors import ConfigError, PreconditionFailed
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.manager import Edit, edited

OLD, NEW, BY_RPC = (ModelConfig(name=name, base_path="/m") for name in ("old", "new", "by_rpc"))


class FullHandover(Handover):
    """Has no room."""

    def write(self, data: bytes) -> None:
        raise OSError(28, "No space left on device")


def new_shelf(kind: type[Handover] = Handover) -> Handovers:
    return Handovers(*(kind() for _ in Handovers._fields))


class Models:
    """Notes what it is asked to serve; refuses a model named `refused`."""

    def __init__(self) -> None:
        self.desired: Sequence[ModelConfig] = ()
        self.said: list[str] = []
        self.answered: dict[str, int] = {}
        self.applied: Callable[[], object] = lambda: None

    async def start(self, configs: Sequence[ModelConfig]) -> None:
        self._take("start", configs)

    async def resume(self, configs: Sequence[ModelConfig], answered: Mapping[str, int]) -> None:
        self.answered = dict(answered)
        self._take("take over", configs)

    async def apply(self, wanted: Sequence[ModelConfig] | Edit, *, all_or_nothing: bool) -> None:
        configs = edited(wanted, self.desired)
        if "refused" in [config.name for config in configs]:
            raise PreconditionFailed("refused")
        self._take("all or nothing" if all_or_nothing else "each alone", configs)

    def serving(self) -> tuple[ModelConfig, ...]:
        return (OLD,)

    def answering(self) -> dict[str, int]:
        return {"old": 3}

    def _take(self, how: str, configs: Sequence[ModelConfig]) -> None:
        self.desired = configs
        self.said.append(f"{how}: {','.join(config.name for config in configs)}")
        self.applied()


def write(file: Path, *names: str) -> None:
    entries = [{"config": {"name": name, "base_path": "/m"}} for name in names]
    file.write_text(json.dumps({"model_config_list": entries}))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "models.json"
    write(path, "old")
    return path


def settings(file: Path | None) -> Settings:
    return Settings(server=ServerSettings(config_poll_wait_s=0), models=(OLD,), config_path=file)


@pytest.fixture
async def shelf(file: Path) -> Handovers:
    """What a worker leaves that has begun with the file and was reconfigured by RPC."""
    shelf, models = new_shelf(), Models()
    worker = FollowedConfig(settings(file), models, shelf)
    await worker.start()
    models.desired = (BY_RPC,)
    worker.leave()
    return shelf


async def started(file: Path | None, shelf: Handovers) -> list[str]:
    models = Models()
    worker = FollowedConfig(settings(file), models, shelf)
    await worker.start()
    worker.close()
    return models.said


async def test_the_first_worker_begins_strictly() -> None:
    assert await started(None, new_shelf()) == ["start: old"]


async def test_a_replacement_begins_with_what_served_and_changes_to_what_was_applied_last(
    file: Path, shelf: Handovers
) -> None:
    assert await started(file, shelf) == ["take over: old", "each alone: by_rpc"]


@pytest.mark.parametrize(
    ("change", "last", "said"),
    [
        (lambda file: write(file, "new"), ["each alone: new"], ""),
        (lambda file: file.unlink(), ["each alone: by_rpc"], ""),
        (
            lambda file: file.write_text("{"),
            ["each alone: by_rpc"],
            "configuration file is broken, the one applied last is used",
        ),
        (
            lambda file: write(file, "refused"),
            [],
            "configuration not reloaded, the previous one stays",
        ),
    ],
    ids=["changed", "gone", "broken", "refused"],
)
async def test_a_file_that_has_changed_meanwhile_is_the_last_change(
    file: Path,
    shelf: Handovers,
    change: Callable[[Path], None],
    last: list[str],
    said: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    change(file)
    assert await started(file, shelf) == ["take over: old", *last]
    assert said in caplog.text


async def test_a_file_that_is_just_being_written_leaves_what_was_applied_last(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In text form an empty file is a whole one: of no models."""
    file, shelf = tmp_path / "models.config", new_shelf()
    file.write_text('model_config_list { config { name: "old" base_path: "/m" } }')
    FollowedConfig(settings(file), Models(), shelf).leave()
    file.write_text("")
    assert (await started(file, shelf))[0] == "take over: old"
    assert "is empty, which is taken for a file that is being written" in caplog.text


async def test_it_leaves_how_far_it_has_come(file: Path, shelf: Handovers) -> None:
    left = read_applied(shelf.configuration)
    assert left is not None
    assert (left.desired, left.serving) == ((BY_RPC,), (OLD,))
    assert left.seen is not None


async def test_a_worker_that_cannot_leave_anything_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "ie_serving"):
        FollowedConfig(settings(None), Models(), new_shelf(FullHandover)).leave()
    assert 'configuration not handed over cause="No space left on device"' in caplog.text


async def test_a_reload_applies_the_file_now_and_refuses_a_broken_one(file: Path) -> None:
    models = Models()
    worker = FollowedConfig(settings(file), models, new_shelf())
    await worker.start()
    write(file, "new")
    await worker.reload()
    assert models.said == ["start: old", "each alone: new"]
    file.write_text("{")
    with pytest.raises(ConfigError):
        await worker.reload()
    assert models.said == ["start: old", "each alone: new"]


async def test_reloads_that_clients_ask_for_at_once_apply_a_change_once(file: Path) -> None:
    models = Models()
    worker = FollowedConfig(settings(file), models, new_shelf())
    await worker.start()
    write(file, "new")
    asked = await asyncio.gather(*(worker.reload_if_changed() for _ in range(4)))
    assert sorted(asked) == [False, False, False, True]
    assert models.said == ["start: old", "each alone: new"]


class Killed(BaseException):
    """The worker is gone, without a word."""


class KilledInItsStart(Models):
    """Its worker dies when the loads of its start have begun."""

    async def resume(self, configs: Sequence[ModelConfig], answered: Mapping[str, int]) -> None:
        await super().resume(configs, answered)
        raise Killed


@pytest.mark.parametrize("edited", [False, True], ids=["the same file", "an edited file"])
async def test_a_replacement_that_dies_while_it_starts_leaves_what_is_desired(
    file: Path, shelf: Handovers, *, edited: bool
) -> None:
    """As one that is killed by a load does: the next one must not take what served for it."""
    if edited:
        write(file, "new")
    models = KilledInItsStart()
    worker = FollowedConfig(settings(file), models, shelf)
    models.applied = worker.leave  # as the manager does in the step in which names change hands
    with pytest.raises(Killed):
        await worker.start()
    wanted = "new" if edited else "by_rpc"
    assert await started(file, shelf) == ["take over: old", f"each alone: {wanted}"]


async def test_an_edit_that_is_taken_back_while_no_worker_runs_is_the_last_change(
    file: Path,
) -> None:
    """As after an edit that has killed the worker."""
    shelf, models = new_shelf(), Models()
    worker = FollowedConfig(settings(file), models, shelf)
    models.applied = worker.leave  # within the change, before it is told to have succeeded
    await worker.start()
    write(file, "new")
    await worker.reload()
    write(file, "old")
    assert await started(file, shelf) == ["take over: old", "each alone: old"]
