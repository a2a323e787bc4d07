"""Runs a model that is a Python function of some library: numpy arrays in, numpy arrays out.

It runs in its own threads and never on the event loop, unless `execution` says so: a library's time
depends on the values too, such as the length of a text, and its calls into Python may block for any
reason.
"""

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from ie_serving.core.values.errors import InvalidRequest, LoadFailed, ServingError
from ie_serving.core.values.tensors import Arrays, Signature
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.run.latency_model import LatencyModel
from ie_serving.engines.run.program import Program
from ie_serving.engines.run.threads import threads

if TYPE_CHECKING:
    from collections.abc import Iterator

ArraysFunction = Callable[[Arrays], Arrays]
"""Computes the outputs, new arrays, by name. Several threads call it at once."""

LONGEST_CAUSE = 600
"""Characters of a library's error that are shown: some errors quote a whole graph or request."""


class LibraryFailure(Exception):
    """The library's failure; its cause is the exception that the library raised."""


class FunctionRequest:
    """One call at a time. See `engines.run.infer_request.EngineRequest`."""

    renews = False

    def __init__(self, call: ArraysFunction) -> None:
        self._call = call
        self._inputs: Arrays = {}

    def fill(self, inputs: Arrays) -> None:
        """Take the inputs as they are, for one run."""
        self._inputs = inputs

    def run(self) -> Arrays:
        """Call, once for each `fill`.

        The inputs are released before anything can fail: they may be views of a large request.

        Raises:
            ServingError: the inputs are wrong, in the function's own words.
            LibraryFailure: any other error.
        """
        inputs, self._inputs = self._inputs, {}
        try:
            return self._call(inputs)
        except ServingError:
            raise
        except Exception as error:  # libraries raise what they like
            raise LibraryFailure from error

    def run_new(self) -> Arrays:
        """As `run`, whatever the shapes."""
        return self.run()

    def cancel(self) -> None:
        """Nothing: a function cannot be ended early."""

    def renew(self) -> None:
        """Nothing: there is nothing to put in order."""


def program(
    signature: Signature,
    call: ArraysFunction,
    options: EngineOptions,
    *,
    library: str,
    refusals: Sequence[type[Exception]] = (ValueError, TypeError),
    is_short: bool = False,
) -> Program:
    """Make the program of a function.

    Args:
        signature: public signature.
        call: the function.
        options: options of the model.
        library: its name, for errors.
        refusals: types of error by which the library refuses inputs; others are its failures.
        is_short: its time depends only on the sizes of the inputs, and it never blocks: it runs on
            the event loop where that takes less than a millisecond, else in shared threads.
    """
    is_apart = options.execution == "auto" and not is_short
    execution = "async" if is_apart else options.execution
    return Program(
        signature,
        [FunctionRequest(call) for _ in range(options.nireq or threads())],
        LatencyModel(execution),
        failures=(LibraryFailure,),
        blame=partial(_blame, library, tuple(refusals), signature),
        apart=not is_short,
    )


def _blame(
    library: str, refusals: tuple[type[Exception], ...], signature: Signature, failure: Exception
) -> ServingError:
    cause = failure.__cause__ or failure
    if isinstance(cause, refusals):
        expected = "; ".join(map(str, signature.inputs.values()))
        return InvalidRequest(
            f"{library} refuses the inputs: {one_line(cause)}; the model expects {expected}"
        )
    return ServingError(f"{library} failed: {type(cause).__name__}: {one_line(cause)}")


def one_line(error: object) -> str:
    """Give the text of a library's error as one short line."""
    try:
        text = str(error)[: 8 * LONGEST_CAUSE]  # it may be as long as a request
        text = text.encode("utf-8", "replace").decode()  # half a pair of UTF-16 fits in no reply
    except Exception:  # the text of an exception is code of its author
        text = ""
    return " ".join(text.split())[:LONGEST_CAUSE] or type(error).__name__


@contextmanager
def needed(library: str, extra: str, file: str) -> "Iterator[None]":
    """Import `library` in the body; an error for a missing package has the line to install it.

    Raises:
        LoadFailed: it is not installed, or cannot be imported.
    """
    try:
        yield
    except ImportError as error:
        install = f"pip install '.[{extra}]'"
        if (error.name or "").partition(".")[0] == library:
            raise LoadFailed(f"{file} is read by {library}, not installed: {install}") from error
        raise LoadFailed(f"{library} cannot be imported: {one_line(error)}: {install}") from error


@contextmanager
def reading(library: str, file: str) -> "Iterator[None]":
    """Read `file` in the body; whatever the library raises becomes the load's error.

    Raises:
        LoadFailed: in one line, with the class of the cause.
    """
    try:
        yield
    except LoadFailed:
        raise
    except Exception as error:  # libraries raise what they like
        cause = f"{type(error).__name__}: {one_line(error)}"
        raise LoadFailed(f"{file} cannot be read by {library}: {cause}") from error
