"""When a worker counts as hung; the processes are in tests/functional/test_process.py."""

import os

from ie_serving.config.settings import ServerSettings, Settings
from ie_serving.server.process.deadly_loads import LoadNotes
from ie_serving.server.process.gunicorn_server import GunicornApp
from ie_serving.server.process.worker import LOADING_S, LONGEST_LOOK_S, AppWorker, Silence


def test_a_worker_that_beats_is_not_silent() -> None:
    silence = Silence(0.0)
    assert [silence.after(beat, 1.0) for beat in (1.0, 2.0, 3.0)] == [0.0, 0.0, 0.0]


def test_silence_is_the_sum_of_all_looks_since_the_last_beat() -> None:
    silence = Silence(0.0)
    assert [silence.after(7.0, 0.5) for _ in range(4)] == [0.0, 0.5, 1.0, 1.5]
    assert silence.after(8.0, 0.5) == 0.0


def test_a_start_is_not_silent() -> None:
    silence = Silence(5.0)
    assert [silence.after(5.0, 1.0) for _ in range(99)] == [0.0] * 99


def test_a_server_that_was_suspended_has_not_been_silent_for_all_of_that_time() -> None:
    silence = Silence(0.0)
    silence.after(1.0, 1.0)
    assert silence.after(1.0, 3600.0) == LONGEST_LOOK_S


def worker_with(limit_s: float) -> AppWorker:
    """A worker as the arbiter has it, with one heartbeat."""
    settings = Settings(server=ServerSettings(worker_timeout_s=limit_s), models=())
    server = GunicornApp(settings, lambda *_: NotImplemented, {}, None, AppWorker)
    worker = AppWorker(1, os.getpid(), [], server, 0, server.cfg, None)
    worker.notify()
    assert not worker.is_hung(1.0)
    return worker


def test_a_worker_hangs_when_it_is_silent_for_longer_than_the_setting_says() -> None:
    worker = worker_with(3.0)
    assert [worker.is_hung(1.0) for _ in range(4)] == [False, False, False, True]
    worker.notify()
    assert not worker.is_hung(1.0)


def test_a_worker_that_loads_is_given_longer() -> None:
    worker = worker_with(3.0)
    with LoadNotes({}, worker.loads.write).noted("m/1"):
        assert not any(worker.is_hung(1.0) for _ in range(int(LOADING_S)))
        assert worker.is_hung(1.0)


def test_no_worker_hangs_where_that_is_asked_for() -> None:
    worker = worker_with(0.0)
    assert not any(worker.is_hung(1.0) for _ in range(200))
