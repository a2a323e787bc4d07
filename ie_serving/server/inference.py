"""The one data plane under all front ends: find the servable, check the inputs, infer.

A front end brings two functions: one that decodes the inputs for a signature, one that encodes
the outputs. Between them everything is numpy, whichever protocol the request came by.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from ie_serving.errors import PreconditionFailed, ServingError
from ie_serving.inputs import fit, shed
from ie_serving.models.handle import Servable
from ie_serving.tensors import SERVING_DEFAULT, Array, Method, Signature

T = TypeVar("T")
Outputs = Mapping[str, Array]


def signature_of(servable: Servable, name: str) -> Signature:
    """Find the signature that a request names; an empty name means `serving_default`.

    Raises:
        PreconditionFailed: the servable has no such signature.
    """
    signature = servable.signatures.get(name or SERVING_DEFAULT)
    if signature is None:
        known = ", ".join(sorted(servable.signatures))
        raise PreconditionFailed(
            f'Serving signature key "{name or SERVING_DEFAULT}" not found.'
            f' Model "{servable.name}" version {servable.version} has: {known}'
        )
    return signature


def check_method(signature: Signature) -> None:
    """Refuse a signature of a method that nothing calls.

    Raises:
        ServingError: it is none of predict, classify and regress.
    """
    known = [method.value for method in Method]
    if signature.method not in known:
        raise ServingError(
            f"Expected prediction signature method_name to be one of {{{', '.join(known)}}}."
            f" Was: {signature.method}; export the model again, or start the server without"
            " --enable_signature_method_name_check"
        )


def infer(
    servable: Servable,
    signature: Signature,
    inputs: Mapping[str, Array],
    read: Callable[[Outputs], T],
) -> Awaitable[T]:
    """Check `inputs`, run the model once, and give what `read` makes of the outputs.

    Args:
        servable: held by the caller.
        signature: one of its signatures.
        inputs: arrays by alias.
        read: sees the outputs while their memory is valid; copies what it keeps.

    Raises:
        InvalidRequest: names, dtypes or shapes do not fit; at once, not when awaited.
        ServingError: the engine failed.
    """
    fitted, added = fit(signature, inputs)
    if added:
        return servable.compiled.infer(signature, fitted, lambda o: read(shed(o, added)))
    return servable.compiled.infer(signature, fitted, read)
