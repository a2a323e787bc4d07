"""Finds the servable that a request of the Open Inference Protocol names, over REST or gRPC."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple, cast

from ie_serving.core.values.errors import InvalidRequest, NotFound
from ie_serving.core.values.integers import INT64_MAX
from ie_serving.core.values.requests import ModelSpec
from ie_serving.core.values.tensors import Array, Outputs, Signature, TensorSpec
from ie_serving.inference.interface import Api, Encode, Interface
from ie_serving.models.version.handle import Servable
from ie_serving.wire.kserve.classes import classified

METHODS: Final[Mapping[Api, str]] = {Api.PREDICT: "ModelInfer", Api.METADATA: "ModelMetadata"}
"""Names of the counted operations in the metrics, the same for both interfaces."""

EVERYWHERE: Final = (
    *("sequence", "statistics", "parameters", "model_configuration", "model_repository"),
    "classification",
    *("logging", "trace"),
)
"""Triton's extensions, by its names, that both interfaces implement."""

_DIGITS: Final = len(str(INT64_MAX))


def model_spec(name: str, version: str) -> ModelSpec:
    """Read a version, which is a string in the protocol.

    Args:
        name: name of the model.
        version: a number, or a label; empty for the default version.

    Raises:
        NotFound: the number is too large for a version.
    """
    if not version:
        return ModelSpec(name)
    if not (version.isascii() and version.isdecimal()):
        return ModelSpec(name, label=version)
    # Longer numbers are not parsed: int() is slow for very many digits.
    number = int(version) if len(version.lstrip("0")) <= _DIGITS else INT64_MAX + 1
    if number > INT64_MAX:
        raise NotFound(
            f"version {version[:40]} of {name!r} does not fit into 64 bits"
            ": name a version that the repository has"
        )
    return ModelSpec(name, number)


def no_signature(servable: Servable, name: str) -> NotFound:
    """Make the error for a model without the signature that the protocol runs."""
    return NotFound(
        f'model "{servable.name}" version {servable.version} has no signature "{name}", which this'
        f" protocol runs; it has {servable.signature_names}"
    )


def typed_outputs(signature: Signature, names: Sequence[str]) -> dict[str, TensorSpec]:
    """Give the specs of outputs. Raises: InvalidRequest: one is known only when it comes."""
    found = {}
    for name in names:
        spec = signature.outputs.get(name)
        if spec is None or spec.untyped:
            raise InvalidRequest(
                f'output "{name[:200]}" has no type; ask for it without classes and a region'
            )
        found[name] = spec
    return found


# -- outputs that are wanted as classes -----------------------------------------------------------


class CopiedOutputs(NamedTuple):
    """The outputs of an inference, copied.

    Attributes:
        servable: the version that answered.
        signature: signature that was run.
        form: form of the reply; each interface has its own forms.
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
            wanted: numbers of classes, by the names of outputs.

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
        return {form: partial(_copied_outputs, servable, signature, names, form) for form in forms}

    return encoders


def _copied_outputs(
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
