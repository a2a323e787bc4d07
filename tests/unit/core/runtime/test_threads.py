"""Work in threads, and what is left of it when it is refused."""

import asyncio
import threading
import weakref

import pytest

from ie_serving.core.runtime.threads import in_thread
from ie_serving.core.values.errors import InvalidRequest


class Held:
    """What a request held."""


def test_the_thread_that_refuses_frees_what_it_held() -> None:
    freed_in: list[int] = []

    def refuse() -> None:
        held = Held()
        weakref.finalize(held, lambda: freed_in.append(threading.get_ident()))
        try:
            raise LookupError
        except LookupError as error:
            raise InvalidRequest("no such thing") from error

    async def ask() -> None:
        with pytest.raises(InvalidRequest, match="no such thing"):
            await in_thread(refuse)
        assert len(freed_in) == 1

    asyncio.run(ask())
    assert freed_in != [threading.get_ident()]


def test_a_defect_keeps_its_traceback() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        asyncio.run(in_thread(fail))
    assert caught.traceback[-1].name == "fail"


def test_arguments_and_result_pass() -> None:
    assert asyncio.run(in_thread(int, "ff", base=16)) == 255
