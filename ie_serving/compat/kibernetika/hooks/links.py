"""Options of kibernetika's drivers (`-o KEY=VALUE`) -> how a model of a chain is compiled.

Source: the table of drivers in its documentation. Keys that no driver knows are for hooks alone.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.hints import nearest
from ie_serving.engines.base import AUTO, EngineOptions
from ie_serving.engines.drivers import is_known, names
from ie_serving.engines.kernels import ChainedModel
from ie_serving.engines.openvino.devices import CPU, GONE
from ie_serving.engines.openvino.options import OpenVinoOptions

DRIVERS: Final[Mapping[str, str]] = {
    "openvino": "openvino",
    "tensorflow": "openvino",
    "onnx": AUTO,
    "pytorch": "pytorch",
    "null": "null",
    "": AUTO,
}
"""Drivers here by kibernetika's words; those of this server are taken as they are."""

OPENVINO = ("openvino", "tensorflow", "onnx", "")
BACKENDS = ("CPU", "INTERPRETER")
"""Backends of nGraph for ONNX; both computed on the processor."""


def link_of(
    driver: str, path: str, given: Mapping[str, Any], base: EngineOptions
) -> tuple[ChainedModel, list[str]]:
    """Read the options of one model.

    Args:
        driver: word of `--driver`; empty where there is none.
        path: path of the model.
        given: options by key, as text or with the types of Python.
        base: options that hold for all.

    Returns:
        The model, and warnings of what has no effect.

    Raises:
        LoadFailed: an unknown driver, or a value that is none.
    """
    if driver not in DRIVERS and not is_known(driver):
        known = sorted({*DRIVERS, *names()} - {""})
        raise LoadFailed(
            f"no driver {driver!r}; expected one of {', '.join(known)}{nearest(driver, known)}"
        )
    options = replace(base, driver=DRIVERS.get(driver, driver), params=_params(driver, given))
    warnings: list[str] = []
    if driver in OPENVINO and given.get("device"):
        device = _device(str(given["device"]), warnings)
        options = options.having(replace(options.of(OpenVinoOptions), target_device=device))
    backend = str(given.get("runtime_backend", BACKENDS[0]))
    if driver == "onnx" and backend not in BACKENDS:
        warnings.append(f"runtime_backend={backend}: nGraph is gone; the model runs on the CPU")
    if driver == "tensorflow" and "inputs" in given:
        warnings.append("inputs has no effect: OpenVINO finds them in the graph")
    link = ChainedModel(
        driver=driver or AUTO,
        path=path,
        options=options,
        weights=str(given.get("model_weights", "")) if driver in OPENVINO else "",
        signature=str(given.get("model_signature", "")) if driver == "tensorflow" else "",
        outputs=_outputs(driver, path, given),
        flexible=_is_true(given.get("flexible_batch_size", False)),
    )
    return link, warnings


def _outputs(driver: str, path: str, given: Mapping[str, Any]) -> tuple[str, ...]:
    """Read `outputs=x,y` of a frozen graph; a SavedModel says its own."""
    if driver != "tensorflow" or not path.endswith(".pb"):
        return ()
    listed = str(given.get("outputs", "")).split(",")
    return tuple(each.strip().removesuffix(":0") for each in listed if each.strip())


def _params(driver: str, given: Mapping[str, Any]) -> dict[str, Any]:
    if driver != "pytorch":
        return {}
    words = ("model_class", "model_args", "inputs", "outputs")
    return {word: _json(word, given[word]) for word in words if word in given}


def _json(word: str, value: object) -> object:
    """Read JSON where a value is an object, since `-o` has texts alone."""
    if not isinstance(value, str) or not value.lstrip().startswith("{"):
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        raise LoadFailed(f"{word}: expected JSON, got {value!r}: {error}") from error


def _device(text: str, warnings: list[str]) -> str:
    """Read a device, or a list, which is one of HETERO; leave out what OpenVINO has no longer."""
    start, colon, listed = text.strip().partition(":")
    named = [each.strip() for each in (listed if colon else start).split(",") if each.strip()]
    gone = [each for each in named if each.partition(".")[0].upper() in GONE]
    kept = [each for each in named if each not in gone] or [CPU]
    if gone:
        warnings.append(
            f"device={text}: OpenVINO has no {', '.join(gone)} any more; using {','.join(kept)}"
        )
    if colon:
        return f"{start}:{','.join(kept)}"
    return kept[0] if len(kept) == 1 else f"HETERO:{','.join(kept)}"


def _is_true(value: object) -> bool:
    word = str(value).strip().lower()
    if word not in ("true", "false", "1", "0"):
        raise LoadFailed(f"flexible_batch_size={value}: expected true or false")
    return word in ("true", "1")
