"""Device and properties of a model: the user's, checked and translated, and the server's own.

Names of 2020 are translated. `target_device` and `plugin_config` are checked against the devices
of this machine: `AUTO`, `HETERO` and `MULTI` accept unknown properties, so a misspelt one would
silently have no effect.
"""

import logging
import re
from collections.abc import Iterable, Iterator, Mapping

import openvino as ov

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.hints import Hint, nearest
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.openvino import devices
from ie_serving.engines.openvino.devices import CPU
from ie_serving.engines.openvino.options import ACCURACY, AUTO, MODE, OpenVinoOptions
from ie_serving.engines.openvino.runtime import core
from ie_serving.engines.run.threads import thread_limit
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

THREADS = "INFERENCE_NUM_THREADS"
STREAMS = "NUM_STREAMS"
HINT = "PERFORMANCE_HINT"
PINNING = "ENABLE_CPU_PINNING"
CACHE = "CACHE_DIR"
KERNELS = "CPU_RUNTIME_CACHE_CAPACITY"
"""Kernels that a stream of a model caches; the least recently used goes first. OpenVINO accepts
this property without listing it. Each operation has a kernel for each shape it has computed."""
MOST_KERNELS = 5000
"""OpenVINO's own number of them."""
KERNEL_BYTES = 130_000
"""Bytes of a small convolution's kernel, measured over 3,000 shapes."""
KERNELS_PART = 4
"""The part of the budget of bytes, one in so many, that the kernels of one stream may take. Clients
choose shapes: in a container of 512 MB, 5000 kernels of one small model would be its end."""
PRECISION = "INFERENCE_PRECISION_HINT"
GROUPS = "DYNAMIC_QUANTIZATION_GROUP_SIZE"
"""Numbers of an input that OpenVINO rounds to 8 bits together where weights have 8 bits or less,
which answers up to 1 % beside f32; 0 for none."""
CAPABILITIES = "OPTIMIZATION_CAPABILITIES"
FULL, HALF = "f32", "f16"
CAPABILITY = {FULL: "FP32", "bf16": "BF16", HALF: "FP16"}
"""OpenVINO's capability of each precision."""
PRECISIONS = tuple(CAPABILITY)
_ALSO = {"fp16": "f16", "fp32": "f32"}
"""Words that OpenVINO takes for them in `plugin_config`."""
UNKNOWN = "unknown"
OF_THE_MODEL = "dynamic"
"""OpenVINO's word for: each operation in the precision that the model has, and none below."""

_YES_NO = {"YES": "true", "NO": "false"}
_STREAMS = {"CPU_THROUGHPUT_AUTO": "AUTO", "CPU_THROUGHPUT_NUMA": "NUMA"}
OLD_NAMES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "CPU_THROUGHPUT_STREAMS": (STREAMS, _STREAMS),
    "GPU_THROUGHPUT_STREAMS": (STREAMS, {"GPU_THROUGHPUT_AUTO": "AUTO"}),
    "CPU_THREADS_NUM": (THREADS, {}),
    "CPU_BIND_THREAD": (PINNING, {**_YES_NO, "NUMA": "true", "HYBRID_AWARE": "true"}),
    "ENFORCE_BF16": (PRECISION, {"YES": "bf16", "NO": "f32"}),
}
"""Names of 2020: today's name, and today's values where they differ."""
DROPPED = frozenset(
    {"EXCLUSIVE_ASYNC_REQUESTS", "DYN_BATCH_ENABLED", "DYN_BATCH_LIMIT", "AFFINITY"}
)
"""Names that OpenVINO no longer has and that nothing replaces."""

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
"""Words accepted in place of numbers, by property."""


def properties(
    options: EngineOptions, threads: int | None, of_node: int | None = None
) -> dict[str, str]:
    """Give the properties to compile with.

    Args:
        options: the model's.
        threads: limit of this process; used for the CPU device when the user set none.
        of_node: limit of one NUMA node; used with it where the user has set no streams either.

    Raises:
        LoadFailed: an `inference_precision` that does not exist, or another one in `plugin_config`.
    """
    own = options.of(OpenVinoOptions)
    chosen = translated(own.plugin_config)
    if own.inference_precision:
        _check_hint(chosen.setdefault(PRECISION, _precision(own.inference_precision)), own)
    _check_mode(chosen)
    if options.cache_dir is not None:
        # The user's plugin_config takes precedence, here and below.
        chosen.setdefault(CACHE, str(options.cache_dir))
    if _today(chosen.get(PRECISION, FULL)) == HALF and devices.uses_cpu(own.target_device):
        # OpenVINO would load a graph that was kept in f32 for one in f16, and the reverse.
        chosen.pop(CACHE, None)
    if own.target_device == CPU:
        # OpenVINO's default single stream keeps to a node, unless a number of threads is set.
        if threads and of_node and not {STREAMS, HINT} & set(chosen):
            threads = min(threads, of_node)
        exact = {GROUPS: "0"} if _today(chosen.get(PRECISION, "")) == FULL else {}
        chosen = {**for_cpu(threads), **_bound_kernels(BUDGET.limit), **exact, **chosen}
    return chosen


def _bound_kernels(budget: int) -> Mapping[str, str]:
    number = budget // KERNELS_PART // KERNEL_BYTES
    return {KERNELS: str(max(1, number))} if number < MOST_KERNELS else {}


def translated(config: Mapping[str, str]) -> dict[str, str]:
    """Give `config` with names of 2020 replaced by today's, with one warning for each kind."""
    gone = sorted(name for name in config if _bare(name) in DROPPED)
    if gone:
        log.warning(Event("plugin_config has names without effect", names=", ".join(gone)))
    old = (name for name in config if _bare(name) != name or _bare(name) in OLD_NAMES)
    if translated := ", ".join(sorted({*old} - {*gone})):
        log.warning(Event("plugin_config has names of 2020, translated", names=translated))
    return in_todays_words(config)


def in_todays_words(config: Mapping[str, str]) -> dict[str, str]:
    """Give `config` with names of 2020 replaced by today's."""
    # One dict: where an old name and today's stand side by side, the later one counts.
    return dict(pair for name, value in config.items() for pair in _pair(_bare(name), str(value)))


def _pair(name: str, value: str) -> Iterator[tuple[str, str]]:
    # A value without a translation is passed on: the device's own message is better than a guess.
    if name in OLD_NAMES:
        today, values = OLD_NAMES[name]
        yield today, values.get(value, value)
    elif name not in DROPPED:
        yield name, value


def _bare(name: str) -> str:
    return name.removeprefix("KEY_")


def _precision(name: str) -> str:
    if name not in PRECISIONS:
        raise LoadFailed(
            f"inference_precision {name!r} does not exist; expected {', '.join(PRECISIONS)}"
        )
    return name


def _check_hint(hint: str, own: OpenVinoOptions) -> None:
    """Refuse two precisions for one model: which one counts would be a guess."""
    if _today(hint) != own.inference_precision:
        raise LoadFailed(
            f"inference_precision says {own.inference_precision}, and plugin_config {hint}:"
            " remove one of them"
        )


def _check_mode(chosen: Mapping[str, str]) -> None:
    """Refuse a mode that a lower precision leaves without effect."""
    lower = _today(chosen.get(PRECISION, FULL))
    if chosen.get(MODE) == ACCURACY and lower in PRECISIONS and lower != FULL:
        raise LoadFailed(
            f"plugin_config: {MODE} says {ACCURACY}, and inference_precision or {PRECISION}"
            f" {lower}, which OpenVINO would compute in: remove one of them"
        )


def _today(word: str) -> str:
    return _ALSO.get(word.lower(), word.lower())


def check_precision(compiled: ov.CompiledModel, config: Mapping[str, str], device: str) -> None:
    """Refuse a model that the device computes in another precision than the configured one.

    A device silently accepts a precision that it lacks.

    Args:
        compiled: compiled graph on the device.
        config: the properties of its compilation.
        device: device as the options name it.

    Raises:
        LoadFailed: naming both, and the precisions of the device.
    """
    asked = _today(config.get(PRECISION, ""))
    if asked not in PRECISIONS:  # other words, such as `dynamic`, demand none
        return
    used, devices = property_of(compiled, PRECISION), _capabilities(compiled)
    # AUTO, HETERO and MULTI pass the precision on to other devices, and do not report theirs.
    if used == UNKNOWN and all(CAPABILITY[asked] in each for each in devices.values()):
        return
    if asked != used:
        has = "; ".join(f"{name} has {', '.join(each)}" for name, each in devices.items())
        advice = Hint(": change {openvino.inference_precision}, or leave it out")
        raise LoadFailed(
            f"{device} does not compute in {asked}, which inference_precision or plugin_config asks"
            f" for, but in {'others' if used == UNKNOWN else used}; {has}{advice}"
        )


def precision_of(compiled: ov.CompiledModel, model: ov.Model) -> str:
    """Name the precision in which a model's floats are computed; `UNKNOWN` if the device does not.

    Args:
        compiled: compiled graph on the device.
        model: model that was compiled.
    """
    told = property_of(compiled, PRECISION)
    if told != OF_THE_MODEL or compiled.get_property("EXECUTION_DEVICES") != [CPU]:
        return told
    # The CPU plugin computes floats of 16 and 64 bits as those of 32, and bfloat16 as it is.
    types = (out.get_element_type() for node in model.get_ops() for out in node.outputs())
    return "bf16" if any(each == ov.Type.bf16 for each in types) else FULL


def _capabilities(compiled: ov.CompiledModel) -> dict[str, list[str]]:
    """List the capabilities of the devices that compute a model, by their names."""
    devices = compiled.get_property("EXECUTION_DEVICES")
    bare = [name.strip("()") for name in devices]  # AUTO has those in brackets that only start
    return {name: core().get_property(name, CAPABILITIES) for name in bare}


def property_of(compiled: ov.CompiledModel, name: str) -> str:
    """Give a property of a compiled model as text; not every device has every one."""
    try:
        return _text(compiled.get_property(name))
    except RuntimeError:
        return _property_of_parts(compiled, name)


def _property_of_parts(compiled: ov.CompiledModel, name: str) -> str:
    """Give a property of the devices that compute for another, in their order."""
    try:
        parts = compiled.get_property("DEVICE_PROPERTIES")
    except RuntimeError:
        return UNKNOWN
    found = [_text(each[name]) for each in parts.values() if name in each]
    return ",".join(dict.fromkeys(found)) or UNKNOWN


def _text(value: object) -> str:
    return str(value.get_type_name()) if isinstance(value, ov.Type) else str(value)


def for_cpu(threads: int | None) -> dict[str, str]:
    """Keep to the process's share of the CPUs.

    Pinned threads of several models or workers would all sit on the same first cores.
    """
    return {PINNING: "false", **({} if threads is None else {THREADS: str(threads)})}


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


# The limit is set once: a device beside the CPU may refuse properties that are the CPU's.
def _bound_cpu() -> None:
    """Keep the CPU's part of other devices to the share of this process, unless a user says so."""
    core().set_property(devices.CPU, for_cpu(thread_limit()))


def check_properties(device: str, config: Mapping[str, str], known: Mapping[str, str]) -> None:
    """Refuse names that are not among the properties `known`, or that can only be read. Pure.

    Args:
        device: device named in the text.
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
    """Name the precisions below f32 that every device that may compute has; f16 for no CPU.

    In f16 numbers beyond 65504 are infinite, and no trial shows which requests lead to such ones.

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
    left_out = {FULL, HALF} if CPU in named else {FULL}
    lower = [name for name in CAPABILITY if name not in left_out]
    return [name for name in lower if all(CAPABILITY[name] in each for each in has)]
