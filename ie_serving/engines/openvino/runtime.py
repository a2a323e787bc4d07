"""The process's one OpenVINO core, and its exceptions as texts that may be shown."""

import ctypes
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import openvino as ov

from ie_serving.core.errors import LoadFailed

TEXT_LIMIT = 600
"""Longest text, in characters, that is taken from an exception of OpenVINO."""

_NOISE = re.compile(
    r"(Exception from [\w./\\-]+:\d+:)|(Check '[^\n]*' failed at [\w./\\-]+:\d+:?)"
    r"|(Caught exception:)|( at [\w./\\-]+\.(cpp|hpp|h):\d+:?)"
    r"|(FrontEnd API failed with \w+:)|(Model wasn't fully converted\.\s*Summary:\s*--)"
    r"|(To facilitate the conversion of unsupported operations, refer to [^\n]*?\.html)"
)
_LACKS = re.compile(r"No conversion rule found for operations: ([\w.]+(?:, [\w.]+)*)")
_ADVICE = (
    r"OpenVINO has no \1: export the model without it, or a signature that takes what it gives"
)
_lock = threading.Lock()
_cores: list[ov.Core] = []


def core() -> ov.Core:
    """Give the shared core, made on first use.

    Weights are read into memory, never mapped: whoever truncates the files of a served version
    would kill the process with SIGBUS.
    """
    # Loads run in several threads, and two cores would each keep threads and caches of their own.
    with _lock:
        if not _cores:
            made = ov.Core()
            made.set_property({"ENABLE_MMAP": False})
            _cores.append(made)
        return _cores[0]


def one_line(error: BaseException) -> str:
    """Give an exception of OpenVINO as one line without the places of its C++ sources."""
    text = _LACKS.sub(_ADVICE, " ".join(_NOISE.sub(" ", str(error)).split()))
    return text[:TEXT_LIMIT] or "no reason given"


@contextmanager
def load_failures(what: str) -> Iterator[None]:
    """Turn what OpenVINO and the file system raise into LoadFailed, with `what` in front."""
    try:
        yield
    # The binding raises ValueError and TypeError for options of another form than it takes.
    except (RuntimeError, ValueError, TypeError, OSError) as error:
        raise LoadFailed(f"{what}: {one_line(error)}") from error


def return_memory() -> None:
    """Hand freed memory back to the system; glibc keeps it otherwise. Does nothing elsewhere."""
    # A model's gigabytes in freed blocks count as the process's memory: in a container with a limit
    # the next version's load would be killed for them.
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
