"""The settings of kernels, Python code that answers for a model."""

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ie_serving.config.schema.setting import Setting
from ie_serving.config.values import kernels, numbers, words
from ie_serving.core.values.integers import INT32_MAX
from ie_serving.engines.base import AUTO
from ie_serving.engines.kernels import INLINE, PROCESS, THREAD

DRIVER = "python"
"""Driver of models with a kernel."""

PLACE = Setting(
    place="kernel.place",
    parse=kernels.place,
    form="FILE[:NAME]",
    default="none",
    meaning="Python code that answers for the model: a class, function or object with predict, in"
    " the version directory, else beside the configuration, or absolute; needs allow_python",
    example="kernel.py:Scale",
    flag="kernel",
    key="kernel",
)

HOOKS = Setting(
    place="hooks.place",
    parse=kernels.file,
    form="FILE",
    default="none",
    meaning="Python code around the model, preprocess, postprocess or process as of"
    " kibernetika-serving, in the version directory, else beside the configuration, or absolute;"
    " needs allow_python",
    example="hooks.py",
    flag="hooks",
    key="hooks",
)

_OTHERS: tuple[Setting, ...] = (
    Setting(
        place="kernel.isolation",
        parse=words.one_of(INLINE, THREAD, PROCESS),
        form=f"{INLINE}|{THREAD}|{PROCESS}",
        default=f"{THREAD}; {PROCESS} for packages of IBM EDI",
        meaning="run the kernel in threads of its own, inline in those that all models share, or in"
        " processes of its own, which may crash; never on the event loop",
        example="inline",
        flag="isolation",
        key="isolation",
    ),
    Setting(
        place="kernel.max_concurrency",
        parse=numbers.integer(1, 1000),
        form="N",
        meaning="calls of the kernel that run at a time, or batches of calls; its processes",
        example="4",
        flag="max_concurrency",
        key="max_concurrency",
    ),
    Setting(
        place="kernel.instances",
        parse=kernels.instances,
        form="JSON",
        default="none",
        meaning="processes of the kernel, of isolation process: min always, up to max while calls"
        " wait; one beyond min is ended after idle_seconds (60) without a call",
        example='{"min": 1, "max": 4, "idle_seconds": 60}',
        flag="instances",
        key="instances",
    ),
    Setting(
        place="kernel.memory_limit_mb",
        parse=numbers.integer(0, INT32_MAX),
        form="MB",
        meaning="private memory that a process of the kernel may take, of isolation process; a"
        " call that needs more gets RESOURCE_EXHAUSTED or 429; 0 sets no limit",
        example="2000",
        flag="memory_limit_mb",
        key="memory_limit_mb",
    ),
    Setting(
        place="kernel.timeout_ms",
        parse=numbers.integer(0, INT32_MAX),
        form="MILLISECONDS",
        meaning="longest time of a call of the kernel, waiting for its turn included; beyond it is"
        " DEADLINE_EXCEEDED or 504; 0 sets no limit",
        example="2000",
        flag="timeout_ms",
        key="timeout_ms",
    ),
)

KERNELS: tuple[Setting, ...] = (PLACE, HOOKS, *_OTHERS)
"""Keys of a model and flags."""


def beside(found: dict[str, Any], directory: Path) -> None:
    """Note where the configuration lies, beside which a kernel or a file of hooks may."""
    for setting in (PLACE, HOOKS):
        place = found.get(setting.place)
        if place is not None:
            found[setting.place] = dataclasses.replace(place, beside=str(directory))


def driver_of(found: Mapping[str, Any]) -> Mapping[str, str]:
    """Give the driver of a model with a kernel, as an option of the engine; nothing of others."""
    return {"driver": DRIVER} if found.get(PLACE.place) is not None else {}


def conflicts(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the place of each setting that contradicts the model's other settings, and why."""
    if found.get(HOOKS.place) is not None:
        yield from _beside_hooks(found)
        return
    if found.get(PLACE.place) is None:
        for setting in _OTHERS:
            if setting.place in found:
                yield setting.place, "it has a meaning for a kernel alone: name the kernel too"
        return
    if found.get("kernel.isolation") != PROCESS:
        for place in ("kernel.memory_limit_mb", "kernel.instances"):
            if found.get(place):
                yield place, f"it has a meaning for isolation {PROCESS} alone: set that"
    if found.get("kernel.instances") and "kernel.max_concurrency" in found:
        yield (
            "kernel.instances",
            "it says how many processes there are, as max_concurrency: remove one",
        )
    if found.get("engine.driver", AUTO) not in (AUTO, DRIVER):
        driver = found["engine.driver"]
        yield "engine.driver", f"{driver} given beside a kernel, which needs no driver: remove one"


def _beside_hooks(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if found.get(PLACE.place) is not None:
        yield HOOKS.place, "a kernel answers for the model: call its hooks in the kernel"
    without = "it has no meaning for hooks, which run in threads of the server: remove it"
    for place in ("kernel.isolation", "kernel.memory_limit_mb", "kernel.instances"):
        if place in found:
            yield place, without
