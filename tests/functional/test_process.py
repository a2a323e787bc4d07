"""The process: signals, the drain, workers that die. Real processes, real connections."""

import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from tests.functional.tiny import READY, Gate, Start, both, pid_of, refused, time_of
from tests.process import PATIENCE_S, until


def facts(line: str) -> dict[str, str]:
    """Give the facts of an event that has no blanks in their values."""
    return dict(part.split("=", 1) for part in line.split() if "=" in part)


# -- stop ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_a_stop_signal_ends_with_0(start: Start, number: int) -> None:
    server = start(**both())
    server.line(READY)
    server.send(number)
    assert server.exit_code() == 0
    begin, *between, end = [line.split(" - ")[-1] for line in server.lines[-4:]]
    assert begin.startswith(f"server stops cause={signal.Signals(number).name} ")
    assert between == ["ready=False", "closed"]
    assert end.startswith("server has stopped took_s=")


def test_a_stop_signal_while_loading_ends_with_0_without_waiting(start: Start, gate: Gate) -> None:
    """The thread that loads cannot be cancelled, and the server does not wait for it."""
    server = start(**both(), start_gate=gate.path)
    server.line("starting")
    server.send(signal.SIGTERM)
    assert server.exit_code() == 0


@pytest.mark.parametrize("group", [False, True], ids=["arbiter", "whole process group"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_requests_in_flight_are_answered_and_new_connections_refused(
    start: Start, gate: Gate, group: bool, number: int
) -> None:
    """Also when a terminal or supervisor signals arbiter and worker alike."""
    server = start(**both(), answer_gate=gate.path)
    server.line(READY)
    with ThreadPoolExecutor() as pool:
        answers = [pool.submit(server.get, "/slow"), pool.submit(server.call, "Slow")]
        server.line("slow request")
        server.line("slow request")
        if group:
            os.killpg(server.popen.pid, number)
        else:
            server.send(number)
        begin = server.line("server stops")
        server.line("ready=False")
        until(lambda: refused(server.port))
        until(lambda: refused(server.rest_port))
        assert not any(answer.done() for answer in answers)
        gate.open(readers=2)
        assert answers[0].result() == answers[1].result()
    assert server.exit_code() == 0
    assert f"cause={signal.Signals(number).name} drain_delay_s=0 drain_timeout_s=30" in begin
    assert facts(begin)["grpc_in_flight"] == facts(begin)["rest_in_flight"] == "1"
    assert facts(server.lines[-1])["requests_cut"] == "0"


def test_readiness_goes_false_before_connections_are_refused(start: Start) -> None:
    server = start(**both(), drain_delay_s=600)
    server.line(READY)
    server.send(signal.SIGTERM)
    server.line("ready=False")
    assert server.get() == server.call()
    server.send(signal.SIGTERM)
    assert server.exit_code() == 0


@pytest.mark.parametrize("interface", ["REST", "gRPC"])
def test_the_drain_timeout_bounds_requests_in_flight(
    start: Start, gate: Gate, interface: str
) -> None:
    server = start(**both(), answer_gate=gate.path, drain_timeout_s=0.5)
    server.line(READY)
    with ThreadPoolExecutor() as pool:
        request = (server.get, "/slow") if interface == "REST" else (server.call, "Slow")
        answer = pool.submit(*request)
        server.line("slow request")
        server.send(signal.SIGTERM)
        assert server.exit_code() == 0
        assert answer.exception() is not None
    end = facts(server.lines[-1])
    assert end["requests_cut"] == "1"
    assert float(end["took_s"]) >= 0.5


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_at_once_with_0(start: Start, gate: Gate, number: int) -> None:
    server = start(**both(), answer_gate=gate.path, drain_timeout_s=600)
    server.line(READY)
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(server.get, "/slow")
        server.line("slow request")
        server.send(number)
        server.line("ready=False")
        server.send(number)
        assert server.exit_code() == 0
        assert answer.exception() is not None


@pytest.mark.parametrize(
    "number", [signal.SIGUSR1, signal.SIGWINCH, signal.SIGTTIN, signal.SIGTTOU]
)
def test_other_signals_change_nothing(start: Start, number: int) -> None:
    server = start(**both())
    server.line(READY)
    before = server.get()
    server.send(number)
    server.send(signal.SIGHUP)
    server.line("reloaded")
    assert server.get() == before


def test_workers_end_when_the_arbiter_is_killed(start: Start) -> None:
    server = start(**both())
    server.line(READY)
    server.send(signal.SIGKILL)
    assert 'cause="its arbiter has ended"' in server.line("server stops")
    server.line("closed")


def test_after_the_arbiter_is_killed_its_ports_are_free_for_a_successor(start: Start) -> None:
    ports = both()
    server = start(**ports)
    server.line(READY)
    for _ in range(3):  # a worker that only looked each second would be gone by chance at times
        server.send(signal.SIGKILL)
        server.popen.wait(PATIENCE_S)
        server = start(**ports)
        server.line(READY)


# -- while it runs -------------------------------------------------------------------------------


def test_hup_reads_the_configuration_again_without_a_restart(start: Start) -> None:
    server = start(**both())
    server.line(READY)
    before = int(server.get())
    server.send(signal.SIGHUP)
    assert pid_of(server.line("reloaded")) == before
    assert int(server.get()) == before


def test_a_reload_that_fails_is_logged_and_serving_goes_on(start: Start, tmp_path: Path) -> None:
    server = start(**both(), start_marker=str(tmp_path / "broken"))
    server.line(READY)
    server.send(signal.SIGHUP)
    assert server.line("not reloaded").endswith('cause="config.json: not JSON"')
    assert server.get()


@pytest.mark.parametrize("interface", ["REST", "gRPC"])
def test_a_killed_worker_is_replaced_and_connections_wait(start: Start, interface: str) -> None:
    """The arbiter owns the sockets: a connection made meanwhile is answered by the next."""
    server = start(**both())
    server.line(READY)
    ask = server.get if interface == "REST" else server.call
    first = int(server.get())
    os.kill(first, signal.SIGKILL)
    second = int(ask())
    assert second != first
    assert f"pid={first} " in server.line("worker ended and is replaced")
    server.line(READY)
    assert int(server.call()) == int(server.get()) == second
    server.send(signal.SIGTERM)
    assert server.exit_code() == 0


@pytest.mark.parametrize("hang", ["stopped", "deadlocked"])
def test_a_worker_that_hangs_is_replaced(start: Start, hang: str) -> None:
    server = start(**both(), worker_timeout_s=1.5)
    server.line(READY)
    first = int(server.get())
    if hang == "stopped":
        os.kill(first, signal.SIGSTOP)
    else:
        with pytest.raises(OSError):
            server.get("/deadlock")
    assert f"pid={first}" in server.line("worker hangs and is ended")
    cause = server.line("worker ended and is replaced")
    assert ("SIGKILL" if hang == "stopped" else "SIGABRT") in cause
    assert int(server.get()) != first


def test_a_replacement_that_fails_to_start_is_tried_again_with_pauses(
    start: Start, tmp_path: Path
) -> None:
    marker = tmp_path / "started"
    server = start(**both(), start_marker=str(marker))
    server.line(READY)
    os.kill(int(server.get()), signal.SIGKILL)
    deaths = [server.line("is replaced") for _ in range(3)]
    assert [line.rpartition("pause_s=")[2] for line in deaths] == ["0", "1", "2"]
    assert (time_of(deaths[2]) - time_of(deaths[1])).total_seconds() > 0.9
    marker.unlink()
    server.line(READY)


def test_several_workers_share_both_ports(start: Start, gate: Gate) -> None:
    server = start(**both(), workers=2, start_gate=gate.path)
    pids = {pid_of(server.line("starting")) for _ in range(2)}
    gate.open(readers=2)
    server.line(READY)
    server.line(READY)
    seen: set[int] = set()
    until(lambda: seen.add(int(server.call())) or seen == pids)  # type: ignore[func-returns-value]
    server.send(signal.SIGHUP)
    assert {pid_of(server.line("reloaded")) for _ in range(2)} == pids
    server.send(signal.SIGTERM)
    assert server.exit_code() == 0


# -- log lines -----------------------------------------------------------------------------------


def test_every_line_of_arbiter_and_worker_is_json_when_that_is_asked(start: Start) -> None:
    """A traceback is a field, and no line of its own."""
    server = start(**both(), log_format="json", start_error="unexpected")
    assert server.exit_code() == 1
    lines = [json.loads(line) for line in server.lines]
    failed = next(line for line in lines if line["message"] == "server failed by a defect")
    assert failed["exception"].splitlines()[-1] == "ZeroDivisionError: a defect"
    assert failed["logger"].startswith("ie_serving.")


def test_the_line_of_the_arbiter_about_a_dead_worker_is_json(start: Start) -> None:
    server = start(**both(), log_format="json")
    server.line(READY)
    os.kill(int(server.get()), signal.SIGKILL)
    line = json.loads(server.line("worker ended and is replaced"))
    assert (line["pid"], line["level"]) == (server.popen.pid, "ERROR")
    assert line["fields"] == {
        "pid": line["fields"]["pid"],
        "cause": "SIGKILL, perhaps out of memory",
        "pause_s": 0.0,
    }
    server.line(READY)
    server.send(signal.SIGTERM)
    assert server.exit_code() == 0
    assert all(json.loads(each)["time"] for each in server.lines)


def test_sigusr1_lets_go_of_a_log_file_that_was_moved(start: Start, tmp_path: Path) -> None:
    """In arbiter and worker, although no line follows: it may be compressed then."""
    path = tmp_path / "server.log"
    server = start(**both(), log_path=str(path))
    server.line(READY)
    pids = [server.popen.pid, int(server.get())]
    moved = path.rename(tmp_path / "server.log.1")
    before = moved.read_text()
    assert all(str(moved) in opened(pid) for pid in pids)
    server.send(signal.SIGUSR1)
    until(lambda: not any(str(moved) in opened(pid) for pid in pids))
    until(lambda: all(str(path) in opened(pid) for pid in pids))
    assert moved.read_text() == before
    assert server.get()


def opened(pid: int) -> set[str]:
    """Name what a process has open."""
    found = set()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):  # it was closed meanwhile
            found.add(os.readlink(each))
    return found
