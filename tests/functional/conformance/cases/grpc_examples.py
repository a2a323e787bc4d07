"""Classify, Regress and MultiInference over gRPC: batches of tensorflow.Example."""

from tests.functional.conformance.case import Rpc, Section
from tests.functional.conformance.messages import model_spec

FEATURES = (
    "TensorFlow hands serialized Examples to the graph; here they fill the inputs of the signature"
    " that signatures.json names."
)


def example(**features: str) -> str:
    """An Example; `points="float_list: 1, 2"`."""
    return f"features {{ {' '.join(_feature(k, v) for k, v in features.items())} }}"


def _feature(name: str, text: str) -> str:
    kind, _, values = text.partition(": ")
    return f'feature {{ key: "{name}" value {{ {kind} {{ value: [{values}] }} }} }}'


def example_list(*examples: str, context: str | None = None) -> str:
    listed = " ".join(f"examples {{ {each} }}" for each in examples)
    if context is None:
        return f"input {{ example_list {{ {listed} }} }}"
    return f"input {{ example_list_with_context {{ {listed} context {{ {context} }} }} }}"


def classified(*rows: str, signature: str = "classify") -> str:
    """A ClassificationResponse; a row is `label score, label score`."""
    return f"{classes(*rows)} {model_spec('scored', 1, signature)}"


def classes(*rows: str, field: str = "result") -> str:
    results = []
    for row in rows:
        pairs = [pair.strip().split(" ") for pair in row.split(",")]
        listed = " ".join(
            f'classes {{ label: "{label.strip("-")}" score: {score} }}' for label, score in pairs
        )
        results.append(f"classifications {{ {listed} }}")
    return f"{field} {{ {' '.join(results)} }}"


def values(*numbers: float, field: str = "result") -> str:
    listed = " ".join(f"regressions {{ value: {number} }}" for number in numbers)
    return f"{field} {{ {listed} }}"


def regressed(*numbers: float, signature: str = "regress") -> str:
    return f"{values(*numbers)} {model_spec('scored', 1, signature)}"


POINTS = example(points="float_list: 0.25, 0.75")
OTHER = example(points="float_list: 1, 0")
X = example(x="float_list: 1, 2")
Y = example(x="float_list: 3, 4")
CLASSIFY = model_spec("scored", None, "classify")
UNLABELLED = model_spec("scored", None, "unlabelled")
REGRESS = model_spec("scored", None, "regress")

SCHEMA = """\
A version says in `signatures.json`, beside its model, which signatures it has besides
`serving_default`:

```json
{"signatures": {
    "classify": {
        "method": "classify",
        "base": "serving_default",
        "features": {"x": "points"},
        "outputs": {"scores": "y"},
        "labels": "labels.txt"}}}
```

| key | meaning | default |
|---|---|---|
| `method` | `classify` or `regress` | required |
| `base` | the model's signature that is run | `serving_default` |
| `features` | for each input of `base` the feature of an Example that fills it | the input's name |
| `outputs` | for classify `scores`, `classes` or both, for regress `outputs`: the output of \
`base` that holds it | required |
| `labels` | a text file beside, one class name a line, when no output holds `classes` | none: \
labels are empty |

The file is checked when the version loads, and a fault is a load error that names its place.
Clients see the result in GetModelMetadata.

The examples below are sent to a model with the input `x` of two columns and the outputs `y = x` and
`total`, their sum. Its signatures: `classify` as above, with the labels `left` and `right`;
`unlabelled`, without labels and from the feature `x`; `regress` with `outputs` from `total`; `wide`
with `outputs` from `y`, which has two values a row and so cannot work."""

OVER_GRPC = Section(
    "3.5, 3.6 Classify and Regress over gRPC",
    SCHEMA,
    [
        Rpc(
            id="classify one example",
            rule="classes in the model's order",
            method="Classify",
            request=f"{CLASSIFY} {example_list(POINTS)}",
            reply=classified("left 0.25, right 0.75"),
        ),
        Rpc(
            id="classify two examples",
            rule="one Classifications for each example",
            method="Classify",
            request=f"{CLASSIFY} {example_list(POINTS, OTHER)}",
            reply=classified("left 0.25, right 0.75", "left 1, right 0"),
        ),
        Rpc(
            id="classify without labels",
            rule="no classes: empty labels",
            method="Classify",
            request=f"{UNLABELLED} {example_list(X)}",
            reply=classified("- 1, - 2", signature="unlabelled"),
        ),
        Rpc(
            id="classify with a context",
            rule="the context fills what an example lacks",
            method="Classify",
            request=f"{CLASSIFY} {example_list('', OTHER, context=POINTS)}",
            reply=classified("left 0.25, right 0.75", "left 1, right 0"),
        ),
        Rpc(
            id="classify with features that no input asks for",
            rule="they are ignored",
            method="Classify",
            request=f"{UNLABELLED} "
            + example_list(example(x="float_list: 1, 2", z='bytes_list: "a"')),
            reply=classified("- 1, - 2", signature="unlabelled"),
        ),
        Rpc(
            id="regress",
            rule="one value for each example",
            method="Regress",
            request=f"{REGRESS} {example_list(X, Y)}",
            reply=regressed(3, 7),
        ),
        Rpc(
            id="regress with integers",
            rule="integers do for floats",
            method="Regress",
            request=f"{REGRESS} {example_list(example(x='int64_list: 1, 2'))}",
            reply=regressed(3),
            deviation=FEATURES,
        ),
        *(
            Rpc(
                id=f"{method.lower()}: {what}",
                rule=rule,
                method=method,
                request=f"{spec} {sent}",
                code=code,
                phrase=phrase,
                deviation=FEATURES if rule == "features must fit" else "",
            )
            for method, what, spec, sent, code, phrase, rule in (
                (
                    "Classify",
                    "no model_spec",
                    "",
                    example_list(X),
                    "INVALID_ARGUMENT",
                    "Missing ModelSpec",
                    "model_spec is required",
                ),
                (
                    "Regress",
                    "no model_spec",
                    "",
                    example_list(X),
                    "INVALID_ARGUMENT",
                    "Missing ModelSpec",
                    "model_spec is required",
                ),
                (
                    "Classify",
                    "unknown model",
                    model_spec("absent"),
                    example_list(X),
                    "NOT_FOUND",
                    "Servable not found for request: Latest(absent)",
                    "no such servable",
                ),
                (
                    "Regress",
                    "unknown version",
                    model_spec("scored", 5, "regress"),
                    example_list(X),
                    "NOT_FOUND",
                    "Servable not found for request: Specific(scored, 5)",
                    "no such servable",
                ),
                (
                    "Classify",
                    "unknown signature",
                    model_spec("scored", None, "other"),
                    example_list(X),
                    "INVALID_ARGUMENT",
                    "No signature was found with the name: other",
                    "invalid argument, unlike Predict",
                ),
                (
                    "Regress",
                    "unknown signature",
                    model_spec("scored", None, "other"),
                    example_list(X),
                    "INVALID_ARGUMENT",
                    "No signature was found with the name: other",
                    "invalid argument, unlike Predict",
                ),
                (
                    "Classify",
                    "no input",
                    CLASSIFY,
                    "",
                    "INVALID_ARGUMENT",
                    "Input is empty.",
                    "an example at least",
                ),
                (
                    "Regress",
                    "no input",
                    REGRESS,
                    "",
                    "INVALID_ARGUMENT",
                    "Input is empty.",
                    "an example at least",
                ),
                (
                    "Classify",
                    "an empty list",
                    CLASSIFY,
                    "input { example_list { } }",
                    "INVALID_ARGUMENT",
                    "Input is empty.",
                    "an example at least",
                ),
                (
                    "Regress",
                    "a context alone",
                    REGRESS,
                    example_list(context=X),
                    "INVALID_ARGUMENT",
                    "Input is empty.",
                    "an example at least",
                ),
                (
                    "Regress",
                    "two values for each example",
                    model_spec("scored", None, "wide"),
                    example_list(X),
                    "INVALID_ARGUMENT",
                    "Expected output Tensor shape to be either [batch_size] or [batch_size, 1]"
                    " but got",
                    "one value for each example",
                ),
                (
                    "Classify",
                    "a missing feature",
                    CLASSIFY,
                    example_list(X),
                    "INVALID_ARGUMENT",
                    "points",
                    "features must fit",
                ),
                (
                    "Classify",
                    "a feature of strings",
                    UNLABELLED,
                    example_list(example(x='bytes_list: "a"')),
                    "INVALID_ARGUMENT",
                    "expected a float_list",
                    "features must fit",
                ),
                (
                    "Regress",
                    "a feature too short",
                    REGRESS,
                    example_list(example(x="float_list: 1")),
                    "INVALID_ARGUMENT",
                    "x",
                    "features must fit",
                ),
                (
                    "Regress",
                    "examples of two lengths",
                    REGRESS,
                    example_list(X, example(x="float_list: 1")),
                    "INVALID_ARGUMENT",
                    "example 0 has 2",
                    "features must fit",
                ),
            )
        ),
        Rpc(
            id="classify: a signature that regresses",
            rule="its outputs are not classes and scores",
            method="Classify",
            request=f"{REGRESS} {example_list(X)}",
            code="INVALID_ARGUMENT",
            phrase="Expected classification signature",
        ),
        Rpc(
            id="regress: a signature that classifies",
            rule="its outputs are not values",
            method="Regress",
            request=f"{UNLABELLED} {example_list(X)}",
            code="FAILED_PRECONDITION",
            phrase="No regression outputs found in SignatureDef",
        ),
        Rpc(
            id="classify: a signature that predicts",
            rule="its input is not a batch of Examples",
            method="Classify",
            request=f"{model_spec('plus')} {example_list(X)}",
            code="INVALID_ARGUMENT",
            phrase="No classification inputs found in SignatureDef",
        ),
        Rpc(
            id="regress: a signature that predicts",
            rule="its input is not a batch of Examples",
            method="Regress",
            request=f"{model_spec('plus')} {example_list(X)}",
            code="INVALID_ARGUMENT",
            phrase="No regression inputs found in SignatureDef",
        ),
    ],
)


def task(signature: str, method: str, model: str = "scored") -> str:
    return (
        f"tasks {{ {model_spec(model, None, signature)}"
        f' method_name: "tensorflow/serving/{method}" }}'
    )


MULTI = Section(
    "3.7 MultiInference",
    """\
Several signatures of one model on the same Examples, gRPC only. Results come in the order of the
tasks, each with its own `model_spec`.""",
    [
        Rpc(
            id="classify and regress",
            rule="results in the order of the tasks",
            method="MultiInference",
            request=f"{task('unlabelled', 'classify')} {task('regress', 'regress')}"
            f" {example_list(X)}",
            reply="results { "
            + model_spec("scored", 1, "unlabelled")
            + " "
            + classes("- 1, - 2", field="classification_result")
            + " } results { "
            + model_spec("scored", 1, "regress")
            + " "
            + values(3, field="regression_result")
            + " }",
        ),
        Rpc(
            id="one task",
            rule="results in the order of the tasks",
            method="MultiInference",
            request=f"{task('regress', 'regress')} {example_list(X, Y)}",
            reply="results { "
            + model_spec("scored", 1, "regress")
            + " "
            + values(3, 7, field="regression_result")
            + " }",
        ),
        *(
            Rpc(
                id=what,
                rule=rule,
                method="MultiInference",
                request=f"{tasks} {sent}",
                code=code,
                phrase=phrase,
            )
            for what, tasks, sent, code, phrase, rule in (
                (
                    "no model name",
                    task("regress", "regress", model=""),
                    example_list(X),
                    "INVALID_ARGUMENT",
                    "Found ModelSpec with an empty model name.",
                    "each task names its model",
                ),
                (
                    "two models",
                    task("regress", "regress") + " " + task("regress", "regress", model="plus"),
                    example_list(X),
                    "INVALID_ARGUMENT",
                    "All ModelSpecs in a MultiInferenceRequest must access the same model name.",
                    "one model",
                ),
                (
                    "a signature twice",
                    task("regress", "regress") + " " + task("regress", "regress"),
                    example_list(X),
                    "INVALID_ARGUMENT",
                    "Duplicate evaluation of signature: regress",
                    "each signature once",
                ),
                (
                    "unknown signature",
                    task("other", "regress"),
                    example_list(X),
                    "INVALID_ARGUMENT",
                    "Requested signature not found in model graph: other",
                    "invalid argument, unlike Predict",
                ),
                (
                    "predict",
                    task("regress", "predict"),
                    example_list(X),
                    "UNIMPLEMENTED",
                    "Unsupported signature method_name: tensorflow/serving/predict",
                    "classify and regress only",
                ),
                (
                    "no input",
                    task("regress", "regress"),
                    "",
                    "INVALID_ARGUMENT",
                    "Input is empty.",
                    "an example at least",
                ),
                (
                    "unknown model",
                    task("regress", "regress", model="absent"),
                    example_list(X),
                    "NOT_FOUND",
                    "Servable not found for request: Latest(absent)",
                    "no such servable",
                ),
            )
        ),
    ],
)

SECTIONS = (OVER_GRPC, MULTI)
