"""Tokens become callers, and nothing that looks like one does."""

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.config.credentials import AccessMaterial, Claim, TokenMaterial
from ie_serving.core.runtime.handover import Handover
from ie_serving.core.values.access import Credentials, Principal, Right
from ie_serving.core.values.errors import Forbidden, NotAvailable, QueueFull, Unauthenticated
from ie_serving.server.gate import access as access_module
from ie_serving.server.gate import token_keys
from ie_serving.server.gate import tokens as tokens_module
from ie_serving.server.gate.access import Access
from ie_serving.server.gate.tokens import LONGEST_TOKEN, TokenVerifier, VerifiedToken, fits
from tests import issuer
from tests.issuer import ec_key, ed_key, jwk, key_set, rsa_key, token
from tests.process import PATIENCE_S
from tests.tables import named_by
from tests.unit.server.gate.callers import ALICE, ALICE_KEY, material, until

READER = Principal(name="reader", rights=Right.READ)
ANYONE = Principal(name="anyone", rights=Right(0))
ALL = ("RS256", "PS256", "ES256", "EdDSA")
BELIEVED = TokenMaterial(
    source="keys.json",
    is_url=False,
    keys=key_set(jwk(ec_key(), kid="one"), jwk(rsa_key(), kid="two"), jwk(ed_key(), kid="three")),
    issuer=issuer.ISSUER,
    audiences=("other", issuer.AUDIENCE),
    algorithms=ALL,
    leeway_s=30.0,
    claims=(
        Claim(name="sub", value="alice", caller=ALICE),
        Claim(name="groups", value="readers", caller=READER),
    ),
)


def bearer(text: str) -> Credentials:
    return Credentials(f"Bearer {text}".encode())


def knowing(believed: TokenMaterial = BELIEVED) -> AccessMaterial:
    return replace(material(), tokens=believed)


def access(believed: TokenMaterial = BELIEVED) -> Access:
    return Access(lambda: knowing(believed), Handover())


@pytest.mark.parametrize(
    ("made", "caller"),
    [
        pytest.param(token, ALICE, id="ES256"),
        pytest.param(lambda: token(rsa_key(), kid="two", algorithm="RS256"), ALICE, id="RS256"),
        pytest.param(lambda: token(rsa_key(), kid="two", algorithm="PS256"), ALICE, id="PS256"),
        pytest.param(lambda: token(ed_key(), kid="three", algorithm="EdDSA"), ALICE, id="EdDSA"),
        pytest.param(
            lambda: token(sub="eve", groups=["writers", "readers"]), READER, id="by its groups"
        ),
        pytest.param(
            lambda: token(groups=["readers"]), ALICE, id="by its subject before its groups"
        ),  # the first line that fits
        pytest.param(
            lambda: token(exp=int(time.time()) - 1), ALICE, id="expired a second ago"
        ),  # within the leeway
        pytest.param(lambda: token(aud=["this", "other"]), ALICE, id="one of several audiences"),
        pytest.param(lambda: token(nbf=None), ALICE, id="no start"),
    ],
)
async def test_a_token_of_a_believed_issuer_is_known(
    made: Callable[[], str], caller: Principal
) -> None:
    gate, text = access(), made()
    assert await gate.verified(bearer(text)) == caller
    assert gate.caller(bearer(text)) == caller  # remembered
    assert await gate.verified(ALICE_KEY) == ALICE  # keys go on beside tokens


WRONG: dict[str, Callable[[], str]] = {
    "signature": lambda: token()[:-8] + "AAAAAAAA",
    "none": issuer.unsigned,
    "HS256": lambda: issuer.signed_by_secret(issuer.pem(ec_key())),
    "HS256 of RSA": lambda: issuer.signed_by_secret(issuer.pem(rsa_key()), kid="two"),
    "RS256 header, HS256 signature": lambda: issuer.signed_by_secret(b"x", alg="RS256", kid="two"),
    "another key": lambda: token(ec_key(1)),
    "another algorithm of the key": lambda: token(rsa_key(), kid="two", algorithm="RS512"),
    "a key of another algorithm": lambda: token(rsa_key(), kid="one", algorithm="RS256"),
    "expired": lambda: token(exp=int(time.time()) - 31),
    "not yet": lambda: token(nbf=int(time.time()) + 60),
    "made in the future": lambda: token(iat=int(time.time()) + 60),
    "audience": lambda: token(aud="elsewhere"),
    "no audience": lambda: token(aud=None),
    "issuer": lambda: token(iss="https://login.test"),
    "no issuer": lambda: token(iss=None),
    "no end": lambda: token(exp=None),
    "an end that is no number": lambda: token(exp="soon"),
    "an end without end": lambda: token(exp=float("inf")),
    "unknown kid": lambda: token(kid="four"),
    "no kid among several": lambda: token(kid=None),
    "must be understood": lambda: issuer.signed_by_secret(b"x", crit=["exp"]),
    "huge": lambda: token(padding="x" * LONGEST_TOKEN),
    "deep": lambda: f"ey{'W1tb' * 1900}.e30.e30",
    "nonsense": lambda: "ey.ey.ey",
    "no text": lambda: "ey\xff.a.b",
}
"""Made when they are asked for: tests that are collected may wait for minutes."""


@pytest.mark.parametrize("name", WRONG)
async def test_a_token_that_is_wrong_in_one_way_is_refused(name: str) -> None:
    gate, wrong = access(), WRONG[name]()
    with pytest.raises(Unauthenticated) as refused:
        await gate.verified(bearer(wrong))
    assert wrong not in str(refused.value)
    assert not gate.known


@named_by(
    "name",
    ("name", "said"),
    [("expired", "expired"), ("audience", "audience"), ("issuer", "issuer"), ("no end", "exp")],
)
async def test_the_fault_of_a_token_is_told_to_the_holder_of_a_valid_signature(
    name: str, said: str
) -> None:
    with pytest.raises(Unauthenticated, match=said):
        await access().verified(bearer(WRONG[name]()))


async def test_a_token_that_no_line_is_for_is_forbidden() -> None:
    with pytest.raises(Forbidden, match="no line"):
        await access().verified(bearer(token(sub="eve")))


async def test_a_token_is_verified_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that come together with a new one wait for one thread together."""
    gate, counted = access(), count(monkeypatch)
    asked = bearer(token())
    assert await asyncio.gather(*(gate.verified(asked) for _ in range(10))) == [ALICE] * 10
    assert await gate.verified(asked) == ALICE
    assert len(counted) == 1


async def test_a_caller_that_leaves_does_not_disturb_others_that_wait_for_the_same() -> None:
    gate, asked = access(), bearer(token())
    leaving, staying = (asyncio.ensure_future(gate.verified(asked)) for _ in range(2))
    await asyncio.sleep(0)
    leaving.cancel()
    assert await asyncio.wait_for(staying, PATIENCE_S) == ALICE


async def test_tokens_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens_module, "MOST_WAITING_TOKENS", 3)
    gate = access()
    asked = [bearer(token(jti=str(number))) for number in range(4)]
    waiting = [asyncio.ensure_future(gate.verified(each)) for each in asked[:3]]
    await asyncio.sleep(0)
    with pytest.raises(QueueFull):
        await gate.verified(asked[3])
    await asyncio.wait_for(asyncio.gather(*waiting), PATIENCE_S)
    assert await gate.verified(asked[3]) == ALICE


async def test_a_token_is_forgotten_when_it_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    """What guards have decided by it goes with it, on connections that are open as well."""
    monkeypatch.setattr(access_module, "FORGET_S", 0.01)
    now = [0.0]
    gate = Access(knowing, Handover(), lambda: now[0])
    end = int(time.time()) + 60
    soon, later = bearer(token(exp=end)), bearer(token(exp=end + 600))
    for each in (soon, later):
        await gate.verified(each)
    gate.decisions["request"] = "decision"
    now[0] = end + 29.9
    gate.forget_expired()
    assert gate.decisions
    now[0] = end + 30.0
    await until(lambda: not gate.decisions)  # by the timer
    assert list(gate.known) == [later]
    now[0] = end + 1000.0
    await until(lambda: not gate.known)
    assert gate.sweep is None  # no timer without tokens
    gate.close()


async def test_the_number_of_remembered_tokens_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_module, "MOST_KNOWN", 3)
    gate = access()
    for number in range(4):
        gate.decisions[number] = True
        await gate.verified(bearer(token(jti=str(number))))
    assert len(gate.expiries) == len(gate.known) == 1
    assert not gate.decisions  # else one of them would outlive its token


async def test_lines_and_keys_are_withdrawn_at_once() -> None:
    present = [BELIEVED]
    gate, asked = Access(lambda: knowing(present[0]), Handover()), bearer(token())
    assert await gate.verified(asked) == ALICE
    present[0] = replace(BELIEVED, claims=BELIEVED.claims[1:])
    await gate.renew()
    with pytest.raises(Forbidden):
        await gate.verified(asked)
    present[0] = replace(BELIEVED, keys=key_set(jwk(ec_key(1), kid="one")))
    await gate.renew()
    with pytest.raises(Unauthenticated):
        await gate.verified(asked)
    assert await gate.verified(bearer(token(ec_key(1)))) == ALICE


async def test_a_token_whose_key_goes_while_it_is_verified_is_refused() -> None:
    present = [BELIEVED]
    gate = Access(lambda: knowing(present[0]), Handover())
    present[0] = replace(BELIEVED, keys=key_set(jwk(ec_key(1), kid="one")))
    asked = asyncio.ensure_future(gate.verified(bearer(token())))
    await asyncio.sleep(0)  # it waits for the thread
    gate.material = knowing(present[0])
    gate.prepared = gate.prepare(gate.material)
    gate.renewed()
    with pytest.raises(Unauthenticated):
        await asyncio.wait_for(asked, PATIENCE_S)


async def test_a_caller_after_a_renewal_does_not_wait_for_work_begun_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a line that has gone would be believed until the token expires."""
    verify, go = TokenVerifier.verified, threading.Event()

    def held(verifier: TokenVerifier, *given: Any) -> VerifiedToken:
        assert go.wait(PATIENCE_S)
        return verify(verifier, *given)

    monkeypatch.setattr(TokenVerifier, "verified", held)
    present = [BELIEVED]
    gate = Access(lambda: knowing(present[0]), Handover())
    asked = bearer(token())
    busy = asyncio.ensure_future(gate.verified(bearer(token(jti="another"))))
    await asyncio.sleep(0)  # it has the thread
    before = asyncio.ensure_future(gate.verified(asked))
    await asyncio.sleep(0)  # it waits for the thread
    present[0] = replace(BELIEVED, claims=BELIEVED.claims[1:])
    await gate.renew()
    after = asyncio.ensure_future(gate.verified(asked))
    await asyncio.sleep(0)
    go.set()
    for each in (busy, before, after):
        with pytest.raises(Forbidden):
            await asyncio.wait_for(each, PATIENCE_S)
    assert not gate.known


async def test_tokens_of_unknown_keys_leave_room_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tokens_module, "MOST_ASKING", 1)
    monkeypatch.setattr(token_keys, "ASKED_S", 0.0)
    asked, go = list[str](), threading.Event()

    def fetched(url: str) -> str:
        asked.append(url)
        assert len(asked) == 1 or go.wait(PATIENCE_S)
        return BELIEVED.keys

    monkeypatch.setattr(tokens_module, "fetched", fetched)
    gate = access(replace(BELIEVED, is_url=True, source="https://login.test/keys"))
    await gate.renew()
    waiting = asyncio.ensure_future(gate.verified(bearer(token(kid="four"))))
    await until(lambda: len(asked) == 2)
    with pytest.raises(QueueFull):
        await gate.verified(bearer(token(kid="five")))
    assert await gate.verified(bearer(token())) == ALICE
    go.set()
    with pytest.raises(Unauthenticated):
        await asyncio.wait_for(waiting, PATIENCE_S)


async def test_a_token_before_the_first_keys_is_not_available() -> None:
    gate = access(replace(BELIEVED, is_url=True, source="https://login.test/keys"))
    with pytest.raises(NotAvailable):
        await gate.verified(bearer(token()))
    assert await gate.verified(ALICE_KEY) == ALICE


@pytest.mark.parametrize(
    ("name", "value", "claims", "expected"),
    [
        pytest.param("", "", {}, True, id="no claim"),
        pytest.param("sub", "a", {"sub": "a"}, True, id="a text"),
        pytest.param("sub", "a", {"sub": "a b"}, False, id="a part of a text"),
        pytest.param("scope", "b", {"scope": "a b"}, True, id="one of several scopes"),
        pytest.param("scp", "b", {"scp": ["a", "b"]}, True, id="one of a list"),
        pytest.param(
            "realm.roles", "r", {"realm": {"roles": ["r"]}}, True, id="a claim in a claim"
        ),
        pytest.param(
            "https://x.test/roles",
            "r",
            {"https://x.test/roles": ["r"]},
            True,
            id="an address as name",
        ),
        pytest.param("admin", "true", {"admin": True}, True, id="true"),
        pytest.param("level", "1", {"level": 1}, True, id="a number"),
        pytest.param("level", "1", {"level": True}, False, id="true is not 1"),
        pytest.param("a.b", "c", {"a": "c"}, False, id="a path that leads nowhere"),
        pytest.param("a", "None", {"a": None}, False, id="null"),
        pytest.param("a", "{}", {"a": {}}, False, id="an empty object"),
        pytest.param("missing", "None", {}, False, id="a missing claim"),
    ],
)
def test_a_line_fits_the_claims_that_it_names(
    name: str, value: str, claims: dict[str, Any], expected: bool
) -> None:
    assert fits(Claim(name=name, value=value, caller=ANYONE), claims) is expected


@given(header=st.binary(max_size=60), payload=st.binary(max_size=60), rest=st.binary(max_size=60))
def test_no_bytes_of_strangers_get_in(header: bytes, payload: bytes, rest: bytes) -> None:
    async def ask() -> None:
        gate = access()
        with pytest.raises(Unauthenticated):
            await gate.verified(Credentials(b"Bearer ey" + b".".join((header, payload, rest))))
        gate.close()

    asyncio.run(ask())


def count(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    counted: list[bytes] = []
    verify = tokens_module.TokenVerifier.verified

    def counting(self: Any, text: bytes, keys: Any) -> Any:
        counted.append(text)
        return verify(self, text, keys)

    monkeypatch.setattr(tokens_module.TokenVerifier, "verified", counting)
    return counted
