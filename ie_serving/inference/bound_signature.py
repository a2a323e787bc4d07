"""A signature of a version bound to an interface: all that its Predict requests have in common."""

import array
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from ie_serving.core.values.errors import InvalidRequest, InvalidTensor, ServingError, advised
from ie_serving.core.values.fit import exact, fit, fits, shed
from ie_serving.core.values.hints import Hint
from ie_serving.core.values.requests import CALLER, InferRequest
from ie_serving.core.values.tensors import Arrays, Method, Outputs, Signature
from ie_serving.inference import examples
from ie_serving.inference.debug_lines import is_wanted, note_tensors
from ie_serving.inference.interface import (
    Encode,
    Interface,
    ReadOutputs,
    UnencodedOutputs,
    unencoded,
)
from ie_serving.inference.request_notes import observed
from ie_serving.models.version.handle import Servable
from ie_serving.telemetry.metrics.requests import ServedRequests
from ie_serving.telemetry.request.entry import CURRENT

T = TypeVar("T")

MOST_FILTERS = 64
"""Output filters for which one version and signature keeps encoders; a further filter replaces the
oldest. Clients choose the filters, so their number has no other bound."""


class BoundSignature(Generic[T]):
    """One signature of one version, prepared to answer one interface.

    Attributes:
        signature: the signature.
        served: counts the requests that succeed; None if they are not counted.
    """

    __slots__ = (
        "_encoders",
        "_exact",
        "_filtered",
        "_interface",
        "_noted",
        "_parse_examples",
        "_servable",
        "served",
        "signature",
    )

    def __init__(
        self,
        servable: Servable,
        signature: Signature,
        interface: Interface[T],
        served: ServedRequests | None,
        parse_examples: examples.ParseExamples,
    ) -> None:
        self.signature = signature
        self.served = served
        self._servable = servable
        self._interface = interface
        self._parse_examples = parse_examples
        self._exact = exact(signature)
        self._encoders = self._encoders_for(tuple(signature.outputs))
        # Once for a signature: without log lines, requests cost no more.
        self._noted = is_wanted()
        self._filtered: dict[tuple[str, ...], Mapping[object, ReadOutputs[T]]] = {}

    def start(
        self, inputs: Arrays, form: object, request: InferRequest
    ) -> Coroutine[Any, Any, T | UnencodedOutputs[T]]:
        """Check the inputs and prepare to run the model; the coroutine returns the reply.

        Args:
            inputs: arrays by alias.
            form: form of the reply.
            request: the request that the inputs come from.

        Raises:
            InvalidRequest: names, dtypes, shapes or the output filter do not fit the signature.
        """
        if self._noted:
            entrypoint, names = self._interface.entrypoint, request.output_filter
            note_tensors(self._servable, self.signature, entrypoint, inputs, names)
        encoders = self._encoders
        if output_filter := request.output_filter:
            encoders = self._filtered.get(output_filter) or self._filter(output_filter)
        try:
            read = encoders[form]
        except KeyError:
            read = self._reader_of(form, output_filter)
        if CURRENT.get() is not None:
            read = observed(read, self._servable)
        signature = self.signature
        known = self._exact
        if known is not None and len(inputs) == len(known) and fits(inputs, known):
            fitted, added = inputs, 0  # the usual request, which needs no change
        else:
            try:
                fitted, added = fit(signature, inputs)
            except InvalidTensor as refusal:
                if not signature.as_sent:
                    raise
                asked = request.output_filter or tuple(signature.outputs)
                return self._servable.compiled.infer_as_sent(
                    signature, inputs, asked, refusal, read
                )
        # A context variable, not an argument: batching and sequences in between ignore callers.
        if signature.sees_caller:
            CALLER.set(self._interface.caller(request.caller))
        if signature.examples is not None:
            return examples.infer_serialized(
                self._servable, signature.examples, fitted, self._parse_examples, read
            )
        if added:
            return self._servable.compiled.infer(signature, fitted, lambda o: read(shed(o, added)))
        return self._servable.compiled.infer(signature, fitted, read)

    def of_stream(
        self, inputs: Arrays, form: object, request: InferRequest
    ) -> tuple[Arrays, ReadOutputs[T]]:
        """Check the inputs of a request for a model that answers the whole stream.

        Returns:
            The inputs as the model takes them, and the reader of the outputs that follow.

        Raises:
            InvalidRequest: as `start`, or an image is sent: no layer stands before a stream.
        """
        names = request.output_filter
        encoders = (self._filtered.get(names) or self._filter(names)) if names else self._encoders
        fitted, _ = fit(self.signature, inputs)
        for name, spec in self.signature.inputs.items():
            if spec.image and fitted[name].dtype != spec.dtype.numpy:
                raise InvalidTensor(
                    f"input {spec} is an encoded image: a kernel's stream takes numbers alone"
                )
        read = encoders.get(form) or self._reader_of(form, names)
        return fitted, observed(read, self._servable)

    def _filter(self, outputs: tuple[str, ...]) -> Mapping[object, ReadOutputs[T]]:
        check_output_filter(self.signature, outputs)
        # Dicts keep insertion order, so the first is the oldest: no clock, and no work on a hit.
        if len(self._filtered) >= MOST_FILTERS:
            del self._filtered[next(iter(self._filtered))]
        encoders = self._filtered[outputs] = self._encoders_for(outputs)
        return encoders

    def _encoders_for(self, outputs: tuple[str, ...]) -> Mapping[object, ReadOutputs[T]]:
        encoders = self._interface.encoders(self._servable, self.signature, outputs)
        return {form: self._read(form, encode) for form, encode in encoders.items()}

    def _reader_of(self, form: object, outputs: tuple[str, ...]) -> ReadOutputs[T]:
        """Make the reader for a form that one request alone has."""
        encoder = self._interface.encoder
        if encoder is None:
            raise KeyError(form)
        names = outputs or tuple(self.signature.outputs)
        return self._read(form, encoder(self._servable, self.signature, names, form))

    def _read(self, form: object, encode: Encode[T]) -> ReadOutputs[T]:
        interface = self._interface
        noted = self.served.encoded if self.served is not None else None
        if interface.large_reply is not None:
            check = partial(interface.check_large, form)
            return _reader(encode, noted, interface.large_reply, check)
        return encode if noted is None else _timed(encode, noted)


def _timed(encode: Encode[T], noted: "array.array[float]") -> Encode[T]:
    """Note the seconds that encoding each reply takes, in any thread that encodes."""

    def timed(outputs: Outputs) -> T:
        began = time.perf_counter()
        reply = encode(outputs)
        noted.append(time.perf_counter() - began)
        return reply

    return timed


def _reader(
    encode: Encode[T],
    noted: "array.array[float] | None",
    large: int,
    check: Callable[[Outputs], None],
) -> ReadOutputs[T]:
    """Encode outputs in place, or copy them first if they have `large` elements or more.

    `noted` gets the time of the encoder alone, without the copy. For large replies, `check` runs
    before the inference is committed, so that outputs that cannot be encoded fail the request and
    leave the sequence's state unchanged.
    """
    late = encode if noted is None else _timed(encode, noted)

    def read(outputs: Outputs) -> T | UnencodedOutputs[T]:
        size = 0
        for output in outputs.values():
            size += output.size
        if size >= large:
            check(outputs)
            return unencoded(late, outputs)
        if noted is None:
            return encode(outputs)
        began = time.perf_counter()  # as `timed`, without the call
        reply = encode(outputs)
        noted.append(time.perf_counter() - began)
        return reply

    return read


def check_method(signature: Signature) -> None:
    """Refuse a signature whose method no API calls.

    Raises:
        ServingError: the method is none of predict, classify and regress.
    """
    # All three are allowed, as in TensorFlow Serving: Predict may run a Classify signature.
    known = [method.value for method in Method]
    if signature.method not in known:
        raise ServingError(
            advised(
                f"Expected prediction signature method_name to be one of {{{', '.join(known)}}}."
                f" Was: {signature.method}",
                "; export the model again"
                f"{Hint(', or start the server without {server.method_name_check}')}",
            )
        )


def check_output_filter(signature: Signature, aliases: Sequence[str]) -> None:
    """Refuse an output alias that the signature does not have, or that is named twice.

    Raises:
        InvalidRequest: in TensorFlow Serving's wording, with the signature's aliases.
    """
    for index, alias in enumerate(aliases):
        if alias not in signature.outputs and not signature.gives_any:
            known = ",".join(sorted(signature.outputs))
            raise InvalidRequest(
                f"output tensor alias not found in signature: {alias} Outputs expected to be in"
                f" the set {{{known}}}."
            )
        # Refused rather than merged: a client that names an output twice expects two.
        if alias in aliases[:index]:
            raise InvalidRequest(
                advised(
                    f"duplicate output tensor alias: {alias}",
                    "; name each output once in output_filter",
                )
            )
