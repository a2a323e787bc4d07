"""The signatures of `saved_model.pb`, read without tensorflow, and a model cut to one of them.

OpenVINO's front end converts `serving_default` alone. Any other signature is served from a copy of
`saved_model.pb` in which it bears that name. Field numbers: saved_model.proto, meta_graph.proto,
tensor_shape.proto of TensorFlow; wire format: protobuf's encoding guide.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from ie_serving.errors import LoadFailed
from ie_serving.tensors import SERVING_DEFAULT

FILE = "saved_model.pb"
TAG = b"serve"
INTERNAL = "__saved_model_"
"""How TensorFlow's own signatures begin; they compute nothing."""

_META_GRAPHS, _SIGNATURES, _META_INFO, _TAGS = 2, 5, 1, 4
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True)
class Declared:
    """A signature as the file declares it.

    Attributes:
        name: signature name.
        method: its method name.
        inputs: `TensorInfo` by alias.
        outputs: `TensorInfo` by alias.
    """

    name: str
    method: str
    inputs: "Mapping[str, TensorInfo]"
    outputs: "Mapping[str, TensorInfo]"


@dataclass(frozen=True)
class TensorInfo:
    """`TensorInfo` of meta_graph.proto: tensor name with its port, and shape (None: open rank)."""

    tensor: str
    shape: tuple[int, ...] | None


@dataclass(frozen=True)
class Field:
    """One field of a message: number, value (bytes or integer), and its place in the message."""

    number: int
    value: bytes | int
    start: int
    end: int

    @property
    def message(self) -> bytes:
        """The value of a length-delimited field; empty for any other."""
        return self.value if isinstance(self.value, bytes) else b""


def declared(directory: Path) -> dict[str, Declared]:
    """Read the signatures under the tag `serve`, those of TensorFlow itself left out.

    Raises:
        LoadFailed: not a SavedModel, or no graph with that tag.
    """
    graph = _serving_graph((directory / FILE).read_bytes())
    pairs = [_entry(field.message) for field in _fields(graph) if field.number == _SIGNATURES]
    signatures = [_signature(name, body) for name, body in pairs if not name.startswith(INTERNAL)]
    return {signature.name: signature for signature in sorted(signatures, key=lambda s: s.name)}


@contextmanager
def directory_for(directory: Path, signature: str) -> Iterator[Path]:
    """Give a directory that OpenVINO reads as `signature`; a private copy but for the default."""
    if signature == SERVING_DEFAULT:
        yield directory
        return
    with TemporaryDirectory(prefix="ie_serving-") as private:
        for part in ("variables", "assets"):
            if (directory / part).is_dir():
                Path(private, part).symlink_to((directory / part).resolve())
        Path(private, FILE).write_bytes(cut((directory / FILE).read_bytes(), signature))
        yield Path(private)


def cut(model: bytes, signature: str) -> bytes:
    """Rewrite a SavedModel so that `signature` is its one signature, called serving_default."""
    graph = _serving_graph(model)
    pieces = []
    for field in _fields(graph):
        if field.number != _SIGNATURES:
            pieces.append(graph[field.start : field.end])
        elif _entry(field.message)[0] == signature:
            body = _entry(field.message)[1]
            entry = _delimited(1, SERVING_DEFAULT.encode()) + _delimited(2, body)
            pieces.append(_delimited(_SIGNATURES, entry))
    return _delimited(_META_GRAPHS, b"".join(pieces))


def _serving_graph(model: bytes) -> bytes:
    for graph in _all(_fields(model), _META_GRAPHS):
        info = _last(_fields(graph), _META_INFO)
        if TAG in _all(_fields(info), _TAGS):
            return graph
    raise LoadFailed(f"{FILE} has no graph tagged {TAG.decode()!r}; export the model for serving")


def _signature(name: str, body: bytes) -> Declared:
    fields = list(_fields(body))
    return Declared(
        name=name,
        method=_text(_last(fields, 3)),
        inputs=_tensors(_all(fields, 1)),
        outputs=_tensors(_all(fields, 2)),
    )


def _tensors(entries: Iterable[bytes]) -> dict[str, TensorInfo]:
    found = {}
    for alias, body in sorted(map(_entry, entries)):
        fields = list(_fields(body))
        found[alias] = TensorInfo(_text(_last(fields, 1)), _shape(_last(fields, 3)))
    return found


def _shape(body: bytes) -> tuple[int, ...] | None:
    fields = list(_fields(body))
    if any(field.number == 3 and field.value for field in fields):
        return None
    return tuple(_size(dim) for dim in _all(fields, 2))


def _size(dim: bytes) -> int:
    sizes = [f.value for f in _fields(dim) if f.number == 1 and isinstance(f.value, int)]
    size = sizes[-1] if sizes else 0
    return size - (1 << 64) if size >> 63 else size


def _entry(body: bytes) -> tuple[str, bytes]:
    """Split an entry of a map into its key and value."""
    fields = list(_fields(body))
    return _text(_last(fields, 1)), _last(fields, 2)


def _all(fields: Iterable[Field], number: int) -> list[bytes]:
    return [field.message for field in fields if field.number == number]


def _last(fields: Iterable[Field], number: int) -> bytes:
    return [b"", *_all(fields, number)][-1]


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise _broken() from error


def _fields(message: bytes) -> Iterator[Field]:
    at = 0
    while at < len(message):
        start = at
        key, at = _varint(message, at)
        value, at = _value(message, at, key & 7)
        yield Field(key >> 3, value, start, at)


def _value(message: bytes, at: int, kind: int) -> tuple[bytes | int, int]:
    if kind == _VARINT:
        return _varint(message, at)
    if kind == _BYTES:
        length, at = _varint(message, at)
    elif kind in (_FIXED64, _FIXED32):
        length = 8 if kind == _FIXED64 else 4
    else:
        raise _broken()
    if at + length > len(message):
        raise _broken()
    return message[at : at + length], at + length


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            break
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise _broken()


def _delimited(number: int, body: bytes) -> bytes:
    return _encoded(number << 3 | _BYTES) + _encoded(len(body)) + body


def _encoded(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _broken() -> LoadFailed:
    return LoadFailed(f"{FILE} is not a SavedModel, or is cut short")
