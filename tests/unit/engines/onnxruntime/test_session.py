"""What a request of a session keeps between two inferences, on a stand-in for the library."""

from collections.abc import Mapping, Sequence

import pytest

from ie_serving.core.values.tensors import Array
from ie_serving.engines.onnxruntime.session import SessionFailure, SessionRequest
from tests.unit.engines.asking import Ran, run_once


class Session:
    """Computes nothing, or fails."""

    def __init__(self, fails: bool) -> None:
        self._fails = fails

    def get_inputs(self) -> Sequence[object]:
        return ()

    def get_outputs(self) -> Sequence[object]:
        return ()

    def run(self, outputs: Sequence[str], feed: Mapping[str, Array]) -> Sequence[object]:
        if self._fails:
            raise RuntimeError("no")
        return ()


@pytest.mark.parametrize("fails", [False, True])
def test_inputs_are_let_go_of_when_they_are_answered(fails: bool) -> None:
    """They may be views of a large request, and the next one may come much later."""
    request = SessionRequest(Session(fails), [], [])  # type: ignore[arg-type]
    assert run_once(request, SessionFailure) == Ran(failed=fails, holds_inputs=False)
