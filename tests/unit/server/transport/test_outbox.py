"""When held replies are written."""

import asyncio

from ie_serving.server.transport.http1.outbox import LONGEST_HELD_S, MOST_HELD, Outbox


class Wire(asyncio.Transport):
    def __init__(self, said: list[bytes], closed: bool = False) -> None:
        self._said = said
        self._closed = closed

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._said.append(bytes(data))

    def is_closing(self) -> bool:
        return self._closed


async def test_answers_of_one_turn_of_the_loop_are_written_in_order_when_it_ends() -> None:
    outbox, said = Outbox(), list[bytes]()
    wires = Wire(said), Wire(said)
    outbox.send(wires[0], b"1")
    outbox.send(wires[1], b"2")
    outbox.send(wires[0], b"3")
    assert said == []
    await asyncio.sleep(0)
    assert said == [b"1", b"2", b"3"]


async def test_many_are_not_held_until_then() -> None:
    outbox, said = Outbox(), list[bytes]()
    for _ in range(MOST_HELD):
        outbox.send(Wire(said), b"x")
    assert len(said) == MOST_HELD


async def test_none_is_held_long() -> None:
    """A turn that works long for another request does not hold what is answered."""
    time = 1000.0
    outbox, said = Outbox(lambda: time), list[bytes]()
    outbox.send(Wire(said), b"1")
    time += 1.1 * LONGEST_HELD_S
    outbox.send(Wire(said), b"2")
    assert said == [b"1", b"2"]


async def test_a_connection_that_closed_meanwhile_takes_nothing_and_harms_no_other() -> None:
    outbox, said, lost = Outbox(), list[bytes](), list[bytes]()
    outbox.send(Wire(lost, closed=True), b"1")
    outbox.send(Wire(said), b"2")
    outbox.flush()
    assert (said, lost) == ([b"2"], [])
