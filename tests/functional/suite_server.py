"""`ie_serving`, which dies of one load and of one request, and hangs at another."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from ie_serving.app.command_line import main
from ie_serving.engines.base import CompiledModel, EngineOptions
from ie_serving.engines.openvino.compiling.openvino_engine import OpenVinoEngine
from ie_serving.inference.plane import DataPlane

compile_alive, predict_alive = OpenVinoEngine.compile, DataPlane.predict


def compile_or_die(
    engine: OpenVinoEngine, directory: Path, options: EngineOptions
) -> CompiledModel:
    if directory.parent.name == "dies_at_load":
        os.kill(os.getpid(), signal.SIGKILL)
    return compile_alive(engine, directory, options)


async def predict_or_die(plane: DataPlane, request: Any, interface: Any, began: float) -> Any:
    if request.model.name == "dies_when_asked":
        os.kill(os.getpid(), signal.SIGKILL)
    if request.model.name == "zz_hangs":
        await asyncio.Event().wait()
    return await predict_alive(plane, request, interface, began)


OpenVinoEngine.compile = compile_or_die  # type: ignore[method-assign, assignment]
DataPlane.predict = predict_or_die  # type: ignore[method-assign]

if __name__ == "__main__":
    sys.exit(main())
