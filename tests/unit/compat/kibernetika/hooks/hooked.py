"""Hooks for tests, written as their authors would, around small models that OpenVINO computes."""

import textwrap
from pathlib import Path
from typing import Any

from ie_serving.app import engine_stack
from ie_serving.compat.kibernetika.hooks import HookEngine
from ie_serving.compat.kibernetika.hooks.links import link_of
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.kernels import CodeSource, HookOptions, KernelOptions
from ie_serving.engines.tensorflow.fallback import TensorFlowFallback
from tests.unit.engines.openvino import models


def linear(directory: Path, factor: float, offset: float = 0.0, rows: int = -1) -> Path:
    """Write `y = x * factor + offset` for rows of four floats; gives the file."""
    return models.linear(directory, factor, offset, rows) / "model.xml"


def engine() -> HookEngine:
    return HookEngine(engine_stack.drivers(TensorFlowFallback()))


def opened(
    directory: Path,
    code: str,
    params: "dict[str, Any] | None" = None,
    *,
    allow_python: bool = True,
    execution: str = "auto",
    **kernel: Any,
) -> Any:
    """Load the model of a version with hooks around it."""
    (directory / "hooks.py").write_text(textwrap.dedent(code))
    found = EngineOptions(params=params or {}, allow_python=allow_python, execution=execution)
    for own in (HookOptions(source=CodeSource(file="hooks.py")), KernelOptions(**kernel)):
        found = found.having(own)
    return engine().compile(directory, found)


def chained(
    directory: Path,
    code: str,
    *pairs: tuple[str, Path | str],
    options: "dict[str, Any] | None" = None,
) -> Any:
    """Load a chain of models, each with its driver, as kibernetika-serving does."""
    given = options or {}
    base = EngineOptions(allow_python=True, params=given)
    links = [link_of(driver, str(path), given, EngineOptions())[0] for driver, path in pairs]
    place = None
    if code:
        (directory / "hooks.py").write_text(textwrap.dedent(code))
        place = CodeSource(file=str(directory / "hooks.py"))
    return engine().compile(directory, base.having(HookOptions(source=place, chain=tuple(links))))
