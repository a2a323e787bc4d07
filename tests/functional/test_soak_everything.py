"""A fleet in which everything happens at once, for as long as SOAK_MINUTES says.

Models on demand under a budget that holds a part of them, directories that appear and go, a canary
that fails and is rolled back, recorded requests, cached answers, versions whose load kills the
process, and two workers that are killed in turn. Each model's answer tells which model gave it.
A kill costs the requests that the killed worker had, and nothing else costs any.
"""

import itertools
import json
import os
import random
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import httpx
import numpy as np
import psutil
import pytest
import tensorflow as tf
from openvino import opset13 as ops
from tensorflow_serving.apis import prediction_service_pb2_grpc

from tests.functional.asking import predict_request
from tests.functional.conftest import Serve
from tests.functional.servers import Server
from tests.functional.test_trial_loads import put
from tests.process import PATIENCE_S, until
from tests.unit.engines.openvino.models import parameter, result, save

MINUTES = float(os.environ.get("SOAK_MINUTES", "30"))
pytestmark = [pytest.mark.soak, pytest.mark.timeout(60 * MINUTES + 600)]

FLEET = 30
WIDTH = 512
"""Of a model's layer: 1 MB of weights."""
HELD = 8
"""Models of the fleet that the budget of one worker holds, about."""
MODEL_BYTES = 2_300_000
"""What such a model takes in memory."""
LOAD_BYTES = 24_000_000
"""What loads that are under way take beyond the budget."""
CLIENTS = 4
"""Half of them ask the fleet, for whose loads they wait; the others ask what is always loaded."""
ALWAYS_LOADED = ("split", "split", "cached", "recorded")
KINDS = {"fleet", *ALWAYS_LOADED}
A_CONNECTION = 50
"""Requests of a client until it connects anew, perhaps to the other worker."""
PAUSE_S = 0.02
KILL_EVERY_S = 30.0
CUT_S = 5.0
"""Seconds after a kill within which a client finds out that its connection was cut."""
CANARY = 25
"""Per cent of the requests that the canary gets."""
ROLLED_BACK = "version rolled back"
SHARES = [1 / rank for rank in range(1, FLEET + 1)]
FLAGS = (
    *("--workers=2", "--load_isolation=process", "--allow_python", "--inference_precision=f32"),
    *("--load=on_demand", "--load_wait_seconds=120"),
    *("--file_system_poll_wait_seconds=0.2", "--config_poll_wait_seconds=0.2"),
)


def write(directory: Path, number: int, name: str = "x") -> None:
    """Write a version in one step whose output is its input times `number`."""
    x = parameter(name, [-1, WIDTH])
    weights = np.eye(WIDTH, dtype=np.float32) * number
    y = ops.matmul(x, ops.constant(weights), False, False)
    beside = save(directory.parents[1] / "beside", [result("y", y)], [x])
    directory.parent.mkdir(parents=True, exist_ok=True)
    beside.rename(directory)


@dataclass
class Seen:
    """What the clients have seen.

    Attributes:
        answers: right ones, by kind of model.
        wrong: answers of another model, and refusals.
        cut: when a connection broke.
        refused: requests to the split model that failed while its canary was a bad one.
    """

    answers: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    cut: list[tuple[float, str]] = field(default_factory=list)
    refused: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class World:
    """The models on disk, the server, and what happens to them."""

    def __init__(self, folder: Path, start: Serve) -> None:
        self.folder = folder
        self.fleet = folder / "fleet"
        self.seen = Seen()
        self.is_bad = False
        self.kills: list[float] = []
        self.counts: Counter[str] = Counter()
        self._number = itertools.count(1000)
        self._shares = itertools.cycle((CANARY, CANARY + 1, CANARY + 2))
        self._deadly = itertools.count(2)
        for number in range(1, FLEET + 1):
            write(self.fleet / f"m{number}" / "1", number)
        for name in ("split", "cached", "recorded"):
            write(folder / name / "1", 1)
        write(folder / "split" / "2", 2)
        write(folder / "split" / "3", 3, "z")  # takes no "x", so that each request to it fails
        put(folder / "deadly", 1, "pass")
        self.configure(canary=2)
        flags = (f"--config_path={folder / 'config.json'}", *FLAGS)
        cache = f"--cache_dir={folder / 'cache'}"
        idle = start("ie_serving", "config", *flags, cache)
        until(lambda: len(self.workers(idle)) == 2)
        base = max(psutil.Process(pid).memory_info().rss for pid in self.workers(idle))
        idle.close()
        self.share = base + HELD * MODEL_BYTES
        budget = f"--model_memory_budget_bytes={2 * self.share}"
        self.server = start("ie_serving", "config", *flags, budget, cache)

    def configure(self, canary: int) -> None:
        """Write the configuration; `canary` is the version of the split model."""
        share = next(self._shares)  # another one gives a share back to a version that has lost it
        prefix = str(self.folder / "records" / "r")
        Path(prefix).parent.mkdir(exist_ok=True)
        models = {
            "split": {
                "model_version_policy": {"all": {}},
                "version_labels": {"stable": 1, "canary": canary},
                "traffic": {"stable": 100 - share, "canary": share},
                "rollback": {"error_rate": 0.1, "min_requests": 5},
            },
            "cached": {"response_cache_bytes": 1 << 20},
            "recorded": {
                "logging_config": {
                    "log_collector_config": {"type": "tfrecord", "filename_prefix": prefix},
                    "sampling_config": {"sampling_rate": 0.5},
                    "max_file_bytes": 1 << 20,
                }
            },
            "deadly": {"kernel": "kernel.py"},
        }
        entries = [
            {"config": {"name": name, "base_path": str(self.folder / name), **keys}}
            for name, keys in models.items()
        ]
        repository = [{"base_path": str(self.fleet)}]
        for each in entries:
            each["config"]["load"] = "always"
        beside = self.folder / "new.json"
        found = {"model_config_list": entries, "model_repository_list": repository}
        beside.write_text(json.dumps(found))
        beside.rename(self.folder / "config.json")

    @staticmethod
    def workers(server: Server) -> list[int]:
        return server.pids()[1:]

    # -- what happens ------------------------------------------------------------------------

    def comes_and_goes(self) -> None:
        """Add a directory of a model, ask it, and remove it."""
        number = next(self._number)
        name = f"x{number}"
        write(self.fleet / name / "1", number)
        with httpx.Client(base_url=self.server.url, timeout=PATIENCE_S, trust_env=False) as client:
            until(lambda: _status(client, name, number) == 200)
            shutil.rmtree(self.fleet / name)
            until(lambda: _status(client, name, number) == 404)
        self.counts["directories"] += 1

    def canary_fails(self) -> None:
        """Make a bad version the canary, until both workers have rolled it back."""
        before = self.server.log.count(ROLLED_BACK)
        with self.seen.lock:
            self.is_bad = True
        self.configure(canary=3)
        until(lambda: self.server.log.count(ROLLED_BACK) > before + 1, 2 * PATIENCE_S)
        applied = self.server.log.count("configuration applied")
        self.configure(canary=2)
        until(lambda: self.server.log.count("configuration applied") > applied + 1)
        with self.seen.lock:
            self.is_bad = False
        self.counts["rollbacks"] += 1

    def load_is_deadly(self) -> None:
        """Add a version whose load kills its process, and remove it."""
        version = next(self._deadly)
        put(self.folder / "deadly", version, "os.kill(os.getpid(), signal.SIGKILL)")
        failed = f"model=deadly version={version}"
        until(lambda: self._logged("version failed to load", failed), 2 * PATIENCE_S)
        shutil.rmtree(self.folder / "deadly" / str(version))
        self.counts["deadly loads"] += 1

    def _logged(self, *parts: str) -> bool:
        return any(all(part in line for part in parts) for line in self.server.lines)

    def kill(self) -> None:
        """Kill the older worker, and wait until there are two again."""
        dead = min(self.workers(self.server), key=lambda pid: psutil.Process(pid).create_time())
        with self.seen.lock:
            self.kills.append(time.monotonic())
        os.kill(dead, signal.SIGKILL)
        until(lambda: dead not in self.server.pids() and len(self.server.pids()) == 3)

    # -- clients -----------------------------------------------------------------------------

    def client(self, seed: int, stop: threading.Event) -> None:
        """Ask models at random, over both interfaces, until `stop`."""
        chance = random.Random(seed)
        while not stop.is_set():
            try:
                with _interfaces(self.server) as interfaces:
                    for _ in range(A_CONNECTION):
                        if stop.wait(PAUSE_S):
                            break
                        self._ask(chance, chance.choice(interfaces), seed % 2 == 0)
            except (httpx.TransportError, grpc.RpcError) as error:
                with self.seen.lock:
                    self.seen.cut.append((time.monotonic(), repr(error)[:600]))
            except Exception as error:  # such as a reply without outputs
                with self.seen.lock:
                    self.seen.wrong.append(repr(error)[:600])
                return

    def _ask(self, chance: random.Random, ask: "Asks", of_fleet: bool) -> None:
        kind = "fleet" if of_fleet else chance.choice(ALWAYS_LOADED)
        name, factors = kind, {1, 2} if kind == "split" else {1}
        if of_fleet:
            (number,) = chance.choices(range(1, FLEET + 1), SHARES)
            name, factors = f"m{number}", {number}
        value = chance.randrange(1, 9)
        self._judge(kind, name, ask(name, value), {value * each for each in factors})

    def _judge(self, kind: str, name: str, found: object, right: set[int]) -> None:
        with self.seen.lock:
            if found in right:
                self.seen.answers[kind] += 1
            elif kind == "split" and self.is_bad and isinstance(found, str):
                self.seen.refused += 1
            else:
                self.seen.wrong.append(f"{name}: {found!r} instead of {sorted(right)}")

    def not_cut(self) -> list[str]:
        """Give the failures that no kill explains."""
        return [
            why
            for at, why in self.seen.cut
            if not any(killed - 0.1 <= at <= killed + CUT_S for killed in self.kills)
        ]


def _status(client: httpx.Client, name: str, number: int) -> int:
    reply = client.post(f"/v1/models/{name}:predict", json=_body(1))
    if reply.status_code == 200:
        assert reply.json()["outputs"][0][0] == number
    return reply.status_code


def _body(value: int) -> dict[str, object]:
    return {"inputs": {"x": [[value] * WIDTH]}}


Asks = Callable[[str, int], object]
"""Asks a model with a value; gives the answer, or the words of a refusal."""


@contextmanager
def _interfaces(server: Server) -> Iterator[tuple[Asks, Asks]]:
    target = f"127.0.0.1:{server.port}"
    with (
        httpx.Client(base_url=server.url, timeout=PATIENCE_S, trust_env=False) as client,
        grpc.insecure_channel(target) as channel,
    ):
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)

        def over_rest(name: str, value: int) -> object:
            reply = client.post(f"/v1/models/{name}:predict", json=_body(value))
            if reply.status_code != 200:
                return f"{reply.status_code} {reply.text}"
            (row,) = reply.json()["outputs"]
            return row[0] if len({*row}) == 1 else f"{row}"

        def over_grpc(name: str, value: int) -> object:
            request = predict_request(name, x=tf.make_tensor_proto([[value] * WIDTH], tf.float32))
            try:
                outputs = stub.Predict(request, PATIENCE_S).outputs
            except grpc.RpcError as error:
                if error.code() == grpc.StatusCode.UNAVAILABLE:
                    raise
                return f"{error.code()} {error.details()}"
            (row,) = tf.make_ndarray(outputs["y"]).tolist()
            return row[0] if len({*row}) == 1 else f"{row}"

        yield over_rest, over_grpc


def test_a_fleet_survives_everything_at_once(
    tmp_path: Path, serve: Serve, capfd: pytest.CaptureFixture[str]
) -> None:
    world = World(tmp_path, serve)
    stop = threading.Event()
    clients = [threading.Thread(target=world.client, args=(seed, stop)) for seed in range(CLIENTS)]
    most = 0
    began = killed = time.monotonic()
    for each in clients:
        each.start()
    try:
        for happen in itertools.cycle(
            (world.comes_and_goes, world.canary_fails, world.load_is_deadly)
        ):
            if time.monotonic() > began + 60 * MINUTES:
                break
            happen()
            sizes = [psutil.Process(pid).memory_info().rss for pid in world.workers(world.server)]
            most = max(most, *sizes)
            if time.monotonic() > killed + KILL_EVERY_S:
                killed = time.monotonic()
                world.kill()
    finally:
        stop.set()
        for each in clients:
            each.join(2 * PATIENCE_S)
    seen = world.seen
    with capfd.disabled():
        print(
            f"\n{MINUTES:g} minutes: {dict(seen.answers)} answers, {dict(world.counts)},"
            f" {len(world.kills)} kills, which cut {len(seen.cut)} requests; {seen.refused} refused"
            f" by bad canaries; memory of a worker {most / world.share:.3f} of its budget"
        )
    assert seen.wrong == []
    assert not any(each.is_alive() for each in clients)
    assert seen.answers.keys() == KINDS
    assert world.not_cut() == []
    assert len(seen.cut) <= 2 * CLIENTS * len(world.kills)
    assert most <= world.share + LOAD_BYTES
    # Five decide in each worker; as many clients may have one under way.
    assert seen.refused <= 2 * (5 + CLIENTS) * world.counts["rollbacks"]
