"""Kernels that raise what ends a program while they are loaded or closed."""

from pathlib import Path

import pytest

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.python.driver import load
from tests.unit.engines.python.kernels import options, written

CODE = """
class Odd(BaseException): pass

def fail(where):
    if where == {where!r}:
        raise {error}

fail("import")
class Kernel:
    def __init__(self):
        fail("init")
    def load(self, ctx):
        fail("load")
    def metadata(self):
        fail("metadata")
        number = {{"dtype": "int64", "shape": []}}
        return {{"inputs": {{"x": number}}, "outputs": {{"y": number}}}}
    def execute(self, inputs):
        return inputs["x"]
    def close(self):
        fail("close")
"""


@pytest.mark.parametrize("where", ["import", "init", "load", "metadata"])
@pytest.mark.parametrize("error", ["SystemExit", "KeyboardInterrupt", "GeneratorExit", "Odd"])
def test_whatever_ends_a_load_is_its_versions(tmp_path: Path, where: str, error: str) -> None:
    file = written(tmp_path, CODE.format(where=where, error=error))
    with pytest.raises(LoadFailed, match=f"cannot be loaded: {error}"):
        load(file, options(""))


def test_whatever_a_close_raises_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = written(tmp_path, CODE.format(where="close", error="KeyboardInterrupt"))
    load(file, options("")).close()
    assert "kernel failed to close" in caplog.text


def test_a_text_that_no_reply_can_hold_is_told_without_it(tmp_path: Path) -> None:
    file = written(tmp_path, CODE.format(where="load", error="ValueError('\\ud800 k')"))
    with pytest.raises(LoadFailed, match=r"ValueError: \? k"):
        load(file, options(""))


@pytest.mark.parametrize(
    "execute",
    [
        "async def execute(self, inputs): return inputs",
        "async def execute(self, inputs): yield inputs",
        "def execute(self, inputs): yield inputs",
        "def execute_batch(self, calls): yield calls",
    ],
)
def test_a_method_that_answers_later_is_no_execute(tmp_path: Path, execute: str) -> None:
    file = written(tmp_path, f"class Later:\n    {execute}\n")
    with pytest.raises(LoadFailed, match=r"Later\.execute.* is a coroutine or a generator"):
        load(file, options(""))
