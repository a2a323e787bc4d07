"""What requests ask of the models that are served: handles, status, labels."""

import pytest

from ie_serving.core.values.errors import NotFound
from ie_serving.core.values.requests import ModelSpec
from ie_serving.core.values.versions import State
from ie_serving.models.repository.version_policy import All
from tests.unit.models.conftest import World, managed, serves


async def test_version_0_means_the_default_unless_there_is_a_version_0(world: World) -> None:
    world.write(2)
    manager = await managed(world, world.config(version_policy=All()))
    assert manager.served.handle(ModelSpec("m", version=0)).version == 2
    assert [status.version for status in manager.served.statuses("m", 0)] == [2]
    world.write(0)
    manager.poll_now()
    await serves(world, manager, ModelSpec("m", version=0), 0)
    assert [status.version for status in manager.served.statuses("m", 0)] == [0]


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (ModelSpec("n"), r"Servable not found for request: Latest\(n\): .*served models: m"),
        (ModelSpec("m", version=9), r"Specific\(m, 9\): .*available versions: 1"),
    ],
)
async def test_a_model_that_is_not_there_is_refused_with_those_that_are(
    world: World, spec: ModelSpec, text: str
) -> None:
    """Labels are in `tests/functional/conformance/cases/grpc_predict.py`."""
    world.write(1)
    manager = await managed(world)
    with pytest.raises(NotFound, match=text):
        manager.served.handle(spec)


async def test_status_lists_highest_first_and_names_what_was_never_seen(world: World) -> None:
    world.write(1)
    world.write(2, fail="no operation Foo")
    manager = await managed(world, world.config(version_policy=All()))
    status = manager.served.statuses("m")
    assert [(s.version, s.state) for s in status] == [
        (2, State.LOADING),
        (1, State.AVAILABLE),
    ]
    assert "no operation Foo" in status[0].error
    assert manager.served.statuses("m", 1) == [status[1]]
    with pytest.raises(NotFound, match="Could not find version 5 of model m"):
        manager.served.statuses("m", 5)
    with pytest.raises(NotFound, match="Could not find any versions of model n"):
        manager.served.statuses("n")
