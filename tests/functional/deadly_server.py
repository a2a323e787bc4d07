"""`ie_serving`, in which a version with a file `deadly` kills the process that compiles it.

That is what the kernel does to a load that runs out of memory; doing it for real would take the
tests with it.
"""

import os
import signal
import sys
from pathlib import Path

from ie_serving.app.command_line import main
from ie_serving.engines.base import CompiledModel, EngineOptions
from ie_serving.engines.openvino.compiling.openvino_engine import OpenVinoEngine

compile_alive = OpenVinoEngine.compile


def compile_or_die(
    engine: OpenVinoEngine, directory: Path, options: EngineOptions
) -> CompiledModel:
    if (directory / "deadly").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    return compile_alive(engine, directory, options)


OpenVinoEngine.compile = compile_or_die  # type: ignore[method-assign, assignment]

if __name__ == "__main__":
    sys.exit(main())
