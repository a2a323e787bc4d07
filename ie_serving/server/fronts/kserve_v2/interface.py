"""Describes the Open Inference Protocol v2 over REST to the data plane."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

from ie_serving.core.values.tensors import Array, Signature
from ie_serving.inference.interface import Encode, Interface
from ie_serving.models.version.handle import Servable
from ie_serving.server.fronts.kserve_v2.servable_lookup import (
    METHODS,
    CopiedOutputs,
    no_signature,
    of_classes,
    typed_outputs,
)
from ie_serving.server.fronts.rest.callers import rest_caller
from ie_serving.server.fronts.tfs.rest_interface import LABELS, LARGE_BODY, LARGE_OUTPUT
from ie_serving.wire.kserve.regions import ReplyRegions
from ie_serving.wire.kserve.reply import InferReply, OpenReplyEncoder, ReplyEncoder, region_reply
from ie_serving.wire.kserve.request_members import OutputForm


class UnwrittenOutputs(NamedTuple):
    """Outputs that are not written yet: only the request says in which form each is written.

    Attributes:
        write: writes them; `ReplyEncoder.mixed`.
        outputs: copies.
    """

    write: Callable[[Mapping[str, Array], Mapping[str, bool]], InferReply]
    outputs: Mapping[str, Array]


WrittenReply = InferReply | UnwrittenOutputs


class Interfaces(NamedTuple):
    """An interface for each form of reply: raw ones cost no more than the copy for a thread."""

    of_json: Interface[WrittenReply]
    of_raw: Interface[WrittenReply]
    of_classes: Interface[CopiedOutputs]


def interfaces(
    hand_on: Callable[[Interface[Any]], Interface[Any]], *, limit_s: float
) -> Interfaces:
    """Describe the protocol; `limit_s` bounds an inference. See `request_notes.handing_on`."""

    def interface(large_reply: int | None) -> Interface[WrittenReply]:
        return Interface(
            entrypoint="REST",
            labels=LABELS,
            methods=METHODS,
            encoders=_encoders,
            encoder=_placed,
            unknown_signature=no_signature,
            limit_s=limit_s,
            caller=partial(rest_caller, limit_s),
            large_request=LARGE_BODY,
            large_reply=large_reply,
        )

    raw = interface(None)
    return Interfaces(
        hand_on(interface(LARGE_OUTPUT)), hand_on(raw), hand_on(of_classes(raw, tuple(OutputForm)))
    )


def _encoders(
    servable: Servable, signature: Signature, outputs: Sequence[str]
) -> Mapping[object, Encode[WrittenReply]]:
    name, version = servable.name, servable.version
    if signature.gives_any:
        encoder: ReplyEncoder = OpenReplyEncoder(name, version, outputs)
    else:
        encoder = ReplyEncoder(
            name, version, {alias: signature.outputs[alias] for alias in outputs}
        )

    def copied(outputs: Mapping[str, Array]) -> UnwrittenOutputs:
        return UnwrittenOutputs(
            encoder.mixed, {name: array.copy() for name, array in outputs.items()}
        )

    return {
        OutputForm.JSON: encoder.json,
        OutputForm.BINARY: encoder.binary,
        OutputForm.MIXED: copied,
    }


def _placed(
    servable: Servable, signature: Signature, outputs: Sequence[str], form: object
) -> Encode[WrittenReply]:
    specs = typed_outputs(signature, outputs)
    return partial(region_reply, servable.name, servable.version, specs, cast(ReplyRegions, form))
