"""The process's one OpenVINO core, and its exceptions as texts for clients."""

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import openvino as ov

from ie_serving.core.runtime.spare_cpu import SPARE_CPU
from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.openvino import culprits
from ie_serving.engines.run.threads import node_limit

TEXT_LIMIT = 600
"""Longest text, in characters, that is taken from an exception of OpenVINO."""
SHOWN = 200
"""Characters of OpenVINO's own text behind the words for it."""

HWLOC_BINDS_NOTHING = ("HWLOC_THISSYSTEM", "0")
"""Variable of hwloc by which it reads of the machine, and leaves threads where they are. Source:
hwloc's manual, "Environment Variables". Children inherit it."""
HYBRID = Path("/sys/devices/cpu_atom")
"""Is there where CPUs are of two kinds. Source: "Intel hybrid support", perf-intel-hybrid.rst."""

_NOISE = re.compile(
    r"(Exception from [\w./\\-]+:\d+:)|(Check '[^\n]*' failed at [\w./\\-]+:\d+:?)"
    r"|(Caught exception:)|( at [\w./\\-]+\.(cpp|hpp|h):\d+:?)"
    r"|(FrontEnd API failed with \w+:)|(Model wasn't fully converted\.\s*Summary:\s*--)"
    r"|(To facilitate the conversion of unsupported operations, refer to [^\n]*?\.html)"
)
_UNFIT = re.compile(r"inconsistent|Incompatible|doesn't match|mismatch|do not match")
_BEFORE = re.compile(r" -> \([^()]*\)(?=')")
"""The output shape in an operation's printed name; it is stale, from an earlier request."""
_SHAPES = re.compile(r"While validating node 'opset\d+::(\w+) \S+ \((.*?)\)'")
_SHAPE = re.compile(r"\]:\w+\[([\d,?.]*)\]")
_BEYOND_AXIS = re.compile(r"K \((\d+)\) exceeds the axis dimension \((\d+)\)")
_OUT_OF_RANGE = re.compile(r"Value (-\d+) not in range \[0:")
_lock = threading.Lock()
_cores: list[ov.Core] = []
_extensions: set[str] = set()


def core() -> ov.Core:
    """Give the shared core, made on first use.

    Weights are read into memory, never mapped: truncating the file of a served version would
    otherwise kill the process with SIGBUS.
    """
    # Loads run in several threads, and two cores would each keep threads and caches of their own.
    with _lock:
        if not _cores:
            _meet_numpy()
            if SPARE_CPU.is_chosen and node_limit() is None and not HYBRID.exists():
                # OpenVINO's threads bind themselves by hwloc, again and again, to the CPUs of their
                # NUMA node or kind. Where these are all, that wins nothing and takes back the CPU
                # that `SPARE_CPU` keeps them off.
                os.environ.setdefault(*HWLOC_BINDS_NOTHING)
            made = ov.Core()
            made.set_property({"ENABLE_MMAP": False})
            _cores.append(made)
        return _cores[0]


def extend(path: str) -> None:
    """Load a library of operations for all models, once; an empty path names none.

    Raises:
        LoadFailed: OpenVINO cannot load it.
    """
    if not path or path in _extensions:
        return
    made = core()
    with _lock, load_failures(f"cpu_extension {path} cannot be loaded"):
        made.add_extension(path)
        _extensions.add(path)


# Two loads that did this at the same time held up the whole process for ever: one kept the guard of
# the binding's table of numpy's functions and waited for the interpreter, the other the reverse.
def _meet_numpy() -> None:
    """Have OpenVINO's binding look up numpy's functions, in one thread, before any load does."""
    assert ov.op.Constant(np.zeros(1, np.float32)).data.size


def one_line(error: BaseException) -> str:
    """Give an exception of OpenVINO as one line without the places of its C++ sources."""
    return " ".join(_NOISE.sub(" ", str(error)).split())[:TEXT_LIMIT] or "no reason given"


def in_words(error: BaseException) -> str:
    """Describe an error of OpenVINO during an inference in terms of shapes and values.

    OpenVINO's own text follows.
    """
    text = _BEFORE.sub("", one_line(error))
    shapes = _SHAPES.search(text) if _UNFIT.search(text) else None
    if shapes:
        given = " and ".join(f"[{shape}]" for shape in _SHAPE.findall(shapes[2]))
        return f"shapes {given} do not fit together in {shapes[1]} (OpenVINO: {text[:SHOWN]})"
    if asked := _BEYOND_AXIS.search(text):
        return f"TopK is asked for the first {asked[1]} of {asked[2]} (OpenVINO: {text[:SHOWN]})"
    if value := _OUT_OF_RANGE.search(text):
        return f"{value[1]} is no size: a dimension must be 0 or more (OpenVINO: {text[:SHOWN]})"
    at = culprits.named(text) or "the model"
    return f"{at} cannot be computed with these shapes or values (OpenVINO: {text[:SHOWN]})"


@contextmanager
def load_failures(what: str) -> Iterator[None]:
    """Turn exceptions of OpenVINO and the file system into LoadFailed, with `what` in front."""
    try:
        yield
    # The binding raises ValueError and TypeError for options of another form than it takes.
    except (RuntimeError, ValueError, TypeError, OSError) as error:
        raise LoadFailed(f"{what}: {_refusal(error)}") from error


def _refusal(error: BaseException) -> str:
    text = one_line(error)
    return text if isinstance(error, OSError) else culprits.told(text)
