"""One model of a chain: it takes the hooks' tensors, and gives tensors that hooks may keep."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from ie_serving.compat.kibernetika.hooks.functions import ANSWERS
from ie_serving.core.values.errors import InvalidRequest, LoadFailed, ServingError
from ie_serving.core.values.fit import ExactShapes, exact, fit, fits, shed
from ie_serving.core.values.tensors import (
    SERVING_DEFAULT,
    Array,
    Arrays,
    Signature,
    Specs,
    TensorSpec,
)
from ie_serving.engines.base import CompiledModel
from ie_serving.engines.kernels import ChainedModel
from ie_serving.engines.python.outputs import array_of

ECHO = "null"
"""kibernetika's driver that gives back whatever it is given."""
PLAIN = "fiub"
"""Kinds of numpy's dtypes whose arrays are tensors as they are: numbers and booleans."""


class LinkedModel:
    """A model, or none where it echoes. Used from one event loop at a time.

    Args of the constructor:
        link: entry of the configuration.
        compiled: computes; None echoes.

    Attributes:
        link: entry of the configuration.
        signature: signature that is called; without inputs and outputs where it echoes.
        shown: signature for clients that no hook stands before: with any number of rows where they
            are run in parts.
    """

    def __init__(self, link: ChainedModel, compiled: CompiledModel | None) -> None:
        self.link = link
        self.compiled = compiled
        self.signature = _signature(link, compiled) if compiled else _ANY
        fixed = self._fixed_rows()
        self._rows = fixed if link.flexible else 0
        self.shown = self._public_signature(fixed) if fixed else self.signature
        self._exact = None if self._rows or link.outputs else _exact(self.signature)

    def start(self, inputs: Mapping[str, Any]) -> Coroutine[Any, Any, dict[str, Array]]:
        """Begin what `infer` does, on the event loop; `fit` is left out where it changes nothing.

        Raises:
            InvalidRequest, ServingError: as `infer`, whose coroutine raises them as well.
        """
        known, compiled = self._exact, self.compiled
        if known is None or compiled is None or len(inputs) != len(known):
            return self.infer(inputs)
        if not fits(inputs, known):
            return self.infer(inputs)
        return compiled.infer(self.signature, inputs, _copies)

    async def infer(self, inputs: Mapping[str, Any], *, whole: bool = False) -> dict[str, Array]:
        """Run it, or echo; outputs are copies.

        Args:
            inputs: values by name; those of a generator run one by one.
            whole: they have as many rows as the model takes.

        Raises:
            InvalidRequest: names, dtypes or shapes do not fit.
            ServingError: it failed.
        """
        if ANSWERS in inputs:
            outputs = await asyncio.gather(*(self.infer(each) for each in inputs[ANSWERS]))
            return {ANSWERS: cast("Array", outputs)}
        arrays = arrays_of(inputs, plain)
        if self.compiled is None:
            return arrays
        if self._rows and not whole:
            return await self._in_parts(arrays)
        if arrays.keys() != self.signature.inputs.keys():
            arrays = _by_input_name(arrays, [*self.signature.inputs])
        fitted, added = fit(self.signature, arrays)
        found = await self.compiled.infer(self.signature, fitted, _copies)
        if added:
            found = NumberedOutputs(shed(found, added))
        wanted = self.link.outputs
        return {name: found[name] for name in wanted} if wanted else found

    def close(self) -> None:
        """Free the model."""
        if self.compiled is not None:
            self.compiled.close()

    def _fixed_rows(self) -> int:
        """Give the batch that all inputs have; 0 where it is open, or they have none."""
        sizes = {spec.shape[0] if spec.shape else -1 for spec in self.signature.inputs.values()}
        size = sizes.pop() if len(sizes) == 1 else -1
        return max(size, 0)

    def _public_signature(self, rows: int) -> Signature:
        own = self.signature
        if not self._rows:
            told = {name: replace(spec, advice=_ADVICE) for name, spec in own.inputs.items()}
            return replace(own, inputs=told)
        inputs, outputs = (_any_rows(specs, rows) for specs in (own.inputs, own.outputs))
        return replace(own, inputs=inputs, outputs=outputs)

    async def _in_parts(self, arrays: Arrays) -> dict[str, Array]:
        """Run a request of any number of rows, as many at a time as the model takes."""
        rows = self._rows
        counts = {len(array) if array.ndim else 0 for array in arrays.values()}
        count = counts.pop() if len(counts) == 1 else 0
        if count in (0, rows):  # what does not fit, `fit` refuses
            return await self.infer(arrays, whole=True)
        parts = [
            {name: _filled(array[at : at + rows], rows) for name, array in arrays.items()}
            for at in range(0, count, rows)
        ]
        found = await asyncio.gather(*(self.infer(part, whole=True) for part in parts))
        return {name: self._stacked(name, found, rows)[:count] for name in found[0]}

    def _stacked(self, name: str, found: Sequence[Arrays], rows: int) -> Array:
        if any(part[name].shape[:1] != (rows,) for part in found):
            raise ServingError(
                f'output "{name}" of {self.link.path} has no row for each of the {rows} rows of its'
                " input: flexible_batch_size cannot put it together; send as many rows as the model"
                " takes"
            )
        return np.concatenate([part[name] for part in found])


_ADVICE = "; the option flexible_batch_size=true takes any number of rows"


def _any_rows(specs: Specs, rows: int) -> dict[str, TensorSpec]:
    return {
        name: replace(spec, shape=(-1, *spec.shape[1:]))
        if spec.shape and spec.shape[0] == rows
        else spec
        for name, spec in specs.items()
    }


_ANY = Signature(SERVING_DEFAULT, {}, {}, is_open=True)


def _signature(link: ChainedModel, compiled: CompiledModel) -> Signature:
    served = {n: each for n, each in compiled.signatures.items() if not each.left_out}
    name = link.signature or SERVING_DEFAULT
    if not link.signature and len(served) == 1:
        (name,) = served
    if name not in served:
        raise LoadFailed(
            f'{link.path} has no signature "{name}"; it has {", ".join(sorted(served)) or "none"}:'
            " name one of them by model_signature"
        )
    unknown = [each for each in link.outputs if each not in served[name].outputs]
    if unknown:
        known = ", ".join(served[name].outputs)
        raise LoadFailed(f"{link.path} has no output {', '.join(unknown)}; it has {known}")
    return served[name]


def _exact(signature: Signature) -> ExactShapes | None:
    """Give `fit.exact` of a model of numbers alone, each input with its name."""
    if any(spec.dtype.numpy.kind not in PLAIN for spec in signature.inputs.values()):
        return None
    return exact(signature)


def arrays_of(values: Mapping[Any, Any], convert: Callable[[object], Array]) -> dict[str, Array]:
    """Give the values that hooks returned as arrays; `convert` makes those that are not numeric.

    Raises:
        InvalidRequest: something is no tensor.
    """
    found: dict[str, Array] = {}
    for name, each in values.items():
        is_plain = type(each) is np.ndarray and each.dtype.kind in PLAIN
        found[str(name)] = each if is_plain else convert(each)
    return found


def plain(value: object) -> Array:
    """Give a hook's returned value as an array.

    Raises:
        InvalidRequest: it is none.
    """
    if type(value) is np.ndarray and value.dtype.kind not in "USVO":
        array: Array = value
    else:
        array = _converted(value)
    if array.dtype.kind in "cmMV":
        raise InvalidRequest(
            f"{array.dtype} is no dtype of a tensor; convert it to numbers or text"
        )
    return array


def _converted(value: object) -> Array:
    try:
        return array_of(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidRequest(
            f"a {type(value).__name__} is no tensor: {error}; expected an array, or lists of"
            " numbers or texts, all of one length"
        ) from error


# Hooks may keep and change them; the infer request, in whose memory they lie, goes on.
def _copies(outputs: Arrays) -> dict[str, Array]:
    return NumberedOutputs([(name, array.copy()) for name, array in outputs.items()])


class NumberedOutputs(dict[str, Array]):
    """Outputs by name; hooks for PyTorch and TensorFlow Lite ask for the first as 0 or "0"."""

    def __missing__(self, key: object) -> Array:
        text = str(key)
        if text.isdecimal() and int(text) < len(self):
            return list(self.values())[int(text)]
        raise KeyError(key)


def _by_input_name(arrays: dict[str, Array], names: Sequence[str]) -> dict[str, Array]:
    """Give inputs their names where all have numbers instead, which no input is called."""
    numbers = {str(at): name for at, name in enumerate(names)}
    if arrays.keys() & set(names) or not arrays.keys() <= numbers.keys():
        return arrays
    return {numbers[number]: array for number, array in arrays.items()}


def _filled(array: Array, rows: int) -> Array:
    """Repeat the last row until there are as many as the model takes."""
    lacking = rows - len(array)
    return np.concatenate([array, array[-1:].repeat(lacking, 0)]) if lacking else array
