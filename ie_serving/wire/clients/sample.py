"""Generates a sample request for a signature, and programs that send it, in several languages.

The request is valid in names, dtypes and shapes. Every number is 1, every boolean true and every
text empty. The JSON is kept in pieces: an input of many elements is a value and the sizes of the
lists around it, which a program writes as a short call instead of a megabyte of ones.

`templates/` has a file for each language: the program, for `string.Template`; then, each behind a
line of scissors, its functions for repeated values and for files, put in where they are called.

Each program needs only the standard library of its language, or curl. It ends with code 0 after a
reply of 200; otherwise it prints status and text on standard error, and ends with another code. The
environment variable AUTHORIZATION, if set, becomes the header of this name: no program holds
credentials.

Text from a model or a caller is written only into string literals. URLs and bodies are ASCII,
without control characters, so that one way of quoting is right in all languages but the shell.
"""

import json
import math
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from string import Template
from typing import Final, NamedTuple, TypeAlias

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.requests import ModelSpec
from ie_serving.core.values.tensors import SERVING_DEFAULT, DataType, Signature, TensorSpec
from ie_serving.wire.clients import model_path

MOST_INLINE: Final = 256
"""Elements of one input up to which its lists are written out, for people to change them."""

MOST_ELEMENTS: Final = 2_000_000
"""Most elements of all inputs, some 8 MB of JSON; more is refused. A client could otherwise demand
any size with one line."""

SEQUENCE_ID: Final = "sequence_id"
"""The input of a model with state that names a sequence; for 0 the server begins one, each time."""

SamplePieces: TypeAlias = Sequence["str | NestedValue | FileContent"]
"""Consecutive texts; long ones are not expanded."""
_URL = re.compile(r"https?://[A-Za-z0-9._~:\[\]%/@-]+")
"""URLs that need no quoting in a program: no quotation marks, blanks or line ends."""
LONGEST_LITERAL: Final = 8_000
"""Characters of one string literal: Java takes 65,535 bytes, and editors like shorter lines."""
_SCISSORS: Final = "-------- 8< --------\n"
ALIASES: Final[Mapping[str, str]] = {"golang": "go"}
"""Names of languages in simple_tensorflow_serving."""
LONGEST_ARGUMENT: Final = 100_000
"""Characters of a body that stands in the command: Linux takes 128 KB in one argument."""
_CURL: Final = (
    "curl --globoff --silent --show-error --fail-with-body --max-time 60 \\\n"
    "  -H 'Content-Type: application/json' "
    # One word in sh and bash alike; nothing where the variable is not set.
    '${AUTHORIZATION:+-H"Authorization: $AUTHORIZATION"} \\\n'
    "  --data-binary "
)


class NestedValue(NamedTuple):
    """One value, repeated in lists of lists up to the sizes of a tensor.

    Attributes:
        value: its JSON.
        sizes: lengths of the lists, the outermost first; none for the value alone.
    """

    value: str
    sizes: tuple[int, ...]

    def __str__(self) -> str:
        text = self.value
        for size in reversed(self.sizes):
            text = f"[{','.join([text] * size)}]"
        return text


class FileContent(NamedTuple):
    """The bytes of a file as base64, which the program reads when it runs.

    Attributes:
        path: a file name without quotes, slashes or control characters.
    """

    path: str


def text_of(pieces: SamplePieces) -> str:
    """Write all pieces out; there are no files among them."""
    return "".join(map(str, pieces))


def chosen(model: str, signatures: Mapping[str, Signature], name: str) -> Signature:
    """Give the signature of a name; for the empty name the default, or the only one.

    Raises:
        InvalidRequest: the signature does not exist or is not served.
    """
    served = {key: each for key, each in signatures.items() if not each.left_out and each.inputs}
    is_alone = len(served) == 1 and SERVING_DEFAULT not in signatures
    wanted = name or (next(iter(served)) if is_alone else SERVING_DEFAULT)
    if wanted not in served:
        known = ", ".join(sorted(served)) or "none"
        raise InvalidRequest(
            f'model "{model}" serves no signature "{wanted}"; choose one by signature_name: {known}'
        )
    return served[wanted]


def inputs(specs: Mapping[str, TensorSpec], *, open_size: int) -> SamplePieces:
    """Write an object with a value for each input.

    Args:
        specs: specs of the inputs.
        open_size: the size for open dimensions.

    Raises:
        InvalidRequest: more than `MOST_ELEMENTS`.
    """
    values = {name: filled(spec, open_size) for name, spec in specs.items()}
    count = sum(math.prod(each.sizes) for each in values.values())
    if count > MOST_ELEMENTS:
        raise InvalidRequest(
            f"the inputs have {count} elements, and at most {MOST_ELEMENTS} are made up: send data"
            " of your own"
        )
    pieces: list[str | NestedValue] = []
    start = "{"
    for name, value in values.items():
        pieces += [f"{start}{json.dumps(name)}: ", value]
        start = ", "
    return [*pieces, "}" if specs else "{}"]


def filled(spec: TensorSpec, open_size: int) -> NestedValue:
    """Make up one input; a dimension that takes any size becomes `open_size`."""
    return NestedValue(_value(spec), _sizes(spec, open_size))


def inlined(pieces: SamplePieces) -> SamplePieces:
    """Expand short pieces, and join adjacent texts."""
    joined: list[str | NestedValue | FileContent] = []
    for piece in pieces:
        if isinstance(piece, FileContent) or (
            isinstance(piece, NestedValue) and math.prod(piece.sizes) > MOST_INLINE
        ):
            joined.append(piece)
        elif joined and isinstance(joined[-1], str):
            joined[-1] += _spaced(str(piece)) if isinstance(piece, NestedValue) else piece
        else:
            joined.append(str(piece))
    return joined


def _spaced(text: str) -> str:
    return text.replace(",", ", ")  # a filled value holds no comma of its own


def _value(spec: TensorSpec) -> str:
    if spec.apart and spec.name == SEQUENCE_ID:
        return "0"
    if spec.dtype is DataType.STRING:
        return '""'
    if spec.dtype is DataType.BOOL:
        return "true"
    return "1.0" if spec.dtype.numpy.kind == "f" else "1"


def _sizes(spec: TensorSpec, open_size: int) -> tuple[int, ...]:
    if spec.shape is None:
        return (open_size,)
    bounds = spec.bounds or ((0, open_size),) * len(spec.shape)
    return tuple(
        size if size >= 0 else max(low, min(open_size, high))
        for size, (low, high) in zip(spec.shape, bounds, strict=True)
    )


@dataclass(frozen=True)
class JsonPost:
    """One POST of JSON.

    Attributes:
        url: the whole one.
        body: JSON of ASCII characters.
    """

    url: str
    body: SamplePieces


def checked_url(url: str) -> str:
    """Give the address of a server without a slash at its end.

    Raises:
        InvalidRequest: it is none.
    """
    if not _URL.fullmatch(url):
        raise InvalidRequest(
            f"{url[:80]!r} is no address of a server; expected one such as http://localhost:8000"
        )
    return url.rstrip("/")


def predict(url: str, model: ModelSpec, signatures: Mapping[str, Signature]) -> JsonPost:
    """Make the call of `:predict` for the signature that `model` names.

    Args:
        url: address of the server, as `checked_url` gives it.
        model: servable that is called; its `signature` may be empty.
        signatures: signatures of the version that answers.

    Raises:
        InvalidRequest: no such signature, or its inputs cannot be generated.
    """
    signature = chosen(model.name, signatures, model.signature)
    # Columns, since inputs need not have the same number of rows. One row is cheapest to try.
    start = '{"inputs": '
    if signature.name != SERVING_DEFAULT:
        start = f'{{"signature_name": {json.dumps(signature.name)}, "inputs": '
    body = inlined([start, *inputs(signature.inputs, open_size=1), "}"])
    return JsonPost(f"{url}{path_of(model)}:predict", body)


def path_of(model: ModelSpec) -> str:
    """Give the path of a model, version or label in TensorFlow Serving's REST API."""
    return model_path(model.name, model.version, model.label)


class Language(NamedTuple):
    """How a call is written in one language.

    Attributes:
        quote: writes a string literal.
        body: writes the body of a call, given `quote`.
        imports: line that a program with files needs besides.
    """

    quote: Callable[[str], str]
    body: Callable[[JsonPost, Callable[[str], str]], str]
    imports: str = ""


def program(language: str, call: JsonPost) -> str:
    """Write the program that makes a call.

    Raises:
        InvalidRequest: there is none in this language.
    """
    name = ALIASES.get(language, language)
    written = WRITERS.get(name)
    if written is None:
        raise InvalidRequest(
            f"no client in language {language[:40]!r}; expected one of {', '.join(WRITERS)}"
        )
    whole, of_lists, of_files = _template(name)
    has_lists, has_files = (_has(call, kind) for kind in (NestedValue, FileContent))
    return Template(whole).substitute(
        imports=written.imports if has_files else "",
        url=written.quote(call.url),
        body=written.body(call, written.quote),
        filled=(of_lists if has_lists else "") + (of_files if has_files else ""),
    )


@cache
def _template(name: str) -> list[str]:
    text = files(__package__).joinpath("templates").joinpath(f"{name}.tmpl").read_text("utf-8")
    return text.split(_SCISSORS)


def _commands(call: JsonPost, quote: Callable[[str], str]) -> str:
    """Write the commands by which bash prints the body."""
    return "\n".join(_command(piece, quote) for piece in call.body)


def _command(piece: str | NestedValue | FileContent, quote: Callable[[str], str]) -> str:
    if isinstance(piece, NestedValue):
        return f"  filled {quote(piece.value)} {' '.join(map(str, piece.sizes))}"
    if isinstance(piece, FileContent):
        return f"  encoded {quote(piece.path)}"
    return f"  printf '%s' {quote(piece)}"


def _sum(call: JsonPost, quote: Callable[[str], str]) -> str:
    return " + ".join(_terms(call, quote))


def _joined(call: JsonPost, quote: Callable[[str], str]) -> str:
    """Write the body for Java, joined when it runs: a literal of all terms may be too long."""
    terms = _terms(call, quote)
    return terms[0] if len(terms) == 1 else f'String.join("", {", ".join(terms)})'


def _raw(text: str) -> str:
    """Quote for Go: as it is, where that can be."""
    return json.dumps(text) if "`" in text else f"`{text}`"


def _terms(call: JsonPost, quote: Callable[[str], str]) -> list[str]:
    """Write the body as terms of a sum: literals, and calls of `filled`."""
    terms = []
    for piece in call.body:
        if isinstance(piece, NestedValue):
            terms.append(f"filled({quote(piece.value)}, {', '.join(map(str, piece.sizes))})")
        elif isinstance(piece, FileContent):
            terms.append(f"encoded({quote(piece.path)})")
        else:
            starts = range(0, len(piece), LONGEST_LITERAL)
            terms += [quote(piece[start : start + LONGEST_LITERAL]) for start in starts]
    return terms


def _has(call: JsonPost, kind: type) -> bool:
    return any(isinstance(piece, kind) for piece in call.body)


WRITERS: Final[Mapping[str, Language]] = {
    "python": Language(repr, _sum, "import base64\n"),
    "bash": Language(shlex.quote, _commands),
    "javascript": Language(repr, _sum),
    "go": Language(_raw, _sum, '\t"encoding/base64"\n'),
    "java": Language(json.dumps, _joined),
}
"""Writers by language."""


def command(call: JsonPost) -> str:
    """Write it; where lists are filled, or the body is long, the program of bash."""
    url = shlex.quote(call.url)
    is_long = sum(len(piece) for piece in call.body if isinstance(piece, str)) > LONGEST_ARGUMENT
    if is_long or any(isinstance(piece, NestedValue) for piece in call.body):
        return program("bash", call)
    if not any(isinstance(piece, FileContent) for piece in call.body):
        return f"{_CURL}{shlex.quote(''.join(map(str, call.body)))} \\\n  {url}\n"
    parts = "\n".join(
        f"  base64 < {shlex.quote(piece.path)} | tr -d '\\n'"
        if isinstance(piece, FileContent)
        else f"  printf '%s' {shlex.quote(str(piece))}"
        for piece in call.body
    )
    return f"{{\n{parts}\n}} | {_CURL}@- \\\n  {url}\n"
