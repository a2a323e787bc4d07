"""Which files a process of the tests takes, what it tells, and what follows its end."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.process import ran

CONFTEST = """
from tests.conftest import pytest_addoption, pytest_collectreport, pytest_runtestloop
"""
TESTS = """
import os
import pytest
import warnings

@pytest.fixture
def broken():
    yield
    raise ValueError("at the end")

def test_passes(): pass
def test_fails():
    warnings.warn("odd")
    assert not "\\udc80 here"
def test_is_skipped(): pytest.skip("for a reason")
def test_breaks_at_its_end(broken): pass
def test_ends_its_process_once():
    try:
        open(__file__ + ".ended", "x").close()
    except FileExistsError:
        return
    os._exit(1)
def test_follows(): pass
"""


def run(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """Run the tests in a folder in two processes."""
    (folder / "conftest.py").write_text(CONFTEST)
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # the other plugins take seconds
    flags = ("--processes=2", "-c", os.devnull, "-vrA", *more)
    return ran(sys.executable, "-m", "pytest", *flags, folder, env=alone)


def test_each_outcome_is_told_and_the_test_that_ended_a_process_is_tried_again(
    tmp_path: Path,
) -> None:
    (tmp_path / "test_outcomes.py").write_text(TESTS)
    os.mkfifo(tmp_path / "end")
    opened = "def test_passes(): open({!r}, {!r}).close()"  # each end waits for the other
    waits, ends = (opened.format(str(tmp_path / "end"), mode) for mode in "rw")
    for name, text in (("a", "def test_passes(): pass"), ("b", ends), ("z", waits)):
        (tmp_path / f"test_{name}.py").write_text(text)
    ended = run(tmp_path)
    assert ended.returncode == 1
    found = ended.stdout
    name = "test_outcomes.py::test_ends_its_process_once"
    assert f"ended with exit code 1 while it ran '{name}'" in found
    told = re.findall(r"^([A-Z]+) .*test_outcomes.py::test_(\w+)", found, re.MULTILINE)
    assert sorted(told) == [
        ("ERROR", "breaks_at_its_end"),
        ("FAILED", "ends_its_process_once"),
        ("FAILED", "fails"),
        ("PASSED", "breaks_at_its_end"),
        ("PASSED", "ends_its_process_once"),
        ("PASSED", "follows"),
        ("PASSED", "passes"),
    ]
    assert "UserWarning: odd" in found
    assert "2 failed, 7 passed, 1 skipped, 1 warning, 1 error" in found
    took = re.findall(r"^\[(p\d)\] .*PASSED .*test_([abz]).py", found, re.MULTILINE)
    process = {file: name for name, file in took}
    assert process["a"] == process["b"] != process["z"]


def test_a_process_that_hangs_ends_and_a_second_one_is_not_replaced(tmp_path: Path) -> None:
    hangs = "import threading\ndef test_hangs(): threading.Event().wait()"
    (tmp_path / "test_end.py").write_text(hangs)
    ended = run(tmp_path, "-o", "faulthandler_timeout=3")
    assert ended.returncode == 2
    assert re.search(r"Interrupted: p\d ended with exit code 1", ended.stdout)
    assert "2 failed" in ended.stdout
    assert "in test_hangs" in ended.stderr


def test_threads_that_no_fork_would_have_are_refused(tmp_path: Path) -> None:
    (tmp_path / "test_idle.py").write_text("def test_passes(): pass")
    waits = "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()"
    (tmp_path / "test_starts.py").write_text(f"{waits}\ndef test_passes(): pass")
    assert "test_starts.py starts threads when it is imported" in run(tmp_path).stderr
