"""Options of users' Python code: a kernel that answers for a model, hooks around models."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

from ie_serving.core.settings.declaration import SettingKind, choice, whole
from ie_serving.core.settings.faults import Faults, fault
from ie_serving.core.settings.numbers import integer, timeout
from ie_serving.core.settings.structures import mapping
from ie_serving.core.values.errors import ConfigError
from ie_serving.core.values.integers import INT32_MAX
from ie_serving.engines.base import EngineOptions

INLINE, THREAD, PROCESS = "inline", "thread", "process"
"""Ways to run a kernel: in threads that all models share, in threads or in processes of its own."""

MOST_PROCESSES = 1000
"""More would be a slip of the keyboard: each takes tens of megabytes."""
FORM = "FILE.py or FILE.py:NAME, NAME a class, function or object in it"


@dataclass(frozen=True, kw_only=True)
class CodeSource:
    """Where a kernel stands: `FILE[:NAME]`.

    Attributes:
        file: path in the version directory, else beside the configuration; or absolute.
        name: name of a class, a function or an object; empty: the one class there is.
        beside: directory of the configuration.
    """

    file: str
    name: str = ""
    beside: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.name}" if self.name else self.file

    @staticmethod
    def parse(text: object) -> CodeSource | None:
        """Read `FILE.py` or `FILE.py:NAME`; None where it is neither."""
        given = text.strip() if isinstance(text, str) else ""
        file, _, name = given.partition(":")
        path = PurePosixPath(file)
        if path.suffix != ".py" or ".." in path.parts or (":" in given and not name.isidentifier()):
            return None
        return CodeSource(file=file, name=name)


@dataclass(frozen=True, kw_only=True)
class GraphFiles:
    """Where files lie that a graph of the configuration names, beside those of its version."""

    directory: str = ""


@dataclass(frozen=True, kw_only=True)
class Instances:
    """How many processes a kernel has; each runs one call, or batch of calls, at a time."""

    min: int = 1
    """There are always as many."""

    max: int = 1
    """Largest number of them, started one after the other while calls wait."""

    idle_seconds: float = 60.0
    """Seconds without a call after which a process beyond `min` is ended. Typical load rises and
    falls within minutes, and an idle process costs its memory."""


def source(value: object, where: str) -> CodeSource:
    """Read the file of a kernel, and the kernel's name in it."""
    found = CodeSource.parse(value)
    if found is None:
        raise fault(where, value, FORM)
    return found


def instances(value: object, where: str) -> Instances:
    """Read how many processes there may be."""
    given = mapping(value, where, 'an object such as {"min": 1, "max": 4, "idle_seconds": 60}')
    known = {"min": integer(1, MOST_PROCESSES), "max": integer(1, MOST_PROCESSES)}
    faults = Faults()
    for key in sorted(given.keys() - {*known, "idle_seconds"}):
        faults.add(f"{where}.{key}", "unknown; expected min, max and idle_seconds")
    counts = {k: faults.take(known[k], given[k], f"{where}.{k}") for k in known if k in given}
    idle_s = given.get("idle_seconds", Instances.idle_seconds)
    idle_seconds = faults.take(timeout, idle_s, f"{where}.idle_seconds")
    faults.check()
    least = counts.get("min") or Instances.min
    most = counts.get("max") or max(least, Instances.max)
    if most < least:
        raise ConfigError([f"{where}: max is {most}, below min, {least}; raise max or lower min"])
    return Instances(min=least, max=most, idle_seconds=idle_seconds or Instances.idle_seconds)


def file(value: object, where: str) -> CodeSource:
    """Read a file of Python alone."""
    found = CodeSource.parse(value)
    if found is None or found.name:
        raise fault(where, value, "FILE.py")
    return found


SOURCE: Final = SettingKind(source, "FILE[:NAME]")
FILE: Final = SettingKind(file, "FILE")
INSTANCES: Final = SettingKind(instances, "JSON")


@dataclass(frozen=True, kw_only=True)
class KernelOptions:
    """Whether Python code answers for a model, and how it is run."""

    source: CodeSource | None = SOURCE.setting(
        None,
        "Python code that answers for the model: a class, function or object with predict, in"
        " the version directory, else beside the configuration, or absolute; needs allow_python",
        "kernel.py:Scale",
        shown="none",
        word="kernel",
    )
    """None: the files of the version are run by a driver."""

    isolation: str = choice(INLINE, THREAD, PROCESS).setting(
        "",
        "run the kernel in threads of its own, inline in those that all models share, or in"
        " processes of its own, which may crash; never on the event loop",
        "inline",
        shown=f"{THREAD}; {PROCESS} for packages of IBM EDI",
    )
    """Empty: threads of its own, so that a call that hangs takes none of other models, or processes
    if the kernel was written for a server that gives each its own."""

    # Few authors think of threads.
    max_concurrency: int = whole(1, 1000).setting(
        1, "calls of the kernel that run at a time, or batches of calls; its processes", "4"
    )
    instances: Instances | None = INSTANCES.setting(
        None,
        "processes of the kernel, of isolation process: min always, up to max while calls wait;"
        " one beyond min is ended after idle_seconds (60) without a call",
        '{"min": 1, "max": 4, "idle_seconds": 60}',
        shown="none",
    )
    """Processes that come and go with the load; None: as many as `max_concurrency`."""

    memory_limit_mb: int = whole(0, INT32_MAX, "MB").setting(
        0,
        "private memory that a process of the kernel may take, of isolation process; a call that"
        " needs more gets RESOURCE_EXHAUSTED or 429; 0 sets no limit",
        "2000",
    )
    """MB are 10^6 bytes."""

    timeout_ms: float = whole(0, INT32_MAX, "MILLISECONDS").setting(
        0.0,
        "longest time of a call of the kernel, waiting for its turn included; beyond it is"
        " DEADLINE_EXCEEDED or 504; 0 sets no limit",
        "2000",
    )


@dataclass(frozen=True, kw_only=True)
class ChainedModel:
    """One model of a chain: a `--model-path` of kibernetika-serving with its `--driver`.

    Attributes:
        driver: name that the user wrote, for hooks that read it.
        path: path of a file, or of a directory with the files of one version.
        options: options of compilation, the driver included; hooks do not change them.
        weights: file that a `.xml` reads its weights from; empty: the one beside it.
        signature: signature of the model; empty for `serving_default`.
        outputs: the model's outputs to return; empty for all.
        flexible: a request may have more rows, or fewer, than the model's fixed batch.
    """

    driver: str
    path: str
    options: EngineOptions = field(default_factory=EngineOptions)
    weights: str = ""
    signature: str = ""
    outputs: tuple[str, ...] = ()
    flexible: bool = False


@dataclass(frozen=True, kw_only=True)
class HookOptions:
    """Python code around a model."""

    source: CodeSource | None = FILE.setting(
        None,
        "Python code around the model, preprocess, postprocess or process as of"
        " kibernetika-serving, in the version directory, else beside the configuration, or"
        " absolute; needs allow_python",
        "hooks.py",
        shown="none",
        word="hooks",
    )
    """None: there is none."""

    chain: tuple[ChainedModel, ...] = ()
    """Models that answer one after the other, in place of the version's files; empty: these."""
