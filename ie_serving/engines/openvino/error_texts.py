"""OpenVINO's exceptions as texts for clients.

OpenVINO's texts name operations by its own types, by names that it makes, or not at all. A text is
compared with the operations that the file lists, in the order in which they are computed, and the
first one that it fits is named before it, with what helps.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.hints import Hint

_LACKS = re.compile(
    r"No conversion rule found for operations: ([\w.:-]+(?:, [\w.:-]+)*)"
    r"|No translator found for (\w+) node"
)
"""Errors of TensorFlow's and ONNX's front ends, and of TensorFlow Lite's."""
_OF_LOOPS = re.compile("Enter|Exit|LoopCond|Merge|NextIteration|Switch|TensorArray|TensorList")
_FAILED = re.compile(r"-- (?P<kind>[\w.:]+?)(?:-\d+)? with a message: (?P<text>.*?)(?= -- |$)")
_VERSION = re.compile(r"-\d+$")
"""The version of an operator of ONNX, behind its kind."""
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
"""Errors of the CPU plugin, which compiles a graph in the sizes that are set."""
_NOT_CONSTANT = re.compile(
    r"(?i)(?:non|not)[ -]constant|folded to constant|known\(static\)|static shape|of dynamic dim"
)
_UNNAMED = (
    "OpenVINO refuses the graph without naming an operation: export the model in another form"
)
_WRONG_WEIGHTS = re.compile(
    r"Incorrect weights in (bin) file|stored data in file \((.+?),|data_full_path: \S*/(.+?),"
    r"|Path '(.+?)' resolves|external data file does .* an initializer '(.+?)'"
)
"""Errors about the weights beside a model: of an IR; of ONNX, with the name of file or weights."""
_UPLOAD = (
    "its file of weights ({}) is missing, cut short, of another model or outside of the version's"
    " directory: upload both again"
)
TEXT_LIMIT = 600
"""Longest text, in characters, that is taken from an exception of OpenVINO."""
SHOWN = 200
"""Characters of OpenVINO's own text behind the words for it."""
_NOISE = re.compile(
    r"(Exception from [\w./\\-]+:\d+:)|(Check '[^\n]*' failed at [\w./\\-]+:\d+:?)"
    r"|(Caught exception:)|( at [\w./\\-]+\.(cpp|hpp|h):\d+:?)"
    r"|(FrontEnd API failed with \w+:)|(Model wasn't fully converted\.\s*Summary:\s*--)"
    r"|(To facilitate the conversion of unsupported operations, refer to [^\n]*?\.html)"
)
_UNFIT = re.compile(r"inconsistent|Incompatible|doesn't match|mismatch|do not match")
_BEFORE = re.compile(r" -> \([^()]*\)(?=')")
"""The output shape in an operation's printed name; it is stale, from an earlier request."""
_SHAPES = re.compile(r"While validating node 'opset\d+::(\w+) \S+ \((.*?)\)'")
_SHAPE = re.compile(r"\]:\w+\[([\d,?.]*)\]")
_BEYOND_AXIS = re.compile(r"K \((\d+)\) exceeds the axis dimension \((\d+)\)")
_OUT_OF_RANGE = re.compile(r"Value (-\d+) not in range \[0:")


class Operation(NamedTuple):
    """One operation of a model's file.

    Attributes:
        kind: type in the file.
        names: its name, then other names by which OpenVINO may speak of it; none if unknown.
        where: loop or branch of the operation, if not in the graph itself.
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


@contextmanager
def among(listed: ListOperations) -> Iterator[None]:
    """Within the body, look for culprits among these operations."""
    before = _listed.set(listed)
    try:
        yield
    finally:
        _listed.reset(before)


def with_culprit(text: str) -> str:
    """Put before a text of OpenVINO which operation it is about, and the way out."""
    if lacks := _LACKS.search(text):
        return _lacking((lacks[1] or lacks[2]).split(", "))
    if weights := _WRONG_WEIGHTS.search(text):
        return f"{_UPLOAD.format(next(filter(None, weights.groups())))} (OpenVINO: {text})"
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
    index = _index(listed, kind, "")
    return Operation(kind, ()) if index is None else listed[index]


def named(text: str) -> Operation | None:
    """Give the operation that a text names, by the words of the text alone."""
    for pattern in _NAMES:
        if match := pattern.search(text):
            kind = match.groupdict().get("kind") or "operation"
            return Operation(kind, (match["name"],))
    return None


def _lacking(kinds: Sequence[str]) -> str:
    """Say what OpenVINO lacks: what of it the file has, or else as it says it itself."""
    wanted = {_without_version(kind) for kind in kinds}
    # A loop that is not converted for an operation in it leaves what it consists of in the graph.
    wanted = {kind for kind in wanted if not _OF_LOOPS.match(kind)} or wanted
    first: dict[str, Operation] = {}
    for each in _operations():
        if each.kind in wanted and each.kind not in first:
            first[each.kind] = each
    shown = [f'{kind} ("{each.names[0]}"{each.where})' for kind, each in first.items()]
    return f"OpenVINO has no {', '.join(shown or kinds)}: {_export(next(iter(first), kinds[0]))}"


def _without_version(kind: str) -> str:
    return _VERSION.sub("", kind)


def _first(text: str) -> Operation | None:
    """Give the first operation of the file that the text is about, or else the one it names."""
    listed = _operations()
    failed = [(match["kind"], match["text"]) for match in _FAILED.finditer(text)]
    indices = [_index(listed, kind, own) for kind, own in failed or [("", text)]]
    found = [index for index in indices if index is not None]
    if found:
        return listed[min(found)]
    return named(text) or (Operation(failed[0][0], ()) if failed else None)


def _index(listed: Sequence[Operation], kind: str, text: str) -> int | None:
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


def openvino_text(error: BaseException) -> str:
    """Give an exception of OpenVINO as one line without the file names of its C++ sources."""
    return " ".join(_NOISE.sub(" ", str(error)).split())[:TEXT_LIMIT] or "no reason given"


def in_words(error: BaseException) -> str:
    """Describe an error of OpenVINO during an inference in terms of shapes and values.

    OpenVINO's own text follows.
    """
    text = _BEFORE.sub("", openvino_text(error))
    shapes = _SHAPES.search(text) if _UNFIT.search(text) else None
    if shapes:
        given = " and ".join(f"[{shape}]" for shape in _SHAPE.findall(shapes[2]))
        return f"shapes {given} do not fit together in {shapes[1]} (OpenVINO: {text[:SHOWN]})"
    if asked := _BEYOND_AXIS.search(text):
        return f"TopK is asked for the first {asked[1]} of {asked[2]} (OpenVINO: {text[:SHOWN]})"
    if value := _OUT_OF_RANGE.search(text):
        return f"{value[1]} is no size: a dimension must be 0 or more (OpenVINO: {text[:SHOWN]})"
    at = named(text) or "the model"
    return f"{at} cannot be computed with these shapes or values (OpenVINO: {text[:SHOWN]})"


@contextmanager
def load_failures(what: str) -> Iterator[None]:
    """Turn exceptions of OpenVINO and the file system into LoadFailed, with `what` in front."""
    try:
        yield
    # The binding raises ValueError and TypeError for options of another form than it takes.
    except (RuntimeError, ValueError, TypeError, OSError) as error:
        raise LoadFailed(f"{what}: {_refusal(error)}") from error


def _refusal(error: BaseException) -> str:
    text = openvino_text(error)
    return text if isinstance(error, OSError) else with_culprit(text)
