"""Runs a signature whose model computes only a part, and answers the rest around the model."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from ie_serving.core.runtime.threads import in_thread
from ie_serving.core.values.errors import ServingError
from ie_serving.core.values.tensors import Array, Signature
from ie_serving.engines.run.program import RunnableSignature
from ie_serving.wire.examples.example_spec import ExampleSpec
from ie_serving.wire.examples.sequence_examples import SequenceSpec, parse_sequences
from ie_serving.wire.examples.serialized_examples import parse

T = TypeVar("T")

PARSED_INLINE_BYTES = 1 << 13
"""Bytes of Examples up to which they are parsed on the event loop; more are parsed in a thread.
protobuf and Python take about a millisecond for as many, the longest that the loop may be held."""

_OWN_INPUT: Final = re.compile(r'"?(ie_serving_\w+)"?')


@dataclass(frozen=True)
class PartBeside:
    """The part of a signature answered beside its model; every name is a client's alias.

    Attributes:
        signature: public signature.
        examples: the input that holds the Examples to parse, with its specification.
        constants: values of outputs.
        echoes: outputs that are inputs, or tensors that were parsed.
        repeats: outputs that are another output.
        meanings: descriptions for clients of model inputs that the signature lacks, by name.
    """

    signature: Signature
    examples: Sequence[tuple[str, ExampleSpec | SequenceSpec]] = ()
    constants: Mapping[str, Array] = field(default_factory=dict)
    echoes: Mapping[str, str] = field(default_factory=dict)
    repeats: Mapping[str, str] = field(default_factory=dict)
    meanings: Mapping[str, str] = field(default_factory=dict)

    def around(self, model: Signature) -> "PartBeside":
        """Give the same with the tensors of a model as that has them, which may be reshaped."""
        own = self.signature
        inputs, outputs = (
            {alias: of_model.get(alias, spec) for alias, spec in listed.items()}
            for listed, of_model in ((own.inputs, model.inputs), (own.outputs, model.outputs))
        )
        signature = replace(own, inputs=inputs, outputs=outputs, precision=model.precision)
        return replace(self, signature=signature)

    def in_words(self, error: ServingError) -> ServingError:
        """Give an error of the model with meanings in place of the names of its own inputs."""
        text = _OWN_INPUT.sub(lambda name: self.meanings.get(name[1], name[0]), str(error))
        return error if text == str(error) else type(error)(text)


class ProgramBeside:
    """Runs a signature of that kind. See `engines.run.program.RunnableSignature`.

    Args of the constructor:
        beside: the part answered here.
        inner: the model's program; None where this part is everything.
        wanted: the inputs it reads; None for the inputs of its signature.
    """

    def __init__(
        self,
        beside: PartBeside,
        inner: RunnableSignature | None,
        wanted: Sequence[str] | None = None,
    ) -> None:
        self.signature = beside.signature
        self._beside = beside
        self._inner = inner
        own = list(inner.signature.inputs) if inner is not None else []
        self._wanted = own if wanted is None else wanted

    @property
    def at_once(self) -> int:
        """See `engines.run.program.RunnableSignature`."""
        return self._inner.at_once if self._inner is not None else 1

    @property
    def ahead(self) -> bool:
        """See `engines.run.program.RunnableSignature`."""
        return self._inner is not None and self._inner.ahead

    async def infer(
        self, inputs: Mapping[str, Array], read: Callable[[Mapping[str, Array]], T]
    ) -> T:
        """See `CompiledModel.infer`."""
        tensors = inputs
        for alias, spec in self._beside.examples:
            tensors = {**tensors, **await _parsed(spec, inputs[alias])}
        if self._inner is None:
            return read(self._all(tensors, {}))
        wanted = {alias: tensors[alias] for alias in self._wanted}
        try:
            return await self._inner.infer(
                wanted, lambda outputs: read(self._all(tensors, outputs))
            )
        except ServingError as error:
            raise self._beside.in_words(error) from error

    def _all(
        self, tensors: Mapping[str, Array], outputs: Mapping[str, Array]
    ) -> Mapping[str, Array]:
        beside = self._beside
        found = {**outputs, **beside.constants}
        for alias, source in beside.echoes.items():
            found[alias] = tensors[source]
        for alias, source in beside.repeats.items():
            found[alias] = outputs[source]
        return {alias: found[alias] for alias in self.signature.outputs}

    def close(self) -> None:
        """Free the model."""
        if self._inner is not None:
            self._inner.close()


async def _parsed(spec: ExampleSpec | SequenceSpec, examples: Array) -> dict[str, Array]:
    serialized: list[bytes] = examples.ravel().tolist()
    if sum(map(len, serialized)) <= PARSED_INLINE_BYTES:
        return _parse(spec, serialized)
    return await in_thread(_parse, spec, serialized)


def _parse(spec: ExampleSpec | SequenceSpec, serialized: list[bytes]) -> dict[str, Array]:
    if isinstance(spec, SequenceSpec):
        return parse_sequences(spec, serialized)
    return parse(spec, serialized)
