"""Who may do what, on both ports and both gRPC transports."""

import base64
import hashlib
import importlib.util
import json
import os
import signal
import ssl
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_management_pb2,
    predict_pb2,
    regression_pb2,
)
from tritonclient.grpc import service_pb2, service_pb2_grpc

from tests import issuer
from tests.certificates import Authority
from tests.functional.servers import READY, ROOT, SAMPLE_FLAGS, Server
from tests.issuer import publishing
from tests.process import PATIENCE_S, until
from tests.tables import named_by

OK, UNKNOWN, DENIED = (
    grpc.StatusCode.OK,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
)
BODY = (ROOT / "examples" / "digits" / "request.json").read_bytes()
PREDICT = "/v1/models/digits:predict"
CALLERS = {
    "alice": "predict digi*",
    "zoe": "predict,read other",
    "prom": "read *",
    "ops": "predict,read,administrate *",
    "part": "predict,read,administrate digits",
}
"""Rights and models of each; "-key" behind the name makes the key."""
BY_TOKEN = {"zoe", "part"}
"""Those of them who have no key, but a token of the issuer."""
ROUTES = [
    ("POST", PREDICT, "alice ops part"),
    ("POST", "/v1/models/digits:classify", "alice ops part"),
    ("POST", "/v1/models/digits/versions/1:regress", "alice ops part"),
    ("POST", "/v1/models/other:predict", "zoe ops"),
    ("GET", "/v1/models/digits", "prom ops part"),
    ("GET", "/v1/models/digits/metadata", "prom ops part"),
    ("GET", "/v1/models", "prom ops"),
    ("GET", "/v1/config", "prom ops"),
    ("GET", "/v1/metrics", "prom ops"),
    ("POST", "/v1/models/digits:poll", "ops part"),
    ("POST", "/v1/config/reload", "ops"),
    ("GET", "/v1/log_level", "prom ops"),
    ("POST", "/v1/log_level", "ops"),
    ("POST", "/v2/models/digits/infer", "alice ops part"),
    ("GET", "/v2/models/digits", "prom ops part"),
    ("GET", "/v2", "alice zoe prom ops part"),
    ("POST", "/v2/repository/index", "prom ops"),
    ("GET", "/v2/models/digits/stats", "prom ops part"),
    ("GET", "/v2/models/stats", "prom ops"),
    ("POST", "/v2/repository/models/digits/load", "ops part"),
    ("GET", "/v2/systemsharedmemory/status", "prom ops"),
    ("GET", "/v2/systemsharedmemory/region/r/status", "prom ops"),
    ("POST", "/v2/systemsharedmemory/region/r/register", "ops"),
    ("POST", "/v2/systemsharedmemory/region/r/unregister", "ops"),
    ("POST", "/v2/systemsharedmemory/unregister", "ops"),
    ("GET", "/v1/nonsense", "alice zoe prom ops part"),
    ("GET", "/nonsense", "alice zoe prom ops part"),
]
"""Who may ask each route; a known caller is told what there is not."""
KEYS, ROTATED = (
    issuer.key_set(issuer.jwk(issuer.ec_key(number), kid=kid))
    for number, kid in enumerate(("one", "two"))
)
"""What the issuer publishes, and after a rotation."""
OPEN = ["/v2/health/live", "/v2/health/ready", "/v2/models/digits/ready"]


def line(name: str, rights: str) -> str:
    if name in BY_TOKEN:
        return f"{name} {rights} jwt:sub={name}\n"
    return f"{name} {rights} sha256:{hashlib.sha256(f'{name}-key'.encode()).hexdigest()}\n"


def bearer(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {issued(name) if name in BY_TOKEN else f'{name}-key'}"}


@cache
def issued(name: str) -> str:
    return issuer.token(sub=name)


def basic(user: str, password: str) -> dict[str, str]:
    return {"authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}


class Guarded(Server):
    """A server that knows its callers."""

    def __init__(self, file: Path, *flags: str) -> None:
        self.file = file
        self.published: dict[str, str] = {}
        # Below /v1/, as the API is.
        digits = (*SAMPLE_FLAGS, "--metrics_path=/v1/metrics")
        super().__init__("ie_serving", "model", *digits, f"--api_key_file={file}", *flags)

    def code(self, call: Callable[..., Any], request: Any, given: dict[str, str]) -> Any:
        """Give the status of a call; that of any answer is OK."""
        try:
            reply = call(request, PATIENCE_S, metadata=tuple(given.items()))
            if not hasattr(reply, "SerializeToString"):
                next(iter(reply))
                reply.cancel()
        except grpc.RpcError as error:
            return error.code()
        return OK

    def predict(self, given: dict[str, str]) -> Any:
        return self.code(self.prediction.Predict, predict_request("digits"), given)


def predict_request(model: str) -> Any:
    request = predict_pb2.PredictRequest()
    request.model_spec.name = model
    tensor = request.inputs["image"]
    tensor.dtype = 1
    for size in (1, 64):
        tensor.tensor_shape.dim.add(size=size)
    tensor.float_val.extend(json.loads(BODY)["instances"][0]["image"])
    return request


@pytest.fixture(scope="module", params=["http2", "grpcio"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Guarded]:
    file = tmp_path_factory.mktemp("keys") / "keys"
    file.write_text("".join(line(name, rights) for name, rights in CALLERS.items()))
    user = ("--enable_auth", "--auth_username=admin", "--auth_password=word")
    # What stands in front of services must not open them: with one transport it stands there.
    logs = [f"--access_log={file}.log"] if request.param == "grpcio" else []
    flags = (f"--grpc_transport={request.param}", *user, *logs)
    published = {"keys": KEYS}
    with publishing(published) as url, Guarded(file, *flags, *believing(url)) as started:
        started.published = published
        started.ready()
        yield started


def believing(place: str) -> tuple[str, ...]:
    named = (f"--jwt_issuer={issuer.ISSUER}", f"--jwt_audience={issuer.AUDIENCE}")
    return (f"--jwt_keys={place}", *named)


@named_by("method target", ("method", "target", "allowed"), ROUTES)
def test_a_route_answers_the_callers_that_have_its_right(
    server: Guarded, method: str, target: str, allowed: str
) -> None:
    for name in CALLERS:
        reply = server.rest.request(method, target, content=BODY, headers=bearer(name))
        assert (reply.status_code != 403) is (name in allowed.split()), (name, reply.text)
        assert reply.status_code != 401
    for given in ({}, bearer("nobody"), {"x-api-key": "nobody"}, basic("admin", "wrong")):
        reply = server.rest.request(method, target, content=BODY, headers=given)
        assert reply.status_code == 401, reply.text
        assert reply.headers["www-authenticate"].startswith('Bearer realm="ie_serving"')
    assert server.rest.request(method, target, headers=basic("admin", "word")).status_code != 401


def test_keys_come_in_two_headers_and_passwords_in_one(server: Guarded) -> None:
    for given in (bearer("alice"), {"x-api-key": "alice-key"}, basic("admin", "word")):
        reply = server.rest.post(PREDICT, content=BODY, headers=given)
        assert reply.status_code == 200, reply.text
        assert server.predict(given) is OK


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(issuer.unsigned(), id="unsigned"),
        pytest.param(issuer.signed_by_secret(issuer.pem(issuer.ec_key())), id="signed by a secret"),
        pytest.param(issuer.token(issuer.ec_key(1), sub="part"), id="signed by another key"),
        pytest.param(issuer.token(sub="part", exp=1), id="expired"),
        pytest.param(issuer.token(sub="part", aud="elsewhere"), id="for another audience"),
        pytest.param(issuer.token(sub="part", kid="none"), id="by an unknown key"),
    ],
)
def test_wrong_tokens_are_refused_over_both_interfaces(server: Guarded, wrong: str) -> None:
    given = {"authorization": f"Bearer {wrong}"}
    assert server.rest.post(PREDICT, content=BODY, headers=given).status_code == 401
    assert server.predict(given) is UNKNOWN


def test_a_rotated_key_is_not_believed_any_more(server: Guarded) -> None:
    """A key that its issuer has withdrawn is not believed any more, on open connections either."""
    new = {"authorization": f"Bearer {issuer.token(issuer.ec_key(1), kid='two', sub='part')}"}
    assert (server.predict(bearer("part")), server.predict(new)) == (OK, UNKNOWN)
    server.published["keys"] = ROTATED
    server.send(signal.SIGHUP)
    server.line("token keys fetched")
    assert (server.predict(bearer("part")), server.predict(new)) == (UNKNOWN, OK)
    assert server.rest.post(PREDICT, content=BODY, headers=bearer("part")).status_code == 401
    assert server.rest.post(PREDICT, content=BODY, headers=new).status_code == 200
    server.published["keys"] = KEYS
    server.send(signal.SIGHUP)
    server.line("token keys fetched")
    assert server.predict(bearer("part")) is OK


@pytest.mark.parametrize("path", OPEN)
def test_health_is_open(server: Guarded, path: str) -> None:
    assert server.rest.get(path).status_code == 200


def test_a_probe_of_no_model_names_none_to_a_caller_without_credentials(server: Guarded) -> None:
    reply = server.rest.get("/v2/models/other/ready")
    assert reply.status_code == 404
    assert "no such model: other" in reply.text and "digits" not in reply.text


def calls(server: Guarded) -> list[tuple[str, Any, Any, str]]:
    """Give each RPC, a request of it, and who may ask that."""
    health = health_pb2_grpc.HealthStub(server.channel)
    reflection = reflection_pb2_grpc.ServerReflectionStub(server.channel)
    everyone = " ".join(("nobody", *CALLERS))
    info = iter([reflection_pb2.ServerReflectionRequest(list_services="")])
    made: list[tuple[str, Any, Any, str]] = [
        ("Check", health.Check, health_pb2.HealthCheckRequest(), everyone),
        ("Watch", health.Watch, health_pb2.HealthCheckRequest(), everyone),
        ("Info", reflection.ServerReflectionInfo, info, "zoe prom ops part"),
        ("Predict", server.prediction.Predict, predict_request("digits"), "alice ops part"),
        ("Predict other", server.prediction.Predict, predict_request("other"), "zoe ops"),
    ]
    for name, kind in (
        ("Classify", classification_pb2.ClassificationRequest),
        ("Regress", regression_pb2.RegressionRequest),
        ("GetModelMetadata", get_model_metadata_pb2.GetModelMetadataRequest),
    ):
        request = kind()
        request.model_spec.name = "digits"
        if name == "GetModelMetadata":
            request.metadata_field.append("signature_def")
        who = "prom ops part" if name == "GetModelMetadata" else "alice ops part"
        made.append((name, getattr(server.prediction, name), request, who))
    status = get_model_status_pb2.GetModelStatusRequest()
    status.model_spec.name = "digits"
    made.append(("GetModelStatus", server.model.GetModelStatus, status, "prom ops part"))
    other = get_model_status_pb2.GetModelStatusRequest()
    other.model_spec.name = "other"
    made.append(("GetModelStatus other", server.model.GetModelStatus, other, "zoe prom ops"))
    multi = inference_pb2.MultiInferenceRequest()
    multi.tasks.add(method_name="tensorflow/serving/classify").model_spec.name = "digits"
    made.append(("MultiInference", server.prediction.MultiInference, multi, "alice ops part"))
    reload = model_management_pb2.ReloadConfigRequest()
    reload.config.custom_model_config.SetInParent()  # not supported: changes nothing
    handle = server.model.HandleReloadConfigRequest
    made.append(("HandleReloadConfigRequest", handle, reload, "ops"))
    return [*made, *_open_inference(server, everyone)]


def _open_inference(server: Guarded, everyone: str) -> list[tuple[str, Any, Any, str]]:
    """The methods of the Open Inference Protocol, in the same form."""
    stub: Any = service_pb2_grpc.GRPCInferenceServiceStub(server.channel)
    digits = service_pb2.ModelInferRequest(model_name="digits")
    other = service_pb2.ModelInferRequest(model_name="other")
    probe = service_pb2.ModelReadyRequest(name="digits")
    about = service_pb2.ModelMetadataRequest(name="digits")
    # The status of a stream tells of its requests nothing: whose model is refused, its answer says.
    return [
        ("ServerLive", stub.ServerLive, service_pb2.ServerLiveRequest(), everyone),
        ("ServerReady", stub.ServerReady, service_pb2.ServerReadyRequest(), everyone),
        ("ModelReady", stub.ModelReady, probe, everyone),
        (
            "ServerMetadata",
            stub.ServerMetadata,
            service_pb2.ServerMetadataRequest(),
            " ".join(CALLERS),
        ),
        ("ModelMetadata", stub.ModelMetadata, about, "prom ops part"),
        ("ModelInfer", stub.ModelInfer, digits, "alice ops part"),
        ("ModelInfer other", stub.ModelInfer, other, "zoe ops"),
        ("ModelStreamInfer", stub.ModelStreamInfer, iter([digits]), "alice zoe ops part"),
        (
            "ModelStatistics",
            stub.ModelStatistics,
            service_pb2.ModelStatisticsRequest(name="digits"),
            "prom ops part",
        ),
        ("RepositoryIndex", stub.RepositoryIndex, service_pb2.RepositoryIndexRequest(), "prom ops"),
        *(
            (name, getattr(stub, name), getattr(service_pb2, f"{name}Request")(), allowed)
            for name, allowed in (
                ("SystemSharedMemoryStatus", "prom ops"),
                ("SystemSharedMemoryRegister", "ops"),
                ("SystemSharedMemoryUnregister", "ops"),
            )
        ),
    ]


def test_an_rpc_answers_the_callers_that_have_its_right(server: Guarded) -> None:
    for caller in ("nobody", *CALLERS):
        for name, call, request, allowed in calls(server):
            code = server.code(call, request, bearer(caller))
            if caller in allowed.split():
                assert code not in (UNKNOWN, DENIED), (name, caller)
            else:
                assert code is (UNKNOWN if caller == "nobody" else DENIED), (name, caller)


def test_each_task_names_a_model_that_its_caller_may_ask_for(server: Guarded) -> None:
    multi = inference_pb2.MultiInferenceRequest()
    for model in ("digits", "other"):
        multi.tasks.add(method_name="tensorflow/serving/classify").model_spec.name = model
    for name in ("alice", "zoe"):  # several models are refused in any case, before one is asked
        assert server.code(server.prediction.MultiInference, multi, bearer(name)) is not OK
    del multi.tasks[0]
    assert server.code(server.prediction.MultiInference, multi, bearer("alice")) is DENIED


def test_a_refused_model_is_not_told_apart_from_none(server: Guarded) -> None:
    """Whether a model that a caller may not ask for exists is not its business."""
    for model in ("digits", "nonsense"):
        code = server.code(server.prediction.Predict, predict_request(model), bearer("zoe"))
        assert code is DENIED
        target = f"/v1/models/{model}"
        assert server.rest.get(target, headers=bearer("zoe")).status_code == 403


def test_refusals_are_counted(server: Guarded) -> None:
    def counted(status: str) -> int:
        page = server.rest.get("/v1/metrics", headers=bearer("prom")).text
        start = f':tensorflow:serving:request_count{{model_name="",status="{status}"}} '
        return sum(int(each.removeprefix(start)) for each in page.splitlines() if start in each)

    before = [counted("UNAUTHENTICATED"), counted("PERMISSION_DENIED")]
    server.rest.post(PREDICT, content=BODY)
    server.predict({})
    server.rest.post(PREDICT, content=BODY, headers=bearer("prom"))
    server.predict(bearer("prom"))
    after = [counted("UNAUTHENTICATED"), counted("PERMISSION_DENIED")]
    assert [now - was for now, was in zip(after, before, strict=True)] == [2, 2]


@pytest.mark.parametrize("header", ["x-api-key", "authorization"])
def test_of_several_credentials_none_is_chosen(server: Guarded, header: str) -> None:
    """Over gRPC the last one counted: behind a proxy that adds its own a client could choose."""
    value = bearer("alice")["authorization"]
    value = value.removeprefix("Bearer ") if header == "x-api-key" else value
    request = predict_request("digits")
    assert _code(partial(server.prediction.Predict, metadata=[(header, value)]), request) is OK
    for several in ((value, value), ("wrong", value), (value, "wrong")):
        metadata = [(header, each) for each in several]
        call = partial(server.prediction.Predict, metadata=metadata)
        assert _code(call, request) is UNKNOWN
        reply = server.rest.post(PREDICT, content=BODY, headers=metadata)
        assert reply.status_code == 401


def test_a_body_that_is_refused_is_not_taken(server: Guarded) -> None:
    """A stranger's megabytes end with the head."""
    reply = server.rest.post(PREDICT, content=bytes(8 << 20))
    assert reply.status_code == 401
    assert reply.headers["connection"] == "close"


def test_the_file_is_read_again_without_a_lost_connection(server: Guarded) -> None:
    good = server.file.read_text()
    assert server.predict(bearer("alice")) is OK
    server.file.write_text("alice predict")
    server.send(signal.SIGHUP)
    server.line("callers not renewed, the previous ones stay")
    assert server.predict(bearer("alice")) is OK
    server.file.write_text(good.replace(line("alice", CALLERS["alice"]), line("new", "predict *")))
    server.send(signal.SIGHUP)
    server.line("callers renewed keys=3")
    assert server.predict(bearer("alice")) is UNKNOWN
    assert server.predict(bearer("new")) is OK
    assert server.rest.post(PREDICT, content=BODY, headers=bearer("alice")).status_code == 401
    server.file.write_text(good)
    server.send(signal.SIGHUP)
    server.line("callers renewed keys=3")
    assert server.predict(bearer("alice")) is OK


@pytest.mark.parametrize("workers", [1, 2])
def test_a_worker_is_replaced_while_files_are_broken(tmp_path: Path, workers: int) -> None:
    """The replacement goes on with what the one before had: it ended again and again."""
    authority = Authority(tmp_path)
    (tmp_path / "other").mkdir()
    pair, other = authority.server(), Authority(tmp_path / "other").server()
    file = tmp_path / "keys"
    file.write_text(line("alice", CALLERS["alice"]))
    tls = (f"--tls_certificate={pair.certificate}", f"--tls_key={pair.key}", "--tls_ports=rest")
    with Guarded(file, *tls, f"--workers={workers}") as server:
        for _ in range(workers):
            server.line(READY)
        context = ssl.create_default_context(cafile=authority.path)
        asked = partial(httpx.post, f"https://localhost:{server.rest_port}{PREDICT}", content=BODY)
        told = partial(asked, verify=context, timeout=PATIENCE_S, trust_env=False)
        # Answered: a worker that dies before it was ready ends the server.
        assert told(headers=bearer("alice")).status_code == 200
        file.write_text("alice predict")
        pair.certificate.write_bytes(other.certificate.read_bytes())  # half a renewal
        for victim in server.pids()[1:]:
            os.kill(victim, signal.SIGKILL)
        for _ in range(workers):
            server.line("callers not renewed, the previous ones stay")
        # While no worker accepts, connections of a server whose workers die young are turned away.
        until(lambda: server.log.count(READY) == 2 * workers)
        for key, status in (("alice", 200), ("prom", 401)):
            assert told(headers=bearer(key)).status_code == status
        assert server.log.count("certificate not renewed, the previous one stays") == workers


@pytest.mark.parametrize("transport", ["http2", "grpcio"])
def test_a_certificate_names_its_caller_and_closed_health_asks_for_one(
    tmp_path: Path, transport: str
) -> None:
    """The client's certificate names the caller; one that the file lacks may not read health."""
    authority = Authority(tmp_path)
    pair, edge, other = authority.server(), authority.client("edge"), authority.client("other")
    file = tmp_path / "keys"
    file.write_text("edge predict,read digits certificate:edge.test\n")
    tls = (f"--tls_certificate={pair.certificate}", f"--tls_key={pair.key}")
    believed = (f"--tls_client_ca={authority.path}", "--open_health=false")
    with Guarded(file, *tls, *believed, f"--grpc_transport={transport}") as server:
        server.line(READY)
        for client, code, status in ((edge, OK, 200), (other, UNKNOWN, 401)):
            files = (authority.path, client.key, client.certificate)
            credentials = grpc.ssl_channel_credentials(*[each.read_bytes() for each in files])
            with grpc.secure_channel(f"localhost:{server.port}", credentials) as channel:
                predict = channel.unary_unary(
                    "/tensorflow.serving.PredictionService/Predict",
                    lambda message: message.SerializeToString(),
                )
                assert _code(predict, predict_request("digits")) is code
                health = health_pb2_grpc.HealthStub(channel)
                assert _code(health.Check, health_pb2.HealthCheckRequest()) is code
            context = ssl.create_default_context(cafile=authority.path)
            context.load_cert_chain(*client.paths)
            url = f"https://localhost:{server.rest_port}"
            with httpx.Client(base_url=url, verify=context, trust_env=False) as rest:
                assert rest.post(PREDICT, content=BODY).status_code == status
                assert rest.get("/v2/health/ready").status_code == status


def _code(call: Any, request: Any) -> Any:
    try:
        call(request, timeout=PATIENCE_S)
    except grpc.RpcError as error:
        return error.code()  # type: ignore[attr-defined]
    return OK


def test_a_check_without_credentials_finds_closed_health_ready(tmp_path: Path) -> None:
    """The container's check has no credentials: that they are asked for shows open ports."""
    script = ROOT / "deploy" / "container" / "healthcheck.py"
    spec = importlib.util.spec_from_file_location("healthcheck", script)
    assert spec
    assert spec.loader
    check = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(check)
    file = tmp_path / "keys"
    file.write_text(line("prom", "read *") + line("alice", "predict *"))
    with Guarded(file, "--open_health=false", "--enable_cors") as server:
        server.ready()
        asked = server.rest.options(PREDICT, headers={"origin": "https://example.com"})
        assert asked.status_code == 200
        assert "Authorization, X-Api-Key" in asked.headers["access-control-allow-headers"]
        for path in OPEN:
            statuses = [
                server.rest.get(path, headers=given).status_code
                for given in ({}, bearer("alice"), bearer("prom"))
            ]
            assert statuses == [401, 403, 200]
        assert check.rest_status(server.rest_port) == check.READY
        assert check.grpc_serving(server.port)


@pytest.mark.parametrize(
    ("content", "said"),
    [("{}", "is no JSON Web Key Set"), ("", "cannot be read: No such file")],
)
def test_broken_keys_of_tokens_end_the_start(tmp_path: Path, content: str, said: str) -> None:
    file, keys = tmp_path / "keys", tmp_path / "keys.json"
    file.write_text("zoe predict * jwt:*\n")
    if content:
        keys.write_text(content)
    with Guarded(file, *believing(str(keys))) as server:
        server.line(said)
        assert server.exit_code() == 1


def test_a_broken_file_of_callers_ends_the_start(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("alice predict *\n")
    with Guarded(file) as server:
        server.line("3 words; expected 4: name, rights, models, credential")
        assert server.exit_code() == 1
