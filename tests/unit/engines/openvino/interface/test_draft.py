"""What `ie_serving check` says of a signature: who computes it, in a sentence that can be read."""

from typing import Any

import openvino as ov
import openvino.opset15 as op
import pytest

from ie_serving.core.values.tensors import Method
from ie_serving.engines.openvino.interface.draft import Draft
from ie_serving.engines.savedmodel.host.host_program import HostPlan, HostStep

STEP = HostStep("StringLength len", lambda *_: [], (), ())
HOST = HostPlan(before=[STEP])


class Parsed:
    examples = ("inputs",)


def identity() -> ov.Model:
    given = op.parameter([1])
    return ov.Model([op.relu(given)], [given])


@pytest.mark.parametrize(
    ("model", "beside", "host", "said"),
    [
        (False, None, None, "the server: its values are known at load"),
        (False, None, HOST, "the server, which computes StringLength"),
        (False, Parsed, HOST, "the server, which parses Examples and computes StringLength"),
        (True, None, None, "OpenVINO"),
        (True, None, HOST, "OpenVINO; the server computes StringLength"),
        (True, Parsed, None, "OpenVINO; the server parses Examples"),
    ],
)  # fmt: skip
def test_who_computes_a_signature(model: bool, beside: Any, host: Any, said: str) -> None:
    graph = identity() if model else None
    draft = Draft("len", Method.PREDICT.value, graph, [], [], beside, host=host)
    assert draft.runs_on == said
