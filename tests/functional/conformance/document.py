"""The API, case by case, made from the table: `python -m tests.functional.conformance.document`.

Writes docs/guide/clients.md and docs/reference/api.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.functional.conformance.case import (
    OPTIONS,
    Calls,
    Case,
    Reload,
    Rest,
    Rpc,
    Section,
    Step,
    Triton,
)
from tests.functional.conformance.cases import SECTIONS

DOCS = Path(__file__).resolve().parents[3] / "docs"
CLIENTS = DOCS / "guide" / "clients.md"
API = DOCS / "reference" / "api"
WIDEST = 1000
"""Characters of a request or reply that are shown."""

WIDEST_CELL = 200
"""Characters of a cell; a longer request or answer stands below its table."""

FIRST_REQUEST = """\
# Clients: the first request, by language

`ie_serving` answers the TensorFlow Serving API: `tensorflow.serving.PredictionService` and
`ModelService` over gRPC, and the same over REST. Clients of TensorFlow Serving work unchanged.
The server also answers the [Open Inference Protocol v2](open-inference.md) (KServe v2), for
clients of Triton, KServe and OpenVINO Model Server. The
[API case by case](../reference/api/README.md) has each rule with a request and its answer.

## A first request

The model is that of TensorFlow Serving's tutorial, `y = x / 2 + 2`:

    tensorflow_model_server --port=8500 --rest_api_port=8501 \\
        --model_name=half_plus_two --model_base_path=$PWD/half_plus_two

Each of the following programs sends three values at once and gets 2.5, 3.0 and 4.5. The programs
lie in `examples/first_request`. A test runs those in Python, curl and Java; the program in Go is
not run.

Python over gRPC (`pip install tensorflow-serving-api`):

```python
{over_grpc.py}
```

Python over REST:

```python
{over_rest.py}
```

curl:

```sh
{over_rest.sh}
```

Go:

```go
{over_rest.go}
```

Java, from version 11 on:

```java
{OverRest.java}
```

For gRPC from Go, Java and other languages generate stubs from TensorFlow Serving's
`prediction_service.proto`. The server also answers reflection, so `grpcurl` needs no files.

The metadata shows a model's inputs and outputs by name, dtype and shape:
`curl http://localhost:8501/v1/models/half_plus_two/metadata`.

## A program made up for a model

`ie_serving gen client` reads a model's metadata from any server of this API, and prints a program
that calls the model. Names, dtypes and shapes are right; every number is 1, every text empty, and
a dimension of any size 1. The program needs only its language's standard library, or curl.
`ie_serving gen request` prints only the body.

```
ie_serving gen client --lang python --model_name half_plus_two \\
    --url http://localhost:8501 > client.py
ie_serving gen request --model_name half_plus_two --url http://localhost:8501
```

- Languages are `python`, `bash`, `javascript` (Node.js 18), `go` and `java` (11); for any other
  the command ends with code 2 and the list.
- `--model_version` and `--signature_name` choose the signature. The flags of a server's address,
  keys and TLS are those of `ie_serving predict`.
- The server's own routes give the same:
  `GET /v1/models/NAME[/versions/N]/gen_client?language=go`, with the address that the request has
  used, and `GET .../gen_json`. Both take `signature_name`, and need the right `read`.
- A program sends the variable `AUTHORIZATION` of its environment as the header of this name, such
  as `Bearer KEY`: no program holds credentials.
- A program ends with code 0 after a reply of 200. Otherwise it prints the status and the server's
  text to standard error.

## An OpenAPI document

`GET /openapi.json` describes the REST routes of the serving models, TensorFlow Serving's and
those of the Open Inference Protocol, as OpenAPI 3.0.3: states, metadata, and for each signature a
schema of its request and its reply, with an example that the server answers. `GET /docs` shows
the document in the browser, which can send the examples; all its files come from this server.
Both need `pip install '.[openapi]'`. `--page=false` switches `/docs` off together with the page.

```
curl -s localhost:8501/openapi.json
curl -s 'localhost:8501/openapi.json?model=half_plus_two'       # of one model alone
```

- The server makes the document for each request. If there are many models, request the document
  of one: all examples together have at most 1,000,000 elements, one example at most 200,000. A
  larger signature is described without an example, as is a model that takes any inputs.
- An example of an image is a small PNG; an example of Examples has one with each feature.
- A model with several versions has the paths of each version and of each label; a single version
  has only the model's path.
- A caller with a key needs the right `read`, and gets the models of its key. `/docs` uses the key
  of the page.
- `--enable_cors` lets pages of other origins read the document, but not `/docs`.
- The server of the document is `.`, the path of the document: behind a proxy that adds a path,
  examples go through the proxy, too.

## A file in, a file out

`:predict` takes forms, as `curl -F` sends them. A form has a file for each image or string, in a
field of the input's name (with one input in a field of any name). It may have other inputs as
fields of JSON, and `signature_name`. The reply is a list of rows. Two more fields choose another
reply:

    curl -F image=@cat.png -F out_filter=mask -F out_mime_type=image/png \\
        http://localhost:8501/v1/models/segment:predict > mask.png

- `out_filter`: names of outputs, separated by commas or in several fields; the reply has only
  these.
- `out_mime_type`: with `image/...`, `video/...`, `audio/...` or `application/octet-stream` the
  reply has the bytes of the one output, which must be a single string, as this type. With
  `text/plain` it is a JSON list of the strings of all outputs, with any other value a list of
  rows.

## Data of Konduit Serving

An input may be an object with Konduit's reserved keys: `{"@NDArrayType": "FLOAT",
"@NDArrayShape": [3], "@NDArrayDataBase64": "AAAAAD+AAABAAAAA"}` (big-endian: 0, 1, 2),
`{"@ImageFormat": "PNG", "@ImageData": BASE64}` or `{"@BytesBase64": BASE64}`, or a list of images
or bytes, with one row each. Such objects stand in `inputs`, or the whole body is such data, as
`{"x": {"@NDArrayType": ...}}`. An array must have a dtype that the input takes. The reply has the
form of `inputs`; `POST /predict` of a [pipeline](migration-konduit-serving.md) answers with
Konduit's data.

## Other names for inputs and outputs

Clients name inputs and outputs as the model names its tensors. A file `mapping_config.json` in a
version's directory, beside the model, gives them other names:

```json
{mapping_config.json}
```

Tensors that the file does not mention keep their names; a name that no tensor has is logged as a
warning. The version does not load if two inputs or two outputs would have one name, or if the
file is not such an object; GetModelStatus has the reason.
"""
REST = ("rest", "REST: routes, headers, codes")
PARTS = {
    "1": ("messages", "Messages: fields, dtypes, tensors"),
    "2.2": REST,
    "2.3": REST,
    "2.4": REST,
    "2": ("rest-values", "REST: JSON, rows and columns, values"),
    "3": ("grpc", "Inference over gRPC"),
    "4": ("versions", "Versions and configuration"),
    "5": ("open-inference", "The Open Inference Protocol"),
}
"""Page and heading by what a section's title begins with; the number sorts, and is not shown."""

EXAMPLES = DOCS.parent / "examples" / "first_request"

INTRODUCTION = """\
# The API, case by case

`make api` makes these pages from the table of `tests/functional/conformance`. A test sends every
row of the table to a server, with TensorFlow Serving's own client, and compares the answer;
another test fails when the pages are out of date.

{contents}

How to read the tables:

- A gRPC message is written in protocol buffer text form, shortened:
  `inputs x { DT_FLOAT [2, 3] ... }` is an entry of a map, with dtype and shape, and `version: 1`
  is the message that wraps a version. A row without a method is a Predict.
- A REST request is its request line, headers and body. `\\n` is a line break, and every blank is
  shown: these replies are the same to the byte.
- "…" stands before and after a phrase of an error's text, or of a reply. Texts are the complete
  texts of TensorFlow Serving, except for deviations. `ie-serving-error`, a header of REST and
  trailing metadata of gRPC, also has the expected value.
- **Deviation** marks an answer that differs from TensorFlow Serving's, with the reason.
  [Compatibility](../compatibility.md) lists all of them.
- A request or an answer that is longer than a cell stands below its table.

The models:

- `float`, `double`, `half` and so on return their input `x`, of the dtype in their name, as `y`;
  so do `matrix` (two columns), `column` (one), `cube` (rank 3) and `scalar` (rank 0).
- `plus` has two versions, `y = x / 2 + 2` and `y = x / 2 + 3`.
- `two` has the inputs `a` and `b` and the outputs `sum` and `twice` (of `b`).
- `text` returns its strings as `text` and `text_bytes`, `sum` adds up its input, `uneven` returns
  its input `once` and `twice` in a row.
- `scored` has signatures for Examples.
- Version 2 of `broken` cannot be loaded.
"""


_NUMBERS = re.compile(r"^[\d., and]*\d ")
_NAMED_FILE = re.compile(r"^\{([\w.]+)\}$", re.MULTILINE)


def documents() -> Mapping[Path, str]:
    """Give each page by its file."""
    titles: dict[str, str] = {}
    texts: dict[str, list[str]] = {}
    for section in SECTIONS:
        page, title = part(section)
        titles.setdefault(page, title)
        texts.setdefault(page, []).append(_section(section))
    contents = "\n".join(f"- [{title}]({page}.md)" for page, title in titles.items())
    pages = {
        CLIENTS: first_request(),
        API / "README.md": INTRODUCTION.replace("{contents}", contents),
    }
    for page, sections in texts.items():
        head = (
            f"# {titles[page]}\n\nHow to read the tables, and the models: [the API](README.md).\n"
        )
        pages[API / f"{page}.md"] = "\n".join([head, *sections])
    return pages


def part(section: Section) -> tuple[str, str]:
    """Give the page of a section, and the page's heading."""
    number = section.title.split(",")[0].split(" ")[0]
    return PARTS.get(number) or PARTS[number[0]]


def first_request() -> str:
    """Give the first part, with the files of `EXAMPLES` where it names them."""
    return _NAMED_FILE.sub(
        lambda found: (EXAMPLES / found[1]).read_text(encoding="utf-8").rstrip(), FIRST_REQUEST
    )


def _section(section: Section) -> str:
    below: list[str] = []
    rows = "\n".join(_row(case, below) for case in section.cases)
    head = "| case | rule | request | answer |\n|---|---|---|---|\n"
    title = _NUMBERS.sub("", section.title)
    notes = "\n".join(["", *below, ""]) if below else ""
    return f"## {title}\n\n{section.introduction}\n\n{head}{rows}\n{notes}"


def _row(case: Case, below: list[str]) -> str:
    """Give a row; what is too long for a cell goes `below` the table."""
    named = {
        "Rule": _text(case.rule),
        "Request": _request(case),
        "Answer": "<br>".join(_answer(case)),
    }
    for name, text in named.items():
        if len(text) > WIDEST_CELL:
            below.append(f"- {name} of *{case.id}*: {text}".replace("\\|", "|"))
            code = "" if isinstance(case, Calls) else f"{case.code}, "
            named[name] = f"{code}below" if name == "Answer" else "below"
    return f"| {' | '.join((_text(case.id), *named.values()))} |"


def _request(case: Case) -> str:
    if isinstance(case, Rpc):
        method = "" if case.method == "Predict" else f"{case.method} "
        return _flagged(case, method + _code(shortened(case.request)))
    if isinstance(case, Rest):
        return _flagged(case, "<br>".join(_lines(case)))
    if isinstance(case, Triton):
        return _code(_call(case))
    if isinstance(case, Calls):
        return "<br>".join(_code(_step(each)) for each in case.steps)
    assert isinstance(case, Reload)
    return _code(case.request)


def _call(case: Triton) -> str:
    """Give a call of Triton's client, its tensors in shared memory as `region[from:to]`."""
    given = [repr(each) for each in case.arguments]
    for names in (case.inputs, case.outputs):
        given += [
            f"{name}={place.region}[{place.offset}:{place.offset + place.size}]"
            for name, place in names.items()
        ]
    return f"{case.method}({', '.join(given)})"


def _step(step: Step) -> str:
    options = (f"{name}={value!r}" for name, value in step.options.items())
    return f"{step.method}({', '.join((*map(repr, step.arguments), *options))})"


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
    if isinstance(case, Calls):
        yield from (_of_step(each, case) for each in case.steps)
        if case.counted:
            counted = ", ".join(f"{name} {by}" for name, by in case.counted.items())
            yield f"then the statistics have grown by {_code(counted)}"
        return
    assert isinstance(case, Rpc | Rest | Reload | Triton)
    yield f"{case.status}, {case.code}" if isinstance(case, Triton) else str(case.code)
    if case.phrase:
        yield f"…{_code(case.phrase)}…"
    if isinstance(case, Reload):
        yield from (f"{_code(name)} serves" for name in case.serves)
        yield from (f"{_code(name)} does not" for name in case.gone)
    elif isinstance(case, Triton):
        yield from _afterwards(case)
    elif case.reply:
        yield _code(shortened(case.reply) if isinstance(case, Rpc) else case.reply)
    if isinstance(case, Rest):
        headers = {name: value for name, value in case.reply_headers.items() if value}
        yield from (_code(f"{name}: {value}") for name, value in headers.items())
    if case.deviation:
        yield f"**Deviation**: {_text(case.deviation)}"


def _of_step(step: Step, case: Calls) -> str:
    """Give the codes of a call, but those of a stream, whose errors have none."""
    codes = ["error" if step.code != "OK" else "OK"] if case.streamed else []
    codes = codes or [f"{step.status}, {step.code}"]
    shown = [f"…{_code(step.phrase)}…"] if step.phrase else []
    absent = [f"without {_code(step.absent)}"] if step.absent else []
    return " ".join((*codes, *shown, *absent))


def _afterwards(case: Triton) -> Iterator[str]:
    if case.written:
        numbers = ", ".join(f"{each:g}" for each in case.written)
        yield f"then the region has {_code(numbers)}"
    if set(case.regions) != {"r"}:
        names = ", ".join(_code(name) for name in case.regions) or "none"
        yield f"then these are registered: {names}"


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
    for file, text in documents().items():
        file.write_text(text, encoding="utf-8")
