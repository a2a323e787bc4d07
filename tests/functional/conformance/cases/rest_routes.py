"""Targets and methods of the REST API."""

from collections.abc import Iterator
from dataclasses import replace

from tests.functional.conformance.case import Rest, Section

BODY = '{"instances": [1.0]}'
FIRST = '{\n    "predictions": [2.5\n    ]\n}'
SECOND = '{\n    "predictions": [3.5\n    ]\n}'
NOT_FOUND = (
    "<HTML><HEAD>\n<TITLE>404 Not Found</TITLE>\n</HEAD><BODY>\n"
    "<H1>Not Found</H1>\n</BODY></HTML>\n"
)
JSON = {"Content-Type": "application/json"}
HTML = {"Content-Type": "text/html"}
LIST = "The list of models is what users ask for most; KServe's v1 protocol answers so."
ZERO = "Without a version 0 it means the default: clients of 2020 and ovmsclient always set it."
ALLOW = {**JSON, "Allow": "GET, HEAD, POST, OPTIONS"}
METHODS = "TensorFlow Serving answers 400; RFC 9110 has 405 for it."
LABEL = "A label that is ignored misleads."
METRICS = "Prometheus looks there; TensorFlow Serving has no metrics without a monitoring file."


def error(text: str) -> str:
    return f'{{\n    "error": "{text}"\n}}'


def malformed(method: str, target: str, why: str) -> Rest:
    return Rest(
        id=f"{method} {target}",
        rule=why,
        method=method,
        target=target,
        body=BODY if method == "POST" else "",
        code=400,
        reply=None if method == "HEAD" else error(f"Malformed request: {method} {target}"),
        reply_headers=JSON,
    )


def predicts(target: str, reply: str, why: str) -> Rest:
    return Rest(id=f"POST {target}", rule=why, target=target, body=BODY, reply=reply)


def status(target: str, why: str, count: int, **fields: str) -> Rest:
    return Rest(
        id=f"GET {target}",
        rule=why,
        method="GET",
        target=target,
        phrase=versions(*((2, 1) if count == 2 else (int(fields.pop("version", "1")),))),
        **fields,
    )


def versions(*numbers: int) -> str:
    """The members of `model_version_status`, all AVAILABLE."""
    return ",\n".join(
        f'  {{\n   "version": "{number}",\n   "state": "AVAILABLE",\n   "status": {{\n'
        '    "error_code": "OK",\n    "error_message": ""\n   }\n  }'
        for number in numbers
    )


def _malformed() -> Iterator[Rest]:
    for target, why in (
        ("/v1/foo", "no such path"),
        ("/v1/", "no such path"),
        ("/v1/models", "no model"),
        ("/v1/models/plus", "no verb"),
        ("/v1/models/plus/metadata", "metadata is for GET"),
        ("/v1/models/plus/versions/1", "no verb"),
        ("/v1/models/plus:", "no verb"),
        ("/v1/models/:predict", "no model"),
        ("/v1/models/plus:explain", "unknown verb"),
        ("/v1/models/plus:PREDICT", "the verb is compared as it is written"),
        ("/v1/models/plus:Predict", "the verb is compared as it is written"),
        ("/v1/models/plus:predict/", "the whole target must match"),
        ("/v1/models/plus:predict?x=1", "the query is part of the target"),
        ("/v1/models/plus/:predict", "the name has no slash"),
        ("/v1/models/plus/version/1:predict", "versions, not version"),
        ("/v1/models/plus/label/stable:predict", "labels, not label"),
        ("/v1/models/plus/versions/one:predict", "a version is digits"),
        ("/v1/models/plus/versions/-1:predict", "a version is digits"),
        ("/v1/models/plus/versions/1.0:predict", "a version is digits"),
        ("/v1/models/plus/versions/:predict", "a version is digits"),
        ("/v1/models/plus/versions/1/labels/stable:predict", "a version or a label"),
        ("/v1/models/plus/labels/:predict", "a label has a character at least"),
        ("/v1//models/plus:predict", "slashes are not merged"),
        ("/v1/config", "the states are for GET"),
    ):
        yield malformed("POST", target, why)
    for target, why in (
        ("/v1/foo", "no such path"),
        ("/v1/models/", "no model"),
        ("/v1/models/plus/", "the whole target must match"),
        ("/v1/models/a/b", "no such path"),
        ("/v1/models/plus:predict", "predict is for POST"),
        ("/v1/models/plus/versions/one", "a version is digits"),
        ("/v1/models/plus/versions/1/labels/stable", "a version or a label"),
        ("/v1/models/plus/metadata/", "the whole target must match"),
        ("/v1/config/reload", "a reload is for POST"),
    ):
        yield malformed("GET", target, why)
    for method, target in (
        ("PUT", "/v1/models/plus"),
        ("DELETE", "/v1/models/plus"),
        ("PATCH", "/v1/models/plus"),
        ("PUT", "/v1/models/plus:predict"),
    ):
        case = malformed(method, target, "GET and POST only")
        yield replace(case, code=405, reply_headers=ALLOW, deviation=METHODS)


ROUTES = Section(
    "2.2 REST routes",
    """\
| request | meaning |
|---|---|
| `POST /v1/models/NAME:predict` | Predict; also `:classify` and `:regress` |
| `POST /v1/models/NAME/versions/N:predict` | of one version |
| `POST /v1/models/NAME/labels/LABEL:predict` | of the version with a label |
| `GET /v1/models/NAME` | state of each version; also `/versions/N` and `/labels/LABEL` |
| `GET /v1/models/NAME/metadata` | signatures; also of `/versions/N` and `/labels/LABEL` |
| `GET /v1/models` | the list of models |
| `GET /v1/config` | the state of each version of every model, as OpenVINO Model Server has it |
| `POST /v1/config/reload` | reload, then the same: [more](../../guide/administration.md) |
| `POST /v1/log_level` | another log level; `GET` tells it: [more](../../guide/administration.md) |

The whole target, query included, is compared without regard to case, except for the verb after the
colon and the word `metadata`. Names and labels are percent-decoded afterwards.""",
    [
        predicts("/v1/models/plus:predict", SECOND, "the default version"),
        predicts("/v1/models/plus/versions/1:predict", FIRST, "a version by number"),
        predicts("/v1/models/plus/versions/2:predict", SECOND, "a version by number"),
        predicts("/v1/models/plus/versions/0001:predict", FIRST, "leading zeros count for nothing"),
        predicts("/v1/models/plus/labels/stable:predict", FIRST, "a version by label"),
        predicts("/v1/models/plus/labels/canary:predict", SECOND, "a version by label"),
        predicts("/v1/models/plus/labels/a%20b:predict", FIRST, "a label is percent-decoded"),
        predicts("/V1/MODELS/plus:predict", SECOND, "case does not matter"),
        predicts("/v1/Models/plus/Versions/1:predict", FIRST, "case does not matter"),
        predicts("/v1/models/plus/LABELS/stable:predict", FIRST, "case does not matter"),
        predicts("/v1/models/%70lus:predict", SECOND, "a name is percent-decoded"),
        predicts(
            "/v1/models/a%3Ab%20c:predict",
            '{\n    "predictions": [1.0\n    ]\n}',
            "a colon in a name must be percent-encoded",
        ),
        replace(
            predicts("/v1/models/plus/versions/0:predict", SECOND, "0 is a version of its own"),
            deviation=ZERO,
        ),
        Rest(
            id="a plus sign in a name",
            rule="it stays a plus sign",
            target="/v1/models/a%3Ab+c:predict",
            body=BODY,
            code=404,
            phrase="Servable not found for request: Latest(a:b+c)",
        ),
        Rest(
            id="model name in other case",
            rule="names are compared as they are written",
            target="/v1/models/PLUS:predict",
            body=BODY,
            code=404,
            phrase="Servable not found for request: Latest(PLUS)",
        ),
        Rest(
            id="label in other case",
            rule="labels are compared as they are written",
            target="/v1/models/plus/labels/Stable:predict",
            body=BODY,
            code=400,
            phrase="Unrecognized servable version label: Stable",
        ),
        Rest(
            id="a version beyond 64 bits",
            rule="the body is empty",
            target="/v1/models/plus/versions/18446744073709551615:predict",
            body=BODY,
            code=400,
            reply="",
        ),
        Rest(
            id="a version of forty digits, status",
            rule="the body is empty",
            method="GET",
            target=f"/v1/models/plus/versions/{'9' * 40}",
            code=400,
            reply="",
        ),
        Rest(
            id="the largest version",
            rule="int64",
            target="/v1/models/plus/versions/9223372036854775807:predict",
            body=BODY,
            code=404,
            phrase="Specific(plus, 9223372036854775807)",
        ),
        status("/v1/models/plus", "all versions", 2),
        status("/v1/models/plus/versions/2", "one version", 1, version="2"),
        status("/v1/MODELS/plus/VERSIONS/1", "case does not matter", 1),
        status("/v1/models/plus/labels/stable", "the version of a label", 1, deviation=LABEL),
        status("/v1/models/plus/METADATA", "metadata is compared as it is written", 2),
        Rest(
            id="GET /v1/models/plus?x=1",
            rule="the query is part of the name",
            method="GET",
            target="/v1/models/plus?x=1",
            code=404,
            phrase="Could not find any versions of model plus?x=1",
        ),
        Rest(
            id="GET /v1/models",
            rule="TensorFlow Serving misses a name",
            method="GET",
            target="/v1/models",
            phrase='"plus"',
            deviation=LIST,
        ),
        *(
            Rest(
                id=f"GET {target}",
                rule="no model",
                method="GET",
                target=target,
                code=400,
                phrase="Missing model name in request.",
            )
            for target in ("/v1/models/versions/1", "/v1/models/labels/a")
        ),
        Rest(
            id="GET /v1/models/metadata",
            rule="a model called metadata",
            method="GET",
            target="/v1/models/metadata",
            code=404,
            phrase="Could not find any versions of model metadata",
        ),
        *_malformed(),
        *(
            Rest(
                id=f"{method} {target}",
                rule="outside of /v1/",
                method=method,
                target=target,
                code=404,
                reply=NOT_FOUND,
                reply_headers=HTML,
            )
            for method, target in (
                ("GET", "/"),
                ("GET", "/v1"),
                ("POST", "/statuspage"),
                ("GET", "/monitoring/prometheus"),
                ("OPTIONS", "/"),
            )
        ),
        Rest(
            id="the metrics page",
            rule="where --monitoring_config_file puts it",
            method="GET",
            target="/monitoring/prometheus/metrics",
            phrase="# TYPE :tensorflow:serving:request_count counter\n",
            reply_headers={"Content-Type": "text/plain"},
        ),
        Rest(
            id="the metrics page at its usual path",
            rule="our own, unless the monitoring file turns metrics off",
            method="GET",
            target="/metrics",
            phrase="# TYPE :tensorflow:serving:request_count counter\n",
            reply_headers={"Content-Type": "text/plain"},
            deviation=METRICS,
        ),
    ],
)

SECTIONS = (ROUTES,)
