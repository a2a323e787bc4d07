"""Predict over gRPC: which servable, which signature."""

from tests.functional.conformance.case import OPTIONS, Rpc, Section
from tests.functional.conformance.messages import (
    Version,
    floats,
    model_spec,
    predict,
    predicted,
    tensor,
)

ONE = floats("1", 1)
ZERO = "Without a version 0 it means the default: clients of 2020 and ovmsclient always set it."


def plus(id: str, rule: str, of: Version, version: int, y: str, deviation: str = "") -> Rpc:
    """The version or label `of` the model `plus` is asked, and the version gives `y`."""
    return Rpc(
        id=id,
        rule=rule,
        request=predict("plus" if of is None else model_spec("plus", of), x=ONE),
        reply=predicted("plus", version, y=floats(y, 1)),
        deviation=deviation,
    )


def missing(id: str, rule: str, spec: str, servable: str) -> Rpc:
    return Rpc(
        id=id,
        rule=rule,
        request=predict(spec, x=ONE),
        code="NOT_FOUND",
        phrase=f"Servable not found for request: {servable}",
    )


def unassigned(id: str, rule: str, label: str, model: str = "plus") -> Rpc:
    return Rpc(
        id=id,
        rule=rule,
        request=predict(model_spec(model, label), x=ONE),
        code="INVALID_ARGUMENT",
        phrase=f"Unrecognized servable version label: {label}",
    )


def unimplemented(id: str, rule: str, method: str) -> Rpc:
    return Rpc(id=id, rule=rule, method=method, request="", code="UNIMPLEMENTED")


MODEL_SPEC = Section(
    "3.1 model_spec",
    """\
Every request names its servable in `model_spec`: a model, and a version by number or by label. With
neither, the highest version that is AVAILABLE answers. The reply's `model_spec` says which version
and which signature that was; it never holds a label.

`plus` computes `y = x / 2 + 2` in version 1, labelled `stable` and `a b`, and `y = x / 2 + 3` in
version 2, labelled `canary`. The label `future` names version 9, which does not exist.""",
    [
        plus("no version", "the highest available version answers", None, 2, "3.5"),
        plus("version 1", "a version by number", 1, 1, "2.5"),
        plus("version 2", "a version by number", 2, 2, "3.5"),
        plus("label stable", "a version by label; the reply has its number", "stable", 1, "2.5"),
        plus("label canary", "a version by label; the reply has its number", "canary", 2, "3.5"),
        plus("label with a space", "a label is any text", "a b", 1, "2.5"),
        missing(
            "label of a version that is not there",
            "a label may name an unavailable version if the flag allows it",
            model_spec("plus", "future"),
            "Specific(plus, 9)",
        ),
        unassigned("unknown label", "an unassigned label is an invalid argument", "beta"),
        unassigned("label in other case", "labels are compared as they are written", "STABLE"),
        unassigned(
            "unknown model with a label", "the label is looked up first", "stable", "absent"
        ),
        missing("unknown model", "no such servable", "absent", "Latest(absent)"),
        missing(
            "unknown model with a version",
            "no such servable",
            model_spec("absent", 3),
            "Specific(absent, 3)",
        ),
        missing("unknown version", "no such servable", model_spec("plus", 3), "Specific(plus, 3)"),
        plus("version 0", "0 is a version of its own", 0, 2, "3.5", deviation=ZERO),
        missing(
            "negative version", "no such servable", model_spec("plus", -1), "Specific(plus, -1)"
        ),
        missing(
            "model name in other case",
            "names are compared as they are written",
            "Plus",
            "Latest(Plus)",
        ),
        Rpc(
            id="model whose newest version failed to load",
            rule="the highest available version answers",
            request=predict("broken", x=ONE),
            reply=predicted("broken", 1, y=ONE),
        ),
        missing(
            "version that failed to load",
            "a version that is not AVAILABLE is not found",
            model_spec("broken", 2),
            "Specific(broken, 2)",
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
        unimplemented(
            "SessionRun", "never registered", "tensorflow.serving.SessionService/SessionRun"
        ),
        unimplemented(
            "PredictStreamed",
            "no such method",
            "tensorflow.serving.PredictionService/PredictStreamed",
        ),
        unimplemented(
            "a method in other case",
            "methods are compared as they are written",
            "tensorflow.serving.PredictionService/predict",
        ),
        unimplemented(
            "a service without its package",
            "services go by their full name",
            "PredictionService/Predict",
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
