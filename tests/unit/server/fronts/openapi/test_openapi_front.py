"""`/openapi.json` and `/docs` on the stand-in engine; `test_openapi.py` asks real models."""

import json
from typing import Any

import pytest

from ie_serving.app.fronts import openapi_routes
from ie_serving.config.settings import ServerSettings
from ie_serving.core.values.tensors import DataType, ExampleBinding, Signature, TensorSpec
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.served_models import ServedModel, ServedModels
from ie_serving.server.fronts.openapi import openapi_front
from ie_serving.server.transport.http1.messages import Reply, Request, RequestHead
from ie_serving.wire.openapi import MOST_ELEMENTS, MOST_OF_ONE
from tests.unit.inference.stand_ins import MODEL, Heart, Loaded

ELSEWHERE = Reply(404, (), b"elsewhere")


async def elsewhere(_: Request) -> Reply:
    return ELSEWHERE


async def not_asked(_: Request) -> None:
    return None


async def ask(
    path: str, *signatures: Signature, models: int = 1, method: str = "GET", **server: Any
) -> Reply:
    """Ask a server of so many models with these signatures, or those of the stand-in."""
    heart = Heart()
    await heart.plane()
    if signatures:
        heart.servable.signatures = {each.name: each for each in signatures}
    stream: Any = Loaded(MODEL, [heart.servable], {})
    served = ServedModels()
    names = [MODEL, *(f"m{number}" for number in range(1, models))]
    configs = [ModelConfig(name=name, base_path="/nowhere") for name in names]
    served.entries = {config.name: ServedModel(config, stream) for config in configs}
    head = RequestHead(method, path.encode(), b"", "1.1", (), {}, 0, True, False)
    routes = openapi_routes(ServerSettings(rest_port=1, **server), served, not_asked)
    reply = await routes.before(elsewhere)(Request(head, b""))
    assert isinstance(reply, Reply)
    return reply


def bodies(reply: Reply) -> dict[str, Any]:
    made = json.loads(bytes(reply.body))
    return {
        name: body["content"]["application/json"].get("examples", {})
        for name, body in made["components"]["requestBodies"].items()
    }


def takes(shape: tuple[int, ...] | None, **more: Any) -> Signature:
    spec = TensorSpec("x", DataType.FP32, shape, "", **more)
    return Signature("serving_default", {"x": spec}, {"y": spec})


async def test_each_call_has_its_signatures() -> None:
    made = bodies(await ask("/openapi.json"))
    assert {name: sorted(each) for name, each in made.items()} == {
        "m.3.predict": ["classify", "odd", "regress", "serving_default"],
        "m.3.classify": ["classify"],
        "m.3.regress": ["regress"],
        "m.3.infer": ["serving_default"],
    }
    assert made["m.3.classify"]["classify"]["value"] == {
        "signature_name": "classify",
        "examples": [{"f": [1.0]}],
    }


async def test_a_method_that_is_checked_hides_other_signatures() -> None:
    fit = Signature(
        "serving_default",
        {"inputs": TensorSpec("inputs", DataType.STRING, (-1,), "")},
        {"scores": TensorSpec("scores", DataType.FP32, (-1, 2), "")},
    )
    assert "m.3.classify" in bodies(await ask("/openapi.json", fit))
    assert "m.3.classify" not in bodies(await ask("/openapi.json", fit, method_name_check=True))


@pytest.mark.parametrize(
    "signature",
    [
        pytest.param(takes((MOST_OF_ONE + 1,)), id="too many elements"),
        pytest.param(takes(None, untyped=True), id="any dtype"),
        pytest.param(Signature("serving_default", {}, {}, is_open=True), id="any inputs"),
    ],
)
async def test_a_signature_that_the_server_cannot_make_up_has_no_example(
    signature: Signature,
) -> None:
    reply = await ask("/openapi.json", signature)
    assert bodies(reply) == {"m.3.predict": {}, "m.3.infer": {}}
    assert b"No example of serving_default" in bytes(reply.body)


async def test_an_example_with_too_many_features_is_not_written() -> None:
    binding = ExampleBinding(takes((MOST_OF_ONE + 1,)), {"x": "f"}, {"scores": "y"})
    strings = TensorSpec("inputs", DataType.STRING, (-1,), "")
    scores = {"scores": TensorSpec("scores", DataType.FP32, (-1, 2), "")}
    classify = Signature("serving_default", {"inputs": strings}, scores, examples=binding)
    made = bodies(await ask("/openapi.json", classify))
    assert made["m.3.classify"] == made["m.3.predict"] == made["m.3.infer"] == {}


async def test_of_many_models_large_examples_are_left_out() -> None:
    many = 10
    reply = await ask("/openapi.json", takes((MOST_ELEMENTS // many,)), models=many)
    made = bodies(reply)
    assert all(made.values())
    assert len(made) == 2 * many
    larger = await ask("/openapi.json", takes((MOST_ELEMENTS // many + 1,)), models=many)
    assert not any(bodies(larger).values())


@pytest.mark.parametrize(
    ("path", "more"),
    [("/docs", {"page": False}), ("/docs", {"method": "POST"}), ("/docs/none", {})],
)
async def test_other_requests_are_handed_on(path: str, more: dict[str, Any]) -> None:
    assert await ask(path, **more) is ELSEWHERE


async def test_without_its_package_the_viewer_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(openapi_front, "PACKAGE", "package_that_is_not_installed")
    reply = await ask("/docs")
    assert (reply.status, json.loads(bytes(reply.body))) == (501, {"error": openapi_front.MISSING})
