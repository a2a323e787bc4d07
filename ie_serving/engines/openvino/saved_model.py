"""The signatures of `saved_model.pb`, read without tensorflow, and a model cut to one of them.

OpenVINO's front end converts `serving_default` alone. Any other signature is served from a copy of
`saved_model.pb` in which it bears that name. TensorFlow feeds any tensor of a graph and computes
nothing that lies above it; the front end takes placeholders only. So the node of an input that is
none, such as a feature that ParseExample gives, becomes a placeholder in the copy.

Field numbers: saved_model.proto, meta_graph.proto, graph.proto, node_def.proto, attr_value.proto,
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

PLACEHOLDER = "Placeholder"

_META_GRAPHS, _SIGNATURES, _META_INFO, _TAGS = 2, 5, 1, 4
_GRAPH, _NODES, _NAME, _OP, _ATTRIBUTES = 2, 1, 1, 2, 5
_TYPE_ATTRIBUTE, _SHAPE_ATTRIBUTE = 6, 7
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
    """Give a directory that OpenVINO reads as `signature`: a private copy where it must."""
    model = (directory / FILE).read_bytes()
    if signature == SERVING_DEFAULT and not _feeds_inside(_serving_graph(model), signature):
        yield directory
        return
    with TemporaryDirectory(prefix="ie_serving-") as private:
        for part in ("variables", "assets"):
            if (directory / part).is_dir():
                Path(private, part).symlink_to((directory / part).resolve())
        Path(private, FILE).write_bytes(cut(model, signature))
        yield Path(private)


def cut(model: bytes, signature: str) -> bytes:
    """Rewrite a SavedModel so that `signature` is its one signature, called serving_default."""
    graph = _serving_graph(model)
    pieces = []
    for field in _fields(graph):
        if field.number == _GRAPH:
            fed = _fed_nodes(graph, signature)
            pieces.append(_delimited(_GRAPH, _with_placeholders(field.message, fed)))
        elif field.number != _SIGNATURES:
            pieces.append(graph[field.start : field.end])
        elif _entry(field.message)[0] == signature:
            body = _entry(field.message)[1]
            entry = _delimited(1, SERVING_DEFAULT.encode()) + _delimited(2, body)
            pieces.append(_delimited(_SIGNATURES, entry))
    return _delimited(_META_GRAPHS, b"".join(pieces))


def _feeds_inside(graph: bytes, signature: str) -> bool:
    """Tell whether an input of the signature is something else than a placeholder."""
    fed = _fed_nodes(graph, signature)
    nodes = map(_node, _all(_fields(_last(_fields(graph), _GRAPH)), _NODES))
    return any(name in fed and not op.startswith(PLACEHOLDER) for name, op in nodes)


def _fed_nodes(graph: bytes, signature: str) -> dict[str, bytes]:
    """Find the nodes whose first output is an input of the signature, with its `TensorInfo`."""
    fed = {}
    for name, body in map(_entry, _all(_fields(graph), _SIGNATURES)):
        for _, info in map(_entry, _all(_fields(body), 1) if name == signature else []):
            node, _, port = _text(_last(_fields(info), 1)).partition(":")
            if port in ("", "0"):
                fed[node] = info
    return fed


def _with_placeholders(graph_def: bytes, fed: Mapping[str, bytes]) -> bytes:
    """Replace each node of `fed` that is no placeholder by one of its dtype and shape."""
    pieces = []
    for field in _fields(graph_def):
        name, op = _node(field.message) if field.number == _NODES else ("", "")
        if name in fed and not op.startswith(PLACEHOLDER):
            pieces.append(_delimited(_NODES, _placeholder(name, fed[name])))
        else:
            pieces.append(graph_def[field.start : field.end])
    return b"".join(pieces)


def _node(node: bytes) -> tuple[str, str]:
    """Give name and operation of a NodeDef."""
    fields = list(_fields(node))
    return _text(_last(fields, _NAME)), _text(_last(fields, _OP))


def _placeholder(name: str, info: bytes) -> bytes:
    """Encode the NodeDef of a placeholder for a `TensorInfo`."""
    dtypes = [f.value for f in _fields(info) if f.number == 2 and isinstance(f.value, int)]
    dtype = _encoded(_TYPE_ATTRIBUTE << 3 | _VARINT) + _encoded(dtypes[-1] if dtypes else 0)
    shape = _delimited(_SHAPE_ATTRIBUTE, _last(_fields(info), 3))
    attributes = [
        _delimited(_ATTRIBUTES, _delimited(1, key) + _delimited(2, value))
        for key, value in ((b"dtype", dtype), (b"shape", shape))
    ]
    head = _delimited(_NAME, name.encode()) + _delimited(_OP, PLACEHOLDER.encode())
    return head + b"".join(attributes)


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
