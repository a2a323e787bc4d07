"""The whole server on each kind of store: the same numbers, the same life, through bad days."""

import re
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from ie_serving.models.stream_rules import LONGEST_PAUSE_S
from tests.functional.load import AVAILABLE, END, LOADING, START, Load, failure, states
from tests.functional.servers import SAMPLE, Server
from tests.functional.storage.repositories import GcsRepository, LocalRepository, S3Repository
from tests.functional.storage.servers import FakeGcs, Fault, Proxy, Weed
from tests.functional.storage.serving import (
    FILES,
    Launcher,
    Remote,
    Repository,
    is_about_a_file,
    is_listing_of_the_base,
    listings,
    only,
    only_at,
    put,
    serves,
    several,
    withdraw,
)
from tests.functional.test_digits import IMAGES, directly, over_grpc, over_rest
from tests.process import until

OpenProxy = Callable[[int], Proxy]
ANSWERS = 25
BACK_WITHIN_S = LONGEST_PAUSE_S + 5.0
"""The pause, and then two listings and a load under the load of the test."""


@pytest.fixture
def stores(
    weed: Weed, fake_gcs: FakeGcs, proxied: OpenProxy, bucket: str, tmp_path: Path
) -> dict[str, Remote]:
    """Version 1 in a repository on each remote store, by its scheme."""
    unused = tmp_path / "unused"
    s3, minio = (
        S3Repository(scheme, weed, proxied(weed.port), f"{bucket}-{scheme}", unused)
        for scheme in ("s3", "minio")
    )
    gcs = GcsRepository(fake_gcs, proxied(fake_gcs.port), bucket, unused)
    for repository in (s3, minio, gcs):
        put(repository, 1)
    return {"s3": s3, "minio": minio, "gs": gcs}


@pytest.fixture
def remote(stores: dict[str, Remote], launcher: Launcher, tmp_path: Path) -> tuple[str, ...]:
    """Arguments for a model on each store."""
    for repository in stores.values():
        launcher.environ |= repository.environ
    return several(tmp_path / "config.json", {n: r.storage.url for n, r in stores.items()})


@pytest.fixture(
    params=[
        "local",
        "s3",
        *(pytest.param(each, marks=pytest.mark.soak) for each in ("minio", "gs")),
    ]
)
def repository(request: pytest.FixtureRequest, launcher: Launcher, tmp_path: Path) -> Repository:
    """Version 1 in a repository of its own."""
    if request.param == "local":
        local = LocalRepository(tmp_path / "base path" / "m")
        put(local, 1)
        return local
    found: Remote = request.getfixturevalue("stores")[request.param]
    launcher.environ |= found.environ
    return found


def has_numbers_of(server: Server, sample: int, model: str = "digits") -> None:
    expected = directly(sample)["probabilities"]
    for ask in (over_grpc, over_rest):
        got = ask(server, None, IMAGES, model)["probabilities"]
        np.testing.assert_allclose(got, expected, atol=1e-6)


def test_versions_appear_change_and_vanish(repository: Repository, launcher: Launcher) -> None:
    server = launcher.serve(*only(repository))
    has_numbers_of(server, 1)
    put(repository, 2, sample=2)
    until(lambda: states(server) == {1: END, 2: AVAILABLE})
    has_numbers_of(server, 2)
    repository.put("3/model.bin", b"")
    repository.put("3/model.xml", b"<net>not a model</net>")
    until(lambda: 3 in states(server) and failure(server, 3) != "")
    assert serves(server, 2)
    put(repository, 3)
    until(lambda: states(server) == {1: END, 2: END, 3: AVAILABLE})
    has_numbers_of(server, 1)
    withdraw(repository, 3)
    until(lambda: states(server) == {1: END, 2: AVAILABLE, 3: END})
    has_numbers_of(server, 2)


@pytest.mark.parametrize(
    "outage_s",
    [3.0, pytest.param(60.0, marks=[pytest.mark.soak, pytest.mark.timeout(300)])],
)
def test_stores_that_die_cost_no_request_and_are_back_within_two_polls(
    stores: dict[str, Remote], remote: tuple[str, ...], launcher: Launcher, outage_s: float
) -> None:
    server = launcher.serve(*remote)
    with Load(server, list(stores)) as load:
        with ExitStack() as outages:
            for repository in stores.values():
                outages.enter_context(repository.proxy.outage())
                put(repository, 2, sample=2)
            end = time.monotonic() + outage_s
            answered = dict(load.answers)
            until(lambda: server.log.count("listing failed, served versions stay") == len(stores))
            until(lambda: time.monotonic() > end, 2 * outage_s)
            assert all(serves(server, 1, name) for name in stores)
            assert all(load.answers[name] > answered[name] + ANSWERS for name in answered)
            before = {name: len(r.proxy.requests) for name, r in stores.items()}
        until(lambda: all(serves(server, 2, name) for name in stores), BACK_WITHIN_S)
    assert load.failures == []
    for name, repository in stores.items():
        has_numbers_of(server, 2, name)
        assert polls_before_a_fetch(repository.proxy.requests[before[name] :]) <= 2


def polls_before_a_fetch(requests: list[str]) -> int:
    fetch = next(at for at, line in enumerate(requests) if is_about_a_file(line))
    return sum(map(is_listing_of_the_base, requests[:fetch]))


def test_a_version_that_is_spoilt_on_its_way_arrives_when_that_is_over(
    stores: dict[str, Remote], remote: tuple[str, ...], launcher: Launcher
) -> None:
    """Another fault for each store; each store is put through all of them in test_scenarios."""
    spoils = {
        "s3": (Fault(flip_at=1000), "the store promises"),
        "minio": (Fault(cut_after=0), "the connection broke"),
        "gs": (Fault(status=503), "the store asks to slow down (throttling) (503)"),
    }
    server = launcher.serve(*remote)
    with Load(server, list(stores)) as load:
        for name, (fault, _) in spoils.items():
            stores[name].proxy.choose = spoiling(fault)
            put(stores[name], 2, sample=2)
        for name, (_, words) in spoils.items():
            until(lambda name=name: 2 in states(server, name) and failure(server, 2, name) != "")
            assert words in failure(server, 2, name)
            assert states(server, name) == {1: AVAILABLE, 2: LOADING}
        for repository in stores.values():
            repository.proxy.choose = lambda line: Fault()
        until(lambda: all(serves(server, 2, name) for name in stores))
    assert load.failures == []
    for name, (_, words) in spoils.items():
        has_numbers_of(server, 2, name)
        assert words in server.log


def spoiling(fault: Fault) -> Callable[[str], Fault]:
    return lambda line: fault if is_about_a_file(line) else Fault()


def test_a_second_start_needs_the_cache_only(
    stores: dict[str, Remote], remote: tuple[str, ...], launcher: Launcher
) -> None:
    launcher.serve(*remote).close()
    with ExitStack() as outages:
        for repository in stores.values():
            outages.enter_context(repository.proxy.outage())
            put(repository, 2, sample=2)
        server = launcher.serve(*remote)
        for name in stores:
            has_numbers_of(server, 1, name)
        assert server.log.count("store unreachable, serving the last known good versions") == 3
    until(lambda: all(serves(server, 2, name) for name in stores))
    assert server.log.count("store answers, its own listing is used from now on") == 3


@pytest.mark.parametrize(
    ("place", "words"),
    [
        pytest.param("/sys/ie_serving", "cannot be written", id="a place that cannot be written"),
        pytest.param("{file}/cache", "Not a directory", id="a file in the way"),
    ],
)
def test_a_cache_that_cannot_be_written_costs_remote_models_only(
    stores: dict[str, Remote], launcher: Launcher, tmp_path: Path, place: str, words: str
) -> None:
    (tmp_path / "file").touch()
    launcher.environ |= stores["s3"].environ
    models = {"digits": str(SAMPLE), "s3": stores["s3"].storage.url}
    config = several(tmp_path / "config.json", models)
    server = launcher.serve(*config, f"--cache_dir={place.format(file=tmp_path / 'file')}")
    has_numbers_of(server, 2)
    assert states(server, "s3") == {1: LOADING}
    assert f"cache {place.format(file=tmp_path / 'file')}: " in failure(server, 1, "s3")
    assert words in failure(server, 1, "s3")
    assert "--cache_dir" in failure(server, 1, "s3")
    assert "compiled model not kept" in server.log


def test_a_cache_that_is_lost_costs_new_versions_only(
    stores: dict[str, Remote], launcher: Launcher, cache_dir: Path
) -> None:
    repository = stores["s3"]
    launcher.environ |= repository.environ
    server = launcher.serve(*only(repository))
    with Load(server) as load:
        shutil.rmtree(cache_dir)
        cache_dir.touch()
        put(repository, 2, sample=2)
        until(lambda: 2 in states(server) and failure(server, 2) != "")
        assert "Not a directory: check --cache_dir" in failure(server, 2)
        assert serves(server, 1)
        cache_dir.unlink()
        until(lambda: serves(server, 2))
    assert load.failures == []


def test_a_cache_that_was_damaged_between_two_starts_serves_right_numbers(
    stores: dict[str, Remote], launcher: Launcher, cache_dir: Path
) -> None:
    repository = stores["s3"]
    launcher.environ |= repository.environ
    launcher.serve(*only(repository)).close()
    damaged = [*cache_dir.rglob("model.bin"), *cache_dir.rglob("*.blob")]
    assert len(damaged) >= 2
    for file in damaged:
        file.write_bytes(bytes(file.stat().st_size))
    server = launcher.serve(*only(repository))
    has_numbers_of(server, 1)
    assert "copy damaged, fetched again" in server.log
    assert "compiled model damaged, compiled again" in server.log


def test_slow_downloads_hold_up_no_other_store_and_end_with_the_versions_that_want_them(
    stores: dict[str, Remote], launcher: Launcher, tmp_path: Path
) -> None:
    """More of them than one store may fetch at a time."""
    repository, local = stores["s3"], LocalRepository(tmp_path / "local")
    put(local, 1)
    launcher.environ |= repository.environ
    every = {"base_path": repository.storage.url, "model_version_policy": {"all": {}}}
    config = several(tmp_path / "config.json", {"digits": local.storage.url, "s3": every})
    server = launcher.serve(*config)
    repository.proxy.choose = lambda line: Fault(trickle=is_about_a_file(line))
    for version in range(2, 8):
        repository.put(f"{version}/model.bin.more", bytes(4 << 20))  # which takes 50 s
        put(repository, version)
    until(lambda: list(states(server, "s3").values()).count(LOADING) == 6)
    put(local, 2, sample=2)
    until(lambda: serves(server, 2))
    fetched = {re.findall(r"/m/(\d+)/model", line)[0] for line in trickling(repository)}
    assert len(fetched) == 4
    unwanted = int(fetched.pop())
    repository.remove(f"{unwanted}/model.bin.more")
    withdraw(repository, unwanted)
    until(lambda: END in states(server, "s3").values())


def trickling(repository: Remote) -> list[str]:
    """The requests for files of later versions than the first one."""
    return [
        line for line in repository.proxy.requests if is_about_a_file(line) and "/1/" not in line
    ]


def test_polling_is_set_for_each_model(
    stores: dict[str, Remote], launcher: Launcher, tmp_path: Path
) -> None:
    """The model that is polled is the clock by which the other one is seen to be left alone."""
    still, moving = stores["s3"], stores["gs"]
    launcher.environ |= still.environ | moving.environ
    models = {
        "still": still.storage.url,
        "moving": {"base_path": moving.storage.url, "poll_wait_seconds": 0.2},
    }
    config = several(tmp_path / "config.json", models)
    server = launcher.serve(*config, "--file_system_poll_wait_seconds=0")
    assert listings(still) == 1
    put(still, 2, sample=2)
    polls = listings(moving)
    until(lambda: listings(moving) > polls + 5)
    assert listings(still) == 1
    server.popen.send_signal(signal.SIGHUP)
    until(lambda: serves(server, 2, "still"))
    assert listings(still) == 2


def test_a_marker_says_when_a_version_is_complete(
    stores: dict[str, Remote], launcher: Launcher
) -> None:
    repository = stores["minio"]
    repository.put("1/.ready", b"")
    launcher.environ |= repository.environ
    server = launcher.serve(*only(repository), "--ready_marker=.ready")
    put(repository, 2, sample=2)
    server.line("waits for the marker file")
    polls = listings(repository)
    until(lambda: listings(repository) > polls + 3)
    assert list(states(server)) == [1]
    repository.put("2/.ready", b"")
    until(lambda: serves(server, 2))


def test_a_volume_switched_by_its_link_brings_the_next_version(
    launcher: Launcher, tmp_path: Path
) -> None:
    """As Kubernetes does with a ConfigMap: every name is a link through `..data`."""
    volume = tmp_path / "volume"
    volume.mkdir()
    mount(volume, "..2026_01", version=1)
    (volume / "1").symlink_to("..data/1")
    server = launcher.serve("model", "--model_name=digits", f"--model_path={volume}")
    with Load(server) as load:
        (volume / "2").symlink_to("..data/2")
        mount(volume, "..2026_02", version=2)
        shutil.rmtree(volume / "..2026_01")
        (volume / "1").unlink()
        until(lambda: states(server) == {1: END, 2: AVAILABLE})
        has_numbers_of(server, 2)
    assert load.failures == []


def test_requests_do_not_grow_with_what_is_not_wanted(
    stores: dict[str, Remote], launcher: Launcher
) -> None:
    """Beside one version that is served, 1,050 directories that are none, on two pages."""
    repository = stores["minio"]
    put(repository, 5000, sample=2)
    names = [f"{number}" for number in range(2, 952)] + [f"run-{n}" for n in range(100)]
    repository.put_all({f"{name}/notes.txt": b"x" for name in names})
    launcher.environ |= repository.environ
    server = launcher.serve(*only(repository))
    has_numbers_of(server, 2)
    about_files = 2 * len(FILES)
    assert len(repository.proxy.requests) - listings(repository) <= about_files + 2
    before, polls = len(repository.proxy.requests), listings(repository)
    until(lambda: serves(server, 5000) and listings(repository) >= polls + 8)
    requests = repository.proxy.requests[before:]
    others = len(requests) - sum(map(is_listing_of_the_base, requests))
    assert others <= 1, "the files of what serves, at every thirtieth poll"


@pytest.mark.parametrize("repository", ["s3"], indirect=True)
def test_a_version_that_is_replaced_while_it_serves_is_said_or_loaded_anew(
    repository: Repository, launcher: Launcher
) -> None:
    """Two servers of one repository, of which one reloads."""
    often = (*only(repository), "--file_system_poll_wait_seconds=0.1")
    warns = launcher.begin(*often)
    reloads = launcher.serve(*often, "--reload_changed_versions")
    warns.ready()
    with Load(warns) as steady, Load(reloads) as renewed:
        # One file, since the moment between two might be taken for a change of its own.
        weights = (SAMPLE / "1" / "model.bin").read_bytes()
        repository.put("1/model.bin", weights[:4] + bytes(2560) + weights[2564:])
        until(lambda: not answers_as(reloads, 1))
        warns.line("files of a served version have changed model=digits version=1")
        assert answers_as(warns, 1)
        counted = 'ie_serving_served_versions_changed_total{model_name="digits"} 1'
        assert counted in warns.rest.get("/metrics").text
        repository.put("1/mapping_config.json", b'{"inputs": {}}')
        until(lambda: warns.log.count("files of a served version have changed") == 2)
    assert (steady.failures, renewed.failures) == ([], [])


@pytest.mark.parametrize("repository", ["s3"], indirect=True)
def test_a_store_that_is_away_does_not_keep_a_model_from_being_loaded_again(
    repository: Repository, launcher: Launcher
) -> None:
    flags = ("--load=on_demand", "--idle_unload_timeout_seconds=0.2", "--load_wait_seconds=8")
    server = launcher.serve(*only(repository), *flags, "--file_system_poll_wait_seconds=60")
    has_numbers_of(server, 1)
    until(lambda: server.status("digits")[0].state == START)
    with repository.proxy.outage():
        has_numbers_of(server, 1)


def answers_as(server: Server, sample: int) -> bool:
    expected = directly(sample)["probabilities"]
    return np.allclose(over_grpc(server, None, IMAGES)["probabilities"], expected, atol=1e-6)


def test_a_link_that_is_switched_under_a_served_version_is_noticed(
    launcher: Launcher, tmp_path: Path
) -> None:
    """As git-sync does: the base path leads through a link to the present checkout."""
    for commit, sample in (("old", 1), ("new", 2)):
        shutil.copytree(SAMPLE / str(sample), tmp_path / commit / "models" / "1")
    current = tmp_path / "current"
    current.symlink_to("old")
    often = "--file_system_poll_wait_seconds=0.03"
    server = launcher.serve(*only_at(str(current / "models")), "--reload_changed_versions", often)
    has_numbers_of(server, 1)
    switched = tmp_path / "switched"
    switched.symlink_to("new")
    switched.rename(current)
    until(lambda: answers_as(server, 2))
    assert server.log.count("files of a served version have changed") == 1


def mount(volume: Path, name: str, version: int) -> None:
    """Put a version of the sample beside, then switch `..data` to it in one step."""
    shutil.copytree(SAMPLE / str(version), volume / name / str(version))
    (volume / "..data_tmp").symlink_to(name)
    (volume / "..data_tmp").rename(volume / "..data")
