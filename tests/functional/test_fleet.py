"""A directory of models: models appear, change and go with their directories."""

import json
import os
import re
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import tritonclient.http as triton_http

from tests.functional.commands import ie_serving
from tests.functional.conftest import Serve
from tests.functional.load import AVAILABLE, START, Load
from tests.functional.servers import SAMPLE, Server
from tests.functional.storage.repositories import BUCKET, s3_admin, s3_environ
from tests.functional.storage.servers import ADMIN, Weed
from tests.functional.storage.serving import FILES, serves
from tests.process import PATIENCE_S, Process, ended, until

POLL = "--file_system_poll_wait_seconds=0.3"


@dataclass
class Shelf:
    """Models on disk."""

    base: Path
    environ: dict[str, str]

    @property
    def url(self) -> str:
        return str(self.base)

    def put(self, name: str, version: int = 1, sample: int = 1) -> None:
        """Let a version appear at once, with all its files, in the place of another."""
        beside = self.base.parent / "beside"
        shutil.copytree(SAMPLE / str(sample), beside)
        (self.base / name).mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self.base / name / str(version), ignore_errors=True)
        beside.rename(self.base / name / str(version))

    def write(self, path: str, content: str) -> None:
        target = self.base / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)

    def remove(self, name: str) -> None:
        shutil.rmtree(self.base / name)


class BucketShelf:
    """Models below a prefix of a bucket."""

    def __init__(self, weed: Weed, prefix: str) -> None:
        self._admin = s3_admin(weed)
        self._admin.create_bucket(Bucket=BUCKET)
        self._prefix = prefix
        self.url = f"s3://{BUCKET}/{prefix}"
        self.environ = s3_environ("s3", weed.url, ADMIN)

    def put(self, name: str, version: int = 1, sample: int = 1) -> None:
        for file in FILES:
            self._put(f"{name}/{version}/{file}", (SAMPLE / str(sample) / file).read_bytes())

    def write(self, path: str, content: str) -> None:
        self._put(path, content.encode())

    def remove(self, name: str) -> None:
        found = self._admin.list_objects_v2(Bucket=BUCKET, Prefix=f"{self._prefix}/{name}/")
        for each in found["Contents"]:
            self._admin.delete_object(Bucket=BUCKET, Key=each["Key"])
        for path in (f"{name}/1/", f"{name}/"):  # SeaweedFS would list them still
            self._admin.delete_object(Bucket=BUCKET, Key=f"{self._prefix}/{path}")

    def _put(self, path: str, body: bytes) -> None:
        self._admin.put_object(Bucket=BUCKET, Key=f"{self._prefix}/{path}", Body=body)


AnyShelf = Shelf | BucketShelf


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "models", {})


@pytest.fixture(params=["disk", "s3"])
def any_shelf(request: pytest.FixtureRequest, tmp_path: Path, shelf: Shelf) -> Iterator[AnyShelf]:
    if request.param == "disk":
        yield shelf
        return
    (tmp_path / "weed").mkdir()
    with Weed(tmp_path / "weed") as weed:
        yield BucketShelf(weed, "shelf")


@pytest.fixture
def start(serve: Serve, tmp_path: Path) -> Callable[..., Server]:
    def started(shelf: AnyShelf, *flags: str) -> Server:
        command = ("ie_serving", "config", f"--model_repository={shelf.url}")
        own = (POLL, f"--cache_dir={tmp_path / 'cache'}")
        return serve(*command, *own, *flags, env=shelf.environ)

    return started


def is_gone(server: Server, name: str) -> bool:
    return bool(server.rest.post(f"/v1/models/{name}:predict", json={}).status_code == 404)


SHELVES = ["disk", pytest.param("s3", marks=pytest.mark.soak)]


@pytest.mark.parametrize("any_shelf", SHELVES, indirect=True)
def test_models_come_change_and_go_with_their_directories(
    any_shelf: AnyShelf, start: Callable[..., Server]
) -> None:
    for name in ("stays", "changes", "goes"):
        any_shelf.put(name)
    server = start(any_shelf)
    for name in ("stays", "changes", "goes"):
        assert serves(server, 1, name)
    with Load(server, ["stays", "changes"]) as load:
        any_shelf.put("comes")
        until(lambda: serves(server, 1, "comes"), PATIENCE_S)
        any_shelf.put("changes", 2)
        until(lambda: serves(server, 2, "changes"), PATIENCE_S)
        any_shelf.write("changes/model.json", '{"model_version_policy": {"all": {}}}')
        until(lambda: len(available(server, "changes")) == 2, PATIENCE_S)
        any_shelf.remove("goes")
        until(lambda: is_gone(server, "goes"), PATIENCE_S)
    assert load.failures == []
    assert "listing failed" not in server.log


def available(server: Server, name: str) -> list[str]:
    found = server.rest.get(f"/v1/models/{name}").json().get("model_version_status", [])
    return [each["version"] for each in found if each["state"] == "AVAILABLE"]


def shadowed(server: Server, name: str) -> int:
    """Count the requests to a model that its shadow was to answer."""
    counts = re.findall(
        rf'^ie_serving_shadow_requests_total{{model_name="{name}",.*}} (\d+)',
        server.rest.get("/metrics").text,
        re.MULTILINE,
    )
    return sum(map(int, counts))


def test_settings_that_are_broken_concern_their_model_alone(
    shelf: Shelf, start: Callable[..., Server]
) -> None:
    for name in ("good", "broken", "later"):
        shelf.put(name)
    shelf.write("broken/model.json", '{"nireq": "many"}')
    shelf.put("dangling")
    (shelf.base / "dangling/model.json").symlink_to("/nowhere/model.json")
    shelf.put("pipe")
    os.mkfifo(shelf.base / "pipe/model.json")
    (shelf.base / "good/1/assets.extra").mkdir()
    os.mkfifo(shelf.base / "good/1/assets.extra/tf_serving_warmup_requests")
    shelf.write("later/model.json", '{"shadow": {"model": "good", "sampling_rate": 1}}')
    server = start(shelf)
    until(lambda: server.rest.get("/v2/health/ready").status_code == 200, PATIENCE_S)
    (status,) = server.rest.get("/v1/models/broken").json()["model_version_status"]
    assert "broken/model.json: nireq: 'many' given" in status["status"]["error_message"]
    assert "broken/model.json: nireq: 'many' given" in server.log
    (status,) = server.rest.get("/v1/models/dangling").json()["model_version_status"]
    assert "dangling/model.json: cannot be read: No such" in status["status"]["error_message"]
    (status,) = server.rest.get("/v1/models/pipe").json()["model_version_status"]
    assert "pipe/model.json: cannot be read: it is no reg" in status["status"]["error_message"]
    with Load(server, ["good", "later"]) as load:
        # What served before goes on while its new settings cannot be used.
        shelf.write("later/model.json", "{")
        line = server.line("later/model.json:1:2: not JSON", PATIENCE_S)
        assert "settings of a model not applied model=later" in line
        assert not re.search("version failed to load.* model=later", server.log)
        details = "/v1/models/later/details"
        said = "later/model.json:1:2: not JSON"
        until(lambda: said in server.rest.get("/v1/models/later").text, PATIENCE_S)
        status = server.status("later")[0]
        assert (status.state, status.status.error_code) == (AVAILABLE, 0)
        assert f"newer settings are not applied: {shelf.base}/{said}" in status.status.error_message
        until(lambda: said in server.rest.get(details).text, PATIENCE_S)
        shown = server.rest.get("/page/state").json()["models"]
        assert said in next(each for each in shown if each["name"] == "later")["not_applied"]
        ran = ie_serving("status", "later", f"--url={server.url}")
        assert ran.code == 0
        assert re.search(f"settings not applied: .*{said}", ran.out)
        before = shadowed(server, "later")
        until(lambda: shadowed(server, "later") > before, PATIENCE_S)
        shelf.write("later/model.json", "{}")
        until(lambda: said not in server.rest.get(details).text, PATIENCE_S)
        assert server.log.count("version failed to load model=broken") == 1
        shelf.put("broken", 2)
        server.line("version failed to load model=broken version=2", PATIENCE_S)
        shelf.write("broken/model.json", '{"nireq": 2}')
        until(lambda: serves(server, 2, "broken"), PATIENCE_S)
    assert load.failures == []
    assert server.log.count("version failed to load model=broken version=2") == 1


def test_settings_that_break_before_the_first_request_are_told_by_the_status(
    shelf: Shelf, start: Callable[..., Server]
) -> None:
    shelf.put("one")
    server = start(shelf, "--load=on_demand")
    shelf.write("one/model.json", "{")
    said = "the first request loads it; newer settings are not applied: "
    until(lambda: said in server.rest.get("/v1/models/one").text, PATIENCE_S)
    assert "one/model.json:1:2: not JSON" in server.status("one")[0].status.error_message
    for names in ((), ("one",)):
        ran = ie_serving("status", *names, f"--url={server.url}")
        assert ran.out.count("one/model.json:1:2: not JSON") == 1
        assert "0 of 1 models loaded" in ran.out


ODD_NAMES = (b"two\nlines", b"\x01", b"\xff", b" ")


def test_a_directory_whose_name_no_model_can_have_is_left_out_once(
    shelf: Shelf, start: Callable[..., Server]
) -> None:
    for name in ("one", "with space", "per%cent", "unié", "l" * 255):
        shelf.put(name)
    for odd in ODD_NAMES:
        shutil.copytree(os.fsencode(shelf.base / "one"), os.fsencode(shelf.base) + b"/" + odd)
    server = start(shelf)
    until(lambda: server.log.count("directory of a model ignored") == len(ODD_NAMES), PATIENCE_S)
    assert names(server) == {"one", "with space", "per%cent", "unié", "l" * 255}
    assert len(server.rest.post("/v2/repository/index", json={}).json()) == 5
    assert "version failed to load" not in server.log
    with Process("ie_serving", "check", f"--model_repository={shelf.url}") as process:
        assert process.exit_code() == 1
        assert "expected text that is not empty, on one line: rename the directory" in process.log


def configured(shelf: Shelf, file: Path) -> tuple[Callable[..., None], Sequence[str]]:
    """Give what writes a file of the shelf with these names excluded, and flags that follow it."""

    def write(*excluded: str) -> None:
        entry = {"base_path": shelf.url, "exclude": excluded}
        file.write_text(json.dumps({"model_repository_list": [entry]}))

    return write, (f"--config_path={file}", POLL, "--config_poll_wait_seconds=0.3")


def test_a_change_of_the_globs_beside_an_outage_takes_no_model_away(
    shelf: Shelf, serve: Serve, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        shelf.put(name)
    configure, flags = configured(shelf, tmp_path / "config.json")
    configure()
    server = serve("ie_serving", "config", *flags)
    with Load(server, ["one"]) as load:
        shelf.base.rename(tmp_path / "elsewhere")
        configure("two")
        until(lambda: is_gone(server, "two"), PATIENCE_S)
        (tmp_path / "elsewhere").rename(shelf.base)
        shelf.put("three")
        until(lambda: serves(server, 1, "three"), PATIENCE_S)
    assert load.failures == []
    assert names(server) == {"one", "three"}


def test_a_configured_model_takes_precedence_over_a_directory_of_its_name(
    shelf: Shelf, serve: Serve, tmp_path: Path
) -> None:
    other = Shelf(tmp_path / "other", {})
    for name in ("one", "two", "skipped"):
        shelf.put(name)
    for name in ("one", "three"):
        other.put(name, 2)
    file = tmp_path / "config.json"
    content: dict[str, Any] = {
        "model_config_list": [{"config": {"name": "two", "base_path": str(SAMPLE)}}],
        "model_repository_list": [
            {"base_path": "models", "exclude": ["skip*"]},
            {"base_path": "other", "include": ["one", "thr??"]},
        ],
    }
    file.write_text(json.dumps(content))
    server = serve("ie_serving", "config", f"--config_path={file}", POLL)
    assert serves(server, 1, "one")
    assert serves(server, 2, "two")
    assert serves(server, 2, "three")
    assert is_gone(server, "skipped")
    assert "other/one: not served, since" in server.log
    with Load(server, ["two", "three"]) as load:
        content["model_repository_list"].pop(0)
        file.write_text(json.dumps(content))
        until(lambda: serves(server, 2, "one"), PATIENCE_S)
    assert load.failures == []


def test_check_tells_what_of_a_directory_would_not_serve(shelf: Shelf) -> None:
    for name in ("good", "broken"):
        shelf.put(name)
    shelf.write("broken/model.json", '{"base_path": "/elsewhere"}')
    flag = f"--model_repository={shelf.url}"
    with Process("ie_serving", "check", flag, "--json") as process:
        assert process.exit_code() == 1
        report = json.loads(process.log.strip().splitlines()[-1])
    assert report["models"]["good"]["versions"][0]["ok"]
    fault = report["models"]["broken"]["versions"][0]["fault"]
    assert "broken/model.json: base_path given; it is the directory itself" in fault
    with Process("ie_serving", "check", f"{flag}/good") as process:
        assert process.exit_code() == 1
        assert "it is the directory of one model" in process.log


def test_check_tells_of_a_directory_without_a_model(shelf: Shelf) -> None:
    shelf.put("good")
    file = shelf.base.parent / "config.json"
    written = {"model_repository_list": [{"base_path": shelf.url, "include": ["other-*"]}]}
    file.write_text(json.dumps(written))
    with Process("ie_serving", "check", f"--config_path={file}") as process:
        assert process.exit_code() == 1
    assert f"{shelf.url}: no model: no directory has a name that include and exclude take" in (
        process.log
    )


def test_clients_load_models_of_a_directory(shelf: Shelf, start: Callable[..., Server]) -> None:
    for name in ("one", "two"):
        shelf.put(name)
    server = start(shelf, "--model_control_mode=explicit", "--load_model=one")
    client = triton_http.InferenceServerClient(f"127.0.0.1:{server.rest_port}")
    assert index(client) == {"one": "READY", "two": "UNAVAILABLE"}
    shelf.put("three")
    client.load_model("three")
    shelf.remove("two")
    assert index(client) == {"one": "READY", "three": "READY"}
    shelf.remove("one")
    until(lambda: index(client) == {"three": "READY"}, PATIENCE_S)


def index(client: triton_http.InferenceServerClient) -> dict[str, str]:
    return {each["name"]: each["state"] for each in client.get_model_repository_index()}


def test_a_repository_of_triton_serves_as_it_is(shelf: Shelf, start: Callable[..., Server]) -> None:
    shelf.put("digits")
    shelf.write("digits/config.pbtxt", 'name: "digits"\nmax_batch_size: 8\ndynamic_batching {}')
    shelf.write("wrong/config.pbtxt", 'backend: "tensorrt"')
    shelf.put("wrong")
    server = start(shelf)
    config = server.rest.get("/v2/models/digits/config").json()
    assert "dynamic_batching" in config
    (status,) = server.rest.get("/v1/models/wrong").json()["model_version_status"]
    assert "backend tensorrt" in status["status"]["error_message"]


def take(shelf: Shelf, version: int, at: Path) -> None:
    """Put other files into the place of a model's directory, as one version, written now."""
    beside = shelf.base.parent / "new"
    shutil.copytree(SAMPLE / "2", beside / str(version), copy_function=shutil.copyfile)
    beside.rename(at)


def digit(server: Server, name: str) -> int:
    """Ask for what the sample's versions take for different digits, 4 and 7."""
    reply = server.rest.post(f"/v1/models/{name}:predict", json={"instances": [[8.0] * 64]})
    assert reply.status_code == 200, reply.text
    return int(reply.json()["predictions"][0]["digit"])


def test_the_line_of_the_start_names_a_hundred_models_at_most(
    shelf: Shelf, start: Callable[..., Server]
) -> None:
    for number in range(102):
        shelf.put(f"m{number:03}")
    assert "'m099'] and 2 more" in start(shelf, "--load=on_demand").log


@pytest.mark.parametrize("version", [1, 2])
def test_a_directory_that_one_listing_lacks_keeps_its_model(
    shelf: Shelf, start: Callable[..., Server], version: int
) -> None:
    """A version that is new is loaded, and other files of the one that serves are told of."""
    for name in ("m", "other"):
        shelf.put(name)
    flags = ("--file_system_poll_wait_seconds=3", "--reload_changed_versions=true")
    server = start(shelf, *flags)
    with Load(server, ["m"]) as load:
        (shelf.base / "m").rename(shelf.base.parent / "old")
        shelf.put("comes")
        server.line("model configured model=comes", PATIENCE_S)
        take(shelf, version, shelf.base / "m")
        until(lambda: digit(server, "m") == 7, PATIENCE_S)
    assert load.failures == []
    assert server.log.count("model configured model=m ") == 1
    changed = "files of a served version have changed model=m version=1"
    assert server.log.count(changed) == (version == 1)


@pytest.mark.parametrize("version", [1, 2])
def test_a_model_that_is_replaced_before_its_first_request_is_loaded_as_it_is_now(
    shelf: Shelf, start: Callable[..., Server], version: int
) -> None:
    shelf.put("m")
    server = start(shelf, "--load=on_demand", "--file_system_poll_wait_seconds=2")
    assert server.status("m")[0].state == START
    (shelf.base / "m").rename(shelf.base.parent / "old")
    take(shelf, version, shelf.base / "m")
    assert digit(server, "m") == 7


def test_a_model_that_is_replaced_while_it_is_unloaded_is_loaded_as_it_is_now(
    any_shelf: AnyShelf, start: Callable[..., Server]
) -> None:
    """Also from a bucket, whose old objects lie in the cache."""
    any_shelf.put("m")
    server = start(any_shelf, "--load=on_demand", "--idle_unload_timeout_seconds=0.2")
    assert digit(server, "m") == 4
    until(lambda: server.status("m")[0].state == START, PATIENCE_S)
    any_shelf.put("m", sample=2)
    assert digit(server, "m") == 7


def test_a_model_that_is_gone_before_its_first_request_is_not_found(
    shelf: Shelf, start: Callable[..., Server]
) -> None:
    for name in ("m", "other"):
        shelf.put(name)
    server = start(shelf, "--load=on_demand", "--file_system_poll_wait_seconds=2")
    shelf.remove("m")
    assert is_gone(server, "m")
    until(lambda: names(server) == {"other"}, PATIENCE_S)
    assert server.log.count("version failed to load model=m") <= 2


def test_a_poll_of_a_model_whose_directory_has_just_gone_is_not_found(
    shelf: Shelf, start: Callable[..., Server]
) -> None:
    for name in ("m", "other"):
        shelf.put(name)
    server = start(shelf, "--file_system_poll_wait_seconds=3")
    shelf.remove("m")
    reply = server.rest.post("/v1/models/m:poll")
    assert (reply.status_code, reply.json()) == (
        404,
        {
            "error": "Could not find any versions of model m: its directory has gone, put it back"
            " to have it served"
        },
    )


def test_a_poll_of_a_model_whose_versions_have_gone_says_so(
    shelf: Shelf, start: Callable[..., Server]
) -> None:
    shelf.write("m/model.json", "{}")
    shelf.put("m")
    server = start(shelf, "--file_system_poll_wait_seconds=3")
    shelf.remove("m/1")
    reply = server.rest.post("/v1/models/m:poll")
    assert reply.status_code == 503
    assert "no version is left of 1" in reply.json()["error"]


def test_a_reload_while_the_directory_of_models_is_away_is_a_trouble_of_the_store(
    shelf: Shelf, start: Callable[..., Server]
) -> None:
    shelf.put("m")
    server = start(shelf, "--file_system_poll_wait_seconds=3")
    shelf.base.rename(shelf.base.with_name("away"))
    reply = server.rest.post("/v1/config/reload")
    assert reply.status_code == 503
    assert f"{shelf.base}: no such directory" in reply.json()["error"]
    assert serves(server, 1, "m")


@pytest.mark.parametrize(
    ("is_mount_there", "says"),
    [(False, "no such directory"), (True, "no model is left of 2")],
    ids=["gone", "empty"],
)
def test_a_poll_while_the_directory_of_models_is_away_says_so(
    shelf: Shelf, start: Callable[..., Server], is_mount_there: bool, says: str
) -> None:
    for name in ("m", "other"):
        shelf.put(name)
    server = start(shelf, "--file_system_poll_wait_seconds=3")
    shelf.base.rename(shelf.base.with_name("away"))
    if is_mount_there:
        shelf.base.mkdir()
    reply = server.rest.post("/v1/models/m:poll")
    assert reply.status_code == 503
    assert f"{shelf.base}: {says}" in reply.json()["error"]
    assert serves(server, 1, "m")


def test_several_workers_have_the_same_models(shelf: Shelf, start: Callable[..., Server]) -> None:
    for name in ("stays", "goes"):
        shelf.put(name)
    server = start(shelf, "--workers=2")
    with Load(server, ["stays"]) as load:
        shelf.put("comes")
        until(lambda: serves(server, 1, "comes"), PATIENCE_S)
        shelf.remove("goes")
        until(lambda: is_gone(server, "goes"), PATIENCE_S)
    assert load.failures == []


def test_a_worker_that_replaces_another_goes_on(shelf: Shelf, start: Callable[..., Server]) -> None:
    shelf.put("stays")
    server = start(shelf)
    shelf.put("comes")
    until(lambda: serves(server, 1, "comes"), PATIENCE_S)
    _, worker = server.pids()
    os.kill(worker, signal.SIGKILL)
    until(lambda: ended(worker), PATIENCE_S)
    shelf.remove("stays")
    shelf.put("later")
    until(lambda: names(server) == {"comes", "later"}, PATIENCE_S)


def test_a_label_of_a_client_outlives_other_directories_and_a_worker(
    shelf: Shelf, start: Callable[..., Server]
) -> None:
    for version in (1, 2):
        shelf.put("m", version, sample=version)
    settings = {"model_version_policy": {"all": {}}, "version_labels": {"stable": 1}}
    shelf.write("m/model.json", json.dumps(settings))
    server = start(shelf)
    assert (
        server.rest.post("/v1/models/m:labels", json={"labels": {"stable": 2}}).status_code == 200
    )
    shelf.put("comes")
    until(lambda: serves(server, 1, "comes"), PATIENCE_S)
    assert labels(server) == {"stable": 2}
    _, worker = server.pids()
    os.kill(worker, signal.SIGKILL)
    until(lambda: ended(worker), PATIENCE_S)
    shelf.put("later")
    until(lambda: "later" in names(server), PATIENCE_S)
    assert labels(server) == {"stable": 2}
    shelf.write("m/model.json", json.dumps({**settings, "version_labels": {"next": 2}}))
    until(lambda: labels(server) == {"next": 2}, PATIENCE_S)


def test_a_label_of_a_client_outlives_a_change_of_the_file_and_a_load(
    shelf: Shelf, serve: Serve, tmp_path: Path
) -> None:
    for version in (1, 2):
        shelf.put("m", version, sample=version)
    shelf.put("two")
    settings = {"model_version_policy": {"all": {}}, "version_labels": {"stable": 1}}
    shelf.write("m/model.json", json.dumps(settings))
    configure, flags = configured(shelf, tmp_path / "config.json")
    configure()
    server = serve(
        "ie_serving", "config", *flags, "--model_control_mode=explicit", "--load_model=*"
    )
    assert server.rest.post("/v1/models/m:labels", json={"labels": {"stable": 2}}).is_success
    configure("two")
    until(lambda: is_gone(server, "two"), PATIENCE_S)
    assert labels(server) == {"stable": 2}
    assert server.rest.post("/v2/repository/models/m/load").is_success
    assert labels(server) == {"stable": 2}


def labels(server: Server) -> object:
    return server.rest.get("/v1/models/m/details").json()["labels"]


def names(server: Server) -> set[str]:
    """Models that serve; none while a worker is being replaced."""
    try:
        return {*server.rest.get("/v1/config").json()}
    except (httpx.HTTPError, ValueError):
        return set()


def test_a_volume_that_is_not_mounted_takes_no_model_away(
    shelf: Shelf, start: Callable[..., Server]
) -> None:
    for name in ("one", "two"):
        shelf.put(name)
    server = start(shelf)
    with Load(server, ["one", "two"]) as load:
        shelf.base.rename(shelf.base.parent / "elsewhere")
        shelf.base.mkdir()
        server.line("no model is left of 2", PATIENCE_S)
        shelf.base.rmdir()
        (shelf.base.parent / "elsewhere").rename(shelf.base)
        shelf.put("three")
        until(lambda: serves(server, 1, "three"), PATIENCE_S)
    assert load.failures == []
