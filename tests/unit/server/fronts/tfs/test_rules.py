"""One table for both interfaces: what holds for a request holds whichever protocol it came by.

Where TensorFlow Serving answers differently over gRPC and REST, the row says so.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from ie_serving.core.values.codes import Code
from ie_serving.core.values.errors import ServingError
from ie_serving.core.values.requests import ModelSpec
from ie_serving.inference.interface import Api
from ie_serving.server.fronts.tfs.prediction_service import LABELS as GRPC_LABELS
from ie_serving.server.fronts.tfs.rest_interface import LABELS as REST_LABELS
from tests.unit.inference.stand_ins import MODEL, Heart
from tests.unit.server.fronts.tfs.interfaces import Answer, Client, Grpc, Rest

PATIENCE_S = 10
BOTH = {"GRPC": Grpc, "REST": Rest}
LABELS = {"GRPC": GRPC_LABELS, "REST": REST_LABELS}

Ask = Callable[[Client], Awaitable[Answer]]


async def forever() -> None:
    await asyncio.Event().wait()


async def fail() -> None:
    raise ServingError("the engine has failed")


async def crash() -> None:
    raise ZeroDivisionError("a secret")


def predict(name: str = MODEL, **spec: Any) -> Ask:
    return lambda client: client.predict(ModelSpec(name, **spec), [[1.0, 2.0]])


def classify(signature: str = "classify") -> Ask:
    return lambda client: client.classify(ModelSpec(MODEL, signature=signature), [[1.0, 2.0]])


def regress(signature: str = "regress") -> Ask:
    return lambda client: client.regress(ModelSpec(MODEL, signature=signature), [[1.0]])


def metadata(name: str = MODEL, **spec: Any) -> Ask:
    return lambda client: client.metadata(ModelSpec(name, **spec))


def status(name: str = MODEL, **spec: Any) -> Ask:
    return lambda client: client.status(ModelSpec(name, **spec))


def malformed(client: Client) -> Awaitable[Answer]:
    return client.malformed()


@dataclass(frozen=True)
class Rule:
    """One situation, and what each interface makes of it.

    Attributes:
        ask: what is asked.
        code: of the answer.
        text: in the answer, when it is an error.
        model: name under which it is counted.
        api: under which a success is timed.
        infers: TensorFlow Serving counts of the others only those over REST.
        values: of a success.
        check: the server runs with the check of a signature's method.
        limit_s: of an inference.
        engine: what each inference awaits.
        rest: what differs over REST: `code`, `text` and `model` as above.
    """

    ask: Ask
    code: Code = Code.OK
    text: str = ""
    model: str = MODEL
    api: Api = Api.PREDICT
    infers: bool = True
    values: Any = None
    check: bool = False
    limit_s: float | None = None
    engine: Callable[[], Awaitable[None]] | None = None
    rest: tuple[tuple[str, Any], ...] = ()

    def of(self, interface: str, field: str) -> Any:
        differs = dict(self.rest) if interface == "REST" else {}
        return differs.get(field, getattr(self, field))


ODD = "Expected prediction signature method_name to be one of"
LATE = "Timed out waiting for notification"
RULES = {
    "a Predict": Rule(predict(), values=[[2.0, 3.0]]),
    "a version": Rule(predict(version=3), values=[[2.0, 3.0]]),
    "version 0 is the default": Rule(predict(version=0), values=[[2.0, 3.0]]),
    "a label": Rule(predict(label="stable"), values=[[2.0, 3.0]]),
    "a Classify": Rule(classify(), api=Api.CLASSIFY, values=[[2.0, 3.0]]),
    "a Regress": Rule(regress(), api=Api.REGRESS, values=[[2.0]]),
    "metadata": Rule(metadata(), api=Api.METADATA, infers=False),
    "a status": Rule(status(), api=Api.STATUS, infers=False),
    "a model that is not there": Rule(
        predict("none"),
        Code.NOT_FOUND,
        "Servable not found for request: Latest(none)",
        model="none",
    ),
    "a version that is not there": Rule(
        predict(version=9), Code.NOT_FOUND, "Servable not found for request: Specific(m, 9)"
    ),
    "a label that is not there": Rule(
        predict(label="none"), Code.INVALID_ARGUMENT, "Unrecognized servable version label: none"
    ),
    "metadata of a version that is not there": Rule(
        metadata(version=9),
        Code.NOT_FOUND,
        "Servable not found for request: Specific(m, 9)",
        infers=False,
    ),
    "the status of a model that is not there": Rule(
        status("none"),
        Code.NOT_FOUND,
        "Could not find any versions of model none",
        model="none",
        infers=False,
    ),
    "a signature that is not there": Rule(
        predict(signature="none"),
        Code.FAILED_PRECONDITION,
        'Serving signature key "none" not found.',
        rest=(
            ("code", Code.INVALID_ARGUMENT),
            ("text", 'Serving signature name: "none" not found in signature def'),
        ),
    ),
    "a signature that is not there, for Examples": Rule(
        classify("none"), Code.INVALID_ARGUMENT, "No signature was found with the name: none"
    ),
    "a signature that takes no Examples": Rule(
        classify(""), Code.INVALID_ARGUMENT, "No classification inputs found in SignatureDef"
    ),
    "a signature that gives no values": Rule(
        regress("classify"), Code.FAILED_PRECONDITION, "No regression outputs found in SignatureDef"
    ),
    "an odd method, unchecked": Rule(predict(signature="odd"), values=[[2.0, 3.0]]),
    "an odd method, checked": Rule(predict(signature="odd"), Code.INTERNAL, ODD, check=True),
    "a method that is known, checked": Rule(predict(), values=[[2.0, 3.0]], check=True),
    "no time left, never waiting": Rule(predict(), values=[[2.0, 3.0]], limit_s=0),
    "a late Predict": Rule(predict(), Code.DEADLINE_EXCEEDED, LATE, limit_s=0, engine=forever),
    "a late Classify": Rule(classify(), Code.DEADLINE_EXCEEDED, LATE, limit_s=0, engine=forever),
    "a late Regress": Rule(regress(), Code.DEADLINE_EXCEEDED, LATE, limit_s=0, engine=forever),
    "an engine that fails": Rule(predict(), Code.INTERNAL, "the engine has failed", engine=fail),
    "a defect": Rule(predict(), Code.INTERNAL, "internal error; the server's log", engine=crash),
    "what cannot be parsed": Rule(
        malformed,
        Code.INVALID_ARGUMENT,
        "not a valid tensorflow.serving.PredictRequest",
        model="",  # its name is in what cannot be parsed
        rest=(("text", "JSON Parse error"), ("model", MODEL)),
    ),
}


@pytest.mark.parametrize("interface", BOTH)
@pytest.mark.parametrize("name", RULES)
async def test_a_rule_holds_over_both_interfaces(name: str, interface: str) -> None:
    rule, heart = RULES[name], Heart()
    if rule.engine:
        heart.engine.before_infer = rule.engine
    plane = await heart.plane(method_name_check=rule.check)
    client: Client = BOTH[interface](plane, rule.limit_s)
    answer = await asyncio.wait_for(rule.ask(client), PATIENCE_S)
    code, model = rule.of(interface, "code"), rule.of(interface, "model")
    assert code in answer.codes
    assert rule.of(interface, "text") in answer.text
    assert "secret" not in answer.text
    assert answer.values == rule.values
    is_counted = rule.infers or interface == "REST"
    counted = [f'{{model_name="{model}",status="{code.name}"}} 1']
    assert heart.counted() == (counted if is_counted else [])
    api = LABELS[interface][rule.api]
    timed = [f'{{model_name="{model}",API="{api}",entrypoint="{interface}"}} 1']
    assert heart.timed() == (timed if code is Code.OK and is_counted else [])
    assert heart.servable.holders == 0
