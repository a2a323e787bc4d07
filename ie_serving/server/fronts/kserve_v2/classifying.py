"""Answers inferences whose outputs are wanted as classes, for REST and gRPC.

Such a request takes another way than the rest: its outputs are copied, and encoded here.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, cast

from ie_serving.core.values.tensors import Array, Outputs, Signature, TensorSpec
from ie_serving.inference.interface import Encode, Interface
from ie_serving.models.version.handle import Servable
from ie_serving.server.fronts.kserve_v2.asked import typed_outputs
from ie_serving.wire.kserve.classes import classified


class CopiedOutputs(NamedTuple):
    """The outputs of an inference, copied.

    Attributes:
        servable: the version that answered.
        signature: that was run.
        form: of the reply; each interface has its own forms.
        outputs: those that the request wants.
    """

    servable: Servable
    signature: Signature
    form: object
    outputs: Outputs

    def with_classes(
        self, wanted: Mapping[str, int]
    ) -> tuple[dict[str, TensorSpec], dict[str, Array]]:
        """Give specs and arrays of the reply.

        Args:
            wanted: how many classes, by the names of outputs.

        Raises:
            InvalidRequest: an output has no numbers, or is known only when it comes.
        """
        specs = typed_outputs(self.signature, [*self.outputs])
        arrays = dict(self.outputs)
        for name, most in wanted.items():
            if name in arrays:
                labels = _labels(self.servable, self.signature, name)
                specs[name], arrays[name] = classified(specs[name], arrays[name], most, labels)
        return specs, arrays


def of_classes(interface: Interface[Any], forms: Collection[object]) -> Interface[CopiedOutputs]:
    """Return an interface that copies outputs; `forms` are those of replies by `interface`."""
    return cast("Interface[CopiedOutputs]", replace(interface, encoders=_taking(forms)))


def _taking(
    forms: Collection[object],
) -> Callable[[Servable, Signature, Sequence[str]], Mapping[object, Encode[CopiedOutputs]]]:
    def encoders(
        servable: Servable, signature: Signature, names: Sequence[str]
    ) -> Mapping[object, Encode[CopiedOutputs]]:
        return {form: partial(_taken, servable, signature, names, form) for form in forms}

    return encoders


def _taken(
    servable: Servable, signature: Signature, names: Sequence[str], form: object, outputs: Outputs
) -> CopiedOutputs:
    return CopiedOutputs(servable, signature, form, {name: outputs[name].copy() for name in names})


def _labels(servable: Servable, signature: Signature, output: str) -> tuple[str, ...]:
    """Give the labels that `signatures.json` has for an output of a signature."""
    bindings = [each.examples for each in servable.signatures.values() if each.examples]
    found = (
        each.labels
        for each in bindings
        if each.base.name == signature.name and output in each.roles.values()
    )
    return next((labels for labels in found if labels), ())
