"""Sends rows of several calls by Triton's clients."""

import json
import queue
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from google.protobuf.json_format import MessageToDict
from tritonclient.utils import InferenceServerException

from tests.functional.conformance.case import CONTROLLED, Calls, Step
from tests.functional.servers import Server
from tests.process import PATIENCE_S

LOADED = ("plus", "total")
CHANGES = ("load_model", "unload_model")
"""Calls after which the next row finds the models loaded anew."""
PARTS = ("queue", "compute_input", "compute_infer", "compute_output")
"""Of the time of a request in Triton's statistics."""


def check_calls(server: Server, case: Calls) -> None:
    """Send a row by both clients, a stream by that of gRPC, and compare the answers."""
    for module in (triton_grpc,) if case.streamed else (triton_http, triton_grpc):
        with connected(server, module) as client:
            if case.server == CONTROLLED:
                _prepare(client)
                client.update_log_settings({"log_info": True, "log_verbose_level": 0})
            before = _counted(client) if case.counted else {}
            if case.streamed:
                _check_stream(client, case)
            else:
                for step in case.steps:
                    _check(module, step, *_sent(client, module, step))
            after = _counted(client) if case.counted else {}
            assert {name: after[name] - before[name] for name in after} == case.counted
            if case.server == CONTROLLED and any(step.method in CHANGES for step in case.steps):
                _prepare(client, loaded=())


@contextmanager
def connected(server: Server, module: ModuleType) -> Iterator[Any]:
    """Give Triton's client of REST or gRPC."""
    port = server.rest_port if module is triton_http else server.port
    with module.InferenceServerClient(f"127.0.0.1:{port}") as client:
        yield client


def _prepare(client: Any, loaded: Sequence[str] = LOADED) -> None:
    """Let these models be loaded alone; a load within a second of another one waits."""
    index = plain(client.get_model_repository_index())
    names = {each["name"] for each in index if each["state"] == "READY"}
    for name in sorted(names - {*loaded}):
        client.unload_model(name)
    for name in loaded:
        if name not in names:
            client.load_model(name)


def _sent(client: Any, module: ModuleType, step: Step) -> tuple[str, str]:
    """Return the code, and the error's text or the reply."""
    try:
        if step.method == "infer":
            model, values = step.arguments
            return "OK", _y(client.infer(model, [_x(module, values)], **step.options))
        reply = getattr(client, step.method)(*step.arguments, **step.options)
        return "OK", json.dumps(plain(reply), sort_keys=True)
    except InferenceServerException as error:
        return str(error.status()), str(error.message())


def _check(module: ModuleType, step: Step, code: str, text: str) -> None:
    expected = str(step.status) if module is triton_http else f"StatusCode.{step.code}"
    assert code == ("OK" if step.code == "OK" else expected), text
    assert step.phrase in text
    assert not step.absent or step.absent not in text


def _check_stream(client: Any, case: Calls) -> None:
    """Send all requests at once; errors of a stream have a text and no code."""
    answers: queue.Queue[Any] = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    for step in case.steps:
        model, values = step.arguments
        client.async_stream_infer(model, [_x(triton_grpc, values)], **step.options)
    for step in case.steps:
        result, error = answers.get(timeout=PATIENCE_S)
        assert (error is None) == (step.code == "OK"), error
        assert step.phrase in (_y(result) if error is None else str(error.message()))
        if error is None:
            assert result.get_response().id == step.options.get("request_id", "")
    client.stop_stream()


def _x(module: ModuleType, values: Any) -> Any:
    array = np.array(values, np.float32)
    tensor = module.InferInput("x", array.shape, "FP32")
    tensor.set_data_from_numpy(array)
    return tensor


def _y(result: Any) -> str:
    return str(result.as_numpy("y").tolist())


def _counted(client: Any) -> Mapping[str, int]:
    """Give Triton's counts of `plus`, after a look at whether the times add up."""
    (found,) = plain(client.get_inference_statistics("plus"))["model_stats"]
    stats = found["inference_stats"]
    times = {name: int(each.get("ns", 0)) for name, each in stats.items()}
    assert sum(times[name] for name in PARTS) <= times["success"]
    counts = {name: int(stats[name].get("count", 0)) for name in ("success", "fail", *PARTS)}
    totals = {name: int(found.get(name, 0)) for name in ("inference_count", "execution_count")}
    return {**totals, **counts}


def plain(reply: Any) -> Any:
    """Give what either client returns in the form that REST has."""
    if hasattr(reply, "DESCRIPTOR"):
        return _plain_message(reply)
    return reply


def _plain_message(message: Any) -> Any:
    """Give lists of models and maps of settings as REST has them."""
    kind = type(message).__name__
    if kind == "RepositoryIndexResponse":
        return [_fields(each) for each in message.models]
    if kind == "LogSettingsResponse":
        return {
            name: getattr(each, each.WhichOneof("parameter_choice"))
            for name, each in message.settings.items()
        }
    if kind == "TraceSettingResponse":
        return {
            name: [*each.value] if name == "trace_level" else each.value[0]
            for name, each in message.settings.items()
        }
    found = _fields(message)
    return found["config"] if kind == "ModelConfigResponse" else found


def _fields(message: Any) -> Any:
    options = {"preserving_proto_field_name": True, "always_print_fields_with_no_presence": True}
    return MessageToDict(message, **options)
