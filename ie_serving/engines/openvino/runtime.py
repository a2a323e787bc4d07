"""The process's one OpenVINO core."""

import os
import threading
from pathlib import Path

import numpy as np
import openvino as ov

from ie_serving.core.runtime.spare_cpu import SPARE_CPU
from ie_serving.engines.openvino.error_texts import load_failures
from ie_serving.engines.run.threads import node_limit

HWLOC_BINDS_NOTHING = ("HWLOC_THISSYSTEM", "0")
"""Variable of hwloc by which it reads of the machine, and leaves threads where they are. Source:
hwloc's manual, "Environment Variables". Children inherit it."""
HYBRID = Path("/sys/devices/cpu_atom")
"""Is there where CPUs are of two kinds. Source: "Intel hybrid support", perf-intel-hybrid.rst."""

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
                # that `SPARE_CPU` keeps them off. Here: hwloc reads it with the first core.
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
