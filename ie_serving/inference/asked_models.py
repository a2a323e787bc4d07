"""Lets models call other served models. See `engines.others.Others`."""

from ie_serving.core.values.fit import fit, shed
from ie_serving.core.values.requests import ModelSpec
from ie_serving.core.values.signatures import named
from ie_serving.core.values.tensors import Arrays, Signature
from ie_serving.inference.checks import check_served
from ie_serving.models.served import ServedModels
from ie_serving.models.version.handle import Servable


class AskedModels:
    """Calls the version that serves at the time of the call. These requests are not counted.

    Args of the constructor:
        models: gives the handles.
    """

    def __init__(self, models: ServedModels) -> None:
        self._models = models

    def signature(self, spec: ModelSpec) -> Signature:
        """See `Others`."""
        return _signature(self._models.handle(spec), spec.signature)

    async def infer(self, spec: ModelSpec, inputs: Arrays) -> Arrays:
        """See `Others`."""
        with self._models.handle(spec) as servable:
            signature = _signature(servable, spec.signature)
            fitted, added = fit(signature, inputs)
            outputs = await servable.compiled.infer(signature, fitted, _copies)
            return shed(outputs, added) if added else outputs


def _signature(servable: Servable, name: str) -> Signature:
    whose = f'model "{servable.name}" version {servable.version}'
    found = named(servable.signatures, name, whose)
    check_served(found)
    return found


# Copied because the caller reads them after the infer request, which owns the memory, is reused.
def _copies(outputs: Arrays) -> Arrays:
    return {name: array.copy() for name, array in outputs.items()}
