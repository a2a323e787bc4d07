"""Makes the configuration of one model from its settings, and refuses contradictions."""

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ie_serving.config.schema.catalogue import MODEL, OWN
from ie_serving.core.settings import numbers
from ie_serving.core.settings.declaration import fields_of
from ie_serving.engines.base import AUTO, EngineOptions
from ie_serving.engines.kernels import PROCESS
from ie_serving.engines.layer_options import Batching
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.traffic.policy import as_version

DRIVER: Final = "python"
"""Driver of models with a kernel."""
KERNEL, HOOKS, STATEFUL = "kernel.source", "hooks.source", "sequences.stateful"
TRAFFIC: Final = "model.traffic"
SHADOW: Final = "model.shadow"
ROWS: Final = "batching.max_batch_size"
"""Place of the setting that enables batching, unless batch sizes are listed."""

_NOT_AUTO: Final = "auto is not taken for a stateful model, whose state has sizes of its own"
BOTH_SHAPES = (
    "Both shape and batch_size parameters are set for model: {name}. "
    "Assuming that model is reshapable - batch_size will be ignored"
)
"""Source: the warning of 2020."""


def model_config(found: Mapping[str, Any], engine: EngineOptions) -> tuple[ModelConfig, list[str]]:
    """Build a model from parsed values.

    Args:
        found: value of each setting by its name, including every required one.
        engine: defaults of options that `found` lacks.

    Returns:
        The model, and warnings.
    """
    both = found.get("openvino.shape") is not None and found.get("openvino.batch_size") is not None
    warnings = [BOTH_SHAPES.format(name=found["model.name"])] if both else []
    # The shape includes the batch. Of two values for one dimension the server of 2020 documented
    # that the shape counts.
    ignored = "openvino.batch_size" if both else ""
    # Values of drivers stay by name, which names the driver.
    of_drivers = {setting: value for setting, value in found.items() if setting != ignored}
    options, fields = (fields_of(owner, found) for owner in ("engine", "model"))
    options |= _driver_of(found)
    compiled = with_own(dataclasses.replace(engine, **options), of_drivers)
    warnings += _unmet_batches(found, compiled.of(Batching))
    return ModelConfig(**fields, engine=compiled), warnings


def _unmet_batches(found: Mapping[str, Any], batching: Batching) -> list[str]:
    """Warn of batching settings without effect, unless `max_batch_size` is 0."""
    if beyond := [size for size in batching.allowed_batch_sizes if 0 < batching.rows < size]:
        name = found["model.name"]
        return [
            f"allowed_batch_sizes of model {name}: no effect above max_batch_size {batching.rows}:"
            f" {', '.join(map(str, beyond))}"
        ]
    named = [each for each in MODEL if each.owner == "batching" and each.name in found]
    if not named or ROWS in found or batching.rows or batching.in_version:
        return []
    listed = ", ".join(each.key for each in named)
    return [f"{listed} of model {found['model.name']}: no effect without max_batch_size"]


def with_own(engine: EngineOptions, found: Mapping[str, Any]) -> EngineOptions:
    """Give options whose driver-specific parts have the values of `found`, by name."""
    given = {owner: fields_of(owner, found) for owner in OWN}
    openvino = given["openvino"]
    if OpenVinoOptions(**openvino).says_precision:
        # A model's setting in OpenVINO's words takes precedence over the one for every model.
        openvino.setdefault("inference_precision", "")
    for owner, kind in OWN.items():
        engine = engine.having(dataclasses.replace(engine.of(kind), **given[owner]))
    return engine


def with_keys(engine: EngineOptions, keys: Mapping[str, Any]) -> EngineOptions:
    """Give options with keys of a model's entry added, parsed like those of the file.

    Raises:
        ConfigError: a value is invalid.
    """
    found = {each.name: each.parse(keys[each.key], each.key) for each in MODEL if each.key in keys}
    return with_own(dataclasses.replace(engine, **fields_of("engine", found)), found)


def beside(found: dict[str, Any], directory: Path) -> None:
    """Add the configuration's directory, which may contain a kernel or a file of hooks."""
    for name in (KERNEL, HOOKS):
        source = found.get(name)
        if source is not None:
            found[name] = dataclasses.replace(source, beside=str(directory))


def _driver_of(found: Mapping[str, Any]) -> Mapping[str, str]:
    """Give the driver option of a model with a kernel; empty for other models."""
    return {"driver": DRIVER} if found.get(KERNEL) is not None else {}


def conflicts(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the name of each setting that contradicts the model's other settings, and why."""
    if found.get(STATEFUL):
        yield from _beside_state(found)
    else:
        without = "it has a meaning for a stateful model alone: set stateful too"
        yield from ((setting, without) for setting in _names_of("sequences") if found.get(setting))
    yield from _of_traffic(found)
    yield from _of_shadow(found)
    if found.get(HOOKS) is not None:
        yield from _beside_hooks(found)
    elif found.get(KERNEL) is not None:
        yield from _beside_kernel(found)
    else:
        without = "it has a meaning for a kernel alone: name the kernel too"
        yield from ((setting, without) for setting in _names_of("kernel") if setting in found)


def _of_traffic(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    traffic = found.get(TRAFFIC)
    if not traffic:
        without = "it has a meaning beside traffic alone: set traffic too"
        yield from ((p, without) for p in ("model.sticky", "model.rollback") if found.get(p))
        return
    labels = found.get("model.version_labels") or {}
    for name in traffic:
        if as_version(name) is None and name not in labels:
            known = ", ".join(sorted(labels)) or "none"
            yield TRAFFIC, f'no label "{name}" in version_labels, which has: {known}'
    if found.get(STATEFUL):
        yield TRAFFIC, "a sequence stays on one version of a stateful model: remove it"


def _of_shadow(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    shadow = found.get(SHADOW)
    if shadow is None:
        return
    own = shadow.model in ("", found.get("model.name"))
    labels = found.get("model.version_labels") or {}
    if own and shadow.label is not None and shadow.label not in labels:
        known = ", ".join(sorted(labels)) or "none"
        yield SHADOW, f'no label "{shadow.label}" in version_labels, which has: {known}'
    if own and shadow.label is None and shadow.version is None:
        yield SHADOW, "it is this model itself: name another one, or a label or version of this one"
    if found.get(STATEFUL):
        yield SHADOW, "a stateful model's answers depend on its state, not on a request: remove it"


def _names_of(owner: str) -> list[str]:
    return [each.name for each in MODEL if each.owner == owner and each.name != KERNEL]


def _beside_kernel(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if found.get("kernel.isolation") != PROCESS:
        for setting in ("kernel.memory_limit_mb", "kernel.instances"):
            if found.get(setting):
                yield setting, f"it has a meaning for isolation {PROCESS} alone: set that"
    if found.get("kernel.instances") and "kernel.max_concurrency" in found:
        yield (
            "kernel.instances",
            "it says how many processes there are, as max_concurrency: remove one",
        )
    if found.get("engine.driver", AUTO) not in (AUTO, DRIVER):
        driver = found["engine.driver"]
        yield "engine.driver", f"{driver} given beside a kernel, which needs no driver: remove one"


def _beside_hooks(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if found.get(KERNEL) is not None:
        yield HOOKS, "a kernel answers for the model: call its hooks in the kernel"
    without = "it has no meaning for hooks, which run in threads of the server: remove it"
    for setting in ("kernel.isolation", "kernel.memory_limit_mb", "kernel.instances"):
        if setting in found:
            yield setting, without


def _beside_state(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if found.get("batching.max_batch_size") or found.get("batching.allowed_batch_sizes"):
        setting = "batching.max_batch_size"
        if setting not in found:
            setting = "batching.allowed_batch_sizes"
        yield setting, "requests of a stateful model share no batches, each has a state: remove it"
    if found.get("caching.response_cache_bytes"):
        yield (
            "caching.response_cache_bytes",
            "a stateful model's answer depends on its state: remove it",
        )
    if found.get("recording.logging_config"):
        yield (
            "recording.logging_config",
            "a stateful model's answers cannot be replayed, they depend on its state: remove it",
        )
    shape = found.get("openvino.shape")
    shapes = shape.values() if isinstance(shape, Mapping) else (shape,)
    # Each with its size: OpenVINO Model Server, too, takes no `auto` here, but sizes that are open.
    if any(each == "auto" for each in shapes):
        yield "openvino.shape", f"{_NOT_AUTO}: give sizes, -1 for one that is open"
    if shape is None and found.get("openvino.batch_size") == numbers.ANY:
        yield "openvino.batch_size", f"{_NOT_AUTO}: give a number"
