"""The installed command on models in real stores, its output searched for secrets."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from tests.functional.load import AVAILABLE, states
from tests.functional.servers import SAMPLE, Server, config_flag
from tests.functional.storage.repositories import (
    AzureRepository,
    GcsRepository,
    LocalRepository,
    S3Repository,
)
from tests.functional.storage.servers import SECRET
from tests.process import Process

Repository = LocalRepository | S3Repository | GcsRepository | AzureRepository
Remote = S3Repository | GcsRepository

FILES = ("model.bin", "model.xml")
POLL_S = 0.3


@dataclass
class Launcher:
    """Starts servers at DEBUG with one cache; all of them end with the test.

    Attributes:
        cache_dir: of every server.
        environ: of every server; later repositories add theirs.
        started: all processes so far.
    """

    cache_dir: Path
    environ: dict[str, str] = field(default_factory=dict)
    started: list[Process] = field(default_factory=list)

    def serve(self, *arguments: str) -> Server:
        """Run `ie_serving` and wait until it is ready."""
        return self.begin(*arguments).ready()

    def begin(self, *arguments: str) -> Server:
        """Run `ie_serving`; it may fail to start."""
        flags = (
            "--log_level=DEBUG",
            f"--file_system_poll_wait_seconds={POLL_S}",
            "--inference_precision=f32",  # as what the answers are compared with
        )
        given = {argument.partition("=")[0] for argument in arguments}
        own = [flag for flag in flags if flag.partition("=")[0] not in given]
        if "--cache_dir" not in given:
            own.append(f"--cache_dir={self.cache_dir}")
        server = Server("ie_serving", *arguments, *own, env=self.environ)
        self.started.append(server)
        return server

    def close(self) -> None:
        """Stop what runs. No output of any of them may hold a secret, or a traceback."""
        with ExitStack() as stack:
            for process in self.started:
                stack.callback(process.close)
        output = [line for process in self.started for line in process.lines]
        assert [line for line in output if SECRET in line or "Traceback" in line] == []


def only(repository: Repository) -> tuple[str, ...]:
    """Arguments for the one model `digits`."""
    return only_at(repository.storage.url)


def only_at(url: str) -> tuple[str, ...]:
    """Arguments for the one model `digits` at `url`."""
    return ("model", "--model_name=digits", f"--model_path={url}")


def several(file: Path, models: Mapping[str, str | dict[str, Any]]) -> tuple[str, ...]:
    """Arguments for models by name: their URL, or all their keys."""
    keyed = {
        n: {"base_path": keys} if isinstance(keys, str) else keys for n, keys in models.items()
    }
    return "config", config_flag(file, *({"name": name, **keys} for name, keys in keyed.items()))


def put(
    repository: Repository, version: int, sample: int = 1, names: tuple[str, ...] = FILES
) -> None:
    """Upload a version of the sample, one file after the other."""
    for name in names:
        repository.put(f"{version}/{name}", (SAMPLE / str(sample) / name).read_bytes())


def withdraw(repository: Repository, version: int) -> None:
    for name in FILES:
        repository.remove(f"{version}/{name}")


def serves(server: Server, version: int, model: str = "digits") -> bool:
    """Whether it says so; a model of which nothing is known yet serves nothing."""
    try:
        return states(server, model).get(version) == AVAILABLE
    except grpc.RpcError as error:
        assert error.code() is grpc.StatusCode.NOT_FOUND
        return False


def listings(repository: Remote) -> int:
    """How often its base has been listed."""
    return sum(map(is_listing_of_the_base, repository.proxy.requests))


def is_listing_of_the_base(line: str) -> bool:
    return "delimiter=" in line


def is_about_a_file(line: str) -> bool:
    return any(name in line for name in FILES)
