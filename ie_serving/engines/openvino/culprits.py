"""Says which operation of a model's file a text of OpenVINO is about, and what helps.

OpenVINO's texts name operations by its own types, by names that it makes, or not at all. A text is
compared with the operations that the file lists, in the order in which they are computed, and the
first one that it fits is named before it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.hints import Hint


class Operation(NamedTuple):
    """One operation of a model's file.

    Attributes:
        kind: as the file has it.
        names: its name, then other names by which OpenVINO may speak of it; none if unknown.
        where: where it stands, when that is not the graph itself.
    """

    kind: str
    names: tuple[str, ...]
    where: str = ""

    def __str__(self) -> str:
        return " ".join([self.kind, *[f'"{name}"' for name in self.names[:1]]]) + self.where


ListOperations = Callable[[], Iterable[Operation]]

_listed: ContextVar[ListOperations | None] = ContextVar("listed", default=None)
"""Lists the operations of the file that is being loaded. Not an argument: exceptions of OpenVINO
arise below functions that have nothing to do with files."""

_LACKS = re.compile(r"No conversion rule found for operations: ([\w.:-]+(?:, [\w.:-]+)*)")
_FAILED = re.compile(r"-- (?P<kind>[\w.:]+?)(?:-\d+)? with a message: (?P<text>.*?)(?= -- |$)")
_VERSION = re.compile(r"-\d+$")
"""Of an operator of ONNX, behind its kind."""
_NAMES: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"type: (?P<kind>\w+) name: (?P<name>\S+)",
        r"[Nn]ode (?P<name>\S+) of type (?P<kind>\w+)",
        r"support (?P<kind>\w+) operation with .*?[Oo]peration name: (?P<name>\S+)",
        r"<Node\((?P<kind>\w+)\): (?P<name>[^>]+)>",
        r"node 'opset\d+::(?P<kind>\w+) (?P<name>\S+) .*?with friendly_name",
        r"(?P<kind>\w+) node with name '?(?P<name>[^\s']+)'?",
        r"validating node '(?P<name>[^\s']+)'",
        r"with friendly_name '(?P<name>[^']+)'",
        r"[Oo]peration name: (?P<name>\S+)",
        r"[Tt]ensor \"(?P<name>[^\"]+)\" was declared",
        r"output is incorrect: (?P<name>[^\s:]+)",
    )
)

_WITHOUT = "export the model without it, or a signature that takes what it gives"
_WITHOUT_XLA = (
    "export the model without XLA, from JAX by jax2tf.convert(..., native_serialization=False,"
    " enable_xla=False), which jax up to 0.6 does, or to ONNX"
)
_AS_CONSTANTS = (
    "OpenVINO needs its axes, sizes or weights when the model is loaded: make them constants of"
    " the model, or export it with fixed sizes"
)
_RESHAPES = Hint(", or set {openvino.shape}")
_OPEN_SIZES = re.compile(r"plug-?in doesn't support .* dynamic rank|dynamic weights|invalid shape")
"""Of the CPU plugin, which compiles a graph in the sizes that are set."""
_NOT_CONSTANT = re.compile(
    r"(?i)(?:non|not)[ -]constant|folded to constant|known\(static\)|static shape|of dynamic dim"
)
_UNNAMED = (
    "OpenVINO refuses the graph without naming an operation: export the model in another form"
)

_WRONG_WEIGHTS = "Incorrect weights in bin file"
_UPLOAD = "its file of weights (.bin) is cut short or of another model: upload both again"


@contextmanager
def among(listed: ListOperations) -> Iterator[None]:
    """Within the body, look for culprits among these operations."""
    before = _listed.set(listed)
    try:
        yield
    finally:
        _listed.reset(before)


def told(text: str) -> str:
    """Put before a text of OpenVINO which operation it is about, and the way out."""
    if lacks := _LACKS.search(text):
        return _lacking(lacks[1].split(", "))
    if _WRONG_WEIGHTS in text:
        return f"{_UPLOAD} (OpenVINO: {text})"
    found = _first(text)
    if found is None:
        return f"{_UNNAMED} (OpenVINO: {text})"
    return f"{found}: {_way_out(found.kind, text)} (OpenVINO: {text})"


def _way_out(kind: str, text: str) -> str:
    if _OPEN_SIZES.search(text):
        return f"{_AS_CONSTANTS}{_RESHAPES}"
    if _NOT_CONSTANT.search(text):
        return _AS_CONSTANTS
    return f"OpenVINO does not take it in this form: {_export(kind)}"


def _export(kind: str) -> str:
    """Say how to export the model instead."""
    return _WITHOUT_XLA if kind.startswith("Xla") else _WITHOUT


def first_of(kind: str) -> Operation:
    """Give the first operation of a kind in the file, or else one without a name."""
    listed = _operations()
    place = _place(listed, kind, "")
    return Operation(kind, ()) if place is None else listed[place]


def named(text: str) -> Operation | None:
    """Give the operation that a text names, by the words of the text alone."""
    for pattern in _NAMES:
        if match := pattern.search(text):
            kind = match.groupdict().get("kind") or "operation"
            return Operation(kind, (match["name"],))
    return None


def _lacking(kinds: Sequence[str]) -> str:
    """Say what OpenVINO lacks: what of it the file has, or else as it says it itself."""
    wanted = {_plain(kind) for kind in kinds}
    first: dict[str, Operation] = {}
    for each in _operations():
        if each.kind in wanted and each.kind not in first:
            first[each.kind] = each
    shown = [f'{kind} ("{each.names[0]}"{each.where})' for kind, each in first.items()]
    return f"OpenVINO has no {', '.join(shown or kinds)}: {_export(next(iter(first), kinds[0]))}"


def _plain(kind: str) -> str:
    return _VERSION.sub("", kind)


def _first(text: str) -> Operation | None:
    """Give the first operation of the file that the text is about, or else the one it names."""
    listed = _operations()
    failed = [(match["kind"], match["text"]) for match in _FAILED.finditer(text)]
    places = [_place(listed, kind, own) for kind, own in failed or [("", text)]]
    found = [place for place in places if place is not None]
    if found:
        return listed[min(found)]
    return named(text) or (Operation(failed[0][0], ()) if failed else None)


def _place(listed: Sequence[Operation], kind: str, text: str) -> int | None:
    """Find what a text names among the operations, or else the first one of a kind."""
    names = {match["name"] for pattern in _NAMES for match in pattern.finditer(text)}
    by_name = [at for at, each in enumerate(listed) if names.intersection(each.names)]
    by_kind = [at for at, each in enumerate(listed) if each.kind == kind]
    return next(iter(by_name or by_kind), None)


def _operations() -> list[Operation]:
    listed = _listed.get()
    if listed is None:
        return []
    try:
        return list(listed())
    except (LoadFailed, OSError, ValueError, KeyError):
        return []  # damaged or gone: the text is told with the names that it has itself
