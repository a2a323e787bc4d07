"""Reads files of PyTorch: TorchScript, `torch.export`, and weights for a user's class."""

import hashlib
import importlib
import inspect
import sys
import threading
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.hints import Hint
from ie_serving.core.values.tensors import Specs, TensorSpec
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.pytorch.torch_tensors import dtype_of

CLASS, ARGUMENTS = "model_class", "model_args"
EXPORTED = ".pt2"
PICKLES = Hint("; to trust whoever writes these models, set {engine.allow_pickle}")
PYTHON = Hint("; to allow that, set {engine.allow_python}")
_one_at_a_time = threading.Lock()
"""`torch.export.load` stores its input in a global variable, and fails if two run concurrently."""


@dataclass(frozen=True)
class Module:
    """A loaded module.

    Attributes:
        call: takes tensors in the order of `arguments`.
        arguments: names of the arguments.
        inputs: specs of the arguments, if the file has them.
    """

    call: Callable[..., Any]
    arguments: Sequence[str]
    inputs: Specs = field(default_factory=dict)


def read(torch: Any, file: Path, options: EngineOptions) -> Module:  # noqa: ANN401  the library
    """Read a file of any of the three kinds.

    Raises:
        LoadFailed: the file needs a setting that allows it, or a class that `params` does not name.
    """
    if file.suffix == EXPORTED:
        return _exported(torch, file, options)
    if CLASS in options.params:
        return _weights(torch, file, options)
    if not _is_script(file):
        raise LoadFailed(
            f"{file.name} is no TorchScript: if it holds weights, name their class by params, as"
            f' {{"{CLASS}": "module:Class"}}; else export the model by torch.export'
        )
    script = torch.jit.load(str(file), map_location="cpu").eval()
    return Module(script, [each.name for each in script.forward.schema.arguments[1:]])


def _is_script(file: Path) -> bool:
    if not zipfile.is_zipfile(file):
        return False
    # Weights are a zip file as well, but only TorchScript's contains constants.
    with zipfile.ZipFile(file) as opened:
        return any(name.endswith("/constants.pkl") for name in opened.namelist())


def _exported(torch: Any, file: Path, options: EngineOptions) -> Module:  # noqa: ANN401
    # Its weights and sample inputs may be pickles, which PyTorch loads.
    if not options.allow_pickle:
        raise LoadFailed(
            f"{file.name} may hold pickles, which may run any code when they are read, so it is"
            " not read; save the model as TorchScript or ONNX",
            PICKLES,
        )
    with _one_at_a_time:
        program = torch.export.load(str(file))
    names = list(program.graph_signature.user_inputs)
    nodes = {node.name: node.meta["val"] for node in program.graph.nodes if node.name in names}
    specs = {name: _spec(name, nodes[name]) for name in names}
    return Module(program.module(), names, specs)


def _spec(name: str, value: Any) -> TensorSpec:  # noqa: ANN401  the library's
    sizes = tuple(size if isinstance(size, int) else -1 for size in value.shape)
    return TensorSpec(name, dtype_of(value), sizes, name)


def _weights(torch: Any, file: Path, options: EngineOptions) -> Module:  # noqa: ANN401
    named, given = options.params[CLASS], options.params.get(ARGUMENTS, {})
    place, _, name = str(named).partition(":")
    if not (place and name) or not isinstance(given, Mapping):
        raise LoadFailed(f'params.{CLASS}: {named!r} given; expected "module:Class"')
    # Checked before the import, which runs the module's code.
    if not options.allow_python:
        raise LoadFailed(f"params.{CLASS} asks to run the Python code of {named}", PYTHON)
    module = getattr(_imported(place, file.parent), name)(**given)
    module.load_state_dict(torch.load(file, map_location="cpu", weights_only=True))
    return Module(module.eval(), list(inspect.signature(module.forward).parameters))


def _imported(name: str, directory: Path) -> ModuleType:
    """Import a module: the version's file, under a unique name, else an installed module."""
    path = directory / f"{name}.py"
    if not path.is_file():
        return importlib.import_module(name)
    # Files of two versions may have the same name, but must not share a module.
    unique = hashlib.sha256(str(path).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    spec = spec_from_file_location(f"ie_serving_model_{unique}", path)
    assert spec is not None  # it is a file of Python
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
