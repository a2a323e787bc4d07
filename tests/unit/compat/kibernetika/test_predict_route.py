"""The route `/predict` of kibernetika-serving: what it says of errors."""

from typing import Any

import pytest

from ie_serving.compat.kibernetika.predict_route import PredictRoute
from ie_serving.core.values.errors import NotFound

NO_PARTS: Any = None


def test_a_defect_is_logged_with_the_place_where_it_happened(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken() -> None:
        raise RuntimeError("of the route")

    with pytest.raises(RuntimeError) as raised:
        broken()
    reply = PredictRoute._refusal(NO_PARTS, raised.value)
    assert (reply.status, b"of the route" in reply.body) == (500, False)
    (line,) = caplog.records
    assert line.exc_info
    assert line.exc_info[2] is not None


def test_an_error_of_the_request_is_plain_text_with_its_status() -> None:
    reply = PredictRoute._refusal(NO_PARTS, NotFound("no such model"))
    assert (reply.status, reply.body) == (404, b"no such model\n")
