"""`ie_serving`, in which a version with a file `slow` is compiled, and then waits at a gate.

The file names a FIFO; each load of the version takes one byte from it. That is a load that takes as
long as a test wants, at the moment at which the engine has read the files.
"""

import sys
from pathlib import Path

from ie_serving.engines.base import CompiledModel, EngineOptions
from ie_serving.engines.openvino.compile import OpenVinoEngine
from ie_serving.main import main

compile_at_once = OpenVinoEngine.compile


def compile_and_wait(
    engine: OpenVinoEngine, directory: Path, options: EngineOptions
) -> CompiledModel:
    compiled = compile_at_once(engine, directory, options)
    slow = directory / "slow"
    if slow.exists():
        with open(slow.read_text(), "rb", buffering=0) as gate:
            gate.read(1)
    return compiled


OpenVinoEngine.compile = compile_and_wait  # type: ignore[method-assign, assignment]

if __name__ == "__main__":
    sys.exit(main())
