"""Requests to a servable, independent of the protocol, and requests that are kept for trials.

Golden requests are kept with the outputs to expect, recorded ones without.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ie_serving.core.values.tensors import Arrays, Signature

FeatureValues: TypeAlias = Sequence[int] | Sequence[float] | Sequence[bytes]
"""Values of one feature, all of one type; an empty one has no type."""
Features: TypeAlias = Mapping[str, FeatureValues]
"""One Example."""

Decoded: TypeAlias = tuple[Arrays, object]
"""Inputs by alias, and the form of the reply."""
RTOL, ATOL = 1e-3, 1e-5
"""Default tolerances of floats: relative to the expected value, and absolute. Other orders of
float32 additions differ far less; bfloat16 (up to 1e-2) differs more."""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """The servable that a request names.

    Attributes:
        name: model name.
        version: exactly this version; None for the default or a label's.
        label: version label; None if there is none. Never set together with `version`.
        signature: signature name; empty for `serving_default`.
    """

    name: str
    version: int | None = None
    label: str | None = None
    signature: str = ""


@dataclass(slots=True)
class InferRequest:
    """One request to run a signature on named tensors, parsed but not yet decoded.

    Attributes:
        model: the servable.
        signature: name of the signature; empty for `serving_default`.
        decode: returns all inputs by alias, for the given signature; and the form of the reply, if
            the protocol has several. Raises InvalidRequest if the data cannot be decoded.
        size: bytes that `decode` has to read, and to fill up.
        at_once: does the same as `decode` if that takes a few milliseconds at most, whatever the
            size, and returns None if it may take longer; None for a protocol that cannot tell.
        output_filter: aliases of the outputs to return; empty for all.
        caller: the front end's data of the caller, in its own form (`Interface.caller`).
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
        model: the servable.
        signature: name of the signature; empty for `serving_default`.
        decode: returns the Examples, at least one. Raises InvalidRequest.
        count: number of Examples that `decode` has to read.
        caller: caller, as in `InferRequest`.
    """

    model: ModelSpec
    signature: str
    decode: Callable[[], Sequence[Features]]
    count: int
    caller: Any = None


@dataclass(frozen=True, slots=True)
class Task:
    """One of the tasks of a MultiInference on the same Examples.

    Attributes:
        model: the servable; its name may be empty, which the data plane refuses.
        method: `method_name`, as the client wrote it.
    """

    model: ModelSpec
    method: str


@dataclass(frozen=True, slots=True)
class Caller:
    """Facts about a call that its protocol knows.

    Attributes:
        headers: headers by name, in lower case; metadata over gRPC.
        remaining_s: seconds until the caller's deadline; None if not known.
    """

    # Excluded from `repr`: keys and passwords are among them.
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    remaining_s: float | None = None

    def deadline(self, since: float) -> float | None:
        """Return the caller's deadline as Unix time; `since` is when `remaining_s` was measured."""
        return None if self.remaining_s is None else since + self.remaining_s


NO_CALLER = Caller()
"""The caller of a request that refers to none: no headers, no deadline."""


@dataclass(slots=True)
class CallerPassing:
    """Whether requests over gRPC refer to their calls, which models ask for or traffic is split by.

    Otherwise no request does: it would keep the transport's data of the call alive, 80 MB more in
    hostile traffic.

    Attributes:
        always: models may ask for their callers.
        are_passed: whether requests do now.
    """

    always: bool = False
    are_passed: bool = field(init=False)

    def __post_init__(self) -> None:
        self.are_passed = self.always

    def note(self, sticky: Iterable[str]) -> None:
        """Take the keys of metadata by which the traffic of models is split; empty for none."""
        self.are_passed = self.always or any(sticky)


CALLER: ContextVar[Caller] = ContextVar("caller", default=NO_CALLER)
"""Caller of the next inference that starts in this context; layers in between do not pass it."""


def taken() -> Caller:
    """Return the caller of the starting inference, once: the next inference sets its own."""
    caller = CALLER.get()
    if caller is not NO_CALLER:
        CALLER.set(NO_CALLER)
    return caller


@dataclass(frozen=True, slots=True)
class GoldenRequest:
    """A golden request, read but not yet decoded.

    Attributes:
        source: source of the record, named in errors.
        request: the request.
        expected: returns expected outputs by alias, some or all. Raises InvalidRequest.
        rtol: relative tolerance, `RTOL` by default.
        atol: absolute tolerance, `ATOL` by default.
    """

    source: str
    request: InferRequest
    expected: Callable[[Signature], Arrays]
    rtol: float = RTOL
    atol: float = ATOL


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """A Predict, read but not yet decoded.

    Attributes:
        source: source of the record, named in texts.
        request: the request.
        golden: the same with its expected outputs; None if there are none.
    """

    source: str
    request: InferRequest
    golden: GoldenRequest | None = None
