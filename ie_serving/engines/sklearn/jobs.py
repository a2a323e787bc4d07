"""How many threads estimators use: no more than the server may, whatever they were trained with."""

from collections.abc import Iterator
from typing import Any

from ie_serving.engines.run.threads import threads

DEEPEST = 6
"""Levels of estimators within estimators that are looked through; a search of a pipeline has 3."""


def bound_jobs(estimator: Any, most: int | None = None) -> None:  # noqa: ANN401  any estimator
    """Lower `n_jobs` of an estimator, and of those within it, to `most` threads."""
    limit = most or threads()
    for each in _within(estimator, DEEPEST):
        jobs = vars(each).get("n_jobs")
        if isinstance(jobs, int) and not 0 <= jobs <= limit:
            each.n_jobs = limit


def _within(value: Any, levels: int) -> Iterator[Any]:  # noqa: ANN401
    if hasattr(value, "__dict__") and hasattr(value, "get_params"):
        yield value
        inner: Any = vars(value).values()
    else:
        inner = value.values() if isinstance(value, dict) else value
        inner = inner if isinstance(value, dict | list | tuple) else ()
    for each in inner if levels else ():
        if isinstance(each, dict | list | tuple) or hasattr(each, "get_params"):
            yield from _within(each, levels - 1)
