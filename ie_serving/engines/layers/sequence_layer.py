"""The sequence layer: keeps a model's state between requests, separately for each sequence.

sequence.py         one sequence: its stages, and the order of its requests
sequence_table.py   the sequences of one version, by their ids
sequence_family.py  those of all versions of a model, and the timer that drops idle ones

The state is not kept in an infer request: it is copied in before an inference and out after it, and
stored only if the request was answered. So a request that fails or is cancelled leaves the state
unchanged, any infer request can serve any sequence, and a sequence that waits for its client costs
only the bytes of its state. Inputs, controls and texts are those of OpenVINO Model Server.
"""

import logging
from collections.abc import Collection, Coroutine
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.core.values.errors import InvalidRequest, LoadFailed
from ie_serving.core.values.tensors import Arrays, DataType, Read, Signature, TensorSpec
from ie_serving.engines.base import CompiledModel, EngineOptions
from ie_serving.engines.layer_options import Sequences
from ie_serving.engines.layers.layer import Layer
from ie_serving.engines.layers.sequence import ENDING, Control
from ie_serving.engines.layers.sequence_family import Family
from ie_serving.engines.layers.sequence_table import SequenceTable
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

T = TypeVar("T")

ID: Final = "sequence_id"
CONTROL: Final = "sequence_control_input"

_ID_SPEC: Final = TensorSpec(ID, DataType.UINT64, (1,), ID, apart=True)
_CONTROL_SPEC: Final = TensorSpec(CONTROL, DataType.UINT32, (1,), CONTROL, apart=True)
_DEFAULTS: Final[Arrays] = {
    ID: np.zeros(1, np.uint64),
    CONTROL: np.zeros(1, np.uint32),
}
_CONTROLS: Final = frozenset(Control)


def keeping_sequences(
    compiled: CompiledModel, _: Path, options: EngineOptions, *, family: Family
) -> CompiledModel:
    """Let a model keep sequences where its options enable it; `family` has the other versions'.

    Raises:
        LoadFailed: for a model without state.
    """
    chosen = options.of(Sequences)
    if not chosen.stateful:
        return compiled
    most, drops_idle = chosen.max_sequence_number, chosen.idle_sequence_cleanup
    return SequenceLayer(compiled, SequenceTable(most, family, drops_idle=drops_idle))


class SequenceLayer(Layer):
    """Gives each request the state of its sequence. See `engines.base.CompiledModel`.

    Args of the constructor:
        inner: takes and gives states; see `Signature.states`.
        table: table of the sequences.

    Raises:
        LoadFailed: `inner` has none, or tensors of the names that are added.
    """

    def __init__(self, inner: CompiledModel, table: SequenceTable) -> None:
        stateful = {name: each for name, each in inner.signatures.items() if each.states}
        if not stateful:
            raise LoadFailed(
                "stateful is set, and the model has no state (ReadValue and Assign) that OpenVINO"
                " can give out: remove stateful, or set low_latency_transformation if it has loops"
            )
        told = {name: _with_controls(each) for name, each in stateful.items()}
        super().__init__(inner, {**inner.signatures, **told})
        self._table = table
        self._stateful = stateful

    def infer(self, signature: Signature, inputs: Arrays, read: Read[T]) -> Coroutine[Any, Any, T]:
        """See `engines.base`. Raises: also as `SequenceTable.admit`."""
        plain = self._stateful.get(signature.name)
        if plain is None:
            return self.inner.infer(signature, inputs, read)
        return self._infer_in_sequence(plain, inputs, read)

    def serve(self, version: int) -> None:
        """Serve clients as this version; the warm-up's sequences are dropped."""
        self._table.serve(version)

    def close(self) -> None:
        """See `engines.base`."""
        self._table.close()
        self.inner.close()

    async def _infer_in_sequence(self, plain: Signature, inputs: Arrays, read: Read[T]) -> T:
        control, number = _control_of(inputs), _value(inputs, ID)
        table = self._table
        # No await comes before: the order of admissions is that of arrivals.
        sequence = table.admit(control, number, plain.name)
        kept = () if control in ENDING else plain.states
        both = partial(_read_both, read, sequence.number, plain, kept)
        try:
            async with sequence.turns:
                # The START may have failed while this request waited behind it.
                table.check(sequence)
                given = {**{name: inputs[name] for name in plain.inputs}, **sequence.state}
                outputs, state = await self.inner.infer(plain, given, both)
                # The state is kept last: until here the sequence is as before the request.
                table.keep(sequence, state)
        except BaseException:
            table.failed(control, sequence)
            raise
        table.answered(control, sequence)
        return outputs


def _read_both(
    read: Read[T], number: int, signature: Signature, kept: Collection[str], outputs: Arrays
) -> tuple[T, Arrays]:
    """Read the client's outputs, and copy the state, before the outputs' memory is used again."""
    shown = {name: outputs[name] for name in signature.outputs}
    shown[ID] = np.array([number], np.uint64)
    return read(shown), {name: BUDGET.copy(outputs[name]) for name in kept}


def _control_of(inputs: Arrays) -> Control:
    given = _value(inputs, CONTROL)
    if given not in _CONTROLS:
        raise InvalidRequest(
            f"Unexpected value of sequence control input: {given}; expected 0 for none, 1 to start"
            " a sequence, 2 to end it, 3 for a sequence of this request alone"
        )
    return Control(given)


def _value(inputs: Arrays, name: str) -> int:
    # Examples of Classify and Regress have no such features.
    return int(inputs.get(name, _DEFAULTS[name])[0])


def _with_controls(signature: Signature) -> Signature:
    """Add the inputs and outputs that control a sequence. Raises: LoadFailed."""
    taken = sorted({*signature.inputs, *signature.outputs} & {ID, CONTROL})
    if taken:
        raise LoadFailed(
            f'signature "{signature.name}" has tensors of its own called {", ".join(taken)}: rename'
            " them by mapping_config.json, or remove stateful"
        )
    states = len(signature.states)
    variables = "its variable" if states == 1 else f"its {states} variables"
    log.info(Event("sequences kept", signature=signature.name, states=states))
    return replace(
        signature,
        inputs={**signature.inputs, ID: _ID_SPEC, CONTROL: _CONTROL_SPEC},
        outputs={**signature.outputs, ID: _ID_SPEC},
        defaults={**signature.defaults, **_DEFAULTS},
        states=(),
        runs_on=f"{signature.runs_on}, in sequences that keep {variables}",
    )
