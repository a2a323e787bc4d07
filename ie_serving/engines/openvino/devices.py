"""Parses device strings such as `GPU.1`, `AUTO:GPU,CPU`, `HETERO:GPU,CPU` and `BATCH:CPU(8)`.

Pure: the devices of the machine are an argument, so that other machines can be tested.
"""

import re
from collections.abc import Collection, Sequence

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.hints import nearest

CPU = "CPU"
AUTO = "AUTO"
VIRTUAL = (AUTO, "BATCH", "HETERO", "MULTI")
"""Devices that share the work of a model among others, which are named behind a colon."""
LISTED = frozenset(VIRTUAL) - {AUTO}
"""Those that cannot choose the others themselves."""
PRIORITIES = "MULTI_DEVICE_PRIORITIES"
"""Property that may name the others instead."""
KINDS = frozenset({CPU, "GPU", "NPU"})
"""Valid names: where one of these is not found, the device is absent and the name not misspelt."""
GONE = frozenset({"FPGA", "GNA", "HDDL", "MYRIAD"})
"""Devices of 2020 that OpenVINO has no longer."""

_BARE = re.compile(r"-?([^()]+)(?:\([^()]*\))?")


def hardware(device: str) -> list[str]:
    """Name the devices that `device` computes on; none where it leaves that to OpenVINO."""
    kind, _, listed = device.partition(":")
    if kind not in VIRTUAL:
        return [device]
    # A device with a minus is excluded: `AUTO:-GPU`.
    return [_bare(name) for name in listed.split(",") if name and not name.startswith("-")]


def uses_cpu(device: str) -> bool:
    """Tell whether a model may be compiled for the CPU, alone or among others."""
    return CPU in (hardware(device) or [CPU])


def chosen(device: str, present: Sequence[str]) -> str:
    """Give the device to compile for: of a list for `AUTO`, the present devices.

    Args:
        device: device in OpenVINO's notation.
        present: the devices of this machine, such as `CPU`, `GPU.0`.

    Raises:
        LoadFailed: a device is absent; naming those that are present.
    """
    named = hardware(device)
    missing = [name for name in named if not _is_present(name, present)]
    if not missing:
        return device
    kind, _, listed = device.partition(":")
    if kind != AUTO or len(missing) == len(named):
        raise LoadFailed(_missing(device, missing, present))
    # OpenVINO itself would fail where the library of a listed device cannot be loaded.
    return f"{AUTO}:{','.join(each for each in listed.split(',') if _bare(each) not in missing)}"


def check_list(device: str, config: Collection[str]) -> None:
    """Refuse a device that shares work among others, and names none.

    Raises:
        LoadFailed: with an example.
    """
    if device in LISTED and PRIORITIES not in config:
        raise LoadFailed(f"target_device {device!r} needs a list of devices: {device}:GPU,CPU")


def _bare(name: str) -> str:
    match = _BARE.fullmatch(name.strip())
    return match[1] if match else name


def _is_present(name: str, present: Collection[str]) -> bool:
    """Tell whether `name` is one of them; `GPU` is the first of several, `GPU.0` the only one."""
    return name in present or f"{name}.0" in present or name.removesuffix(".0") in present


def _missing(device: str, missing: Sequence[str], present: Sequence[str]) -> str:
    names = " and ".join(map(repr, missing))
    text = f"target_device {device!r}: this machine has no {names}, it has {', '.join(present)}"
    if GONE & set(missing):
        return f"{text}: OpenVINO has no such device any more, name another"
    if missing[0].partition(".")[0] in KINDS:
        return f"{text}; install its driver and give it to the container, or name another"
    return f"{text}{nearest(missing[0].upper(), [*present, *VIRTUAL])}"
