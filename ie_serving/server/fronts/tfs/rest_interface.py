"""Describes TensorFlow Serving's REST API to the data plane, and encodes its replies."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ie_serving.core.values.errors import InvalidRequest, advised
from ie_serving.core.values.tensors import Array, Signature, present, specs_of
from ie_serving.inference.interface import Api, Encode, Interface, Results
from ie_serving.models.version.handle import Servable
from ie_serving.server.fronts.rest.callers import rest_caller
from ie_serving.server.transport.http1.body import Octets
from ie_serving.wire.form import ReplyForm, encode_raw, encode_texts
from ie_serving.wire.json.request import Format
from ie_serving.wire.json.response import (
    check_rows,
    encode_classifications,
    encode_predictions,
    encode_regressions,
)
from ie_serving.wire.tfs.classify_regress import classes_of, values_of
from ie_serving.wire.tfs.predict import chosen

LARGE_BODY = 32 * 1024
"""Bytes of a body from which a thread decodes it, unless it holds plain numbers: rows that are
objects take about 1.3 ms for each KB."""
LARGE_OUTPUT = 32 * 1024
"""Elements in all outputs from which a thread writes the JSON. Fewer take less than 1 ms, the most
that may block the event loop."""
LABELS: Mapping[Api, str] = {
    Api.PREDICT: "predict",
    Api.CLASSIFY: "classify",
    Api.REGRESS: "regress",
    Api.METADATA: "",
    Api.STATUS: "",
    Api.MODELS: "",
}
"""Names of the APIs in TensorFlow Serving's metrics, which have none for a GET."""


def rest_interface(*, limit_s: float) -> Interface[Octets]:
    """Describe TensorFlow Serving's REST API to the data plane; `limit_s` bounds an inference."""
    return Interface(
        entrypoint="REST",
        labels=LABELS,
        encoders=_encoders,
        unknown_signature=_unknown_signature,
        limit_s=limit_s,
        caller=partial(rest_caller, limit_s),
        large_request=LARGE_BODY,
        large_reply=LARGE_OUTPUT,
        check_large=check_rows,
    )


def _encoders(
    servable: Servable, signature: Signature, outputs: Sequence[str]
) -> Mapping[object, Encode[Octets]]:
    write: Callable[..., Octets] = _open_predictions
    if not signature.gives_any:
        specs = {alias: signature.outputs[alias] for alias in outputs}
        write = partial(encode_predictions, specs=specs)
    rows_or_columns: Mapping[object, Encode[Octets]] = {
        form: partial(write, form=form) for form in Format
    }
    every = {**rows_or_columns, ReplyForm.RAW: encode_raw, ReplyForm.TEXTS: encode_texts}
    if tuple(outputs) == tuple(signature.outputs):
        return every
    return {form: partial(_of_some, encode, outputs) for form, encode in every.items()}


def _of_some(encode: Encode[Octets], names: Sequence[str], outputs: Mapping[str, Array]) -> Octets:
    return encode(chosen(outputs, names))


def _open_predictions(outputs: Mapping[str, Array], form: Format) -> Octets:
    came = present(outputs)
    return encode_predictions(came, form, specs_of(came))


def _unknown_signature(servable: Servable, name: str) -> InvalidRequest:
    """Unlike over gRPC, an unknown signature is an invalid argument."""
    known = servable.signature_names
    return InvalidRequest(
        advised(
            f'Serving signature name: "{name}" not found in signature def',
            f'; model "{servable.name}" version {servable.version} has: {known}',
        )
    )


def classifications(results: Results) -> bytes:
    """Encode the results of a Classify."""
    return encode_classifications(classes_of(results.outputs, results.rows))


def regressions(results: Results) -> bytes:
    """Encode the results of a Regress."""
    return encode_regressions(values_of(results.outputs, results.rows))
