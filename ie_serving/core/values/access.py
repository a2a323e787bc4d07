"""Callers and their rights, and the hashes of their keys: shared by the gate and the front ends."""

import enum
import fnmatch
import hashlib
from dataclasses import dataclass
from typing import Final, NamedTuple

from ie_serving.core.values.errors import Forbidden


class Right(enum.Flag):
    """An operation that a caller may perform."""

    PREDICT = enum.auto()
    """Run models."""
    READ = enum.auto()
    """Read metrics, states, metadata and the list of RPCs."""
    ADMINISTRATE = enum.auto()
    """Change the served models, or have repositories listed."""


EVERY_RIGHT = Right.PREDICT | Right.READ | Right.ADMINISTRATE


class ConcernedModels(enum.Enum):
    """The models that a request concerns."""

    NONE = "it shows and changes no model"
    NAMED = "those that it names"
    ALL = "all of them, whatever their names"


class Need(NamedTuple):
    """The right that a request needs.

    Attributes:
        right: None: no authentication.
        models: the models that its caller has to be allowed.
    """

    right: Right | None
    models: ConcernedModels


@dataclass(frozen=True, kw_only=True)
class Principal:
    """A caller and its rights.

    Attributes:
        name: name shown in refusals and logs.
        rights: permitted operations.
        models: shell-style patterns of the names of its models; empty: all models.
    """

    name: str
    rights: Right
    models: tuple[str, ...] = ()

    def check(self, need: Need) -> None:
        """Refuse operations that this caller may not perform on any model.

        Raises:
            Forbidden: the caller lacks the right, or may not use all models.
        """
        if need.right is not None and need.right not in self.rights:
            word = str(need.right.name).lower()
            raise Forbidden(
                f'"{self.name}" lacks the right {word}: ask the administrator of this server'
            )
        if need.models is ConcernedModels.ALL and self.models:
            raise Forbidden(
                f'"{self.name}" may ask for some models only, and this is about all of them: name'
                " one that it may ask for, or ask with another key"
            )

    def may_ask(self, model: str) -> bool:
        """Return whether this caller may use `model`."""
        return not self.models or any(fnmatch.fnmatchcase(model, each) for each in self.models)

    def check_model(self, model: str) -> None:
        """Raise Forbidden unless this caller may use `model`."""
        if not self.may_ask(model):
            raise Forbidden(
                f'"{self.name}" may not ask for model "{model}": its models are'
                f" {', '.join(self.models)}"
            )


class Credentials(NamedTuple):
    """The credentials of a request as received; any part may be missing.

    Attributes:
        authorization: the header or metadata `authorization`.
        key: the header or metadata `x-api-key`.
        names: common name and alternative names in the client's certificate, which TLS verified.
    """

    authorization: bytes | None = None
    key: bytes | None = None
    names: tuple[str, ...] = ()

    def __repr__(self) -> str:
        # No log line or error that shows this object may contain a key or a password.
        return f"Credentials(names={self.names})"


PASSES: Final = 128
"""Bytes that scrypt takes for each unit of N times r; RFC 7914, section 2."""


def of_key(key: bytes) -> bytes:
    """Hash an API key."""
    # One round of SHA-256 suffices for a key of 256 random bits, which cannot be guessed.
    return hashlib.sha256(key).digest()


def of_password(password: bytes, salt: bytes, n: int, r: int, p: int) -> bytes:
    """Hash a password by scrypt; n, r and p are its cost. Blocking, without the interpreter."""
    # scrypt needs a little more than its blocks; OpenSSL's default maximum is half of ours.
    room = PASSES * r * (n + p + 2) + (1 << 20)
    return hashlib.scrypt(password, salt=salt, n=n, r=r, p=p, dklen=32, maxmem=room)
