"""What a row of the conformance table is.

Rows are data: the suite runs them, the document shows them, and neither knows more of a request
than what stands in its row.
"""

import http.client
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

PLAIN = "plain"
"""A server with every model, labels for `plus`, and TensorFlow Serving's default flags."""
OPTIONS = "options"
"""A server with the model `plus` and the flags that a row's section names."""

SHARED = "shared"
"""A server with `plus`, `string` and `--shared_memory true`. Before each of its rows the region `r`
alone is registered, of 16 bytes: the number 1, then zeros."""

CONTROLLED = "controlled"
"""A server in explicit mode. Before each of its rows `plus` and `total` alone are loaded."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One row.

    Attributes:
        id: what is asked, in a few words; unique in its section.
        rule: which rule of TensorFlow Serving decides.
        phrase: stands in the error's text, or in the reply if the code is a good one.
        deviation: why this server answers otherwise than TensorFlow Serving; empty where it does
            not.
        server: `PLAIN`, `OPTIONS`, `SHARED` or `CONTROLLED`.
        written: numbers with which region `r` begins afterwards.
    """

    id: str
    rule: str
    phrase: str = ""
    deviation: str = ""
    server: str = PLAIN
    written: Sequence[float] = ()


@dataclass(frozen=True, kw_only=True)
class Rpc(Case):
    """A call over gRPC. Messages stand in protocol buffer text form.

    Attributes:
        method: name of the method, or `Service/Method` of a service that does not exist.
        request: the request message.
        code: canonical code.
        reply: the whole response message; empty when the row does not care.
    """

    method: str = "Predict"
    request: str
    code: str = "OK"
    reply: str = ""


@dataclass(frozen=True, kw_only=True)
class Rest(Case):
    """A request over HTTP, sent as it stands: nothing is normalised on the way.

    Attributes:
        method: of HTTP.
        target: of the request line.
        body: of the request; text is sent as UTF-8.
        headers: of the request.
        code: HTTP status.
        reply: the whole body, byte for byte; None when the row does not care.
        reply_headers: some headers of the reply; an empty value means that there is none.
    """

    method: str = "POST"
    target: str
    body: str | bytes = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    code: int = http.client.OK
    reply: str | None = None
    reply_headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Reload(Case):
    """A HandleReloadConfigRequest, sent while `plus` serves as `BEFORE` says.

    Attributes:
        request: ReloadConfigRequest; `ROOT` stands for the repository's directory.
        code: canonical code.
        serves: what answers afterwards, each `model`, `model/version` or `model:label`.
        gone: what does not, written likewise.
    """

    request: str
    code: str = "OK"
    serves: Sequence[str] = ()
    gone: Sequence[str] = ()
    server: str = OPTIONS


class Place(NamedTuple):
    """Where a tensor lies in shared memory."""

    region: str
    size: int
    offset: int = 0


@dataclass(frozen=True, kw_only=True)
class Triton(Case):
    """A call of both of Triton's clients, over REST and over gRPC.

    Attributes:
        method: of the clients.
        arguments: of the method; `KEY` stands for the file of the region.
        inputs: of `infer`: a place of 4 bytes of FP32 for each.
        outputs: of `infer`, likewise.
        code: canonical code over gRPC.
        status: HTTP status over REST.
        regions: names of those that are registered afterwards.
    """

    method: str
    arguments: Sequence[str | int | bytes] = ()
    inputs: Mapping[str, Place] = field(default_factory=dict)
    outputs: Mapping[str, Place] = field(default_factory=dict)
    code: str = "OK"
    status: int = http.client.OK
    regions: Sequence[str] = ("r",)
    server: str = SHARED


@dataclass(frozen=True, kw_only=True)
class Step:
    """One call of Triton's client among those of a row.

    Attributes:
        method: of the client.
        arguments: of the method; of `infer` the model and the values of its only input `x`.
        options: more arguments, by name.
        code: canonical code over gRPC.
        status: HTTP status over REST.
        phrase: stands in the error's text, or in the reply as JSON; of `infer` the values of `y`.
        absent: does not stand in the reply.
    """

    method: str
    arguments: Sequence[Any] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    code: str = "OK"
    status: int = http.client.OK
    phrase: str = ""
    absent: str = ""


@dataclass(frozen=True, kw_only=True)
class Calls(Case):
    """Calls of both of Triton's clients one after another, first over REST, then over gRPC.

    Attributes:
        steps: the calls.
        streamed: all are inferences in one stream over gRPC, whose replies are read at the end.
        counted: by how much the statistics of `plus` have grown afterwards.
    """

    steps: Sequence[Step]
    streamed: bool = False
    counted: Mapping[str, int] = field(default_factory=dict)
    server: str = CONTROLLED


KEY = "/region"
"""Stands for the key of the region's file in requests."""
ROOT = "/models"
"""Stands for the repository's directory in requests."""


@dataclass(frozen=True)
class Section:
    """A part of the API.

    Attributes:
        title: with its number.
        introduction: Markdown, read before the table.
        cases: the rows.
    """

    title: str
    introduction: str
    cases: Sequence[Case]
