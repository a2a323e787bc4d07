"""An infer request whose state is copied in before each inference and out after it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import openvino as ov

from ie_serving.core.values.tensors import Array, Signature
from ie_serving.engines.openvino.faults.hazards import Hazards
from ie_serving.engines.openvino.interface.tensor_specs import Port
from ie_serving.engines.openvino.running.slot import Slot, refuse_odd
from ie_serving.engines.openvino.runtime import load_failures

STATE: Final = "state:"
"""Begins the name of a state among inputs and outputs; the name of its variable follows."""


def unroll(model: ov.Model) -> None:
    """Turn the values that loops and recurrent operations carry between iterations into state.

    Raises:
        LoadFailed: OpenVINO cannot.
    """
    with load_failures("low_latency_transformation cannot be applied"):
        from openvino.passes import LowLatency2, Manager  # few models have loops with a state

        passes = Manager()
        passes.register_pass(LowLatency2())
        passes.run_passes(model)


class StatefulSlot(Slot):
    """A slot that belongs to no sequence: each inference brings its own state. See `Slot`.

    `fill` takes the states of an inference beside its inputs, all or none, and none begins with the
    initial ones. `run` gives them beside the outputs.
    """

    def __init__(
        self,
        make: Callable[[], ov.InferRequest],
        inputs: Sequence[Port],
        outputs: Sequence[Port],
        hazards: Hazards,
        watched: Sequence[str] = (),
    ) -> None:
        super().__init__(make, inputs, outputs, replace(hazards, stateful=False), watched)
        self._careful = True  # states are read behind a run that loses no error

    def _bind(self) -> None:
        super()._bind()
        # The element types too: numpy lacks some, and querying them copies the whole state.
        self._states = [
            (f"{STATE}{each.name}", each, each.state.element_type)
            for each in self._request.query_state()
        ]

    @property
    def state_names(self) -> tuple[str, ...]:
        """The states by name, as inferences take and give them."""
        return tuple(name for name, _, _ in self._states)

    def fill(self, inputs: Mapping[str, Array]) -> None:
        """See `Slot`."""
        super().fill(inputs)
        # Also before a state is copied in: a variable keeps more than its values from the inference
        # before, such as the order of a cache's rows.
        self._request.reset_state()
        for name, state, kind in self._states:
            if name in inputs:
                array = inputs[name]
                if self._watched:
                    # NaN that a request has left in the state of its sequence is in the next ones.
                    refuse_odd(array)
                state.state = ov.Tensor(array, ov.Shape(array.shape), kind)

    def run_new(self) -> Mapping[str, Array]:
        """See `Slot`. States are views of copies that OpenVINO makes."""
        outputs = super().run_new()
        return {
            **outputs,
            **{name: np.asarray(state.state.data) for name, state, _ in self._states},
        }


def with_states(signature: Signature, slots: Sequence[Slot]) -> Signature:
    """Tell the states of a signature's infer requests, where they are given out."""
    names = (slot.state_names for slot in slots if isinstance(slot, StatefulSlot))
    return replace(signature, states=next(names, ()))
