"""What the configuration of Triton declares of a model's tensors, compared with the model itself.

Source: `ValidateInputs`, `ValidateOutputs` and `CompareDimsSupported` of Triton's backends, which
refuse the model for the same differences.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from ie_serving.core.values.errors import VersionHeldBack
from ie_serving.core.values.tensors import SERVING_DEFAULT, Signature, Specs, TensorSpec
from ie_serving.engines.base import CompiledModel, EngineOptions
from ie_serving.engines.layer_options import DeclaredTensor, DeclaredTensors

OPEN: Final = -1


def as_declared(
    compiled: CompiledModel, _: Path, _options: EngineOptions, *, declared: DeclaredTensors
) -> CompiledModel:
    """Refuse a model that is not as declared. Raises: VersionHeldBack, with every difference."""
    if found := list(differences(declared, compiled.signatures)):
        raise VersionHeldBack(
            f"{declared.file} is not about this model: {'; '.join(found)}: correct the file, or"
            " leave out what it declares"
        )
    return compiled


def differences(declared: DeclaredTensors, signatures: Mapping[str, Signature]) -> Iterator[str]:
    """Yield each difference of the declaration from the model."""
    signature = signatures.get(SERVING_DEFAULT)
    if signature is None or signature.left_out:
        return
    inputs = {name: spec for name, spec in signature.inputs.items() if not spec.apart}
    if declared.inputs and len(declared.inputs) != len(inputs):
        known = ", ".join(map(str, inputs.values()))
        yield f"{len(declared.inputs)} inputs are declared, the model has {len(inputs)}: {known}"
    yield from _of_each("input", declared.inputs, inputs, declared.max_batch_size)
    yield from _of_each("output", declared.outputs, signature.outputs, declared.max_batch_size)
    if declared.max_batch_size:
        for spec in inputs.values():
            if spec.shape is not None and spec.shape[:1] != (OPEN,):
                yield (
                    f"max_batch_size {declared.max_batch_size} needs a first dimension of any size,"
                    f" and the model has input {spec}"
                )


def _of_each(
    what: str, declared: tuple[DeclaredTensor, ...], specs: Specs, max_batch_size: int
) -> Iterator[str]:
    for each in declared:
        spec = specs.get(each.name)
        if spec is None:
            yield f'unexpected {what} "{each.name}": the model has {", ".join(specs)}'
            continue
        if spec.untyped:
            continue
        if each.dtype is not None and each.dtype is not spec.dtype:
            given, own = each.dtype.name, spec.dtype.name
            yield f'{what} "{each.name}" has data_type TYPE_{given}, the model has TYPE_{own}'
        shape = _full_shape(each, max_batch_size)
        if shape is not None and not _fits(shape, spec):
            batch = " with the batch before dims" if max_batch_size else ""
            yield f'{what} "{each.name}" has the shape {shape}{batch}, the model has {spec}'


def _full_shape(tensor: DeclaredTensor, max_batch_size: int) -> tuple[int, ...] | None:
    if tensor.dims is None:
        return None
    return (OPEN, *tensor.dims) if max_batch_size else tensor.dims


def _fits(shape: tuple[int, ...], spec: TensorSpec) -> bool:
    """Tell whether a shape is the model's, whose open dimensions may be declared with any size."""
    if spec.shape is None:
        return True
    if len(shape) != len(spec.shape):
        return False
    return all(size in (OPEN, given) for given, size in zip(shape, spec.shape, strict=True))
