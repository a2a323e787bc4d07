"""Makes a compiled model of a built-in step, so that a graph runs it like any other model."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ie_serving.core.values.tensors import Arrays, DataType, Signature
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.run.function import program
from ie_serving.engines.run.program import CompiledPrograms
from ie_serving.engines.steps.declaration import BuiltInStep
from ie_serving.engines.steps.watching import ValueWatch


def compiled(
    row: BuiltInStep,
    name: str,
    step: str,
    options: Mapping[str, Any],
    signature: Signature,
    watch: ValueWatch | None,
) -> CompiledPrograms:
    """Make the model of a step.

    Args:
        row: row of the table.
        name: name of the row, for errors.
        step: name in its graph.
        options: options returned by `row.read`.
        signature: signature returned by `row.signature`.
        watch: counts values; None counts nothing.
    """
    told = {"step": step} if row.named else {}
    watched = {"watch": watch} if row.watches else {}
    run = partial(row.run, **options, **told, **watched)
    decodes = row.decodes and signature.inputs["image"].dtype is DataType.STRING
    made = program(
        signature,
        run if row.rest else _by_name(run),
        EngineOptions(execution="async" if decodes else "auto"),
        library=f'step "{name}"',
        # A step raises its refusals itself: any other error is a defect.
        refusals=(),
        is_short=True,
    )
    return CompiledPrograms([made], runs_on={signature.name: f"built-in step {name}"})


def _by_name(run: Callable[..., Arrays]) -> Callable[..., Arrays]:
    return lambda inputs: run(**inputs)
