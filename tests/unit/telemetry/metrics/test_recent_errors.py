"""What the page at `/` shows of requests that failed: bounded, and nobody's data for strangers."""

import asyncio
import gc
import weakref

from ie_serving.core.values.codes import Code
from ie_serving.core.values.errors import InvalidRequest, NotFound
from ie_serving.telemetry.metrics.requests import LEFT, LONGEST_TEXT, MOST_KINDS, Key, RecentErrors

KEY = Key("1", "REST", "Predict", "predict")


def test_failures_of_one_kind_are_counted_and_the_newest_comes_first() -> None:
    errors = RecentErrors(quotes=True)
    for text in ("first", "second"):
        errors.add("m", KEY, Code.INVALID_ARGUMENT, InvalidRequest(text))
    errors.add("m", KEY, Code.NOT_FOUND, NotFound("third"))
    found = [(kind.code, each.number, each.text) for kind, each in errors.newest()]
    assert found == [("NOT_FOUND", 1, "third"), ("INVALID_ARGUMENT", 2, "second")]
    assert all(each.first <= each.last for _, each in errors.newest())


def test_they_are_bounded() -> None:
    errors = RecentErrors(quotes=True)
    for number in range(2 * MOST_KINDS):
        key = KEY._replace(version=str(number))
        errors.add("m", key, Code.NOT_FOUND, NotFound("x" * 10 * LONGEST_TEXT))
    kept = errors.newest()
    assert [kind.key.version for kind, _ in kept] == [
        str(number) for number in reversed(range(MOST_KINDS, 2 * MOST_KINDS))
    ]
    assert {len(each.text or "") for _, each in kept} == {LONGEST_TEXT}


def test_what_may_quote_a_request_is_kept_only_where_callers_are_known() -> None:
    for quotes, expected in ((True, "value 7"), (False, None)):
        errors = RecentErrors(quotes=quotes)
        errors.add("m", KEY, Code.INVALID_ARGUMENT, InvalidRequest("value 7"))
        assert errors.newest()[0][1].text == expected


def test_secrets_and_texts_of_defects_are_not_kept() -> None:
    errors = RecentErrors(quotes=True)
    errors.add("m", KEY, Code.NOT_FOUND, NotFound("s3://key:word@b\nis gone"))
    errors.add("m", KEY, Code.INTERNAL, ValueError("whatever a library says"))
    assert [each.text for _, each in errors.newest()] == [None, "s3://***@b\\nis gone"]


def test_a_client_that_left_is_no_defect() -> None:
    errors = RecentErrors(quotes=False)
    errors.add("m", KEY, Code.CANCELLED, asyncio.CancelledError())
    assert errors.newest()[0][1].text == LEFT


def test_the_error_and_what_it_holds_go() -> None:
    errors = RecentErrors(quotes=True)
    error = NotFound("gone")
    left = weakref.ref(error)
    errors.add("m", KEY, Code.NOT_FOUND, error)
    del error
    gc.collect()
    assert left() is None
