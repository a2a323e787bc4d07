"""Requests of many clients share batches, and each gets what it would have got alone."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tensorflow as tf

from ie_serving.core.values.tensors import Array
from tests.functional.asking import predict_request
from tests.functional.batching_models import MODELS, WORDS, Direct
from tests.functional.servers import Server, config_flag
from tests.process import PATIENCE_S, until

AT_ONCE = 48


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("models")
    for name, write in MODELS.items():
        write(root / name / "1")
    return root


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[Server]:
    own: dict[str, dict[str, object]] = {
        # In lanes, so that they wait for each other however fast the machine is.
        "perceptron": {"execution": "async"},
        "lengths": {"execution": "async", "allowed_batch_sizes": [1, 4, 16]},
        "words": {"execution": "async"},
        "slow": {"max_batch_size": 2, "max_enqueued_batches": 2},
    }
    entries: list[dict[str, object]] = [
        {"name": name, "base_path": name, "inference_precision": "f32", "max_batch_size": 16}
        | own.get(name, {})
        for name in MODELS
    ]
    entries.append({**entries[0], "name": "lanes", "nireq": 2})
    with Server("ie_serving", "config", config_flag(root / "config.json", *entries)) as started:
        yield started.ready()


def outputs(reply: Any) -> dict[str, Array]:
    return {name: tf.make_ndarray(tensor) for name, tensor in reply.outputs.items()}


def calls(server: Server, model: str, inputs: list[Array], **options: Any) -> list[Any]:
    """Send them all at once over gRPC."""
    return [
        server.prediction.Predict.future(predict_request(model, x=x), **options) for x in inputs
    ]


def posts(server: Server, model: str, inputs: list[Array]) -> list[Any]:
    """Send them all at once over REST; give the replies."""

    def post(x: Array) -> Any:
        return server.rest.post(f"/v1/models/{model}:predict", json={"inputs": {"x": x.tolist()}})

    with ThreadPoolExecutor(len(inputs)) as threads:
        return list(threads.map(post, inputs))


def answers(server: Server, model: str, inputs: list[Array], interface: str) -> list[Any]:
    """Give the outputs of requests that were sent at once, by name."""
    if interface == "gRPC":
        return [outputs(each.result(PATIENCE_S)) for each in calls(server, model, inputs)]
    replies = posts(server, model, inputs)
    assert {each.status_code for each in replies} == {200}
    found = [each.json()["outputs"] for each in replies]
    return [each if isinstance(each, dict) else {"y": np.array(each)} for each in found]


def batches(server: Server, model: str) -> float:
    return sum(server.samples("batches_total", model).values())


def rows_inferred(server: Server, model: str) -> float:
    return server.samples("batch_rows_sum", model).get("", 0.0)


@pytest.mark.parametrize("model", ["perceptron", "lanes"])
@pytest.mark.parametrize("interface", ["gRPC", "REST"])
def test_requests_share_batches_and_answers_are_those_of_openvino(
    server: Server, root: Path, interface: str, model: str
) -> None:
    random = np.random.default_rng(1)
    sizes = [1 + i % 5 for i in range(AT_ONCE)] + [40]  # the last is more than a batch holds
    inputs = [random.standard_normal((rows, 16)).astype(np.float32) for rows in sizes]
    direct = Direct(root / "perceptron" / "1")

    def shared() -> bool:
        before, rows_before = batches(server, model), rows_inferred(server, model)
        found = answers(server, model, inputs, interface)
        for x, answer in zip(inputs, found, strict=True):
            np.testing.assert_allclose(answer["y"], direct(x)["y"], rtol=1e-5, atol=1e-5)
        assert rows_inferred(server, model) - rows_before == sum(sizes)
        return batches(server, model) - before < len(sizes)

    until(shared)  # a busy client's requests may come one by one


@pytest.mark.parametrize("interface", ["gRPC", "REST"])
def test_alternating_shapes_never_mix(server: Server, root: Path, interface: str) -> None:
    random = np.random.default_rng(2)
    inputs = [random.standard_normal((1, 3 + i % 4)).astype(np.float32) for i in range(AT_ONCE)]
    direct = Direct(root / "lengths" / "1")
    for x, answer in zip(inputs, answers(server, "lengths", inputs, interface), strict=True):
        for name, expected in direct(x).items():
            np.testing.assert_allclose(answer[name], expected, rtol=1e-5)


@pytest.mark.parametrize("interface", ["gRPC", "REST"])
def test_a_poisoned_neighbour_fails_alone(server: Server, interface: str) -> None:
    good = [np.full((1, 2), i % WORDS, np.int32) for i in range(AT_ONCE)]
    bad = {5, 6, 30}
    inputs = [np.full((1, 2), WORDS + 9, np.int32) if i in bad else x for i, x in enumerate(good)]
    if interface == "gRPC":
        sent = calls(server, "words", inputs)
        codes = [each.code() for each in sent]
        assert [code for i, code in enumerate(codes) if i in bad] == [
            grpc.StatusCode.INVALID_ARGUMENT
        ] * len(bad)
        found = [outputs(each.result()) for i, each in enumerate(sent) if i not in bad]
        values = [each["y"].tolist() for each in found]
    else:
        replies = posts(server, "words", inputs)
        assert [i for i, each in enumerate(replies) if each.status_code == 400] == sorted(bad)
        values = [each.json()["outputs"] for i, each in enumerate(replies) if i not in bad]
    assert values == [[[i % WORDS * 10.0] * 2] for i in range(AT_ONCE) if i not in bad]


def test_a_full_queue_refuses_over_grpc_and_serves_on(server: Server) -> None:
    sent = calls(server, "slow", [np.full((1, 1), i, np.float32) for i in range(AT_ONCE)])
    codes = [each.code() for each in sent]
    assert set(codes) == {grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED}
    refused = codes.index(grpc.StatusCode.RESOURCE_EXHAUSTED)
    assert "queue to which this task was submitted is full" in sent[refused].details()
    for i, each in enumerate(sent):
        if codes[i] is grpc.StatusCode.OK:
            assert outputs(each.result())["y"].tolist() == [[float(i)]]


def test_a_full_queue_refuses_over_rest_and_says_when_to_come_again(server: Server) -> None:
    replies = posts(server, "slow", [np.full((1, 1), i, np.float32) for i in range(AT_ONCE)])
    assert {each.status_code for each in replies} == {200, 429}
    for each in replies:
        assert each.headers.get("retry-after") == ("1" if each.status_code == 429 else None)


@pytest.mark.parametrize("interface", ["gRPC", "REST"])
def test_a_model_whose_rows_depend_on_each_other_is_served_without_batches(
    server: Server, interface: str
) -> None:
    inputs = [np.full((1, 2), i, np.float32) for i in range(AT_ONCE)]
    found = answers(server, "centred", inputs, interface)
    assert all(each["y"].tolist() == [[0.0, 0.0]] for each in found)
    assert batches(server, "centred") == 0
    (line,) = [line for line in server.lines if "batching refused" in line]
    assert "depend on each other" in line


@pytest.mark.parametrize("interface", ["gRPC", "REST"])
def test_a_lone_client_goes_at_once_and_its_answers_are_those_of_openvino(
    server: Server, root: Path, interface: str
) -> None:
    random = np.random.default_rng(4)
    direct = Direct(root / "perceptron" / "1")
    before = batches(server, "perceptron")
    for rows in (1, 1, 3, 1, 1):
        x = random.standard_normal((rows, 16)).astype(np.float32)
        (answer,) = answers(server, "perceptron", [x], interface)
        np.testing.assert_allclose(answer["y"], direct(x)["y"], rtol=1e-5, atol=1e-5)
    assert batches(server, "perceptron") - before == 5
    assert any('takes="lone rows"' in line for line in server.lines)


class TestTensorFlowServingsFlags:
    """`--enable_batching` with its file of parameters, and with one for each version."""

    @pytest.mark.parametrize("per_version", [False, True], ids=["one file", "file of the version"])
    def test_requests_share_batches(self, tmp_path: Path, root: Path, per_version: bool) -> None:
        model = tmp_path / "perceptron"
        MODELS["perceptron"](model / "1")
        parameters = "max_batch_size { value: 8 } allowed_batch_sizes: [2, 8]"
        file = (model / "1" / "batching_params.pbtxt") if per_version else tmp_path / "batching"
        file.write_text(parameters)
        monitoring = tmp_path / "monitoring"
        monitoring.write_text("prometheus_config { enable: true, path: '/metrics' }")
        own = "--enable_per_model_batching_parameters"
        with Server(
            "tensorflow_model_server",
            "--model_name=perceptron",
            f"--model_base_path={model}",
            "--enable_batching",
            own if per_version else f"--batching_parameters_file={file}",
            f"--monitoring_config_file={monitoring}",
        ) as server:
            server.ready()
            random = np.random.default_rng(3)
            inputs = [random.standard_normal((1, 16)).astype(np.float32) for _ in range(AT_ONCE)]
            found = answers(server, "perceptron", inputs, "gRPC")
            assert 0 < batches(server, "perceptron") < AT_ONCE
            found += answers(server, "perceptron", inputs, "REST")
            direct = Direct(root / "perceptron" / "1")
            for x, answer in zip([*inputs, *inputs], found, strict=True):
                np.testing.assert_allclose(answer["y"], direct(x)["y"], rtol=1e-4, atol=1e-4)
            (refused,) = calls(server, "perceptron", [np.zeros((9, 16), np.float32)])
            assert refused.code() is grpc.StatusCode.INVALID_ARGUMENT
            (reply,) = posts(server, "perceptron", [np.zeros((9, 16), np.float32)])
            assert reply.status_code == 400
            for text in (refused.details(), reply.json()["error"]):
                assert "Task size 9 is larger than maximum input batch size 8" in text
