"""Locks between threads and processes."""

import sys
import threading
from contextlib import ExitStack
from pathlib import Path

from ie_serving.storage.mirror import locks
from tests.process import Process


def wait_for(event: threading.Event) -> locks.Pause:
    """A pause that ends the wait as soon as `event` was set."""

    def pause(seconds: float) -> None:
        assert event.wait(10)

    return pause


def test_shared_holders_share_and_keep_others_out(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    never = wait_for(threading.Event())
    with locks.shared(path, never), locks.shared(path, never), locks.if_free(path) as is_free:
        assert not is_free
    with locks.if_free(path) as is_free:
        assert is_free


def test_an_exclusive_lock_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    released = threading.Event()
    entered = threading.Event()

    def enter() -> None:
        with locks.shared(path, wait_for(released)):
            entered.set()

    with ExitStack() as held:
        held.enter_context(locks.exclusive(path, wait_for(released)))
        thread = threading.Thread(target=enter)
        thread.start()
        assert not entered.is_set()
    released.set()
    thread.join(10)
    assert entered.is_set()


def test_a_process_that_is_killed_lets_go(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    program = (
        "import signal, sys; from pathlib import Path\n"
        "from ie_serving.storage.mirror import locks\n"
        "with locks.shared(Path(sys.argv[1]), print): print('held', flush=True); signal.pause()"
    )
    root = Path(locks.__file__).parents[3]
    with Process(sys.executable, "-c", program, path, cwd=root) as holder:
        holder.line("held")
        with locks.if_free(path) as is_free:
            assert not is_free
        holder.kill()
        with locks.if_free(path) as is_free:
            assert is_free
