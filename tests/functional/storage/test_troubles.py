"""Each trouble with a store has a name: in the end of a start, and in the status of what waits."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import pytest

from tests.functional.load import states
from tests.functional.servers import SAMPLE, Server
from tests.functional.storage.repositories import gcs_admin, s3_admin, s3_environ
from tests.functional.storage.servers import (
    ADMIN,
    SECRET,
    STRANGER,
    FakeGcs,
    User,
    Weed,
    black_hole,
)
from tests.functional.storage.serving import FILES, Launcher, serves, several
from tests.process import free_ports, until

FORGER = User(ADMIN.key, f"wrong-{SECRET}")

TROUBLES = {
    "wrong credentials": ("s3", ["the credentials were refused", "AWS_SECRET_ACCESS_KEY"]),
    "no permission": ("minio", ["permission denied to list", "s3:ListBucket"]),
    "missing bucket": ("gs", ["the bucket does not exist"]),
    "missing prefix": ("minio", ["no object in bucket", "begins with 'm/'", "correct the path"]),
    "refused connection": ("s3", ["the connection was refused", "S3_ENDPOINT"]),
    "DNS": ("minio", ["does not resolve (DNS)", "MINIO_ENDPOINT"]),
    "TLS": ("gs", ["the certificate was refused (TLS)", "REQUESTS_CA_BUNDLE"]),
    "time-out": ("s3", ["no answer in time (time-out)", "S3_ENDPOINT"]),
}
"""The scheme that each is tried with, and the words that tell it apart and say what to set."""

TOGETHER = (
    ("wrong credentials", "missing prefix", "missing bucket"),
    ("refused connection", "no permission", "TLS"),
    ("time-out", "DNS"),
)
"""Troubles that one server can have at the same time: one for each scheme."""


@pytest.fixture(scope="module")
def environments(
    weed: Weed, fake_gcs: FakeGcs, authority: tuple[Path, Path, Path]
) -> Iterator[dict[str, dict[str, str]]]:
    """Settings that lead to each trouble."""
    closed = free_ports(1)[0]
    with ExitStack() as stack:
        silent = stack.enter_context(black_hole())
        secure = stack.enter_context(FakeGcs(*authority[1:]))
        yield {
            "wrong credentials": s3_environ("s3", weed.url, FORGER),
            "no permission": s3_environ("minio", weed.url, STRANGER),
            "missing bucket": {"STORAGE_EMULATOR_HOST": fake_gcs.url},
            "missing prefix": s3_environ("minio", weed.url, ADMIN),
            "refused connection": s3_environ("s3", f"http://127.0.0.1:{closed}", ADMIN),
            "DNS": s3_environ("minio", "http://store.invalid:9000", ADMIN),
            "TLS": {"STORAGE_EMULATOR_HOST": secure.url, "REQUESTS_CA_BUNDLE": ""},
            "time-out": s3_environ("s3", f"http://{silent}", ADMIN),
        }


@dataclass
class Launched:
    """Processes by trouble: those that must be able to list, and those that may wait."""

    strict: dict[str, Server] = field(default_factory=dict)
    waiting: dict[str, Server] = field(default_factory=dict)


@pytest.fixture(scope="module")
def launched(
    environments: dict[str, dict[str, str]], weed: Weed, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Launched]:
    """All at once: their troubles take time, not work."""
    directory = tmp_path_factory.mktemp("troubles")
    for bucket in ("troubles", "waiting"):
        s3_admin(weed).create_bucket(Bucket=bucket)
    processes = Launched()
    with closing(Launcher(directory / "cache")) as launcher:
        for number, group in enumerate(TOGETHER):
            launcher.environ = {k: v for name in group for k, v in environments[name].items()}
            models = {TROUBLES[name][0]: f"{TROUBLES[name][0]}://waiting/m" for name in group}
            config = several(directory / f"{number}.json", models)
            server = launcher.begin(*config, "--allow_unavailable_models")
            processes.waiting |= dict.fromkeys(group, server)
        for trouble, (scheme, _) in TROUBLES.items():
            launcher.environ = environments[trouble]
            path = f"--model_path={scheme}://troubles/m"
            processes.strict[trouble] = launcher.begin("model", "--model_name=m", path)
        for server in set(processes.waiting.values()):
            server.ready(60.0)
        yield processes


def is_told_apart(trouble: str, text: str) -> bool:
    """Whether `text` has all words of this trouble and those of no other."""
    others = (words[0] for name, (_, words) in TROUBLES.items() if name != trouble)
    return all(word in text for word in TROUBLES[trouble][1]) and not any(
        word in text for word in others
    )


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_start_ends_with_code_1_and_the_cause(launched: Launched, trouble: str) -> None:
    process = launched.strict[trouble]
    assert process.exit_code() == 1
    assert is_told_apart(trouble, process.log), process.log


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_server_that_may_wait_tells_the_cause_in_log_and_status(
    launched: Launched, trouble: str
) -> None:
    server, scheme = launched.waiting[trouble], TROUBLES[trouble][0]
    with pytest.raises(grpc.RpcError) as refused:
        states(server, scheme)
    reply = server.rest.get(f"/v1/models/{scheme}")
    assert (refused.value.code(), reply.status_code) == (grpc.StatusCode.NOT_FOUND, 404)
    logged = "\n".join(line for line in server.lines if f"{scheme}://waiting/m: " in line)
    over_grpc = dict(refused.value.trailing_metadata())["ie-serving-error"]
    for text in (over_grpc, reply.headers["ie-serving-error"], logged):
        assert is_told_apart(trouble, text), text


def test_a_waiting_model_is_served_once_its_cause_is_mended(
    launched: Launched, fake_gcs: FakeGcs, weed: Weed
) -> None:
    server = launched.waiting["missing bucket"]
    assert server is launched.waiting["missing prefix"]
    bucket = gcs_admin(fake_gcs).create_bucket("waiting")
    for name in FILES:
        data = (SAMPLE / "1" / name).read_bytes()
        bucket.blob(f"m/1/{name}").upload_from_string(data)
        s3_admin(weed).put_object(Bucket="waiting", Key=f"m/1/{name}", Body=data)
    until(lambda: serves(server, 1, "gs") and serves(server, 1, "minio"))
