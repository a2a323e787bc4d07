"""Labels of one model: what they keep loaded."""

from typing import Any

import pytest

from ie_serving.models.repository.version_policy import All, Latest, Specific
from tests.unit.models.conftest import World, until
from tests.unit.models.streams import started


async def test_a_labelled_version_stays_when_the_latest_moves_on(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Labels are how a canary is rolled out; a restart finds both versions again."""
    caplog.set_level("INFO", "ie_serving")
    labels = {"stable": 1}
    world.write(1)
    stream = await started(world, version_labels=labels)
    world.write(2)
    await until(stream, lambda: stream.default and stream.default.version == 2)
    world.write(3)
    await until(stream, lambda: set(stream.available) == {1, 3})
    assert stream.labels == labels
    again = await started(world, version_labels=labels)
    assert set(again.available) == {1, 3}
    again.adopt(Latest(), {})
    await until(again, lambda: set(again.available) == {3})
    for each in (stream, again):
        await each.retire()
    given_up = [r.getMessage() for r in caplog.records if "given up" in r.getMessage()]
    path = world.base / "m"
    assert given_up[0] == (
        f'version given up model=m version=2 base_path={path} cause="version 3 replaces it"'
    )
    assert "version=1" in given_up[1]


async def test_a_version_that_serves_for_a_label_alone_stands_in_for_nothing(world: World) -> None:
    """A restart beside a broken newest version serves the next lower one, not the canary."""
    world.write(1)
    world.write(2)
    world.write(3, fail="no operation Foo")
    stream = await started(world, version_labels={"stable": 1})
    await until(stream, lambda: set(stream.available) == {1, 2})
    await stream.poll()
    assert stream.default and stream.default.version == 2


@pytest.mark.parametrize("policy", [All(), Specific(frozenset({1}))], ids=["all", "specific"])
async def test_only_the_policy_latest_keeps_what_a_label_names(world: World, policy: Any) -> None:
    world.write(1)
    world.write(2)
    stream = await started(world, version_policy=policy, version_labels={"two": 2})
    assert set(stream.available) == set(policy.aspired([1, 2]))
