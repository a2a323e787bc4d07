"""Asks a version golden requests before it serves; one that answers otherwise is not served.

They lie beside the model: in `golden.json`, or in `golden.tfrecord`. They take the way of every
Predict, and what they give is compared within the tolerances that the file allows: floats by
`atol + rtol * |expected|`, all else bit for bit.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from ie_serving.core.values.difference import difference
from ie_serving.core.values.errors import LoadFailed, PreconditionFailed, ServingError
from ie_serving.core.values.golden import GoldenRequest
from ie_serving.core.values.tensors import SERVING_DEFAULT, Signature
from ie_serving.inference.deadline import limited
from ie_serving.inference.golden_files import Read, golden_requests
from ie_serving.inference.interface import Api, Interface, Outputs
from ie_serving.inference.large_reply import Unencoded
from ie_serving.inference.plane import DataPlane
from ie_serving.models.version.handle import Servable
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

LONGEST_S = 60.0
"""Seconds that one golden request may take; beyond them the version fails."""

Step = Callable[[Servable, Path], Awaitable[None]]
"""What is done with a version before it serves. Raises LoadFailed to refuse it."""


def in_turn(*steps: Step) -> Step:
    """Make one step of several."""

    async def run(servable: Servable, directory: Path) -> None:
        for step in steps:
            await step(servable, directory)

    return run


class Golden:
    """Asks each golden request once.

    Args of the constructor:
        plane: answers them.
        readers: by file name.
    """

    def __init__(self, plane: DataPlane, readers: Mapping[str, Read]) -> None:
        self._plane = plane
        self._readers = readers
        # The series of gRPC's Predict, which is there anyway: replays are not counted.
        self._interface: Interface[Outputs] = Interface(
            entrypoint="GRPC",
            labels={Api.PREDICT: "Predict"},
            encoders=lambda servable, signature, outputs: {None: partial(_copies, outputs)},
            unknown_signature=_unknown_signature,
        )

    async def __call__(self, servable: Servable, directory: Path) -> None:
        """Ask `servable` what is in the files of `directory`.

        Raises:
            LoadFailed: a file cannot be read, or an answer is not the expected one.
        """
        for name, read in self._readers.items():
            path = directory / name
            # A link that leads nowhere is meant as well: its version must not serve unproven.
            if os.path.lexists(path):
                await self._ask_all(servable, path, read)

    async def _ask_all(self, servable: Servable, path: Path, read: Read) -> None:
        requests, asked = golden_requests(path, read), 0
        while golden := await _next(path, requests):
            asked += 1
            fault = await self._fault(servable, golden)
            if fault:
                raise LoadFailed(
                    f"golden request {golden.place} of {path.name}: {fault}; export the model"
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
        """Say how the answer to one request differs; empty where it does not."""
        request = golden.request
        try:
            replay = self._plane.replay_predict(servable, request, self._interface)
            found = await limited(LONGEST_S, replay)
            assert not isinstance(found, Unencoded)  # this interface encodes nothing
            signature = servable.signatures[request.signature or SERVING_DEFAULT]
            # In a thread: outputs may be large, and other models are serving meanwhile.
            return await asyncio.to_thread(_differences, golden, signature, found)
        except ServingError as error:
            return str(error)


async def _next(path: Path, requests: Iterator[GoldenRequest]) -> GoldenRequest | None:
    """Read one more request, in a thread. Raises: LoadFailed."""
    try:
        return await asyncio.to_thread(next, requests, None)
    except (OSError, ServingError) as error:
        raise LoadFailed(f"{path.name} cannot be used: {error}") from error


def _differences(golden: GoldenRequest, signature: Signature, found: Outputs) -> str:
    """Say how outputs differ from what the request expects. Raises: InvalidRequest."""
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
