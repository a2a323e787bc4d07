"""Checks of a Predict against its signature, other than of its inputs (`core/values/fit.py`)."""

from collections.abc import Sequence

from ie_serving.core.values.errors import InvalidRequest, ServingError, advised
from ie_serving.core.values.hints import Hint
from ie_serving.core.values.tensors import Method, Signature


def check_method(signature: Signature) -> None:
    """Refuse a signature whose method no API calls.

    Raises:
        ServingError: the method is none of predict, classify and regress.
    """
    # All three are allowed, as in TensorFlow Serving: Predict may run a Classify signature.
    known = [method.value for method in Method]
    if signature.method not in known:
        raise ServingError(
            advised(
                f"Expected prediction signature method_name to be one of {{{', '.join(known)}}}."
                f" Was: {signature.method}",
                "; export the model again"
                f"{Hint(', or start the server without {server.method_name_check}')}",
            )
        )


def check_output_filter(signature: Signature, aliases: Sequence[str]) -> None:
    """Refuse an output alias that the signature does not have, or that is named twice.

    Raises:
        InvalidRequest: in TensorFlow Serving's wording, with the signature's aliases.
    """
    for place, alias in enumerate(aliases):
        if alias not in signature.outputs and not signature.gives_any:
            known = ",".join(sorted(signature.outputs))
            raise InvalidRequest(
                f"output tensor alias not found in signature: {alias} Outputs expected to be in"
                f" the set {{{known}}}."
            )
        # Refused rather than merged: a client that names an output twice expects two.
        if alias in aliases[:place]:
            raise InvalidRequest(
                advised(
                    f"duplicate output tensor alias: {alias}",
                    "; name each output once in output_filter",
                )
            )
