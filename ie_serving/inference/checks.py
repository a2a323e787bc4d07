"""What a Predict may ask of a signature, beside its inputs (`core/values/fit.py`)."""

from collections.abc import Sequence

from ie_serving.core.values.errors import InvalidRequest, PreconditionFailed, ServingError
from ie_serving.core.values.hints import Hint
from ie_serving.core.values.tensors import Method, Signature


def check_method(signature: Signature) -> None:
    """Refuse a signature of a method that nothing calls.

    Raises:
        ServingError: it is none of predict, classify and regress.
    """
    # Any of the three, as in TensorFlow Serving: Predict may run what Classify runs.
    known = [method.value for method in Method]
    if signature.method not in known:
        raise ServingError(
            f"Expected prediction signature method_name to be one of {{{', '.join(known)}}}."
            f" Was: {signature.method}; export the model again",
            Hint(", or start the server without {server.method_name_check}"),
        )


def check_served(signature: Signature) -> None:
    """Refuse a signature that the model declares and that is only listed.

    Raises:
        PreconditionFailed: with the cause.
    """
    if signature.left_out or signature.definition:
        cause = signature.left_out or "it belongs to TensorFlow's loader and computes nothing"
        raise PreconditionFailed(f'signature "{signature.name}" is not served: {cause}')


def check_output_filter(signature: Signature, aliases: Sequence[str]) -> None:
    """Refuse an alias that the signature does not have, or that is named twice.

    Raises:
        InvalidRequest: in TensorFlow Serving's phrase, with the aliases that there are.
    """
    for place, alias in enumerate(aliases):
        if alias not in signature.outputs and not signature.gives_any:
            known = ",".join(sorted(signature.outputs))
            raise InvalidRequest(
                f"output tensor alias not found in signature: {alias} Outputs expected to be in"
                f" the set {{{known}}}."
            )
        # Refused, not merged: a client that names an output twice expects two.
        if alias in aliases[:place]:
            raise InvalidRequest(
                f"duplicate output tensor alias: {alias}; name each output once in output_filter"
            )
