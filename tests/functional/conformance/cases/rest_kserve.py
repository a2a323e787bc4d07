"""The Open Inference Protocol v2 over REST."""

import json
import struct
from typing import Any

from tests.functional.conformance.case import Rest, Section
from tests.functional.conformance.cases.rest_routes import JSON, error

INFER = "/v2/models/plus/infer"
X = '{"name":"x","shape":[1],"datatype":"FP32","data":[1]}'
RAW_X = '{"name":"x","shape":[1],"datatype":"FP32","parameters":{"binary_data_size":4}}'
ONE = struct.pack("<f", 1)
HEADER = "Inference-Header-Content-Length"
NAMES = '"model_name":"plus","model_version":"2"'
Y = '{"name":"y","datatype":"FP32","shape":[1],"data":[3.5]}'
RAW_Y = '{"name":"y","datatype":"FP32","shape":[1],"parameters":{"binary_data_size":4}}'

REGION = {"parameters": {"shared_memory_region": "r", "shared_memory_byte_size": 4}}
OFF = "system shared memory is switched off"


def body(inputs: str = X, **more: object) -> str:
    rest = "".join(f',"{name}":{json.dumps(value)}' for name, value in more.items())
    return f'{{"inputs":[{inputs}]{rest}}}'


def asked(id: str, rule: str, content: str | bytes = body(), **fields: Any) -> Rest:
    fields = {"target": INFER, **fields}
    return Rest(id=id, rule=rule, body=content, **fields)


def refused(id: str, rule: str, content: str | bytes, phrase: str, code: int = 400) -> Rest:
    return asked(id, rule, content, code=code, phrase=phrase, reply_headers=JSON)


def raw(id: str, rule: str, text: str, tail: bytes, **fields: Any) -> Rest:
    headers = {HEADER: str(len(text))}
    return asked(id, rule, text.encode() + tail, headers=headers, **fields)


def given(**members: object) -> str:
    """The input x with some members of its own."""
    return body(json.dumps({**json.loads(X), **members}, separators=(",", ":")))


SECTIONS = [
    Section(
        title="5.1 Inference, metadata and repository over REST",
        introduction=(
            "What TensorFlow Serving has not. The rules are those of the Open Inference Protocol v2"
            " (KServe v2), or of Triton's binary data extension; [open-inference.md]"
            "(open-inference.md) says what else there is, and what differs from other servers."
            " `plus` has the versions 1, labelled `stable`, and 2."
        ),
        cases=[
            asked(
                "numbers", "server metadata, then inference", reply=f'{{{NAMES},"outputs":[{Y}]}}'
            ),
            asked(
                "an id",
                "it is repeated",
                body(id="7"),
                reply=f'{{"id":"7",{NAMES},"outputs":[{Y}]}}',
            ),
            asked(
                "a version",
                "versions are strings",
                target="/v2/models/plus/versions/1/infer",
                phrase='"model_version":"1"',
            ),
            asked(
                "a label as version",
                "versions are strings; labels are ours",
                target="/v2/models/plus/versions/stable/infer",
                phrase='"model_version":"1"',
            ),
            asked(
                "another type of number",
                "it is taken where the values survive, as over TensorFlow Serving's API",
                given(datatype="INT64"),
                phrase='"data":[3.5]',
            ),
            asked(
                "half precision in JSON",
                "Triton takes it as raw bytes alone",
                body(X.replace("FP32", "FP16")).replace("plus", "half"),
                target="/v2/models/half/infer",
                phrase='"datatype":"FP16"',
            ),
            asked(
                "nested data",
                "flat or nested, in row-major order",
                body('{"name":"x","shape":[1,2],"datatype":"FP32","data":[[1,2]]}'),
                target="/v2/models/matrix/infer",
                phrase='"shape":[1,2],"data":[1.0,2.0]',
            ),
            asked(
                "texts",
                "BYTES are strings in JSON",
                body('{"name":"x","shape":[1],"datatype":"BYTES","data":["a"]}'),
                target="/v2/models/string/infer",
                phrase='"datatype":"BYTES","shape":[1],"data":["a"]',
            ),
            asked(
                "an output",
                "those that are named, in their order",
                body(outputs=[{"name": "y"}]),
                reply=f'{{{NAMES},"outputs":[{Y}]}}',
            ),
            raw(
                "raw bytes behind the JSON",
                "the header says where they begin",
                body(RAW_X),
                ONE,
                reply=f'{{{NAMES},"outputs":[{Y}]}}',
            ),
            raw(
                "raw bytes in the reply",
                "`binary_data_output`, or `binary_data` of an output",
                body(RAW_X, parameters={"binary_data_output": True}),
                ONE,
                phrase=f'{{{NAMES},"outputs":[{RAW_Y}]}}',
                reply_headers={
                    "Content-Type": "application/octet-stream",
                    HEADER: str(len(f'{{{NAMES},"outputs":[{RAW_Y}]}}')),
                },
            ),
            raw(
                "bytes that are told by the shape",
                "OpenVINO Model Server takes them so",
                body('{"name":"x","shape":[1],"datatype":"FP32"}'),
                ONE,
                phrase='"data":[3.5]',
            ),
            asked(
                "bytes alone",
                "a request without JSON, for models of one input",
                ONE,
                headers={HEADER: "0"},
                phrase=RAW_Y,
            ),
            raw("too few bytes", "sizes fit", body(RAW_X), ONE[:3], code=400, phrase="3 are left"),
            raw("too many bytes", "sizes fit", body(RAW_X), ONE * 2, code=400, phrase="4 bytes"),
            asked(
                "a length beyond the body",
                "the JSON is in the body",
                headers={HEADER: "1000"},
                code=400,
                phrase=f"{HEADER} is '1000'",
            ),
            refused("no inputs", "`inputs` is needed", "{}", 'has no \\"inputs\\"'),
            refused(
                "an unknown datatype", "one of the table", given(datatype="F32"), "expected one"
            ),
            refused(
                "another datatype",
                "both are named",
                given(datatype="BYTES", data=["a"]),
                'input \\"x\\" has datatype BYTES; the model expects FP32',
            ),
            refused("a negative size", "sizes are known", given(shape=[-1]), "the actual size"),
            refused(
                "another number of values",
                "as many as the shape says",
                given(shape=[2]),
                'has data of shape [1]; its \\"shape\\" is [2]',
            ),
            refused("an input twice", "names are unique", body(f"{X},{X}"), "more than once"),
            refused("an unknown input", "those of the model", given(name="z"), "Sent extra: {z}"),
            refused(
                "an unknown output",
                "those of the model",
                body(outputs=[{"name": "z"}]),
                "output tensor alias not found in signature: z",
            ),
            refused("no JSON", "the body is JSON", "{", "JSON Parse error"),
            asked(
                "classification",
                "Triton's extension",
                body(outputs=[{"name": "y", "parameters": {"classification": 1}}]),
                phrase='"datatype":"BYTES","shape":[1,1],"data":["3.500000:0"]',
            ),
            refused(
                "a classification of nothing",
                "Triton's extension",
                body(outputs=[{"name": "y", "parameters": {"classification": 0}}]),
                'parameter \\"classification\\" of output \\"y\\" has to be a number from 1',
            ),
            refused(
                "a sequence for a model without state",
                "sequences are for models that keep state",
                body(parameters={"sequence_id": 1}),
                "this one keeps none",
            ),
            asked(
                "no such model",
                "404",
                target="/v2/models/absent/infer",
                code=404,
                phrase="Servable not found for request: Latest(absent)",
            ),
            asked(
                "no such version",
                "404",
                target="/v2/models/plus/versions/9/infer",
                code=404,
                phrase="Servable not found for request: Specific(plus, 9)",
            ),
            Rest(
                id="another method",
                rule="405, with the one there is",
                method="GET",
                target=INFER,
                code=405,
                reply=error("GET is not what this path takes: POST"),
                reply_headers={"Allow": "POST"},
            ),
            Rest(
                id="metadata of the server",
                rule="name, version and extensions",
                method="GET",
                target="/v2",
                phrase='{"name":"ie_serving","version":"',
            ),
            Rest(
                id="metadata of a model",
                rule="-1 where any size is taken",
                method="GET",
                target="/v2/models/plus",
                reply=(
                    '{"name":"plus","versions":["1","2"],"platform":"ie_serving","inputs":[{"name":'
                    '"x","datatype":"FP32","shape":[-1]}],"outputs":[{"name":"y","datatype":"FP32",'
                    '"shape":[-1]}]}'
                ),
            ),
            Rest(
                id="readiness of a version",
                rule="200 or 503, and JSON",
                method="GET",
                target="/v2/models/plus/versions/1/ready",
                reply='{"name": "plus", "ready": true}',
            ),
            Rest(
                id="the index of the repository",
                rule="Triton's extension",
                target="/v2/repository/index",
                phrase='{"name":"plus","version":"2","state":"READY","reason":""}',
            ),
            Rest(
                id="a path that the protocol lacks",
                rule="an error that its clients can read",
                method="GET",
                target="/v2/models",
                code=404,
                phrase="the Open Inference Protocol has no path /v2/models",
            ),
            Rest(
                id="generate",
                rule="Triton's extension, which is not there",
                target="/v2/models/plus/generate",
                code=501,
                phrase="this server has no generate",
            ),
            Rest(
                id="the configuration of a model",
                rule="Triton's extension",
                method="GET",
                target="/v2/models/plus/config",
                phrase='"max_batch_size":2147483647',
            ),
            Rest(
                id="the settings of the log",
                rule="Triton's extension",
                method="GET",
                target="/v2/logging",
                phrase='"log_error":true',
            ),
            Rest(
                id="a load",
                rule="Triton's, in poll mode",
                target="/v2/repository/models/plus/load",
                code=503,
                phrase="the model control mode is poll, not explicit",
            ),
            Rest(
                id="an unload",
                rule="Triton's, in poll mode",
                target="/v2/repository/models/plus/unload",
                code=503,
                phrase="the model control mode is poll, not explicit",
            ),
            *(
                Rest(
                    id=id,
                    rule="Triton's extension, which is off by default",
                    method=method,
                    target=f"/v2/systemsharedmemory{path}",
                    code=501,
                    phrase=OFF,
                )
                for id, method, path in (
                    ("the regions of shared memory", "GET", "/status"),
                    ("a region of shared memory", "GET", "/region/r/status"),
                    ("a region that is registered", "POST", "/region/r/register"),
                    ("a region that is unregistered", "POST", "/region/r/unregister"),
                    ("all regions that are unregistered", "POST", "/unregister"),
                )
            ),
            Rest(
                id="a region without a name",
                rule="an error that its clients can read",
                target="/v2/systemsharedmemory/register",
                code=404,
                phrase="the Open Inference Protocol has no path",
            ),
            Rest(
                id="CUDA memory",
                rule="Triton's extension, which is not there",
                method="GET",
                target="/v2/cudasharedmemory/status",
                code=501,
                phrase="this server has no cuda shared memory",
            ),
            refused(
                "an input in shared memory",
                "Triton's extension, which is off by default",
                body(json.dumps({"name": "x", "shape": [1], "datatype": "FP32", **REGION})),
                OFF,
                501,
            ),
            refused(
                "an output in shared memory",
                "Triton's extension, which is off by default",
                body(outputs=[{"name": "y", **REGION}]),
                OFF,
                501,
            ),
        ],
    )
]
