"""Frees a compiled model while other threads have the interpreter.

OpenVINO's binding frees it inside of Python's own deallocation, with the interpreter locked: 70 ms
for 500 MB of weights, in which no request moves. So its C++ destructor is called beforehand through
ctypes, which lets go of the interpreter; the deallocation then finds an empty object. The address
comes from pybind11's protocol for other extensions (`_pybind11_conduit_v1_`), which gives it only
for the same C++ interface and type. Where anything of this is missing, Python frees as always.
Source: docs of pybind11, "Custom type setup", and `cpp_conduit.h`.
"""

import ctypes
from functools import cache

import openvino as ov
from openvino import _pyopenvino

KNOWN = ("2026.4.1",)
"""Beginnings of the releases whose `CompiledModel` is two shared pointers: those that the tests ran
with. With another layout the memory of something else would be overwritten."""
BYTES = 32
"""Of two shared pointers; zeros are two empty ones."""
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
        # CFUNCTYPE: whoever calls lets go of the interpreter meanwhile.
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
def _binding() -> _Binding | None:
    if not ov.__version__.startswith(KNOWN):
        return None
    try:
        return _Binding()
    except (OSError, ValueError, AttributeError):  # other names, or none at all
        return None


def release(compiled: ov.CompiledModel) -> None:
    """Free what `compiled` holds, if nothing else does. It must not be used any more."""
    binding = _binding()
    if binding:
        binding.free(compiled)
