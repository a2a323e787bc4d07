"""An issuer of tokens, with real keys."""

import base64
import hashlib
import hmac
import http.server
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt import algorithms

ISSUER, AUDIENCE = "https://login.test/", "ie_serving"


@cache
def rsa_key(bits: int = 2048) -> rsa.RSAPrivateKey:
    """Made once: it takes 0.1 s."""
    return rsa.generate_private_key(65537, bits)


def ec_key(number: int = 0) -> ec.EllipticCurvePrivateKey:
    """Give one of several."""
    return _ec_key(number)


@cache
def _ec_key(number: int) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


@cache
def ed_key() -> ed25519.Ed25519PrivateKey:
    return ed25519.Ed25519PrivateKey.generate()


def jwk(private: Any, **more: Any) -> dict[str, Any]:
    """Publish the public part of a key."""
    kinds = {
        rsa.RSAPrivateKey: algorithms.RSAAlgorithm,
        ec.EllipticCurvePrivateKey: algorithms.ECAlgorithm,
        ed25519.Ed25519PrivateKey: algorithms.OKPAlgorithm,
    }
    maker: Any = next(made for kind, made in kinds.items() if isinstance(private, kind))
    return {**maker.to_jwk(private.public_key(), as_dict=True), **more}


def key_set(*keys: Mapping[str, Any]) -> str:
    return json.dumps({"keys": keys})


def claims(**changed: Any) -> dict[str, Any]:
    """Claims that are right, but for those that are given; None leaves one out."""
    now = time.time()
    right = {"iss": ISSUER, "aud": AUDIENCE, "exp": int(now) + 600, "nbf": int(now), "sub": "alice"}
    return {name: value for name, value in {**right, **changed}.items() if value is not None}


def token(
    key: Any = None, *, kid: str | None = "one", algorithm: str = "ES256", **changed: Any
) -> str:
    """Sign a token; by `ec_key` where no key is given."""
    headers = {} if kid is None else {"kid": kid}
    return jwt.encode(claims(**changed), key or ec_key(), algorithm=algorithm, headers=headers)


def signed_by_secret(secret: bytes, **header: Any) -> str:
    """Sign with HS256 by hand: the library refuses a public key as a secret."""
    parts = ({"alg": "HS256", "kid": "one", **header}, claims())
    signed = ".".join(_base64(json.dumps(part).encode()) for part in parts)
    return f"{signed}.{_base64(hmac.digest(secret, signed.encode(), hashlib.sha256))}"


def pem(private: Any) -> bytes:
    """Give the public part of a key as files have it."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    made: bytes = private.public_key().public_bytes(serialization.Encoding.PEM, form)
    return made


def unsigned() -> str:
    """A token by the algorithm `none`."""
    return jwt.encode(claims(), None, algorithm="none", headers={"kid": "one"})


class _Keys(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        text = self.server.published["keys"]  # type: ignore[attr-defined]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def publishing(published: Mapping[str, str]) -> Iterator[str]:
    """Serve `published["keys"]`, whatever that is at the time; give the URL."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Keys) as server:
        server.published = published  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/keys"
        finally:
            server.shutdown()
            thread.join()


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
