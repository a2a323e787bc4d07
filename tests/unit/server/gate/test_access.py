"""Credentials become callers, at the same cost whether they are right or wrong."""

import asyncio
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ie_serving.config.credentials import AccessMaterial
from ie_serving.core.runtime.handover import Handover
from ie_serving.core.values import access as hashes
from ie_serving.core.values.access import Credentials, Principal
from ie_serving.core.values.errors import ConfigError, QueueFull, Unauthenticated
from ie_serving.core.values.requests import Caller as Told
from ie_serving.server.gate import access as access_module
from ie_serving.server.gate import current_material
from ie_serving.server.gate.access import LONGEST, MOST_WAITING_PASSWORDS, Access
from tests.unit.server.gate.callers import (
    ALICE,
    ALICE_KEY,
    BOB,
    BOB_PASSWORD,
    CAROL,
    CAROL_KEY,
    EDGE,
    access,
    basic,
    material,
    password,
)

PATIENCE_S = 20.0
KNOWN = [
    pytest.param(ALICE_KEY, ALICE, id="a key"),
    pytest.param(Credentials(b"bearer  alices-key"), ALICE, id="a key in another spelling"),
    pytest.param(
        Credentials(key=b"alices-key", names=("nobody",)), ALICE, id="a key beside a certificate"
    ),
    pytest.param(CAROL_KEY, CAROL, id="a key of its own header"),
    pytest.param(BOB_PASSWORD, BOB, id="a password"),
    pytest.param(Credentials(names=("other", "edge.test")), EDGE, id="a certificate"),
]
WRONG = [
    pytest.param(Credentials(), id="nothing"),
    pytest.param(Credentials(b""), id="an empty header"),
    pytest.param(Credentials(b"Bearer"), id="no key"),
    pytest.param(Credentials(b"Bearer wrong"), id="another key"),
    pytest.param(Credentials(b"alices-key"), id="no scheme"),
    pytest.param(Credentials(b"Digest alices-key"), id="another scheme"),
    pytest.param(Credentials(key=b"Bearer alices-key"), id="a scheme in the header of keys"),
    pytest.param(Credentials(key=b""), id="an empty key"),
    pytest.param(Credentials(key=b"x" * (LONGEST + 1)), id="a long key"),
    # What is known would be remembered, and with it as many bytes of each header as it may have.
    pytest.param(Credentials(b"Bearer" + b" " * LONGEST + b"alices-key"), id="many blanks"),
    pytest.param(Credentials(b"Bearer alices-key", b"x" * LONGEST), id="a long second header"),
    pytest.param(Credentials(names=("nobody",)), id="another certificate"),
    # Who gives wrong credentials means them: the certificate is no way out.
    pytest.param(
        Credentials(b"Bearer wrong", names=("edge.test",)), id="another key beside a certificate"
    ),
    pytest.param(basic("bob", "wrong"), id="another password"),
    pytest.param(basic("bob", ""), id="no password"),
    pytest.param(basic("", ""), id="neither user nor password"),
    pytest.param(basic("alice", "alices-key"), id="the key of another as password"),
    pytest.param(basic("x" * LONGEST, ""), id="a long user"),
    pytest.param(Credentials(b"Basic ===="), id="no base64"),
    pytest.param(Credentials(b"Basic"), id="no credentials"),
    pytest.param(Credentials(b"Basic " + b"/w=="), id="no text"),
]


class Hashes:
    """Counts the passwords that are hashed, and may hold them at a gate."""

    def __init__(self) -> None:
        self.costs: list[tuple[int, int, int]] = []
        self.gate = threading.Event()
        self.gate.set()
        self._hash = hashes.of_password

    def __call__(self, word: bytes, salt: bytes, n: int, r: int, p: int) -> bytes:
        self.costs.append((n, r, p))
        assert self.gate.wait(PATIENCE_S)
        return self._hash(word, salt, n, r, p)


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hashes]:
    counted = Hashes()
    monkeypatch.setattr(hashes, "of_password", counted)
    yield counted
    counted.gate.set()


@pytest.mark.parametrize(("credentials", "caller"), KNOWN)
async def test_a_caller_with_known_credentials_is_known(
    credentials: Credentials, caller: Principal
) -> None:
    assert await access().verified(credentials) == caller


@pytest.mark.parametrize("credentials", WRONG)
async def test_a_caller_with_wrong_credentials_is_refused(credentials: Credentials) -> None:
    gate = access()
    with pytest.raises(Unauthenticated) as refused:
        await gate.verified(credentials)
    for secret in (b"alices-key", b"wrong"):
        assert secret.decode() not in str(refused.value)


async def test_a_password_is_hashed_once_and_remembered(hashed: Hashes) -> None:
    gate = access()
    hashed.costs.clear()
    together = [gate.verified(BOB_PASSWORD) for _ in range(10)]
    assert await asyncio.gather(*together) == [BOB] * 10
    assert await gate.verified(BOB_PASSWORD) == BOB
    assert gate.caller(BOB_PASSWORD) == BOB
    assert len(hashed.costs) == 1


@pytest.mark.parametrize("user", ["bob", "nobody", ""])
async def test_a_wrong_password_costs_what_a_right_one_does(hashed: Hashes, user: str) -> None:
    gate = access()
    hashed.costs.clear()
    for _ in range(2):  # nothing is remembered of strangers
        with pytest.raises(Unauthenticated):
            await gate.verified(basic(user, "wrong"))
    assert hashed.costs == [(2, 1, 1)] * 2


@pytest.mark.parametrize("key", [b"alices-key", b"wrong"])
async def test_a_key_is_compared_in_constant_time(
    monkeypatch: pytest.MonkeyPatch, key: bytes
) -> None:
    compared: list[tuple[bytes, bytes]] = []
    compare = access_module.hmac.compare_digest

    def counting(first: bytes, second: bytes) -> bool:
        compared.append((first, second))
        return bool(compare(first, second))

    monkeypatch.setattr(access_module.hmac, "compare_digest", counting)
    try:
        access().caller(Credentials(key=key))
    except Unauthenticated:
        assert key == b"wrong"
    ((known, given),) = compared
    assert given == hashes.of_key(key)
    assert len(known) == len(given) == 32


async def test_passwords_that_wait_are_bounded(hashed: Hashes) -> None:
    gate = access()
    hashed.gate.clear()
    waiting = [
        asyncio.ensure_future(gate.verified(basic("bob", str(number))))
        for number in range(MOST_WAITING_PASSWORDS)
    ]
    await asyncio.sleep(0)
    with pytest.raises(QueueFull):
        await gate.verified(BOB_PASSWORD)
    hashed.gate.set()
    done = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), PATIENCE_S)
    assert {type(each) for each in done} == {Unauthenticated}
    assert await gate.verified(BOB_PASSWORD) == BOB


async def test_a_caller_that_leaves_does_not_disturb_others_that_wait_for_the_same(
    hashed: Hashes,
) -> None:
    gate = access()
    hashed.gate.clear()
    leaving, staying = (asyncio.ensure_future(gate.verified(BOB_PASSWORD)) for _ in range(2))
    await asyncio.sleep(0)
    leaving.cancel()
    hashed.gate.set()
    assert await asyncio.wait_for(staying, PATIENCE_S) == BOB


async def test_a_renewal_counts_at_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    present = [material()]
    gate = Access(lambda: present[0], Handover())
    for credentials in (ALICE_KEY, BOB_PASSWORD):
        await gate.verified(credentials)
    gate.decisions["a"] = "decision"
    await gate.renew()
    assert gate.decisions  # nothing has changed
    present[0] = material(keys={b"new": CAROL}, users={})
    await gate.renew()
    assert not gate.decisions
    assert await gate.verified(Credentials(key=b"new")) == CAROL
    for credentials in (ALICE_KEY, BOB_PASSWORD):
        with pytest.raises(Unauthenticated):
            await gate.verified(credentials)
    assert caplog.messages == ["callers renewed keys=1 users=0 certificates=1 claims=0"]


async def test_a_password_that_changes_while_it_is_verified_is_refused(hashed: Hashes) -> None:
    present, other = [material()], material(users={"bob": password(BOB, "another")})
    gate = Access(lambda: present[0], Handover())
    hashed.gate.clear()
    asked = asyncio.ensure_future(gate.verified(BOB_PASSWORD))
    await asyncio.sleep(0)
    present[0] = other
    await gate.renew()
    hashed.gate.set()
    with pytest.raises(Unauthenticated):
        await asyncio.wait_for(asked, PATIENCE_S)
    with pytest.raises(Unauthenticated):
        await gate.verified(BOB_PASSWORD)


async def test_a_broken_file_keeps_the_callers(caplog: pytest.LogCaptureFixture) -> None:
    def read() -> AccessMaterial:
        if faults:
            raise ConfigError(faults)
        return material()

    faults: list[str] = []
    gate = Access(read, Handover())
    faults.append("keys:1: 3 words")
    for _ in range(2):
        await gate.renew()
    assert await gate.verified(ALICE_KEY) == ALICE
    assert caplog.messages == [
        'callers not renewed, the previous ones stay cause="keys:1: 3 words"'
    ]


async def test_of_two_looks_at_once_the_later_one_counts() -> None:
    """A caller withdrawn between the two would be let in again."""
    later = threading.Event()
    found = iter([material(), material(keys={b"old": ALICE}), material(keys={b"new": CAROL})])

    def read() -> AccessMaterial:
        given = next(found)
        if hashes.of_key(b"old") in given.keys:
            later.wait(0.1)  # which ends at once where the other look does not wait for this one
        if hashes.of_key(b"new") in given.keys:
            later.set()
        return given

    gate = Access(read, Handover())
    await asyncio.gather(gate.renew(), gate.renew())
    assert await gate.verified(Credentials(key=b"new")) == CAROL
    with pytest.raises(Unauthenticated):
        await gate.verified(Credentials(key=b"old"))


async def test_a_look_that_fails_for_another_reason_is_not_the_last(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def read() -> AccessMaterial:
        looks.append(len(looks))
        if len(looks) == 2:
            raise RuntimeError("can't start new thread")
        return material(keys={b"new": CAROL}) if len(looks) > 2 else material()

    monkeypatch.setattr(current_material, "LOOK_S", 0.0)
    looks: list[int] = []
    gate = Access(read, Handover())
    gate.follow()
    while len(looks) < 4:
        await asyncio.sleep(0)
    gate.close()
    assert await gate.verified(Credentials(key=b"new")) == CAROL
    assert [each.message for each in caplog.records if each.exc_info] == [
        "renewed files not looked at"
    ]


@pytest.mark.parametrize(
    "brought", [*(each for each in WRONG if each.values[0].authorization), ALICE_KEY, CAROL_KEY]
)
def test_no_text_of_credentials_shows_them(brought: Credentials) -> None:
    assert repr(brought) == str(brought) == f"Credentials(names={brought.names})"
    assert repr(Told({"authorization": "Bearer x"}, 1.0)) == "Caller(remaining_s=1.0)"


@given(authorization=st.none() | st.binary(), key=st.none() | st.binary())
@settings(deadline=None)
def test_no_bytes_of_strangers_get_in(authorization: bytes | None, key: bytes | None) -> None:
    """Nor do they do anything but get refused."""

    async def ask() -> None:
        with pytest.raises(Unauthenticated):
            await access().verified(Credentials(authorization, key))

    asyncio.run(ask())
