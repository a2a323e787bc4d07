"""Callers for the tests of the gate."""

import asyncio
import base64
import time
from collections.abc import Callable, Mapping

from ie_serving.config.credentials import AccessMaterial, Password
from ie_serving.core.runtime.handover import Handover
from ie_serving.core.values.access import Credentials, Principal, Right, of_key, of_password
from ie_serving.server.gate.access import Access
from tests.process import ASK_PAUSE_S, PATIENCE_S

ALICE = Principal(name="alice", rights=Right.PREDICT | Right.READ, models=("m*",))
BOB = Principal(name="bob", rights=Right.READ)
CAROL = Principal(name="carol", rights=Right.PREDICT | Right.READ | Right.ADMINISTRATE)
EDGE = Principal(name="edge", rights=Right.PREDICT)
ALICE_KEY = Credentials(b"Bearer alices-key")
CAROL_KEY = Credentials(key=b"carols-key")


def basic(user: str, password: str) -> Credentials:
    return Credentials(b"Basic " + base64.b64encode(f"{user}:{password}".encode()))


BOB_PASSWORD = basic("bob", "bobs-password")


def password(caller: Principal, word: str) -> Password:
    salt, cost = b"salt of a test..", (2, 1, 1)
    digest = of_password(word.encode(), salt, *cost)
    n, r, p = cost
    return Password(caller=caller, salt=salt, n=n, r=r, p=p, digest=digest)


def material(
    keys: Mapping[bytes, Principal] | None = None, users: Mapping[str, Password] | None = None
) -> AccessMaterial:
    known = {b"alices-key": ALICE, b"carols-key": CAROL} if keys is None else keys
    return AccessMaterial(
        keys={of_key(key): caller for key, caller in known.items()},
        users={"bob": password(BOB, "bobs-password")} if users is None else users,
        certificates={"edge.test": EDGE},
    )


def access() -> Access:
    return Access(material, Handover())


async def until(done: Callable[[], bool]) -> None:
    """Ask again until it is so; the event loop goes on meanwhile."""
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, "did not happen in time"
        await asyncio.sleep(ASK_PAUSE_S)
