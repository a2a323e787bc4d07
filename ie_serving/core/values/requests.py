"""What is asked of a servable, whichever protocol it came by."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ie_serving.core.values.tensors import Array, Signature

Feature: TypeAlias = Sequence[int] | Sequence[float] | Sequence[bytes]
"""Values of one feature, all of one type; an empty one has no type."""
Features: TypeAlias = Mapping[str, Feature]
"""One Example."""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Which servable a request means.

    Attributes:
        name: model name.
        version: exactly this version; None for the default or a label's.
        label: version label; None when there is none. Never set together with `version`.
        signature: signature name; empty for `serving_default`.
    """

    name: str
    version: int | None = None
    label: str | None = None
    signature: str = ""


Decoded: TypeAlias = tuple[Mapping[str, Array], object]
"""Inputs by alias, and the form of the reply."""


@dataclass(slots=True)
class InferRequest:
    """One request to run a signature on named tensors, parsed but not yet decoded.

    Attributes:
        model: which servable.
        signature: name of the signature; empty for `serving_default`.
        decode: gives all inputs by alias, for the signature that was found; and which of its forms
            the reply takes, where the protocol has several. Raises InvalidRequest for what cannot
            be decoded.
        size: bytes that `decode` has to read, and to fill up.
        at_once: does the same as `decode` where that takes a few milliseconds at most, whatever the
            size, and gives None where it may take longer; None for a protocol that never knows.
        output_filter: aliases of the outputs to return; empty for all.
        caller: what the front end knows of who asks, in its own form (`Interface.caller`).
    """

    model: ModelSpec
    signature: str
    decode: Callable[[Signature], Decoded]
    size: int
    at_once: Callable[[Signature], Decoded | None] | None = None
    output_filter: tuple[str, ...] = ()
    caller: Any = None


@dataclass(slots=True)
class ExamplesRequest:
    """One request to classify Examples, or to regress them.

    Attributes:
        model: which servable.
        signature: name of the signature; empty for `serving_default`.
        decode: gives the Examples, at least one. Raises InvalidRequest.
        count: how many Examples `decode` has to read.
    """

    model: ModelSpec
    signature: str
    decode: Callable[[], Sequence[Features]]
    count: int


@dataclass(frozen=True, slots=True)
class Task:
    """One of the questions that a MultiInference asks about the same Examples.

    Attributes:
        model: which servable; its name may be empty, which the data plane refuses.
        method: `method_name`, as the client wrote it.
    """

    model: ModelSpec
    method: str
