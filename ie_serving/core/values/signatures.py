"""Finds the signature that a request names, and refuses one that the server can only list."""

from collections.abc import Mapping

from ie_serving.core.values.errors import NotFound, PreconditionFailed
from ie_serving.core.values.tensors import SERVING_DEFAULT, Signature


def named(signatures: Mapping[str, Signature], name: str, whose: str) -> Signature:
    """Find a signature by its name; an empty name means the default.

    Args:
        signatures: the model's signatures.
        name: of one of them, or empty.
        whose: words for the error, such as `model "m" version 3`.

    Raises:
        NotFound: there is no such signature.
    """
    wanted = name or SERVING_DEFAULT
    found = signatures.get(wanted)
    if found is None:
        # Without those of TensorFlow itself, which requests cannot use.
        known = sorted(n for n, s in signatures.items() if s.left_out or not s.definition)
        raise NotFound(f'{whose} has no signature "{wanted}"; it has {", ".join(known)}')
    return found


def check_served(signature: Signature) -> None:
    """Refuse a signature that the model declares, but that the server can only list.

    Raises:
        PreconditionFailed: states why the signature cannot be run.
    """
    if signature.left_out or signature.definition:
        cause = signature.left_out or "it belongs to TensorFlow's loader and computes nothing"
        raise PreconditionFailed(f'signature "{signature.name}" is not served: {cause}')
