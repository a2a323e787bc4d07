"""Frees a compiled model while other threads have the interpreter.

OpenVINO's binding frees it during Python's deallocation, with the interpreter lock held: 70 ms for
500 MB of weights, during which no request progresses. So its C++ destructor is called before,
through ctypes, which releases the interpreter lock; the deallocation then finds an empty object.
The address comes from pybind11's protocol for other extensions (`_pybind11_conduit_v1_`), which
gives it only for the same C++ ABI and type. Where any of this is missing, Python frees as usual.
Source: docs of pybind11, "Custom type setup", and `cpp_conduit.h`.
"""

import ctypes
from functools import cache

import openvino as ov
from openvino import _pyopenvino

KNOWN = ("2026.4.1",)
"""Prefixes of releases whose `CompiledModel` is two shared pointers, as tested. With another layout
the memory of another object would be overwritten."""
BYTES = 32
"""Size of two shared pointers; zeros are two empty ones."""
ABI = b"system_libstdcpp_gxx_abi_1xxx_use_cxx11_abi_1"
"""C++ interface of the binding in OpenVINO's packages for Linux, as pybind11 names it."""
TYPE = "_ZTIN2ov13CompiledModelE"
DESTRUCTOR = "_ZN2ov13CompiledModelD1Ev"
_TYPE_INFO = b"St9type_info"
_POINTER = b"raw_pointer_ephemeral"


class _Binding:
    """The binding's destructor and type, as ctypes finds them. Raises: OSError, ValueError."""

    def __init__(self) -> None:
        library = ctypes.CDLL(_pyopenvino.__file__)
        api = ctypes.pythonapi
        # PYFUNCTYPE: these work on Python's objects, so the interpreter has to stay locked.
        self._new = ctypes.PYFUNCTYPE(
            ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
        )(("PyCapsule_New", api))
        self._name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(
            ("PyCapsule_GetName", api)
        )
        self._pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
            ("PyCapsule_GetPointer", api)
        )
        kind = ctypes.addressof(ctypes.c_char.in_dll(library, TYPE))
        self._kind = self._new(kind, _TYPE_INFO, None)
        # CFUNCTYPE: the call releases the interpreter lock.
        self._destroy = ctypes.CFUNCTYPE(None, ctypes.c_void_p)((DESTRUCTOR, library))

    def free(self, compiled: ov.CompiledModel) -> None:
        """Leave an empty object; do nothing where the binding gives no address."""
        conduit = getattr(compiled, "_pybind11_conduit_v1_", None)
        capsule = conduit(ABI, self._kind, _POINTER) if conduit else None
        if capsule is None:
            return
        address = self._pointer(capsule, self._name(capsule))
        self._destroy(address)
        ctypes.memset(address, 0, BYTES)


@cache
def known_binding() -> _Binding | None:
    """Look the parts of the binding up, once; None where they are not as they are known."""
    if not ov.__version__.startswith(KNOWN):
        return None
    try:
        return _Binding()
    except (OSError, ValueError, AttributeError):  # other names, or none at all
        return None


def release(compiled: ov.CompiledModel) -> None:
    """Free the memory of `compiled`, unless it is shared. The object must not be used again."""
    binding = known_binding()
    if binding:
        binding.free(compiled)
