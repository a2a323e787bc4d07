"""Inference with a session of onnxruntime: it takes and gives numpy, so nothing is bound."""

from collections.abc import Collection, Mapping

from ie_serving.core.values.tensors import Array, DataType, TensorSpec
from ie_serving.engines.onnxruntime.specs import Session, SessionOutput
from ie_serving.engines.run.texts import decoded


class SessionFailure(Exception):
    """What the library raised during an inference; its own errors have no common base class."""


class SessionRequest:
    """One inference at a time of a session that several share; the library allows that.

    See `engines.run.infer_request.InferRequest`. Every inference gives new arrays, so a failure
    leaves nothing behind.
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

        The inputs are let go of before anything can fail: they may be views of a large request,
        whose memory would else be held until this object is lent again.
        """
        feed, self._feed = self._feed, {}
        try:
            values = self._run(self._names, feed)
        # All: the errors of the library's binding derive from Exception and RuntimeError as it
        # likes, and one that got through would count as a defect of this server.
        except Exception as error:
            raise SessionFailure(str(error)) from error
        return {
            output.spec.name: output.array(value)
            for output, value in zip(self._outputs, values, strict=True)
        }

    def run_new(self) -> Mapping[str, Array]:
        """As `run`, whatever the shapes."""
        return self.run()

    def cancel(self) -> None:
        """Nothing: the library cannot end an inference early."""

    def renew(self) -> None:
        """Nothing: there is nothing to put in order."""
