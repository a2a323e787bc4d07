"""Headers, CORS, gzip and codes of the REST API, and which fault is found first."""

import gzip
from collections.abc import Iterator
from http import HTTPStatus

from tests.functional.conformance.case import OPTIONS, Rest, Section
from tests.functional.conformance.cases.rest_routes import BODY, JSON, SECOND

ORIGIN = {"Origin": "https://example.com"}
CORS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "POST, GET",
    "Access-Control-Allow-Headers": "Content-Type",
}
NO_CORS = dict.fromkeys(CORS, "")
LARGE = '{"inputs": [' + ", ".join(["1"] * 400) + "]}"
GZIP_REPLY = "TensorFlow Serving never compresses replies."
UNKNOWN_ENCODING = (
    "TensorFlow Serving takes the bytes as they are; a compressed body is then no JSON, and the"
    " error does not say why."
)


def _compressed() -> Iterator[Rest]:
    for name, coding in (("gzip", "gzip"), ("gzip with others", "identity, gzip")):
        yield Rest(
            id=f"a body in {name}",
            rule="the header contains gzip",
            target="/v1/models/plus:predict",
            body=gzip.compress(BODY.encode(), mtime=0),
            headers={"Content-Encoding": coding},
            reply=SECOND,
        )


HEADERS = Section(
    "2.3 Headers, CORS and gzip",
    """\
The request's `Content-Type` and `Accept` have no effect. Bodies may come as gzip. Replies go as
gzip when `Accept-Encoding` takes it and they have 1 KiB at least. With
`--rest_api_enable_cors_support` every reply has three headers that let a browser's page read it;
rows with CORS are sent to a server with that flag.""",
    [
        *(
            Rest(
                id=f"Content-Type {kind or 'missing'}",
                rule="no effect",
                target="/v1/models/plus:predict",
                body=BODY,
                headers={"Content-Type": kind} if kind else {},
                reply=SECOND,
                reply_headers=JSON | NO_CORS,
            )
            for kind in ("application/json", "text/plain", "application/x-www-form-urlencoded", "")
        ),
        Rest(
            id="Accept text/html",
            rule="no effect",
            target="/v1/models/plus:predict",
            body=BODY,
            headers={"Accept": "text/html"},
            reply=SECOND,
            reply_headers=JSON,
        ),
        *_compressed(),
        Rest(
            id="a body that is not gzip",
            rule="it is refused",
            target="/v1/models/plus:predict",
            body=BODY,
            headers={"Content-Encoding": "gzip"},
            code=400,
            phrase="the body announced by Content-Encoding: gzip is not valid gzip data",
            deviation='TensorFlow Serving says "JSON Parse error: The document is empty".',
        ),
        Rest(
            id="gzip without its header",
            rule="it is read as JSON",
            target="/v1/models/plus:predict",
            body=gzip.compress(BODY.encode(), mtime=0),
            code=400,
            phrase="JSON Parse error: Invalid value. at offset: 0",
        ),
        Rest(
            id="an encoding that is not known",
            rule="no effect",
            target="/v1/models/plus:predict",
            body=BODY,
            headers={"Content-Encoding": "deflate"},
            code=HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            phrase="send the body as gzip, or as it is",
            deviation=UNKNOWN_ENCODING,
        ),
        Rest(
            id="a small reply, gzip accepted",
            rule="replies are not compressed",
            target="/v1/models/plus:predict",
            body=BODY,
            headers={"Accept-Encoding": "gzip"},
            reply=SECOND,
            reply_headers={"Content-Encoding": ""},
        ),
        Rest(
            id="a large reply, gzip accepted",
            rule="replies are not compressed",
            target="/v1/models/plus:predict",
            body=LARGE,
            headers={"Accept-Encoding": "gzip"},
            reply_headers={"Content-Encoding": "gzip", "Vary": "Accept-Encoding"},
            deviation=GZIP_REPLY,
        ),
        Rest(
            id="a large reply, gzip not accepted",
            rule="replies are not compressed",
            target="/v1/models/plus:predict",
            body=LARGE,
            phrase='"outputs"',
            reply_headers={"Content-Encoding": ""},
        ),
        Rest(
            id="CORS, a good reply",
            rule="three headers",
            server=OPTIONS,
            target="/v1/models/plus:predict",
            body=BODY,
            headers=ORIGIN,
            reply=SECOND,
            reply_headers=JSON | CORS,
        ),
        Rest(
            id="CORS, an error",
            rule="three headers",
            server=OPTIONS,
            target="/v1/models/absent:predict",
            body=BODY,
            code=404,
            reply_headers=JSON | CORS,
        ),
        Rest(
            id="CORS, without an origin",
            rule="three headers",
            server=OPTIONS,
            method="GET",
            target="/v1/models/plus",
            reply_headers=JSON | CORS,
        ),
        Rest(
            id="CORS, preflight",
            rule="200 and no body",
            server=OPTIONS,
            method="OPTIONS",
            target="/v1/models/plus:predict",
            headers=ORIGIN,
            reply="",
            reply_headers=CORS,
        ),
        Rest(
            id="CORS, preflight without an origin",
            rule="400 and no body",
            server=OPTIONS,
            method="OPTIONS",
            target="/v1/models/plus:predict",
            code=400,
            reply="",
            reply_headers=CORS,
        ),
        Rest(
            id="preflight, CORS off",
            rule="200, but no headers",
            method="OPTIONS",
            target="/v1/models/plus:predict",
            headers={"Origin": "http://example.com"},
            reply="",
            reply_headers=NO_CORS,
        ),
        Rest(
            id="preflight of another scheme",
            rule="400 and no body",
            method="OPTIONS",
            target="/v1/anything",
            headers={"Origin": "file://"},
            code=400,
            reply="",
        ),
    ],
)


def first_fault(id: str, target: str, body: str, code: int, phrase: str) -> Rest:
    return Rest(
        id=id,
        rule="the order of checks",
        target=target,
        body=body,
        code=code,
        phrase=phrase,
        reply_headers=JSON,
    )


ABSENT = "/v1/models/absent:predict"
PLUS = "/v1/models/plus:predict"

ORDER = Section(
    "2.4, 2.5 Codes, and which fault is found first",
    """\
An error is `{"error": ...}` with the text alone. Its HTTP code follows from the canonical code:
INVALID_ARGUMENT, FAILED_PRECONDITION and OUT_OF_RANGE 400, UNAUTHENTICATED 401, PERMISSION_DENIED
403, NOT_FOUND 404, ABORTED and ALREADY_EXISTS 409, RESOURCE_EXHAUSTED 429, CANCELLED 499, UNKNOWN,
INTERNAL and DATA_LOSS 500, UNIMPLEMENTED 501, UNAVAILABLE 503, DEADLINE_EXCEEDED 504. A body over
the server's limit, which TensorFlow Serving does not have, is 413; a sequence that cannot start
since the one before it is ending is 412 ([sequences](../../guide/sequences.md)).

A request with several faults gets the error of the first: route, JSON, top level,
`signature_name`'s type, servable, signature, `instances` or `inputs`, values, execution.""",
    [
        first_fault("route before JSON", "/v1/models/plus:x", "{", 400, "Malformed request"),
        first_fault("JSON before model", ABSENT, "{", 400, "Missing a name for object member."),
        first_fault("empty body before model", ABSENT, "", 400, "The document is empty"),
        first_fault("top level before model", ABSENT, "[]", 400, "Is not object"),
        first_fault(
            "type of signature_name before model",
            ABSENT,
            '{"signature_name": 1}',
            400,
            "'signature_name' key must be a string value.",
        ),
        first_fault(
            "model before signature",
            ABSENT,
            '{"signature_name": "s", "inputs": 1}',
            404,
            "Latest(absent)",
        ),
        first_fault("model before form", ABSENT, "{}", 404, "Latest(absent)"),
        first_fault("model before values", ABSENT, '{"instances": ["a"]}', 404, "Latest(absent)"),
        first_fault(
            "label before values",
            "/v1/models/plus/labels/beta:predict",
            '{"instances": ["a"]}',
            400,
            "Unrecognized servable version label: beta",
        ),
        first_fault(
            "version before values",
            "/v1/models/plus/versions/7:predict",
            '{"instances": ["a"]}',
            404,
            "Specific(plus, 7)",
        ),
        first_fault(
            "signature before form",
            PLUS,
            '{"signature_name": "s"}',
            400,
            'Serving signature name: \\"s\\" not found in signature def',
        ),
        first_fault(
            "signature before values",
            PLUS,
            '{"signature_name": "s", "inputs": "a"}',
            400,
            'Serving signature name: \\"s\\" not found in signature def',
        ),
        first_fault(
            "form before values",
            PLUS,
            '{"instances": ["a"], "inputs": ["a"]}',
            400,
            "expecting only one of 'inputs' or 'instances' keys to exist",
        ),
        first_fault(
            "values before shape", "/v1/models/matrix:predict", '{"inputs": ["a"]}', 400, "float"
        ),
        first_fault(
            "version that failed to load",
            "/v1/models/broken/versions/2:predict",
            BODY,
            404,
            "Specific(broken, 2)",
        ),
    ],
)

SECTIONS = (HEADERS, ORDER)
