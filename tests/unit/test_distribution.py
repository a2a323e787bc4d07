"""Which files a worker of the tests takes, what it does not send, and what follows its end."""

import os
import re
import sys
from pathlib import Path

from tests.process import ran

CONFTEST = """
from tests import distribution

def pytest_xdist_make_scheduler(config, log):
    return distribution.Scheduling(config, log)

def pytest_sessionstart(session):
    distribution.tell_less(session.config.pluginmanager)
"""
TESTS = """
import os
import pytest

@pytest.fixture
def broken():
    yield
    raise ValueError("at the end")

def test_passes(): pass
def test_fails(): assert not "here"
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


def test_each_outcome_is_told_and_the_test_that_ended_a_worker_is_tried_again(
    tmp_path: Path,
) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_outcomes.py").write_text(TESTS)
    for name in ("a", "b", "z"):
        (tmp_path / f"test_{name}.py").write_text("def test_passes(): pass")
    flags = ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", "--max-worker-restart", "1")
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # the other plugins take seconds
    command = (sys.executable, "-m", "pytest", "-p", "xdist", *flags, "-c", os.devnull, "-vrA")
    found = ran(*command, tmp_path, env=alone).stdout
    assert "crashed while running 'test_outcomes.py::test_ends_its_process_once'" in found
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
    assert "2 failed, 7 passed, 1 skipped, 1 error" in found
    took = re.findall(r"^\[(gw\d)\] .*PASSED .*test_([abz]).py", found, re.MULTILINE)
    worker = {file: name for name, file in took}
    assert worker["a"] == worker["b"] != worker["z"]
