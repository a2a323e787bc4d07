"""Labels that a client sets: all that it names or none, and nothing else changes."""

import pytest

from ie_serving.core.values.errors import InvalidRequest, NotFound, PreconditionFailed, UnknownLabel
from ie_serving.core.values.requests import ModelSpec
from ie_serving.models.admin.label_changes import MOST_LABELS, LabelChanges
from ie_serving.models.repository.version_policy import All
from tests.unit.models.conftest import World, managed


async def test_labels_are_set_moved_and_removed_and_nothing_loads(world: World) -> None:
    for version in (1, 2):
        world.write(version)
    world.write(1, model="other")
    first = world.config(version_policy=All(), version_labels={"stable": 1, "old": 1})
    manager = await managed(world, first, world.config("other", version_labels={"s": 1}))
    labels, loaded = LabelChanges(manager, manager.relabel), len(world.engine.models)
    await labels.change("m", {"stable": 2, "old": None, "canary": 2})
    assert labels.details("m").labels == {"stable": 2, "canary": 2}
    assert labels.details("m").default_version == 2
    assert labels.all_details()["other"].labels == {"s": 1}
    assert manager.served.handle(ModelSpec("m", label="stable")).version == 2
    assert [dict(config.version_labels) for config in manager.desired] == [
        {"stable": 2, "canary": 2},
        {"s": 1},
    ]
    assert len(world.engine.models) == loaded


async def test_a_change_that_cannot_be_made_changes_nothing(world: World) -> None:
    world.write(1)
    manager = await managed(world, world.config(version_labels={"stable": 1}))
    labels = LabelChanges(manager, manager.relabel)
    with pytest.raises(PreconditionFailed, match="version 9 of model m"):
        await labels.change("m", {"canary": 1, "next": 9})
    with pytest.raises(UnknownLabel, match='did you mean "stable"'):
        await labels.change("m", {"canary": 1, "stabel": None})
    with pytest.raises(NotFound, match="no such model; served models: m"):
        await labels.change("n", {"stable": 1})
    assert labels.details("m").labels == {"stable": 1}


async def test_a_label_of_a_version_that_is_gone_does_not_keep_others_from_being_set(
    world: World,
) -> None:
    world.write(1)
    manager = await managed(world, world.config(version_labels={"next": 7}))
    labels = LabelChanges(manager, manager.relabel)
    await labels.change("m", {"stable": 1})
    found = labels.details("m")
    assert (found.labels, found.waiting) == ({"stable": 1}, {"next": 7})


async def test_labels_cannot_fill_the_memory(world: World) -> None:
    world.write(1)
    manager = await managed(world, world.config())
    labels = LabelChanges(manager, manager.relabel)
    full = {f"label{number}": 1 for number in range(MOST_LABELS)}
    await labels.change("m", full)
    with pytest.raises(InvalidRequest, match="expected 1000 at most"):
        await labels.change("m", {"one more": 1})
    await labels.change("m", {"label0": None, "one more": 1})
    assert len(labels.details("m").labels) == MOST_LABELS
