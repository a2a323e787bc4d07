"""`ie_serving verify`: compares a version's answers with those of the framework that made it.

    serving_default: alike on 9 requests; tensorflow 2.21.0 refuses 1
    scores: normal values (x [2, 4]): output "y" differs at [0, 1]: ...

For a training job or CI. `--write` stores the requests with the framework's answers as golden
requests beside the model, so that a server refuses the version if its outputs differ.
"""

import base64
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ie_serving.config.dialects.verify import VerifyRun
from ie_serving.core.values.errors import LoadFailed, ServingError
from ie_serving.core.values.fit import fit
from ie_serving.core.values.requests import ATOL, RTOL
from ie_serving.core.values.tensors import Array, Arrays, Signature, copies
from ie_serving.engines.base import CompiledModel, Engine, EngineOptions
from ie_serving.engines.generated_requests import (
    LEAST,
    GeneratedInput,
    GeneratedRequest,
    Guess,
    ValueKind,
    guesses,
    requests,
    usual,
)
from ie_serving.engines.layers import own_loop
from ie_serving.engines.layers.precision_trial import has_specs, input_of
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.verification.comparison import RefusedBySecond
from ie_serving.engines.verification.frameworks import FRAMEWORKS, Framework
from ie_serving.engines.verification.verdict import SHARE, differences
from ie_serving.wire.json.request import Format, parse_predict
from ie_serving.wire.json.response import encode_predictions

NOT_ALIKE = 1
"""Exit code if outputs differ, or nothing could be compared."""
GOLDEN = "golden.json"
MOST_GUESSES = 40
"""Sizes and integers that are tried before a signature counts as not compared."""
MOST_BYTES = 1 << 24
"""Most bytes of `golden.json`, which the server reads at each load; more requests are dropped."""


@dataclass(frozen=True)
class _KeptRequest:
    """A request with equal answers, and the framework's answer."""

    signature: Signature
    inputs: Arrays
    outputs: Arrays


def run(asked: VerifyRun, engine: Engine) -> int:
    """Print a line for each signature on standard output; give the exit code.

    Args:
        asked: the version and the requests.
        engine: serves the version.
    """
    try:
        framework = _framework(asked)
        own = OpenVinoOptions(inference_precision=asked.precision)
        options = EngineOptions(verify="off").having(own)
        model = engine.compile(asked.directory, options)
        try:
            return _compared(asked, model, framework)
        finally:
            model.close()
    except ServingError as error:
        print(f"ie_serving: error: {error}", file=sys.stderr)
        return NOT_ALIKE


def _framework(asked: VerifyRun) -> Framework:
    try:
        return FRAMEWORKS[asked.against](asked.directory)
    except ImportError as error:
        raise LoadFailed(f"{asked.against} cannot be imported ({error}): install it") from error
    except (OSError, ValueError, RuntimeError) as error:
        raise LoadFailed(
            f"{asked.against} does not take the version: {error}; compare with another"
        ) from error


def _compared(asked: VerifyRun, model: CompiledModel, framework: Framework) -> int:
    alike, kept = True, list[_KeptRequest]()
    for name, signature in model.signatures.items():
        if not (signature.left_out or signature.definition):
            found = _Comparison(model, signature, framework)
            found.of(asked)
            print(f"{name}: {found.summary()}")
            alike, kept = alike and found.is_alike, kept + found.kept
    if alike and asked.write:
        _write(asked.directory / GOLDEN, kept)
    return 0 if alike and kept else NOT_ALIKE


class _Comparison:
    """Compares engine and framework on one signature."""

    def __init__(self, model: CompiledModel, signature: Signature, framework: Framework) -> None:
        self._model = model
        self._signature = signature
        self._framework = framework
        self._refused = 0
        self._difference = ""
        self.kept: list[_KeptRequest] = []

    def of(self, asked: VerifyRun) -> None:
        """Compare on the given requests, or on generated ones."""
        if asked.requests is not None:
            for inputs in _given_inputs(asked.requests, self._signature):
                self._ask("a given request", inputs, kept=True)
        elif has_specs(self._signature):
            for request in self._generated():
                self._ask(str(request), request.inputs, kept=request.kind is ValueKind.FINITE)

    @property
    def is_alike(self) -> bool:
        """Whether no outputs differ."""
        return not self._difference

    def summary(self) -> str:
        """Give the result as text."""
        if self._difference:
            return self._difference
        if not self.kept:
            return "not compared: no request is taken by both; give some in a file"
        more = f"; {self._framework.release} refuses {self._refused}" if self._refused else ""
        return f"alike on {len(self.kept)} requests{more}"

    def _generated(self) -> Iterator[GeneratedRequest]:
        inputs = [input_of(alias, spec) for alias, spec in self._signature.inputs.items()]
        guess = self._first_taken(inputs)
        if guess is not None:
            yield usual(inputs, guess)
            yield from (each for each in requests(inputs, guess) if each.label != LEAST)

    def _first_taken(self, inputs: list[GeneratedInput]) -> Guess | None:
        for number, guess in enumerate(guesses(inputs)):
            if number == MOST_GUESSES:
                return None
            try:
                self._framework.run(self._signature, usual(inputs, guess).inputs)
            except RefusedBySecond:
                continue
            return guess
        return None

    def _ask(self, label: str, inputs: Arrays, *, kept: bool) -> None:
        try:
            expected = self._framework.run(self._signature, inputs)
        except RefusedBySecond:
            self._refused += 1
            return
        try:
            found = own_loop.run(self._model.infer(self._signature, inputs, copies))
        except ServingError as error:
            if kept and not self._difference:
                self._difference = f"{label}: the server refuses it: {error}"
            return  # odd values may be refused, with an error that names them
        shared = {name: each for name, each in expected.items() if name in found}
        precision = self._framework.precision or self._signature.precision
        difference = differences(found, shared, precision)
        if difference:
            self._difference = self._difference or f"{label}: {difference}"
        elif kept:
            self.kept.append(_KeptRequest(self._signature, inputs, shared))


def _given_inputs(file: Path, signature: Signature) -> Iterator[Arrays]:
    for line in file.read_bytes().splitlines():
        if not line.strip():
            continue
        body = parse_predict(line)
        if (body.signature_name or signature.name) == signature.name:
            yield fit(signature, body.decode(signature)[0])[0]


def _write(path: Path, kept: list[_KeptRequest]) -> None:
    """Write golden requests, up to `MOST_BYTES`, in one atomic step."""
    entries: list[str] = []
    for each in kept:
        entry = _entry(each)
        if sum(map(len, entries)) + len(entry) <= MOST_BYTES:
            entries.append(entry)
    if not entries:
        raise ServingError(f"each request takes more than {MOST_BYTES} bytes: none is written")
    part = path.with_suffix(".part")
    part.write_text('{"requests": [\n' + ",\n".join(entries) + "\n]}\n")
    os.replace(part, path)
    print(f"{path}: {len(entries)} golden requests")


def _entry(kept: _KeptRequest) -> str:
    inputs = {name: _in_json(array) for name, array in kept.inputs.items()}
    request = json.dumps({"signature_name": kept.signature.name, "inputs": inputs})
    outputs = encode_predictions(kept.outputs, Format.COLUMN, kept.signature.outputs)
    # The two add in different orders, so a zero is only as exact as the greatest number.
    greatest = max(map(_greatest, kept.outputs.values()), default=0.0)
    tolerance = json.dumps({"rtol": RTOL, "atol": max(ATOL, SHARE * greatest)})[1:-1]
    return f'{{"request": {request}, "response": {bytes(outputs).decode()}, {tolerance}}}'


def _greatest(array: Array) -> float:
    if array.dtype.kind != "f":
        return 0.0
    return float(np.abs(array[np.isfinite(array)].astype(np.float64)).max(initial=0.0))


def _in_json(array: Array) -> Any:  # noqa: ANN401  nested lists of any values
    if array.dtype != np.object_:
        return array.tolist()
    texts = [{"b64": base64.b64encode(text).decode()} for text in array.ravel().tolist()]
    nested: list[Any] = np.array(texts, np.object_).reshape(array.shape).tolist()
    return nested
