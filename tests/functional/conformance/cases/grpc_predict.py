"""Predict over gRPC: which servable, which signature."""

from tests.functional.conformance.case import OPTIONS, Rpc, Section
from tests.functional.conformance.messages import (
    floats,
    model_spec,
    predict,
    predicted,
    tensor,
)

ONE = floats("1", 1)
ZERO = "Without a version 0 it means the default: clients of 2020 and ovmsclient always set it."

MODEL_SPEC = Section(
    "3.1 model_spec",
    """\
Every request names its servable in `model_spec`: a model, and a version by number or by label. With
neither, the highest version that is AVAILABLE answers. The reply's `model_spec` says which version
and which signature that was; it never holds a label.

`plus` computes `y = x / 2 + 2` in version 1, labelled `stable` and `a b`, and `y = x / 2 + 3` in
version 2, labelled `canary`. The label `future` names version 9, which does not exist.""",
    [
        Rpc(
            id="no version",
            rule="the highest available version answers",
            request=predict("plus", x=ONE),
            reply=predicted("plus", 2, y=floats("3.5", 1)),
        ),
        Rpc(
            id="version 1",
            rule="a version by number",
            request=predict(model_spec("plus", 1), x=ONE),
            reply=predicted("plus", 1, y=floats("2.5", 1)),
        ),
        Rpc(
            id="version 2",
            rule="a version by number",
            request=predict(model_spec("plus", 2), x=ONE),
            reply=predicted("plus", 2, y=floats("3.5", 1)),
        ),
        Rpc(
            id="label stable",
            rule="a version by label; the reply has its number",
            request=predict(model_spec("plus", "stable"), x=ONE),
            reply=predicted("plus", 1, y=floats("2.5", 1)),
        ),
        Rpc(
            id="label canary",
            rule="a version by label; the reply has its number",
            request=predict(model_spec("plus", "canary"), x=ONE),
            reply=predicted("plus", 2, y=floats("3.5", 1)),
        ),
        Rpc(
            id="label with a space",
            rule="a label is any text",
            request=predict(model_spec("plus", "a b"), x=ONE),
            reply=predicted("plus", 1, y=floats("2.5", 1)),
        ),
        Rpc(
            id="label of a version that is not there",
            rule="a label may name an unavailable version if the flag allows it",
            request=predict(model_spec("plus", "future"), x=ONE),
            code="NOT_FOUND",
            phrase="Servable not found for request: Specific(plus, 9)",
        ),
        Rpc(
            id="unknown label",
            rule="an unassigned label is an invalid argument",
            request=predict(model_spec("plus", "beta"), x=ONE),
            code="INVALID_ARGUMENT",
            phrase="Unrecognized servable version label: beta",
        ),
        Rpc(
            id="label in other case",
            rule="labels are compared as they are written",
            request=predict(model_spec("plus", "STABLE"), x=ONE),
            code="INVALID_ARGUMENT",
            phrase="Unrecognized servable version label: STABLE",
        ),
        Rpc(
            id="unknown model with a label",
            rule="the label is looked up first",
            request=predict(model_spec("absent", "stable"), x=ONE),
            code="INVALID_ARGUMENT",
            phrase="Unrecognized servable version label: stable",
        ),
        Rpc(
            id="unknown model",
            rule="no such servable",
            request=predict("absent", x=ONE),
            code="NOT_FOUND",
            phrase="Servable not found for request: Latest(absent)",
        ),
        Rpc(
            id="unknown model with a version",
            rule="no such servable",
            request=predict(model_spec("absent", 3), x=ONE),
            code="NOT_FOUND",
            phrase="Servable not found for request: Specific(absent, 3)",
        ),
        Rpc(
            id="unknown version",
            rule="no such servable",
            request=predict(model_spec("plus", 3), x=ONE),
            code="NOT_FOUND",
            phrase="Servable not found for request: Specific(plus, 3)",
        ),
        Rpc(
            id="version 0",
            rule="0 is a version of its own",
            request=predict(model_spec("plus", 0), x=ONE),
            reply=predicted("plus", 2, y=floats("3.5", 1)),
            deviation=ZERO,
        ),
        Rpc(
            id="negative version",
            rule="no such servable",
            request=predict(model_spec("plus", -1), x=ONE),
            code="NOT_FOUND",
            phrase="Servable not found for request: Specific(plus, -1)",
        ),
        Rpc(
            id="model name in other case",
            rule="names are compared as they are written",
            request=predict("Plus", x=ONE),
            code="NOT_FOUND",
            phrase="Servable not found for request: Latest(Plus)",
        ),
        Rpc(
            id="model whose newest version failed to load",
            rule="the highest available version answers",
            request=predict("broken", x=ONE),
            reply=predicted("broken", 1, y=ONE),
        ),
        Rpc(
            id="version that failed to load",
            rule="a version that is not AVAILABLE is not found",
            request=predict(model_spec("broken", 2), x=ONE),
            code="NOT_FOUND",
            phrase="Servable not found for request: Specific(broken, 2)",
        ),
        Rpc(
            id="no model_spec",
            rule="model_spec is required",
            request=predict("", x=ONE),
            code="INVALID_ARGUMENT",
            phrase="Missing ModelSpec",
        ),
        Rpc(
            id="empty request",
            rule="model_spec is required",
            request="",
            code="INVALID_ARGUMENT",
            phrase="Missing ModelSpec",
        ),
        Rpc(
            id="model_spec without a name",
            rule="the name is required",
            request=predict("model_spec { version { value: 1 } }", x=ONE),
            code="INVALID_ARGUMENT",
            phrase="ModelSpec has no name specified.",
        ),
        Rpc(
            id="odd model name",
            rule="a name is any text",
            request=predict("a:b c", x=ONE),
            reply=predicted("a:b c", y=floats("1", 1)),
        ),
    ],
)

SIGNATURE = Section(
    "3.2 Signatures",
    """\
An empty `signature_name` means `serving_default`, and the reply has it filled in. A signature that
the servable does not have is FAILED_PRECONDITION over gRPC and 400 over REST.""",
    [
        Rpc(
            id="signature named",
            rule="the reply repeats it",
            request=predict(model_spec("plus", 1, "serving_default"), x=ONE),
            reply=predicted("plus", 1, "serving_default", y=floats("2.5", 1)),
        ),
        Rpc(
            id="unknown signature",
            rule="a failed precondition, not an invalid argument",
            request=predict(model_spec("plus", None, "other"), x=ONE),
            code="FAILED_PRECONDITION",
            phrase='Serving signature key "other" not found.',
        ),
        Rpc(
            id="unknown signature and wrong inputs",
            rule="the signature is looked up before the inputs",
            request=predict(model_spec("plus", None, "other"), z=ONE),
            code="FAILED_PRECONDITION",
            phrase='Serving signature key "other" not found.',
        ),
        Rpc(
            id="unknown model and unknown signature",
            rule="the servable is looked up before the signature",
            request=predict(model_spec("absent", None, "other"), x=ONE),
            code="NOT_FOUND",
            phrase="Latest(absent)",
        ),
    ],
)

RARE_FIELDS = Section(
    "1.2 Other fields and services",
    """\
Fields of newer protocol files have no effect. Services that TensorFlow Serving defines but does not
register are not implemented here either.""",
    [
        Rpc(
            id="client_id",
            rule="no effect",
            request=predict(model_spec("plus", 1), 'client_id: "me"', x=ONE),
            reply=predicted("plus", y=floats("2.5", 1)),
        ),
        Rpc(
            id="request_options",
            rule="no effect",
            request=predict(
                model_spec("plus", 1), "request_options { max_cache_length: 3 }", x=ONE
            ),
            reply=predicted("plus", y=floats("2.5", 1)),
        ),
        Rpc(
            id="predict_streamed_options",
            rule="no effect",
            request=predict(
                model_spec("plus", 1), "predict_streamed_options { request_state: SPLIT }", x=ONE
            ),
            reply=predicted("plus", y=floats("2.5", 1)),
        ),
        Rpc(
            id="SessionRun",
            rule="never registered",
            method="tensorflow.serving.SessionService/SessionRun",
            request="",
            code="UNIMPLEMENTED",
        ),
        Rpc(
            id="PredictStreamed",
            rule="no such method",
            method="tensorflow.serving.PredictionService/PredictStreamed",
            request="",
            code="UNIMPLEMENTED",
        ),
        Rpc(
            id="a method in other case",
            rule="methods are compared as they are written",
            method="tensorflow.serving.PredictionService/predict",
            request="",
            code="UNIMPLEMENTED",
        ),
        Rpc(
            id="a service without its package",
            rule="services go by their full name",
            method="PredictionService/Predict",
            request="",
            code="UNIMPLEMENTED",
        ),
        Rpc(
            id="tensor_content in replies",
            rule="--enable_serialization_as_tensor_content",
            server=OPTIONS,
            request=predict(model_spec("plus", 2), x=ONE),
            reply=predicted("plus", 2, y=tensor("DT_FLOAT", [1], r'tensor_content: "\000\000`@"')),
        ),
    ],
)

SECTIONS = (RARE_FIELDS, MODEL_SPEC, SIGNATURE)
