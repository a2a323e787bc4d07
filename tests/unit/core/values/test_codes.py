"""The canonical code of an error: that of its nearest class."""

from asyncio import CancelledError

import pytest

from ie_serving.core.values import errors
from ie_serving.core.values.codes import Code, code_of


@pytest.mark.parametrize(
    ("error", "code"),
    [
        pytest.param(errors.InvalidRequest("x"), Code.INVALID_ARGUMENT, id="itself"),
        pytest.param(errors.UnknownLabel("x"), Code.INVALID_ARGUMENT, id="its base"),
        pytest.param(errors.Throttled("x"), Code.UNAVAILABLE, id="a store's trouble"),
        pytest.param(errors.Forbidden("x"), Code.PERMISSION_DENIED, id="switched off"),
        pytest.param(errors.ServingError("x"), Code.INTERNAL, id="the root of ours"),
        pytest.param(ZeroDivisionError(), Code.INTERNAL, id="a defect"),
        pytest.param(CancelledError(), Code.CANCELLED, id="a client that left"),
        pytest.param(CancelledError(Code.ABORTED), Code.ABORTED, id="cancelled with a code"),
        pytest.param(CancelledError("a word"), Code.CANCELLED, id="cancelled by other code"),
    ],
)
def test_the_nearest_class_decides(error: BaseException, code: Code) -> None:
    assert code_of(error) is code


def test_the_numbers_are_those_of_grpc() -> None:
    import grpc

    assert {code.name: code.value for code in Code} == {
        code.name: code.value[0] for code in grpc.StatusCode
    }
