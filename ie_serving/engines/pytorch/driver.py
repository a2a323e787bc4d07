"""Serves TorchScript (`*.pt`), `torch.export` (`*.pt2`), and weights with a class (`params`)."""

import hashlib
import importlib
import inspect
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.hints import Hint
from ie_serving.core.values.tensors import (
    SERVING_DEFAULT,
    Array,
    Arrays,
    DataType,
    Signature,
    Specs,
    TensorSpec,
)
from ie_serving.engines import driver_params
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.openvino.unsupported_settings import refuse_unsupported
from ie_serving.engines.pytorch.isolated_module import isolated
from ie_serving.engines.pytorch.threads_choice import ChosenThreads
from ie_serving.engines.run.function import needed, one_line, program, reading
from ie_serving.engines.run.program import CompiledPrograms
from ie_serving.engines.run.threads import threads

CLASS, ARGUMENTS = "model_class", "model_args"
EXPORTED = ".pt2"
PICKLES = Hint("; to trust the authors of these models, set {engine.allow_pickle}")
PYTHON = Hint("; to allow that, set {engine.allow_python}")
_one_at_a_time = threading.Lock()
"""`torch.export.load` stores its input in a global variable, and fails if two run concurrently."""

LIBRARY, NAME, EXTRA = "torch", "PyTorch", "pytorch"
KNOWN = (driver_params.INPUTS, driver_params.OUTPUTS, CLASS, ARGUMENTS)
TorchLibrary = Any
"""The module `torch`, imported when a model needs it."""
TorchCompute = Callable[[Arrays], dict[str, Any]]
"""Computes the outputs of a module, as tensors by name."""
OUTPUT = "output"
"""Name of the only output; several are `output_0`, `output_1` and so on, or named by a dict."""


@dataclass(frozen=True)
class Module:
    """A loaded module.

    Attributes:
        call: takes tensors in the order of `arguments`.
        arguments: names of the arguments.
        inputs: specs of the arguments, if the file has them.
        state: names of attributes that a call changes; each call has its own then.
    """

    call: Callable[..., Any]
    arguments: Sequence[str]
    inputs: Specs = field(default_factory=dict)
    state: Sequence[str] = ()


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
    state = _changed(torch, script)
    arguments = [each.name for each in script.forward.schema.arguments[1:]]
    return Module(isolated(torch, script, state) if state else script, arguments, state=state)


def _changed(torch: Any, script: Any) -> Sequence[str]:  # noqa: ANN401  the library's
    """Name the attributes that a TorchScript module sets, or changes in place, also by a view.

    Frozen, a module has no other attributes, and no branches for training.
    """
    try:
        graph = torch.jit.freeze(script, optimize_numerics=False).graph
    except RuntimeError:  # it cannot tell, so any attribute may be
        return ["attributes"]
    held = [n for n in graph.findAllNodes("prim::GetAttr", True) if not _is_module(n.output())]
    return sorted({node.s("name") for node in held})


def _is_module(value: Any) -> bool:  # noqa: ANN401
    return bool(value.type().kind() == "ClassType")


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
    buffers = program.graph_signature.inputs_to_buffers
    # A program is exported with its operations in place.
    written = (_origin(each) for node in program.graph.nodes for each in _written(node))
    state = sorted({buffers[str(each)] for each in written if str(each) in buffers})
    module = program.module()
    call = isolated(torch, module, state) if state else module
    return Module(call, names, specs, state)


def _written(node: Any) -> Iterator[Any]:  # noqa: ANN401
    """Give the tensors that an operation changes in place."""
    schema = _schema(node)
    for at, argument in enumerate(schema.arguments if schema is not None else ()):
        if argument.alias_info is not None and argument.alias_info.is_write:
            yield node.args[at] if at < len(node.args) else node.kwargs.get(argument.name)


def _origin(node: Any) -> Any:  # noqa: ANN401
    """Follow views up to the tensor that they show."""
    while any(each.alias_info for each in getattr(_schema(node), "returns", ())):
        node = node.args[0]
    return node


def _schema(node: Any) -> Any:  # noqa: ANN401
    return getattr(getattr(node, "target", None), "_schema", None)


def _spec(name: str, value: Any) -> TensorSpec:  # noqa: ANN401  the library's
    sizes = tuple(size if isinstance(size, int) else -1 for size in value.shape)
    return TensorSpec(name, dtype_of(value), sizes, name)


def _weights(torch: Any, file: Path, options: EngineOptions) -> Module:  # noqa: ANN401
    named, given = options.params[CLASS], options.params.get(ARGUMENTS, {})
    module_name, _, name = str(named).partition(":")
    if not (module_name and name) or not isinstance(given, Mapping):
        raise LoadFailed(f'params.{CLASS}: {named!r} given; expected "module:Class"')
    # Checked before the import, which runs the module's code.
    if not options.allow_python:
        raise LoadFailed(f"params.{CLASS} asks to run the Python code of {named}", PYTHON)
    module = getattr(_imported(module_name, file.parent), name)(**given)
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


def load(file: Path, options: EngineOptions) -> CompiledPrograms:
    """Make the model of a file. See `engines.drivers.LoadDirectory`."""
    driver_params.check_known(options, KNOWN, EXTRA)
    with needed(LIBRARY, EXTRA, file.name):
        import torch
    most = threads()
    torch.set_num_threads(most)
    with reading(NAME, file.name):
        module = read(torch, file, options)
        inputs = _inputs(module, driver_params.specs(options, driver_params.INPUTS))
    outputs = driver_params.specs(options, driver_params.OUTPUTS)
    compute = partial(_compute, torch, module, inputs, list(outputs))
    signature = Signature(SERVING_DEFAULT, inputs, outputs or _tried(compute, inputs))
    refuse_unsupported(options, signature, NAME)
    call = partial(_outputs_of, torch, ChosenThreads(torch, compute, most), signature.outputs)
    # RuntimeError as well: PyTorch raises it where shapes or dtypes of a request do not fit.
    refusals = (ValueError, TypeError, IndexError, AssertionError, RuntimeError)
    made = program(signature, call, options, library=NAME, refusals=refusals)
    state = ", ".join(module.state)
    told = f"; {state} as the file has them, for each request" if state else ""
    return CompiledPrograms([made], runs_on={SERVING_DEFAULT: f"{NAME}{told}"})


def _inputs(module: Module, given: Specs) -> Specs:
    """Give the inputs in the order of the module's arguments."""
    found = given or module.inputs
    if not found:
        listed = ", ".join(f'"{name}": {{"dtype": ..., "shape": ...}}' for name in module.arguments)
        raise LoadFailed(
            f'the file says no dtypes and shapes; say them by params: {{"inputs": {{{listed}}}}}'
        )
    arguments = [name for name in module.arguments if name in found]
    if len(arguments) != len(found) or arguments != list(module.arguments)[: len(found)]:
        raise LoadFailed(
            f"params.inputs: {', '.join(found)} given; the model takes"
            f" {', '.join(module.arguments)}"
        )
    return {name: found[name] for name in arguments}


def _compute(
    torch: TorchLibrary, module: Module, inputs: Specs, outputs: Sequence[str], given: Arrays
) -> dict[str, Any]:
    tensors = [tensor_of(torch, given[name], spec.dtype) for name, spec in inputs.items()]
    with torch.inference_mode():
        try:
            return named(module.call(*tensors), outputs)
        except (RuntimeError, torch.jit.Error) as error:  # the second: the module's own
            # TorchScript prints the path to the operation first, and the cause in the last line.
            raise ValueError(str(error).strip().splitlines()[-1]) from None


def _outputs_of(
    torch: TorchLibrary, compute: TorchCompute, outputs: Specs, given: Arrays
) -> Arrays:
    found = compute(given)
    return {
        name: array_of(torch, found[name]).astype(spec.dtype.numpy, copy=False)
        for name, spec in outputs.items()
    }


def _tried(compute: TorchCompute, inputs: Specs) -> Specs:
    """Describe the outputs by running zeros: output sizes that vary with an open size are open."""
    one, two = (_trial_outputs(compute, inputs, size) for size in (1, 2))
    return {
        name: TensorSpec(name, dtype_of(tensor), _sizes(tensor, two[name]), name)
        for name, tensor in one.items()
    }


def _trial_outputs(compute: TorchCompute, inputs: Specs, size: int) -> dict[str, Any]:
    zeros = {
        name: np.zeros([size if each == -1 else each for each in spec.shape or ()], _numpy(spec))
        for name, spec in inputs.items()
    }
    try:
        return compute(zeros)
    except Exception as error:  # libraries raise what they like
        shapes = ", ".join(f'"{name}" {list(array.shape)}' for name, array in zeros.items())
        raise LoadFailed(
            f"the model fails on zeros of {shapes}: {one_line(error)}; {_advice(inputs)}"
        ) from error


def _advice(inputs: Specs) -> str:
    """Say what helps a model that fails on zeros: its outputs may need none."""
    outputs = "its outputs by params.outputs"
    sizes = "the sizes that it needs by params.inputs"
    is_open = any(-1 in (spec.shape or ()) for spec in inputs.values())
    if not is_open:
        return f"give {outputs}"
    # Zero is no value of many integers, such as sample rates, whatever the sizes.
    has_integers = any(_numpy(spec).kind in "iu" for spec in inputs.values())
    return f"give {outputs}, or {sizes}" if has_integers else f"give {sizes}, or {outputs}"


def _numpy(spec: TensorSpec) -> Any:  # noqa: ANN401  numpy's own type
    if spec.dtype is DataType.STRING:
        raise LoadFailed(f"input {spec}: {NAME} has no tensors of strings: declare a number")
    return spec.dtype.numpy


def _sizes(one: Any, two: Any) -> tuple[int, ...] | None:  # noqa: ANN401
    if one.dim() != two.dim():
        return None
    return tuple(a if a == b else -1 for a, b in zip(one.shape, two.shape, strict=True))


# numpy's names of dtypes are those of `torch.dtype`, too.
_BY_WORD: Mapping[str, DataType] = {
    **{each.numpy.name: each for each in DataType if each.numpy != np.object_},
    "float32": DataType.FP32,
    "bfloat16": DataType.BF16,
}


def dtype_of(tensor: Any) -> DataType:  # noqa: ANN401  the library's
    """Give the element type of a tensor. Raises: LoadFailed, for one that requests cannot carry."""
    word = str(tensor.dtype).removeprefix("torch.")
    if word not in _BY_WORD:
        raise LoadFailed(
            f"the model has a tensor of {word}, which the API cannot carry:"
            " export the model with a cast to another dtype"
        )
    return _BY_WORD[word]


def tensor_of(torch: Any, array: Array, dtype: DataType) -> Any:  # noqa: ANN401
    """Give an array as a tensor that the model may write to."""
    # Arrays of requests are views of their messages, and read-only.
    tensor = torch.from_numpy(array if array.flags.writeable else array.copy())
    return tensor.to(torch.bfloat16) if dtype is DataType.BF16 else tensor


def array_of(torch: Any, tensor: Any) -> Array:  # noqa: ANN401
    """Give a tensor as an array; numpy has no bfloat16, which travels as float32."""
    plain = tensor.float() if tensor.dtype == torch.bfloat16 else tensor
    found: Array = plain.detach().cpu().numpy()
    return found


def named(given: Any, names: Sequence[str] = ()) -> dict[str, Any]:  # noqa: ANN401
    """Name the tensors that a module returns: one, a tuple or list of them, or a dict."""
    if isinstance(given, Mapping):
        return dict(_flat(given))
    tensors = list(given) if isinstance(given, list | tuple) else [given]
    several = [f"{OUTPUT}_{index}" for index in range(len(tensors))]
    aliases = names or (several if isinstance(given, list | tuple) else [OUTPUT])
    found = dict(zip(aliases, tensors, strict=False))
    if len(aliases) != len(tensors):
        raise ValueError(f"expected {len(aliases)} outputs, as declared, got {len(tensors)}")
    return found


def _flat(given: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    for name, tensor in given.items():
        yield str(name), tensor
