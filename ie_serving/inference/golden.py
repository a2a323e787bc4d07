"""Runs golden requests on a version before it serves; a version with a wrong answer is refused.

The requests are in `golden.json` or `golden.tfrecord` beside the model. They run as any Predict
does. The outputs are compared within the tolerances of the file: floats by
`atol + rtol * |expected|`, all other types bit for bit.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from ie_serving.core.runtime.threads import in_own_thread
from ie_serving.core.values.difference import difference
from ie_serving.core.values.errors import LoadFailed, PreconditionFailed, ServingError
from ie_serving.core.values.requests import GoldenRequest
from ie_serving.core.values.tensors import SERVING_DEFAULT, Outputs, Signature
from ie_serving.inference.deadline import limited
from ie_serving.inference.interface import Api, Interface, UnencodedOutputs
from ie_serving.inference.plane import DataPlane
from ie_serving.inference.warmup import ReadRecords, golden_requests
from ie_serving.models.version.handle import Servable
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)
T = TypeVar("T")

LONGEST_S = 60.0
"""Seconds that one golden request may take, or its reading; beyond, the version fails to load."""

AfterLoad = Callable[[Servable, Path], Awaitable[None]]
"""A check of a version before it serves. Raises LoadFailed to refuse the version."""


def in_turn(*steps: AfterLoad) -> AfterLoad:
    """Combine several steps into one that runs them in order."""

    async def run(servable: Servable, directory: Path) -> None:
        for step in steps:
            await step(servable, directory)

    return run


class GoldenRun:
    """Runs each golden request once.

    Args of the constructor:
        plane: answers the requests.
        readers: readers by file name.
    """

    def __init__(self, plane: DataPlane, readers: Mapping[str, ReadRecords]) -> None:
        self._plane = plane
        self._readers = readers
        # Replays are not counted: the labels are those of gRPC's Predict, whose series exists.
        self._interface: Interface[Outputs] = Interface(
            entrypoint="GRPC",
            labels={Api.PREDICT: "Predict"},
            encoders=lambda servable, signature, outputs: {None: partial(_copies, outputs)},
            unknown_signature=_unknown_signature,
        )

    async def __call__(self, servable: Servable, directory: Path) -> None:
        """Send the golden requests in `directory` to `servable`.

        Raises:
            LoadFailed: a file cannot be read, or outputs differ from the expected ones.
        """
        for name, read in self._readers.items():
            path = directory / name
            # A dangling link counts as a file: its version must not serve without the check.
            if await _read(path, partial(os.path.lexists, path)):
                await self._ask_all(servable, path, read)

    async def _ask_all(self, servable: Servable, path: Path, read: ReadRecords) -> None:
        requests, asked = golden_requests(path, read), 0
        while golden := await _read(path, partial(next, requests, None)):
            asked += 1
            fault = await self._fault(servable, golden)
            if fault:
                raise LoadFailed(
                    f"golden request {golden.source} of {path.name}: {fault}; export the model"
                    f" again, or correct {path.name}"
                )
        log.info(
            Event(
                "golden requests answered",
                model=servable.name,
                version=servable.version,
                file=path.name,
                requests=asked,
            )
        )

    async def _fault(self, servable: Servable, golden: GoldenRequest) -> str:
        """Describe how the outputs of one request differ; empty if they do not."""
        request = golden.request
        try:
            replay = self._plane.replay_predict(servable, request, self._interface)
            found = await limited(LONGEST_S, replay)
            assert not isinstance(found, UnencodedOutputs)  # this interface encodes nothing
            signature = servable.signatures[request.signature or SERVING_DEFAULT]
            # Outputs are compared in a thread: they may be large, and other models serve meanwhile.
            return await asyncio.to_thread(_differences, golden, signature, found)
        except ServingError as error:
            return str(error)


async def _read(path: Path, read: Callable[[], T]) -> T:
    """Read from the file, in a thread. Raises: LoadFailed."""
    try:
        return await in_own_thread(LONGEST_S, read)
    except (OSError, ServingError) as error:
        raise LoadFailed(f"{path.name} cannot be used: {error}") from error


def _differences(golden: GoldenRequest, signature: Signature, found: Outputs) -> str:
    """Describe how outputs differ from those that the request expects. Raises: InvalidRequest."""
    expected = golden.expected(signature)
    unknown = expected.keys() - found.keys()
    if unknown:
        known = ", ".join(sorted(found))
        return f"the model gives {known}, not {', '.join(sorted(unknown))}"
    tolerances = golden.rtol, golden.atol
    said = (difference(name, found[name], expected[name], *tolerances) for name in expected)
    return "; ".join(filter(None, said))


def _copies(names: Sequence[str], outputs: Outputs) -> Outputs:
    return {name: np.array(outputs[name]) for name in names}


def _unknown_signature(servable: Servable, name: str) -> PreconditionFailed:
    return PreconditionFailed(
        f'there is no signature "{name}"; the model has: {servable.signature_names}'
    )
