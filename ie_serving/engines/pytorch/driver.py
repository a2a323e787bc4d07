"""Serves TorchScript (`*.pt`), `torch.export` (`*.pt2`), and weights with a class (`params`)."""

import hashlib
import importlib
import inspect
import re
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from itertools import takewhile
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
TRIALS = ((1, 1, 0), (3, 65, 1), (2, 2, 2), (1, 1, 1), (2, 2, 0), (3, 65, 0), (2, 512, 1))
"""What a model is tried with: size of an input's first open dimension, of the others, and values of
integers. The first two that it takes tell its outputs; most models take the first two here."""
ENOUGH = 2
ADVICE: Mapping[str, str] = {
    r"Unknown builtin op: (\w+)::": "install the package {0} in the build for this PyTorch,"
    " or export without it",
    r"required keyword attribute 'value'": "`optimize_for_inference` makes files that PyTorch"
    " cannot read: save the module as it was before",
}
"""What helps against an error of `torch.jit.load`."""
OPERATIONS = ("torchvision", "torchaudio", "fbgemm_gpu")
"""Packages of operations for TorchScript that are imported for a file that needs them."""

Arrangement = str | list["Arrangement"] | tuple["Arrangement", ...] | dict[str, "Arrangement"]
"""The value of an argument: the name of an input, or a structure of them."""


@dataclass(frozen=True)
class Module:
    """A loaded module.

    Attributes:
        call: takes tensors in the order of `arguments`, or by name.
        arguments: the arguments, each with its type, where the file has that.
        inputs: specs of the arguments, if the file has them.
        state: names of attributes that a call changes; each call has its own then.
        derives: whether a call computes derivatives, such as forces from an energy.
    """

    call: Callable[..., Any]
    arguments: Mapping[str, Any]
    inputs: Specs = field(default_factory=dict)
    state: Sequence[str] = ()
    derives: bool = False


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
    return _script(torch, file)


def _script(torch: Any, file: Path) -> Module:  # noqa: ANN401  the library's
    script = _loaded(torch, file).eval()
    if not hasattr(script, "forward"):
        methods = ", ".join(script._c._method_names()) or "none"
        raise LoadFailed(
            f"{file.name} has no method forward; it has {methods}: export a module whose forward"
            " calls what is to be served"
        )
    _place_on_cpu(torch, script)
    frozen = _frozen(torch, script)
    state = _changed(frozen)
    call = isolated(torch, script, state) if state else script
    arguments = {each.name: each for each in script.forward.schema.arguments[1:]}
    derives = bool((frozen or script.inlined_graph).findAllNodes("aten::grad", True))
    return Module(call, arguments, state=state, derives=derives)


def _loaded(torch: Any, file: Path) -> Any:  # noqa: ANN401
    """Load a file; where it needs operations of a package that is installed, import that first."""
    try:
        return torch.jit.load(str(file), map_location="cpu")
    except RuntimeError as error:
        found = next((each for text in ADVICE if (each := re.search(text, str(error)))), None)
        if found is None:
            raise
        if found.groups() and found[1] in OPERATIONS:
            with suppress(Exception):  # of another build, it raises what it likes
                importlib.import_module(found[1])
                return torch.jit.load(str(file), map_location="cpu")
        advice = ADVICE[found.re.pattern].format(*found.groups())
        cause = one_line(str(error)[found.start() :].strip().splitlines()[0])
        raise LoadFailed(f"{file.name} cannot be read by {NAME}: {cause}: {advice}") from error


def _place_on_cpu(torch: Any, script: Any) -> None:  # noqa: ANN401
    """Make on the CPU what a module makes on a GPU, since it was traced there."""
    graph = script.forward.graph
    if "cuda" in str(script.inlined_graph):
        torch._C._jit_pass_inline(graph)
    for node in graph.findAllNodes("prim::Constant", True):
        if node.output().type().kind() == "DeviceObjType":
            node.s_("value", "cpu")


def _frozen(torch: Any, script: Any) -> Any:  # noqa: ANN401
    """Give the graph of a module whose attributes are constants, except for those that it changes.

    Returns:
        None where PyTorch cannot tell.
    """
    try:
        return torch.jit.freeze(script, optimize_numerics=False).graph
    except RuntimeError:
        return None


def _changed(frozen: Any) -> Sequence[str]:  # noqa: ANN401
    """Name the attributes that a TorchScript module sets, or changes in place, also by a view.

    Frozen, a module has no other attributes, and no branches for training.
    """
    if frozen is None:  # so any attribute may be
        return ["attributes"]
    held = [n for n in frozen.findAllNodes("prim::GetAttr", True) if not _is_module(n.output())]
    return sorted({node.s("name") for node in held})


def _is_module(value: Any) -> bool:  # noqa: ANN401
    return bool(value.type().kind() == "ClassType")


def _is_script(file: Path) -> bool:
    if not zipfile.is_zipfile(file):
        return False
    # Weights are a zip file as well, but only TorchScript's contains constants.
    with zipfile.ZipFile(file) as opened:
        names = opened.namelist()
    if any(name.endswith("/.data/extern_modules") for name in names):
        raise LoadFailed(
            f"{file.name} is made by torch.package and holds Python code, which is not run: open it"
            " by torch.package.PackageImporter, and save its module by torch.jit or torch.export"
        )
    return any(name.endswith("/constants.pkl") for name in names)


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
    given = program.graph_signature.user_inputs
    nodes = {node.name: node.meta["val"] for node in program.graph.nodes if node.name in given}
    # Others are values with which the program was exported, such as numbers.
    names = dict.fromkeys(each for each in given if isinstance(each, str) and each in nodes)
    specs = {name: _spec(name, nodes[name]) for name in names}
    buffers = program.graph_signature.inputs_to_buffers
    # A program is exported with its operations in place.
    written = (_origin(each) for node in program.graph.nodes for each in _written(node))
    state = sorted({buffers[str(each)] for each in written if str(each) in buffers})
    module = program.module()
    called = isolated(torch, module, state) if state else module

    def call(*tensors: Any) -> Any:  # noqa: ANN401
        """Give the module its arguments in the structure of the export, keywords among them."""
        left = iter(tensors)
        leaves = [next(left) if each in names else each for each in given]
        places, keywords = torch.utils._pytree.tree_unflatten(leaves, program.call_spec.in_spec)
        return called(*places, **keywords)

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
    return Module(module.eval(), dict.fromkeys(inspect.signature(module.forward).parameters))


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
        arguments = _arranged(module, inputs)
    outputs = driver_params.specs(options, driver_params.OUTPUTS)
    compute = partial(_compute, torch, module, inputs, arguments, list(outputs))
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
    for name, spec in found.items():
        kind = module.arguments.get(name)
        if spec.dtype is DataType.STRING and not (kind and "str" in str(kind.type)):
            raise LoadFailed(f"input {spec}: {NAME} has no tensors of strings: declare a number")
    order = list(module.arguments)
    return dict(
        sorted(found.items(), key=lambda each: order.index(each[0]) if each[0] in order else 0)
    )


def _arranged(module: Module, inputs: Specs) -> Mapping[str, Arrangement]:
    """Tell which inputs each argument is made of: itself, or those of its tuple, list or dict."""
    made = {}
    for name, argument in module.arguments.items():
        kind = getattr(argument, "type", None)
        is_whole = name in inputs and not _is_structure(kind)
        found = name if is_whole else _structure(kind, name, inputs)
        if found is not None:
            made[name] = found
    missing = [
        name
        for name, argument in module.arguments.items()
        if name not in made and argument is not None and not argument.has_default_value()
    ]
    if missing or {*inputs} != {*_names(list(made.values()))}:
        raise LoadFailed(
            f"params.inputs: {', '.join(inputs)} given; the model takes"
            f" {', '.join(map(_told, module.arguments.items()))}"
        )
    return made


def _is_structure(kind: Any) -> bool:  # noqa: ANN401
    # One tensor is taken for a tuple of its rows.
    return any(each in getattr(kind, "annotation_str", "") for each in ("Dict[", "List[Tensor"))


def _structure(kind: Any, name: str, inputs: Specs) -> Arrangement | None:  # noqa: ANN401
    """Find the inputs of a structure, whose names begin with the argument's, as outputs' do."""
    if kind is None:
        return None
    if kind.kind() == "OptionalType":
        return _structure(kind.getElementType(), name, inputs)
    if kind.kind() == "DictType":
        parts = [each for each in inputs if each.startswith(f"{name}_")]
        return {each.removeprefix(f"{name}_"): each for each in parts} or None
    if kind.kind() not in ("TupleType", "ListType"):
        return None
    found: list[Arrangement] = []
    elements = kind.elements() if kind.kind() == "TupleType" else None
    while elements is None or len(found) < len(elements):
        part = f"{name}_{len(found)}"
        inner = kind.getElementType() if elements is None else elements[len(found)]
        made = part if part in inputs else _structure(inner, part, inputs)
        if made is None:
            break
        found.append(made)
    return (tuple(found) if elements is not None else found) or None


def _names(arrangement: Arrangement) -> Iterator[str]:
    if isinstance(arrangement, str):
        yield arrangement
    else:
        inner = arrangement.values() if isinstance(arrangement, dict) else arrangement
        for each in inner:
            yield from _names(each)


def _told(argument: tuple[str, Any]) -> str:
    name, found = argument
    parts = {
        "DictType": f" by inputs {name}_KEY",
        "TupleType": f" by inputs {name}_0, {name}_1 ...",
    }
    parts["ListType"] = parts["TupleType"]
    kind = found.type if found is not None else None
    if kind is None or kind.kind() == "TensorType":
        return name
    return f"{name} ({kind.annotation_str}{parts.get(kind.kind(), '')})"


def _filled(arrangement: Arrangement, given: Mapping[str, Any]) -> Any:  # noqa: ANN401
    if isinstance(arrangement, str):
        return given[arrangement]
    if isinstance(arrangement, dict):
        return {key: _filled(each, given) for key, each in arrangement.items()}
    return type(arrangement)(_filled(each, given) for each in arrangement)


def _compute(
    torch: TorchLibrary,
    module: Module,
    inputs: Specs,
    arranged: Mapping[str, Arrangement],
    outputs: Sequence[str],
    given: Arrays,
) -> dict[str, Any]:
    values = {
        name: value_of(torch, given[name], spec.dtype, module.arguments.get(name))
        for name, spec in inputs.items()
    }
    filled = {name: _filled(each, values) for name, each in arranged.items()}
    # An exported program takes its arguments by place; others may leave out an optional one.
    places = takewhile(filled.__contains__, module.arguments)
    by_place = [filled.pop(name) for name in places]
    with torch.enable_grad() if module.derives else torch.inference_mode():
        try:
            return named(torch, module.call(*by_place, **filled), outputs)
        except (RuntimeError, torch.jit.Error) as error:  # the second: the module's own
            raise ValueError(_cause(error)) from None


def _cause(error: Exception) -> str:
    """Give the line with the cause: TorchScript prints the path to the operation first."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    raised = [each for each in lines if re.match(r"[\w.]*(Error|Exception): ", each)]
    is_call = lines[0].startswith("forward() ")
    return lines[0] if is_call else raised[-1] if raised else lines[-1]


def _outputs_of(
    torch: TorchLibrary, compute: TorchCompute, outputs: Specs, given: Arrays
) -> Arrays:
    found = compute(given)
    if not outputs.keys() <= found.keys():
        raise ValueError(f"the model gives {', '.join(found)}, and not {', '.join(outputs)}")
    return {
        name: array_of(torch, found[name]).astype(spec.dtype.numpy, copy=False)
        for name, spec in outputs.items()
    }


def _tried(compute: TorchCompute, inputs: Specs) -> Specs:
    """Describe the outputs by trials: sizes that differ between them are open."""
    is_open = _is_open(inputs)
    found: dict[Any, dict[str, Any]] = {}
    failures: list[LoadFailed] = []
    for trial in TRIALS:
        try:
            if (other := trial[:2] if is_open else trial[2]) not in found:
                found[other] = _trial_outputs(compute, inputs, *trial)
        except LoadFailed as failure:
            failures.append(failure)
        if len(found) == ENOUGH:
            break
    if not found:
        raise failures[0]
    one, *others = found.values()
    two = others[0] if others else one
    if one.keys() != two.keys():
        raise LoadFailed(
            f"the model gives the outputs {', '.join(one)} or {', '.join(two)}, as its inputs are:"
            " give them fixed sizes by params.inputs, or export it with one tensor of all"
        )
    is_open = is_open and len(found) < ENOUGH
    return {
        name: TensorSpec(name, dtype_of(tensor), _sizes(tensor, two[name], is_open), name)
        for name, tensor in one.items()
    }


def _is_open(inputs: Specs) -> bool:
    return any(spec.shape is None or -1 in spec.shape for spec in inputs.values())


def _trial_outputs(
    compute: TorchCompute, inputs: Specs, first: int, other: int, value: int
) -> dict[str, Any]:
    arrays = {name: _trial_array(spec, first, other, value) for name, spec in inputs.items()}
    try:
        return compute(arrays)
    except Exception as error:  # libraries raise what they like
        shapes = ", ".join(f'"{name}" {list(array.shape)}' for name, array in arrays.items())
        raise LoadFailed(
            f"the model fails on zeros of {shapes}: {one_line(error)}; {_advice(inputs)}"
        ) from error


def _trial_array(spec: TensorSpec, first: int, other: int, value: int) -> Array:
    shape = list(spec.shape or ())
    for at in [at for at, size in enumerate(shape) if size == -1]:
        shape[at], first = first, other
    if spec.dtype is DataType.STRING:
        return np.full(shape, b"", np.object_)
    array: Array = np.full(shape, value, spec.dtype.numpy)
    if array.dtype.kind != "f" or not value:
        return array
    # Sizes that depend on values, such as the number of boxes, differ from those of zeros.
    return np.linspace(-1, 1, array.size).reshape(shape).astype(array.dtype)


def _advice(inputs: Specs) -> str:
    """Say what helps a model that fails on zeros: its outputs may need none."""
    outputs = "its outputs by params.outputs"
    sizes = "the sizes that it needs by params.inputs"
    if not _is_open(inputs):
        return f"give {outputs}"
    # Zero is no value of many integers, such as sample rates, whatever the sizes.
    has_integers = any(spec.dtype.numpy.kind in "iu" for spec in inputs.values())
    return f"give {outputs}, or {sizes}" if has_integers else f"give {sizes}, or {outputs}"


def _sizes(one: Any, two: Any, is_open: bool) -> tuple[int, ...] | None:  # noqa: ANN401
    if len(one.shape) != len(two.shape):
        return None
    sizes = zip(one.shape, two.shape, strict=True)
    return tuple(a if a == b and not is_open else -1 for a, b in sizes)


# numpy's names of dtypes are those of `torch.dtype`, too.
_BY_WORD: Mapping[str, DataType] = {
    **{each.numpy.name: each for each in DataType if each.numpy != np.object_},
    "float32": DataType.FP32,
    "bfloat16": DataType.BF16,
    "object": DataType.STRING,
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


def value_of(torch: Any, array: Array, dtype: DataType, argument: Any) -> Any:  # noqa: ANN401
    """Give an array as a tensor that the model may write to, or as texts or numbers of a list."""
    if dtype is DataType.STRING:
        texts = [each.decode() for each in array.ravel()]
        return texts if argument.type.kind() == "ListType" else texts[0]
    if "List[" in str(getattr(argument, "type", "")):
        return array.tolist()
    tensor = torch.tensor(array)
    return tensor.to(torch.bfloat16) if dtype is DataType.BF16 else tensor


def array_of(torch: Any, tensor: Any) -> Array:  # noqa: ANN401
    """Give a tensor as an array; numpy has no bfloat16, which travels as float32."""
    if isinstance(tensor, np.ndarray):
        return tensor
    plain = tensor.float() if tensor.dtype == torch.bfloat16 else tensor
    found: Array = plain.detach().cpu().numpy()
    return found


def named(torch: Any, given: Any, names: Sequence[str] = ()) -> dict[str, Any]:  # noqa: ANN401
    """Name what a module returns: one tensor or number, or a structure of them.

    Args:
        torch: the library.
        given: what the module returns.
        names: names of the outputs in their order, instead of those that the structure gives.
    """
    found = dict(_leaves(torch, given, "" if isinstance(given, Mapping) else OUTPUT))
    if not names or isinstance(given, Mapping):
        return found
    if len(names) != len(found):
        raise ValueError(f"expected {len(names)} outputs, as declared, got {len(found)}")
    return dict(zip(names, found.values(), strict=True))


def _leaves(torch: Any, given: Any, name: str) -> Iterator[tuple[str, Any]]:  # noqa: ANN401
    if given is None:
        return
    if isinstance(given, torch.Tensor):
        yield name, _dense(torch, given)
    elif isinstance(given, str) or (
        isinstance(given, list) and given and isinstance(given[0], str)
    ):
        yield name, np.vectorize(str.encode, otypes=[object])(given)
    elif isinstance(given, int | float) or (
        isinstance(given, list) and given and isinstance(given[0], int | float)
    ):
        # Numbers of TorchScript have 64 bits.
        yield name, torch.from_numpy(np.asarray(given))
    else:
        parts = given.items() if isinstance(given, Mapping) else enumerate(given)
        for key, each in parts:
            yield from _leaves(torch, each, f"{name}_{key}" if name else str(key))


def _dense(torch: Any, tensor: Any) -> Any:  # noqa: ANN401
    plain = tensor.dequantize() if tensor.is_quantized else tensor
    plain = plain if plain.layout is torch.strided else plain.to_dense()
    return plain.resolve_conj().resolve_neg()
