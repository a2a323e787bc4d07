"""A stream that a test follows: started, and what clients see of it."""

from ie_serving.core.values.versions import State
from ie_serving.models.stream import ModelStream
from tests.unit.models.conftest import World


async def started(world: World, **fields: object) -> ModelStream:
    stream = world.open_stream(world.config(**fields))
    await stream.start()
    await stream.first_load()
    return stream


def states(stream: ModelStream) -> dict[int, State]:
    return {status.version: status.state for status in stream.statuses()}
