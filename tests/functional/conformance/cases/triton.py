"""What Triton has beyond the protocol, sent by its clients to a server in explicit mode."""

from collections.abc import Mapping
from typing import Any

from tests.functional.conformance.case import CONTROLLED, SHARED, Calls, Rest, Rpc, Section, Step

BAD = {"code": "INVALID_ARGUMENT", "status": 400}
NONE = {"code": "NOT_FOUND", "status": 404}
MISSING = {"code": "UNIMPLEMENTED", "status": 501}
CONFLICT = {"code": "ALREADY_EXISTS", "status": 409}
FAILED = {"code": "UNKNOWN", "status": 500}
OTHER_MODE = "the model control mode is poll, not explicit"
UNLOADED = '"reason": "unloaded", "state": "UNAVAILABLE"'


def infer(model: str, values: Any, phrase: str, **more: Any) -> Step:
    names = ("code", "status")
    codes = {name: more.pop(name) for name in names if name in more}
    return Step(method="infer", arguments=(model, values), options=more, phrase=phrase, **codes)


def step(method: str, *arguments: Any, **fields: Any) -> Step:
    return Step(method=method, arguments=arguments, **fields)


def load(name: str, **fields: Any) -> Step:
    return step("load_model", name, **fields)


def unload(name: str, **fields: Any) -> Step:
    return step("unload_model", name, **fields)


def row(id: str, rule: str, *steps: Step, **fields: Any) -> Calls:
    return Calls(id=id, rule=rule, steps=steps, **fields)


def index(**fields: Any) -> Step:
    return step("get_model_repository_index", **fields)


def change_log(wanted: Mapping[str, object], **fields: Any) -> Step:
    return step("update_log_settings", wanted, **fields)


def change_traces(wanted: Mapping[str, object], **fields: Any) -> Step:
    return step("update_trace_settings", options={"settings": wanted}, **fields)


def sequence(values: Any, phrase: str, id: int | str, **fields: Any) -> Step:
    flags = {f"sequence_{name}": fields.pop(name) for name in ("start", "end") if name in fields}
    return infer("total", values, phrase, sequence_id=id, **flags, **fields)


def unknown(call: str, phrase: str) -> tuple[Rest, Rpc]:
    """A parameter that Triton's clients do not send."""
    rest = Rest(
        id=f"an unknown parameter of {call}, over REST",
        rule="unknown parameters are named",
        target=f"/v2/repository/models/plus/{call}",
        body='{"parameters":{"speed":1}}',
        code=400,
        phrase=phrase,
        server=CONTROLLED,
    )
    rpc = Rpc(
        id=f"an unknown parameter of {call}, over gRPC",
        rule="unknown parameters are named",
        method=f"RepositoryModel{call.capitalize()}",
        request='model_name: "plus" parameters { key: "speed" value { int64_param: 1 } }',
        code="INVALID_ARGUMENT",
        phrase=phrase.replace('\\"', '"'),
        server=CONTROLLED,
    )
    return rest, rpc


START_AND_END = {"sequence_start": True, "sequence_end": True}
HOW = (
    "`tritonclient` sends these rows, each first by HTTP and then by gRPC, and an answer has both"
    " codes; requests that it does not send are written out. "
)
START = (
    "The server is in explicit mode. Before each row `plus` and `total` are loaded. `total` keeps"
    " the sum of all `x` of a sequence"
    " and returns it as `y`, both of shape `[1, 2]`; `float` is not loaded, nor is `broken`."
)
AS_ABOVE = "Clients and models are those of [the rows above](#models-that-clients-load)."
CONTROL = (
    row(
        "a load",
        "the model serves when the call returns",
        load("float"),
        infer("float", [5], "[5.0]"),
        step("is_model_ready", "float", phrase="true"),
    ),
    row("a second load", "is no error", load("plus"), infer("plus", [1], "[3.5]")),
    row(
        "an unload",
        "the model no longer serves when the call returns",
        unload("plus"),
        step("is_model_ready", "plus", phrase="false"),
        infer("plus", [1], "Servable not found for request: Latest(plus)", **NONE),
        step("is_server_ready", phrase="true"),
    ),
    row("a second unload", "is no error", unload("plus"), unload("plus")),
    row("an unload of a model that never was loaded", "is no error", unload("float")),
    row(
        "a load after an unload",
        "serves again",
        unload("plus"),
        load("plus"),
        infer("plus", [1], "[3.5]"),
    ),
    row(
        "a load of a model that there is not",
        "404, with its name",
        load("absent", phrase="absent", **NONE),
    ),
    row(
        "an unload of a model that there is not",
        "404, with its name",
        unload("absent", phrase="absent", **NONE),
    ),
    row(
        "a load of a model that is broken",
        "fails, and changes nothing",
        load("broken", phrase="broken", **FAILED),
        index(phrase=f'"name": "broken", {UNLOADED}'),
    ),
    row(
        "the index",
        "models that are not loaded are in it",
        index(phrase='"name": "plus", "reason": "", "state": "READY", "version": "2"'),
        index(phrase=f'"name": "float", {UNLOADED}'),
    ),
    row(
        "the index after an unload",
        "an unloaded model stays in it",
        unload("plus"),
        index(phrase=f'"name": "plus", {UNLOADED}'),
    ),
    row(
        "a configuration with a load",
        "settings are those of the configuration file",
        load(
            "plus",
            options={"config": "{}"},
            phrase='parameter "config" of a load is not supported',
            **MISSING,
        ),
    ),
    row(
        "files with a load",
        "files are those of the repository",
        load(
            "plus",
            options={"config": "{}", "files": {"file:1/model.xml": b"<net/>"}},
            phrase="of a load is not supported",
            **MISSING,
        ),
    ),
    row(
        "an unload of the models that a model asks",
        "each is unloaded by its name",
        unload(
            "plus",
            options={"unload_dependents": True},
            phrase='"unload_dependents": true is not supported',
            **MISSING,
        ),
        infer("plus", [1], "[3.5]"),
    ),
    *unknown("load", 'parameter \\"speed\\" of a load is unknown; expected none'),
    *unknown(
        "unload",
        'parameter \\"speed\\" of an unload is unknown;'
        ' expected \\"unload_dependents\\", true or false',
    ),
    row(
        "a load in poll mode",
        "503, with the mode that is needed",
        load("plus", phrase=OTHER_MODE, code="UNAVAILABLE", status=503),
        server=SHARED,
    ),
    row(
        "an unload in poll mode",
        "503, with the mode that is needed",
        unload("plus", phrase=OTHER_MODE, code="UNAVAILABLE", status=503),
        infer("plus", [1], "[3.5]"),
        server=SHARED,
    ),
)
STREAMS = (
    row(
        "several requests",
        "answers in the order of the requests, each with its id",
        infer("plus", [1], "[3.5]", request_id="a"),
        infer("plus", [1, 2], "[3.5, 4.0]", request_id="b"),
        infer("plus", [3], "[4.5]"),
        streamed=True,
    ),
    row(
        "several models",
        "a stream may ask any of them",
        infer("plus", [1], "[3.5]", request_id="a"),
        infer("total", [[1, 2]], "[[1.0, 2.0]]", sequence_id=91, **START_AND_END),
        infer("plus", [2], "[4.0]", request_id="c", model_version="2"),
        streamed=True,
    ),
    row(
        "an error",
        "stands in error_message, and the stream goes on",
        infer("absent", [1], "Servable not found for request: Latest(absent)", code="NOT_FOUND"),
        infer("plus", [[1]], "[1, 1]", code="INVALID_ARGUMENT"),
        infer("plus", [1], "[3.5]", request_id="c"),
        streamed=True,
    ),
    row(
        "a model that is not loaded",
        "as one that there is not",
        infer("float", [1], "Servable not found for request: Latest(float)", code="NOT_FOUND"),
        streamed=True,
    ),
    row(
        "a sequence in a stream",
        "requests are answered one after another",
        infer("total", [[1, 2]], "[[1.0, 2.0]]", sequence_id=81, sequence_start=True),
        infer("total", [[1, 2]], "[[2.0, 4.0]]", sequence_id=81),
        infer("total", [[1, 2]], "[[3.0, 6.0]]", sequence_id=81, sequence_end=True),
        streamed=True,
    ),
    Rpc(
        id="the id of a request that fails",
        rule="stands beside error_message",
        method="ModelStreamInfer",
        request='model_name: "absent" id: "7"',
        phrase='served models: plus, total" infer_response { id: "7" }',
        server=CONTROLLED,
    ),
)
SEQUENCES = (
    row(
        "a sequence",
        "keeps its state from start to end",
        sequence([[1, 2]], "[[1.0, 2.0]]", 11, start=True),
        sequence([[1, 2]], "[[2.0, 4.0]]", 11),
        sequence([[1, 2]], "[[3.0, 6.0]]", 11, end=True),
    ),
    row(
        "two sequences",
        "do not mix",
        sequence([[1, 2]], "[[1.0, 2.0]]", 21, start=True),
        sequence([[5, 5]], "[[5.0, 5.0]]", 22, start=True),
        sequence([[1, 2]], "[[2.0, 4.0]]", 21, end=True),
        sequence([[5, 5]], "[[10.0, 10.0]]", 22, end=True),
    ),
    row(
        "a sequence of one request",
        "start and end may both be true",
        sequence([[1, 2]], "[[1.0, 2.0]]", 31, start=True, end=True),
        sequence([[1, 2]], "ID does not exist: 31", 31, **NONE),
    ),
    row(
        "a request after the end",
        "the sequence is gone",
        sequence([[1, 2]], "[[1.0, 2.0]]", 41, start=True),
        sequence([[1, 2]], "[[2.0, 4.0]]", 41, end=True),
        sequence([[1, 2]], "ID does not exist: 41", 41, **NONE),
    ),
    row(
        "a second start",
        "of a sequence that goes on",
        sequence([[1, 2]], "[[1.0, 2.0]]", 51, start=True),
        sequence([[1, 2]], "51", 51, start=True, **CONFLICT),
        sequence([[1, 2]], "[[2.0, 4.0]]", 51, end=True),
    ),
    row(
        "an id of digits as text",
        "is the number",
        sequence([[1, 2]], "[[1.0, 2.0]]", "61", start=True),
        sequence([[1, 2]], "[[2.0, 4.0]]", 61, end=True),
    ),
    row(
        "an id that is no number",
        "is refused",
        sequence([[1, 2]], "sequence_id", "a", start=True, **BAD),
    ),
    row(
        "an id for a model without state",
        "is refused",
        infer("plus", [1], "sequence", sequence_id=71, sequence_start=True, **BAD),
    ),
)
STATISTICS = (
    row(
        "statistics of a model",
        "each request counts once, and parts are at most the whole",
        infer("plus", [1], "[3.5]"),
        infer("plus", [1, 2, 3], "[3.5, 4.0, 4.5]"),
        infer("plus", [[1]], "x", **BAD),
        counted={
            "inference_count": 2,
            "execution_count": 2,
            "success": 2,
            "fail": 1,
            "queue": 2,
            "compute_input": 2,
            "compute_infer": 2,
            "compute_output": 2,
        },
    ),
    row(
        "statistics of all models",
        "of those that serve",
        step("get_inference_statistics", phrase='"name": "total"', absent='"name": "float"'),
        step("get_inference_statistics", phrase='"name": "plus"'),
    ),
    row(
        "statistics of a version",
        "of a number that serves",
        step("get_inference_statistics", "plus", "2", phrase='"version": "2"'),
        step("get_inference_statistics", "plus", "9", phrase="Specific(plus, 9)", **NONE),
    ),
    row(
        "statistics of a model that there is not",
        "404",
        step("get_inference_statistics", "absent", phrase="absent", **NONE),
    ),
    row(
        "statistics of a model that is not loaded",
        "404",
        step("get_inference_statistics", "float", phrase="float", **NONE),
    ),
)
SETTINGS = (
    row(
        "the settings of the log",
        "Triton's keys",
        step("get_log_settings", phrase='"log_info": true'),
        step("get_log_settings", phrase='"log_verbose_level": 0'),
        step("get_log_settings", phrase='"log_format": "default"'),
    ),
    row(
        "the log's verbose level",
        "1 is DEBUG",
        change_log({"log_verbose_level": 1}, phrase='"log_verbose_level": 1'),
        step("get_log_settings", phrase='"log_verbose_level": 1'),
    ),
    row(
        "a log without INFO",
        "is that of WARNING",
        change_log({"log_info": False}, phrase='"log_info": false'),
        step("get_log_settings", phrase='"log_warning": true'),
    ),
    row(
        "flags of the log that no level has",
        "errors are always logged",
        change_log({"log_error": False}, phrase="no level of the log has", **BAD),
    ),
    row(
        "another file of the log",
        "is set at the start",
        change_log({"log_file": "/a"}, phrase='"log_file" cannot be changed', **MISSING),
    ),
    row(
        "the log's file that it has",
        "changes nothing",
        change_log({"log_file": ""}, phrase='"log_file": ""'),
    ),
    row(
        "a setting of the log that there is not",
        "is named",
        change_log({"log_speed": True}, phrase='"log_speed" is unknown', **BAD),
    ),
    Rest(
        id="a value of the log of another type",
        rule="the type is named",
        target="/v2/logging",
        body='{"log_info":"yes"}',
        code=400,
        phrase='setting \\"log_info\\" has to be true or false',
        server=CONTROLLED,
    ),
    row(
        "the settings of traces",
        "Triton's keys",
        step("get_trace_settings", phrase='"trace_level": ["OFF"]'),
        step("get_trace_settings", phrase='"trace_mode": "opentelemetry"'),
        step("get_trace_settings", "plus", phrase='"trace_level": ["OFF"]'),
    ),
    row(
        "traces of a model that there is not",
        "404",
        step("get_trace_settings", "absent", phrase="absent", **NONE),
    ),
    row(
        "the level of traces that they have",
        "changes nothing",
        change_traces({"trace_level": ["OFF"]}, phrase='"trace_level": ["OFF"]'),
    ),
    row(
        "another level of traces",
        "is set at the start",
        change_traces({"trace_level": ["TIMESTAMPS"]}, phrase="OTEL_TRACES_SAMPLER", **MISSING),
    ),
    row(
        "a setting of traces that there is not",
        "is named",
        change_traces({"trace_speed": "1"}, phrase='"trace_speed" is unknown', **BAD),
    ),
)
SECTIONS = [
    Section("5.4 Models that clients load", f"{HOW}{START}", CONTROL),
    Section("5.5 Streams", f"Each row is one call of `ModelStreamInfer`. {AS_ABOVE}", STREAMS),
    Section("5.6 Sequences", AS_ABOVE, SEQUENCES),
    Section("5.7 Statistics", AS_ABOVE, STATISTICS),
    Section("5.8 Settings of log and traces", AS_ABOVE, SETTINGS),
]
