"""What a row of the conformance table is.

Rows are data: the suite runs them, the document shows them, and neither knows more of a request
than what stands in its row.
"""

import http.client
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

PLAIN = "plain"
"""A server with every model, labels for `plus`, and TensorFlow Serving's default flags."""
OPTIONS = "options"
"""A server with the model `plus` and the flags that a row's section names."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One row.

    Attributes:
        id: what is asked, in a few words; unique in its section.
        rule: which rule of TensorFlow Serving decides.
        phrase: stands in the error's text, or in the reply if the code is a good one.
        deviation: why this server answers otherwise than TensorFlow Serving; empty where it does
            not.
        server: `PLAIN` or `OPTIONS`.
    """

    id: str
    rule: str
    phrase: str = ""
    deviation: str = ""
    server: str = PLAIN


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
