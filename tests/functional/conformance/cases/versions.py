"""Status and metadata, over gRPC and REST."""

from tests.functional.conformance.case import Rest, Rpc, Section
from tests.functional.conformance.messages import model_spec

FAILED = "A version that failed to load is tried again, and clients of 2020 wait for LOADING."
ZERO = "Without a version 0 it means the default: clients of 2020 and ovmsclient always set it."
LABEL = "A label that is ignored misleads."


def versions(*numbers: int) -> str:
    return " ".join(
        f"model_version_status {{ version: {n} state: AVAILABLE status {{ }} }}" for n in numbers
    )


def status_json(*numbers: int) -> str:
    entries = ",\n".join(
        f'  {{\n   "version": "{n}",\n   "state": "AVAILABLE",\n   "status": {{\n'
        '    "error_code": "OK",\n    "error_message": ""\n   }\n  }'
        for n in numbers
    )
    return f'{{\n "model_version_status": [\n{entries}\n ]\n}}\n'


def get(id: str, target: str, rule: str, **fields: object) -> Rest:
    return Rest(id=f"REST: {id}", rule=rule, method="GET", target=target, **fields)  # type: ignore[arg-type]


def status(id: str, request: str, rule: str, **fields: object) -> Rpc:
    return Rpc(id=id, rule=rule, method="GetModelStatus", request=request, **fields)  # type: ignore[arg-type]


STATUS = Section(
    "4.1, 2.10 GetModelStatus",
    """\
The state of one version, or of all, highest first: START (10), LOADING (20), AVAILABLE (30),
UNLOADING (40), END (50). `status` is OK, or says why the version does not load. Over REST it is
JSON with one space of indent and 64-bit integers as strings.""",
    [
        status("all versions", model_spec("plus"), "highest first", reply=versions(2, 1)),
        status("version 1", model_spec("plus", 1), "one version", reply=versions(1)),
        status(
            "label stable",
            model_spec("plus", "stable"),
            "one version",
            reply=versions(1),
            deviation=LABEL,
        ),
        status(
            "unknown label",
            model_spec("plus", "beta"),
            "an unassigned label",
            code="INVALID_ARGUMENT",
            phrase="Unrecognized servable version label: beta",
            deviation=LABEL,
        ),
        status(
            "unknown model",
            model_spec("absent"),
            "never seen",
            code="NOT_FOUND",
            phrase="Could not find any versions of model absent",
        ),
        status(
            "unknown version",
            model_spec("plus", 7),
            "never seen",
            code="NOT_FOUND",
            phrase="Could not find version 7 of model plus",
        ),
        status(
            "version 0",
            model_spec("plus", 0),
            "0 is a version",
            reply=versions(2, 1),
            deviation=ZERO,
        ),
        status(
            "no model_spec",
            "",
            "model_spec is required",
            code="INVALID_ARGUMENT",
            phrase="Missing ModelSpec",
        ),
        status(
            "no name",
            "model_spec { }",
            "an empty name is a name like any other",
            code="NOT_FOUND",
            phrase="Could not find any versions of model ",
        ),
        status(
            "a version that failed to load",
            model_spec("broken", 2),
            "END with the cause",
            phrase="version: 2 state: LOADING status { error_code: UNKNOWN error_message:",
            deviation=FAILED,
        ),
        get("all versions", "/v1/models/plus", "to the byte", reply=status_json(2, 1)),
        get("version 2", "/v1/models/plus/versions/2", "to the byte", reply=status_json(2)),
        get("version 01", "/v1/models/plus/versions/01", "to the byte", reply=status_json(1)),
        get(
            "label canary",
            "/v1/models/plus/labels/canary",
            "to the byte",
            reply=status_json(2),
            deviation=LABEL,
        ),
        get(
            "unknown model",
            "/v1/models/absent",
            "never seen",
            code=404,
            phrase="Could not find any versions of model absent",
        ),
        get(
            "unknown version",
            "/v1/models/plus/versions/7",
            "never seen",
            code=404,
            phrase="Could not find version 7 of model plus",
        ),
        get(
            "unknown label",
            "/v1/models/plus/labels/beta",
            "an unassigned label",
            code=400,
            phrase="Unrecognized servable version label: beta",
            deviation=LABEL,
        ),
        get(
            "a version that failed to load",
            "/v1/models/broken/versions/2",
            "200: the model is known",
            phrase='   "state": "LOADING",\n   "status": {\n    "error_code": "UNKNOWN",\n',
            deviation=FAILED,
        ),
    ],
)

PLUS_JSON = """{
"model_spec":{
 "name": "plus",
 "signature_name": "",
 "version": "VERSION"
}
,
"metadata": {"signature_def": {
 "signature_def": {
  "serving_default": {
   "inputs": {
    "x": {
     "dtype": "DT_FLOAT",
     "tensor_shape": {
      "dim": [
       {
        "size": "-1",
        "name": ""
       }
      ],
      "unknown_rank": false
     },
     "name": "x"
    }
   },
   "outputs": {
    "y": {
     "dtype": "DT_FLOAT",
     "tensor_shape": {
      "dim": [
       {
        "size": "-1",
        "name": ""
       }
      ],
      "unknown_rank": false
     },
     "name": "y"
    }
   },
   "method_name": "tensorflow/serving/predict",
   "defaults": {}
  }
 }
}
}
}
"""

PLUS_MAP = (
    'metadata { key: "signature_def" value {'
    " [type.googleapis.com/tensorflow.serving.SignatureDefMap] {"
    ' signature_def { key: "serving_default" value {'
    ' inputs { key: "x" value { name: "x" dtype: DT_FLOAT tensor_shape { dim { size: -1 } } } }'
    ' outputs { key: "y" value { name: "y" dtype: DT_FLOAT tensor_shape { dim { size: -1 } } } }'
    ' method_name: "tensorflow/serving/predict" } } } } }'
)


def metadata(id: str, request: str, rule: str, **fields: object) -> Rpc:
    return Rpc(id=id, rule=rule, method="GetModelMetadata", request=request, **fields)  # type: ignore[arg-type]


FIELD = 'metadata_field: "signature_def"'

METADATA = Section(
    "4.2, 2.11 GetModelMetadata",
    """\
All signatures of one version: `metadata["signature_def"]` is an `Any` that holds a
`SignatureDefMap`. Signatures that `signatures.json` adds are among them. Over REST it is JSON with
the doubled `signature_def` that clients of TensorFlow Serving know.""",
    [
        metadata(
            "default version",
            f"{model_spec('plus')} {FIELD}",
            "model_spec has name and version",
            reply=f"{model_spec('plus', 2)} {PLUS_MAP}",
        ),
        metadata(
            "version 1",
            f"{model_spec('plus', 1)} {FIELD}",
            "model_spec has name and version",
            reply=f"{model_spec('plus', 1)} {PLUS_MAP}",
        ),
        metadata(
            "label stable",
            f"{model_spec('plus', 'stable')} {FIELD}",
            "model_spec has name and version",
            reply=f"{model_spec('plus', 1)} {PLUS_MAP}",
        ),
        metadata(
            "the field twice",
            f"{model_spec('plus', 1)} {FIELD} {FIELD}",
            "each field must be known",
            reply=f"{model_spec('plus', 1)} {PLUS_MAP}",
        ),
        metadata(
            "a signature_name",
            f"{model_spec('plus', 1, 'other')} {FIELD}",
            "signature_name has no effect",
            reply=f"{model_spec('plus', 1)} {PLUS_MAP}",
        ),
        metadata(
            "no model_spec",
            FIELD,
            "model_spec is required",
            code="INVALID_ARGUMENT",
            phrase="Missing ModelSpec",
        ),
        metadata(
            "no field",
            model_spec("plus"),
            "a field is required",
            code="INVALID_ARGUMENT",
            phrase="GetModelMetadataRequest must specify at least one metadata_field",
        ),
        metadata(
            "no field, unknown model",
            model_spec("absent"),
            "fields before the servable",
            code="INVALID_ARGUMENT",
            phrase="GetModelMetadataRequest must specify at least one metadata_field",
        ),
        metadata(
            "an unknown field",
            f'{model_spec("plus")} {FIELD} metadata_field: "other"',
            "each field must be known",
            code="INVALID_ARGUMENT",
            phrase="Metadata field other is not supported",
        ),
        metadata(
            "unknown model",
            f"{model_spec('absent')} {FIELD}",
            "no such servable",
            code="NOT_FOUND",
            phrase="Servable not found for request: Latest(absent)",
        ),
        metadata(
            "unknown version",
            f"{model_spec('plus', 7)} {FIELD}",
            "no such servable",
            code="NOT_FOUND",
            phrase="Servable not found for request: Specific(plus, 7)",
        ),
        metadata(
            "unknown label",
            f"{model_spec('plus', 'beta')} {FIELD}",
            "an unassigned label",
            code="INVALID_ARGUMENT",
            phrase="Unrecognized servable version label: beta",
        ),
        metadata(
            "signatures.json",
            f"{model_spec('scored')} {FIELD}",
            "all signatures",
            phrase='method_name: "tensorflow/serving/regress"',
        ),
        *(
            metadata(
                f"dtype of {word}",
                f"{model_spec(word)} {FIELD}",
                "every dtype by its name",
                phrase=f"dtype: DT_{word.upper()} ",
            )
            for word in ("double", "half", "bfloat16", "int8", "uint64", "bool", "string")
        ),
        get(
            "default version",
            "/v1/models/plus/metadata",
            "to the byte",
            reply=PLUS_JSON.replace("VERSION", "2"),
        ),
        get(
            "version 1",
            "/v1/models/plus/versions/1/metadata",
            "to the byte",
            reply=PLUS_JSON.replace("VERSION", "1"),
        ),
        get(
            "label stable",
            "/v1/models/plus/labels/stable/metadata",
            "to the byte",
            reply=PLUS_JSON.replace("VERSION", "1"),
        ),
        get(
            "rank 0",
            "/v1/models/scalar/metadata",
            "no dimensions, and the rank is known",
            phrase='"dim": [],\n      "unknown_rank": false',
        ),
        get(
            "classify",
            "/v1/models/scored/metadata",
            "all signatures",
            phrase='"method_name": "tensorflow/serving/classify"',
        ),
        get(
            "unknown model",
            "/v1/models/absent/metadata",
            "no such servable",
            code=404,
            phrase="Servable not found for request: Latest(absent)",
        ),
        get(
            "unknown version",
            "/v1/models/plus/versions/7/metadata",
            "no such servable",
            code=404,
            phrase="Servable not found for request: Specific(plus, 7)",
        ),
        get(
            "unknown label",
            "/v1/models/plus/labels/beta/metadata",
            "an unassigned label",
            code=400,
            phrase="Unrecognized servable version label: beta",
        ),
    ],
)

SECTIONS = (STATUS, METADATA)
