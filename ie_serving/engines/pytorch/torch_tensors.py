"""Arrays to PyTorch's tensors and back, and what a module gives as named outputs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import Array, DataType

OUTPUT = "output"
"""Name of the only output; several are `output_0`, `output_1` and so on, or named by a dict."""

# The words of numpy are those of `torch.dtype`, too.
_BY_WORD: Mapping[str, DataType] = {
    **{each.numpy.name: each for each in DataType if each.numpy != np.object_},
    "float32": DataType.FP32,
    "bfloat16": DataType.BF16,
}


def dtype_of(tensor: Any) -> DataType:  # noqa: ANN401  the library's
    """Tell the element type of a tensor. Raises: LoadFailed, for one that no request carries."""
    word = str(tensor.dtype).removeprefix("torch.")
    if word not in _BY_WORD:
        raise LoadFailed(f"the model has a tensor of {word}, which the API cannot carry")
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
        raise ValueError(f"{len(tensors)} outputs, where {len(aliases)} are declared")
    return found


def _flat(given: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    for name, tensor in given.items():
        yield str(name), tensor
