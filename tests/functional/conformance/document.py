"""docs/api.md, made from the table: `python -m tests.functional.conformance.document`."""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.functional.conformance.case import OPTIONS, Case, Reload, Rest, Rpc, Section
from tests.functional.conformance.cases import SECTIONS

PATH = Path(__file__).resolve().parents[3] / "docs" / "api.md"
WIDEST = 1000
"""Characters of a request or reply that a cell shows."""

INTRODUCTION = """\
# The API

`ie_serving` answers the TensorFlow Serving API: `tensorflow.serving.PredictionService` and
`ModelService` over gRPC, and the same over REST. This page is made from the table that
`tests/functional/conformance` sends to a server with TensorFlow Serving's own client: every row
below is a request that was sent and the answer that came. `make api` writes the page anew; a test
fails when it is out of date.

How to read the tables:

- A gRPC message stands in protocol buffer text form, shortened: `inputs x { DT_FLOAT [2, 3] ... }`
  is an entry of a map, with dtype and shape, and `version: 1` is the message that wraps a version.
  A row that names no method is a Predict.
- A REST request is its request line, headers and body. `\\n` is a line break, and no blank is left
  out: those replies are the same to the byte.
- "…" stands before and after a phrase that an error's text, or a reply, contains. The texts go on
  to say what was expected.
- **Deviation** marks what TensorFlow Serving answers otherwise, with the reason.
  `docs/design.md`, section 8, has them all.

Section 1 is about messages, 2 about REST, 3 about inference over gRPC, 4 about versions and the
configuration.

The models: `float`, `double`, `half` and so on return their input `x`, of the dtype that they are
named after, as `y`; so do `matrix` (two columns), `column` (one), `cube` (rank 3) and `scalar`
(rank 0). `plus` has two versions, `y = x / 2 + 2` and `y = x / 2 + 3`. `two` has the inputs `a` and
`b` and the outputs `sum` and `twice` (of `b`). `text` returns its strings as `text` and
`text_bytes`, `sum` adds up its input, `uneven` returns it `once` and `twice` in a row. `scored` has
signatures for Examples. Version 2 of `broken` cannot be loaded.
"""


def document() -> str:
    """Give the whole page."""
    return "\n".join([INTRODUCTION, *(_section(section) for section in SECTIONS)])


def _section(section: Section) -> str:
    rows = "\n".join(_row(case) for case in section.cases)
    head = "| case | rule | request | answer |\n|---|---|---|---|\n"
    return f"## {section.title}\n\n{section.introduction}\n\n{head}{rows}\n"


def _row(case: Case) -> str:
    cells = (_text(case.id), _text(case.rule), _request(case), "<br>".join(_answer(case)))
    return f"| {' | '.join(cells)} |"


def _request(case: Case) -> str:
    if isinstance(case, Rpc):
        method = "" if case.method == "Predict" else f"{case.method} "
        return _flagged(case, method + _code(shortened(case.request)))
    if isinstance(case, Rest):
        return _flagged(case, "<br>".join(_lines(case)))
    assert isinstance(case, Reload)
    return _code(case.request)


def _flagged(case: Case, text: str) -> str:
    return f"{text}<br>to the server with options" if case.server == OPTIONS else text


def _lines(case: Rest) -> Iterator[str]:
    yield _code(f"{case.method} {case.target}")
    for name, value in case.headers.items():
        yield _code(f"{name}: {value}")
    if isinstance(case.body, str) and case.body:
        yield _code(case.body)
    elif case.body:
        yield _code(repr(case.body)[2:-1])


def _answer(case: Case) -> Iterator[str]:
    assert isinstance(case, Rpc | Rest | Reload)
    yield str(case.code)
    if case.phrase:
        yield f"…{_code(case.phrase)}…"
    if isinstance(case, Reload):
        yield from (f"{_code(name)} serves" for name in case.serves)
        yield from (f"{_code(name)} does not" for name in case.gone)
    elif case.reply:
        yield _code(shortened(case.reply) if isinstance(case, Rpc) else case.reply)
    if isinstance(case, Rest):
        headers = {name: value for name, value in case.reply_headers.items() if value}
        yield from (_code(f"{name}: {value}") for name, value in headers.items())
    if case.deviation:
        yield f"**Deviation**: {_text(case.deviation)}"


def shortened(message: str) -> str:
    """Shorten the text form of a message where it says little in many words."""
    text = _SHAPE.sub(lambda found: f"[{', '.join(_SIZE.findall(found[0]))}]", message)
    text = _VERSION.sub(r"version: \1", text.replace("dtype: ", ""))
    return _ENTRY.sub(r"\1 { \2 }", text)


_SHAPE = re.compile(r"tensor_shape \{ (?:dim \{ size: -?\d+ \} ?)*\}")
_SIZE = re.compile(r"size: (-?\d+)")
_VERSION = re.compile(r"version \{ value: (-?\d+) \}")
_ENTRY = re.compile(r'\{ key: "(\w+)" value \{ ([^{}]*) \} \}')


def _code(text: str) -> str:
    """Show text as it is in a cell of a table."""
    shown = text.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
    if len(shown) > WIDEST:
        shown = f"{shown[:WIDEST]}…"
    fence = "``" if "`" in shown else "`"
    return f"{fence}{_text(shown)}{fence}" if shown else ""


def _text(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PATH.write_text(document(), encoding="utf-8")
