"""Writes programs that send one request and print the reply, in several languages.

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
import shlex
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from string import Template
from typing import Final, NamedTuple

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.wire.clients.sample import FileOf, Filled, JsonPost

LONGEST_LITERAL: Final = 8_000
"""Characters of one string literal: Java takes 65,535 bytes, and editors like shorter lines."""

_SCISSORS: Final = "-------- 8< --------\n"


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
    has_lists, has_files = (_has(call, kind) for kind in (Filled, FileOf))
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


def _command(piece: str | Filled | FileOf, quote: Callable[[str], str]) -> str:
    if isinstance(piece, Filled):
        return f"  filled {quote(piece.value)} {' '.join(map(str, piece.sizes))}"
    if isinstance(piece, FileOf):
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
        if isinstance(piece, Filled):
            terms.append(f"filled({quote(piece.value)}, {', '.join(map(str, piece.sizes))})")
        elif isinstance(piece, FileOf):
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
"""By language."""

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


def command(call: JsonPost) -> str:
    """Write it; where lists are filled, or the body is long, the program of bash."""
    url = shlex.quote(call.url)
    is_long = sum(len(piece) for piece in call.body if isinstance(piece, str)) > LONGEST_ARGUMENT
    if is_long or any(isinstance(piece, Filled) for piece in call.body):
        return program("bash", call)
    if not any(isinstance(piece, FileOf) for piece in call.body):
        return f"{_CURL}{shlex.quote(''.join(map(str, call.body)))} \\\n  {url}\n"
    parts = "\n".join(
        f"  base64 < {shlex.quote(piece.path)} | tr -d '\\n'"
        if isinstance(piece, FileOf)
        else f"  printf '%s' {shlex.quote(str(piece))}"
        for piece in call.body
    )
    return f"{{\n{parts}\n}} | {_CURL}@- \\\n  {url}\n"
