"""Checks `target_device` and `plugin_config` against the devices of this machine.

`AUTO`, `HETERO` and `MULTI` accept unknown properties, so a misspelt one would silently have no
effect.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.hints import nearest
from ie_serving.engines.openvino import devices
from ie_serving.engines.openvino.compiling.properties import (
    CAPABILITIES,
    CAPABILITY,
    FULL,
    STREAMS,
    for_cpu,
    in_todays_words,
)
from ie_serving.engines.openvino.options import AUTO, OpenVinoOptions
from ie_serving.engines.openvino.runtime import core
from ie_serving.engines.run.threads import thread_limit

SUPPORTED = "SUPPORTED_PROPERTIES"
OF_CORE = frozenset(
    {
        "ALLOW_AUTO_BATCHING",
        "AUTO_BATCH_TIMEOUT",
        "CACHE_DIR",
        "CACHE_MODE",
        "DEVICE_PROPERTIES",
        "ENABLE_MMAP",
    }
)
"""Properties that OpenVINO's core takes for any device, whatever its plugin lists."""
READ_ONLY = "RO"
WHOLE = re.compile(r"[+-]?\d+")
WORDS = {STREAMS: ("AUTO", "NUMA")}
"""By property: words for numbers."""


def device(options: OpenVinoOptions) -> str:
    """Give the device to compile for, after a check that it exists and has the set properties.

    Raises:
        LoadFailed: naming the present devices, or the property that may be meant.
    """
    name, asked = options.target_device, in_todays_words(options.plugin_config)
    if name != devices.CPU:  # which is always there; to look for others loads their plugins
        name = devices.chosen(name, core().available_devices)
        devices.check_list(name, asked)
        if devices.uses_cpu(name):
            _bound_cpu()
    if asked:
        check_properties(name, asked, dict(_properties(name)))
        check_numbers(asked, dict(_numbers(name, asked)))
    return name


# Not at each compilation: a device beside the CPU may refuse properties that are the CPU's.
def _bound_cpu() -> None:
    """Keep the CPU's part of other devices to the share of this process, unless a user says so."""
    core().set_property(devices.CPU, for_cpu(thread_limit()))


def check_properties(device: str, config: Mapping[str, str], known: Mapping[str, str]) -> None:
    """Refuse names that are not among the properties `known`, or that can only be read. Pure.

    Args:
        device: for the text.
        config: names, with values that are not looked at.
        known: `RW` or `RO` of each property that the device has.
    """
    writable = {*OF_CORE, *(name for name, access in known.items() if access != READ_ONLY)}
    for name in config:
        if name in writable:
            continue
        if name in known:
            raise LoadFailed(f"plugin_config: {name} of {device} can only be read: remove it")
        listed = nearest(name.upper(), writable) or f"; it has {', '.join(sorted(writable))}"
        raise LoadFailed(f"plugin_config: {device} has no property {name!r}{listed}")


def check_numbers(config: Mapping[str, str], numbers: Mapping[str, object]) -> None:
    """Refuse text for whole numbers: OpenVINO takes the digits that it begins with. Pure.

    Args:
        config: names and values.
        numbers: values of the properties as they are now.

    Raises:
        LoadFailed: naming the property and its value.
    """
    for name, value in config.items():
        is_whole = type(numbers.get(name)) is int
        words = WORDS.get(name, ())
        if is_whole and value not in words and not WHOLE.fullmatch(value):
            expected = " or ".join(("a whole number", *words))
            raise LoadFailed(f"plugin_config: {name} is {value!r}; expected {expected}")


def _numbers(device: str, names: Iterable[str]) -> Iterator[tuple[str, object]]:
    """Give properties as they are now, where one of the devices that compute has them."""
    for each in devices.hardware(device) or core().available_devices:
        for name in names:
            try:
                yield name, core().get_property(each, name)
            except RuntimeError:  # that of another device of the list
                continue


def _properties(device: str) -> Iterator[tuple[str, str]]:
    """Give the properties of a device, and of the devices it computes on."""
    kind = device.partition(":")[0]
    for each in dict.fromkeys([kind, *(devices.hardware(device) or core().available_devices)]):
        try:
            yield from core().get_property(each, SUPPORTED).items()
        except RuntimeError:  # of a list for AUTO that names one which is not there
            continue


def lower_precisions(options: OpenVinoOptions) -> list[str]:
    """Name the precisions below f32 of every device that may compute.

    Raises:
        LoadFailed: `plugin_config` sets the precision although it should be chosen; or there is no
            such device.
    """
    if options.says_precision:
        raise LoadFailed(
            f"inference_precision is {AUTO}, and plugin_config says one: remove it, or the former"
        )
    named = [options.target_device]
    if named != [devices.CPU]:  # which is always there; to look for others loads their plugins
        present = core().available_devices
        named = devices.hardware(devices.chosen(options.target_device, present)) or present
    has = [core().get_property(name, CAPABILITIES) for name in named]
    lower = [name for name in CAPABILITY if name != FULL]
    return [name for name in lower if all(CAPABILITY[name] in each for each in has)]
