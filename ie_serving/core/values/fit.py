"""Checks arrays against a signature: names, dtypes and shapes; casts if no value is lost.

Clients of 2020 send float64 and uint8 arrays to FP32 models to save work and bytes, so a numeric
array of another dtype is cast if its values change by no more than rounding. TensorFlow Serving
refuses those; no dtype that it accepts is refused here.

TensorFlow runs a graph on any rank that its operations take: an input declared as `(-1, 1)` may be
sent as `(n)`, and elementwise outputs then have that shape too. `fit` supports the one case that
clients rely on, missing trailing dimensions that are declared as 1, and all dimensions of a scalar:
it adds them, and `shed` removes as many from the outputs.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from ie_serving.core.values.errors import InvalidRequest, InvalidTensor, advised
from ie_serving.core.values.tensors import BY_NUMPY, Array, Arrays, Signature, TensorSpec

ARRAY = np.ndarray


def fit(signature: Signature, inputs: Arrays) -> tuple[Arrays, int]:
    """Check all inputs of one request.

    Args:
        signature: defines the expected inputs.
        inputs: arrays by alias.

    Returns:
        Arrays of exactly the signature's dtypes and permitted shapes (the same mapping if nothing
        had to be changed), and how many trailing dimensions of size 1 were added.

    Raises:
        InvalidRequest: an input is missing, misnamed or superfluous.
        InvalidTensor: a dtype or shape that the model cannot take.
    """
    specs = signature.inputs
    # Checked here, not in `_completed`, which saves every small request a call.
    if inputs.keys() != specs.keys():
        if signature.is_open and not specs:  # as `takes_any`, without the call
            return inputs, 0
        inputs = _completed(signature, inputs)
    changed: dict[str, Array] = {}  # mostly stays empty, which saves a copy of the dict
    added = 0
    for index, (name, spec) in enumerate(specs.items()):
        given = inputs[name]
        array = given if given.dtype == spec.dtype.numpy else cast(given, spec, index)
        if not admits(spec.shape, array.shape):
            array = _with_trailing_ones(array, spec)
            added = max(added, 0 if spec.apart else array.ndim - given.ndim)
        if array is not given:
            changed[name] = array
    return ({**inputs, **changed} if changed else inputs), added


ExactShapes = Sequence[tuple[str, "np.dtype[np.generic]", tuple[int, ...], tuple[int, ...] | None]]
"""Name of each input, its dtype, its shape, and, if the first dimension is open, the shape without
that."""


def exact(signature: Signature) -> ExactShapes | None:
    """Return the table by which `fits` recognises arrays that need no change.

    Returns:
        None if an input has no exact shape: any shape, other open dimensions, or encoded images.
    """
    found = []
    for name, spec in signature.inputs.items():
        shape = spec.shape
        if shape is None or -1 in shape[1:] or spec.image:
            return None
        found.append((name, spec.dtype.numpy, shape, shape[1:] if -1 in shape else None))
    return found


def fits(inputs: Mapping[str, object], known: ExactShapes) -> bool:
    """Return whether arrays need no `fit`: each exists, with its dtype and a permitted shape."""
    for name, dtype, whole, tail in known:
        array = inputs.get(name)
        if type(array) is not ARRAY or array.dtype is not dtype:
            return False
        shape = array.shape
        if shape != whole and (shape[1:] != tail or not shape):
            return False
    return True


def shed(outputs: Arrays, added: int) -> Arrays:
    """Remove `added` trailing dimensions from each output that has that many of size 1."""
    ones = (1,) * added
    return {
        name: array.reshape(array.shape[:-added]) if array.shape[-added:] == ones else array
        for name, array in outputs.items()
    }


def have_dtypes(signature: Signature, inputs: Arrays) -> bool:
    """Return whether the inputs are exactly the signature's, in its dtypes."""
    specs = signature.inputs
    return inputs.keys() == specs.keys() and all(
        array.dtype == specs[name].dtype.numpy for name, array in inputs.items()
    )


def cast_all(signature: Signature, inputs: Arrays) -> dict[str, Array]:
    """Cast all inputs to the signature's dtypes, the part of `fit` that is slow for large ones.

    Raises:
        InvalidRequest, InvalidTensor: as `fit`.
    """
    if signature.takes_any:
        return dict(inputs)
    inputs = _completed(signature, inputs)
    return {
        name: inputs[name]
        if inputs[name].dtype == spec.dtype.numpy
        else cast(inputs[name], spec, index)
        for index, (name, spec) in enumerate(signature.inputs.items())
    }


def cast(array: Array, spec: TensorSpec, index: int) -> Array:
    """Cast `array` to the dtype of `spec`.

    Args:
        array: array of another dtype.
        spec: spec of its input.
        index: the input's position, for the error text.

    Returns:
        A new array; encoded images unchanged, if the input takes them, and of an untyped input any.

    Raises:
        InvalidTensor: the kinds of dtypes do not match, or a value would be lost.
    """
    if array.dtype.kind == "O" and spec.image:  # encoded images, which the model decodes itself
        return array
    if spec.untyped:
        return array
    if not castable(array.dtype, spec.dtype.numpy):
        raise InvalidTensor(_wrong_dtype(array, spec, index))
    with np.errstate(over="ignore", invalid="ignore"):  # `_survived` checks what they warn of
        result = array.astype(spec.dtype.numpy)
    if array.size and not _survived(array, result):
        raise InvalidTensor(
            f'input "{spec.name}" holds {_word(array)} values outside the range of'
            f" {spec.dtype.word}, which the model expects: scale them or send values in range"
        )
    return result


def admits(wanted: tuple[int, ...] | None, given: tuple[int, ...]) -> bool:
    """Return whether an array of shape `given` fits a spec's shape."""
    if wanted is None or wanted == given:
        return True
    if len(given) != len(wanted):
        return False
    if given[1:] == wanted[1:]:  # in most models only the batch dimension is open
        return wanted[0] == -1
    for want, got in zip(wanted, given, strict=True):  # noqa: SIM110  a generator costs more
        if want != got and want != -1:
            return False
    return True


# Fractions cannot become integers, since rounding would hide a client's mistake; and a boolean is
# no number, though numpy would take it as 0 or 1.
def castable(given: np.dtype[np.generic], wanted: np.dtype[np.generic]) -> bool:
    """Return whether arrays of one dtype may be cast to another, if their values permit."""
    if wanted.kind == "f":
        return given.kind in "fiu"
    return wanted.kind in "iu" and given.kind in "iu"


def _wrong_dtype(array: Array, spec: TensorSpec, index: int) -> str:
    """Describe the fault in TensorFlow's phrase."""
    return advised(
        f"Expects arg[{index}] to be {spec.dtype.word} but {_word(array)} is provided",
        f': input {spec} takes numbers of its own kind only; cast "{spec.name}" before sending it',
    )


def _survived(before: Array, after: Array) -> bool:
    """Return whether a cast lost no more than rounding does."""
    if after.dtype.kind == "f":
        return bool(np.array_equal(np.isfinite(before), np.isfinite(after)))
    # Compared as Python's integers: numpy compares int64 with uint64 as doubles, which round.
    bounds = np.iinfo(after.dtype)
    return bool(int(before.min()) >= bounds.min and int(before.max()) <= bounds.max)


def _word(array: Array) -> str:
    dtype = BY_NUMPY.get(array.dtype)
    return dtype.word if dtype else str(array.dtype)


def _with_trailing_ones(array: Array, spec: TensorSpec) -> Array:
    if array.dtype.kind == "O" and spec.image:
        return array
    wanted = spec.shape or ()
    ones = (1,) * (len(wanted) - array.ndim)
    # If an open dimension is missing, it could as well be the batch; a scalar is the exception,
    # since none of its dimensions can be mistaken for another.
    declared = not array.ndim or wanted[array.ndim :] == ones
    if ones and declared and admits(wanted, array.shape + ones):
        return array.reshape(array.shape + ones)
    raise InvalidTensor(_wrong_shape(array, spec))


def _wrong_shape(array: Array, spec: TensorSpec) -> str:
    """Name the fault in the phrases of `ie_serving` 2020, then say what the model takes."""
    got, wanted = list(array.shape), list(spec.shape or ())
    if got and wanted and got[1:] == wanted[1:]:
        start = (
            f"Input batch size is incorrect. Obtained batch size {got[0]},"
            f" required batch size {wanted[0]}"
        )
    else:
        start = f"The input data is incorrect. Obtained shape {got}, required shape {wanted}"
    any_size = ", where -1 takes any size" if -1 in wanted else ""
    return f"{start}: the model expects input {spec}{any_size}{spec.advice}"


def _completed(signature: Signature, inputs: Arrays) -> Arrays:
    """Add the defaults of omitted inputs; refuse any other mismatch of names."""
    if signature.defaults:
        inputs = {**signature.defaults, **inputs}
    if inputs.keys() != signature.inputs.keys():
        inputs = {name: each for name, each in inputs.items() if name not in signature.ignored}
        if inputs.keys() != signature.inputs.keys():
            raise InvalidRequest(_wrong_names(signature, inputs))
    return inputs


def _wrong_names(signature: Signature, inputs: Arrays) -> str:
    """Name every missing, extra and misnamed input at once, in TensorFlow Serving's phrase."""
    sent, wanted = sorted(inputs), sorted(signature.inputs)
    extra = [name for name in sent if name not in signature.inputs]
    missing = [name for name in wanted if name not in inputs]
    expected = "; ".join(str(spec) for _, spec in sorted(signature.inputs.items()))
    return advised(
        f"input size does not match signature: {len(sent)}!={len(wanted)}"
        f" len({{{','.join(sent)}}}) != len({{{','.join(wanted)}}})."
        f" Sent extra: {{{','.join(extra)}}}. Missing but required: {{{','.join(missing)}}}.",
        f" The model expects: {expected}",
    )
