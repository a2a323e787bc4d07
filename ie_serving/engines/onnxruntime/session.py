"""Infer requests of onnxruntime, whose sessions take and give numpy arrays without binding."""

from collections.abc import Collection, Mapping

from ie_serving.core.values.tensors import Array, DataType, TensorSpec, decoded
from ie_serving.engines.onnxruntime.specs import Session, SessionOutput


class SessionFailure(Exception):
    """An error of the library during an inference; its own errors have no common base class."""


class SessionRequest:
    """Runs one inference at a time, on a session that several requests share.

    See `engines.run.infer_request.InferRequest`. Every inference gives new arrays, so a failure
    leaves no state.
    """

    renews = False

    def __init__(
        self, session: Session, inputs: Collection[TensorSpec], outputs: Collection[SessionOutput]
    ) -> None:
        self._run = session.run
        self._texts = [spec.name for spec in inputs if spec.dtype is DataType.STRING]
        self._outputs = list(outputs)
        self._names = [output.spec.name for output in self._outputs]
        self._feed: dict[str, Array] = {}

    def fill(self, inputs: Mapping[str, Array]) -> None:
        """Take the inputs as they are, for one run. Raises: InvalidTensor."""
        self._feed = {
            **inputs,
            **{name: decoded(name, inputs[name], "onnxruntime") for name in self._texts},
        }

    def run(self) -> Mapping[str, Array]:
        """Infer, once for each `fill`. Raises: Failure.

        The inputs are released before anything can fail: they may be views of a large request,
        whose memory would otherwise stay until this object is used again.
        """
        feed, self._feed = self._feed, {}
        try:
            values = self._run(self._names, feed)
        # All errors: those of the library's binding derive from Exception or RuntimeError, and an
        # error that passed would count as a defect of this server.
        except Exception as error:
            raise SessionFailure(str(error)) from error
        return {
            output.spec.name: output.array(value)
            for output, value in zip(self._outputs, values, strict=True)
        }

    def run_new(self) -> Mapping[str, Array]:
        """As `run`, for any shapes."""
        return self.run()

    def cancel(self) -> None:
        """Do nothing: the library cannot cancel an inference."""

    def renew(self) -> None:
        """Do nothing: a failure leaves no state."""
