"""Tensors whose values lie in shared memory instead of the message.

Source: Triton's `extension_shared_memory.md`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, NoReturn, Protocol

from ie_serving.core.values.errors import InvalidRequest, NotSupported
from ie_serving.core.values.hints import Hint
from ie_serving.core.values.tensors import Array, TensorSpec
from ie_serving.wire.kserve.datatypes import NAME_OF
from ie_serving.wire.kserve.raw import encode_raw
from ie_serving.wire.protobuf.fields import Encoded, UnusualField
from ie_serving.wire.tfs.tensor_encoder import size_of

REGION: Final = "shared_memory_region"
BYTE_SIZE: Final = "shared_memory_byte_size"
OFFSET: Final = "shared_memory_offset"
"""Parameters of an input or of a requested output."""
AT_ONCE: Final = 1 << 20
"""Bytes of one request that are read on the event loop: a copy takes 0.1 ms, as does a thread."""


class RegionPart(NamedTuple):
    """Where the values of a tensor are, or shall be.

    Attributes:
        region: name of a registered region.
        size: number of bytes; of an output the most that it may take.
        offset: offset of the first one in the region.
    """

    region: str
    size: int
    offset: int


class Regions(Protocol):
    """The registered regions. Each method raises NotFound, InvalidRequest, NotSupported."""

    def check(self, part: RegionPart) -> None:
        """Refuse a part that is in no region."""

    def read(self, part: RegionPart) -> Encoded:
        """Copy the bytes of a part: a client may change its memory at any time."""

    def write(self, part: RegionPart, data: Encoded) -> None:
        """Write bytes to the beginning of a part."""


class NoRegions:
    """The regions of a server that has none."""

    extensions: tuple[str, ...] = ()

    def check(self, *_: object) -> NoReturn:
        """Refuse. Raises: NotSupported."""
        raise NotSupported(
            "system shared memory is switched off: send the values themselves",
            Hint(", or start the server with {server.shared_memory} true"),
        )

    read = write = register = unregister = status = check

    def check_cuda(self, _: str) -> NoReturn:
        """Refuse. Raises: NotSupported."""
        raise NotSupported("this server has no cuda shared memory; GET /v2 lists its extensions")


OFF: Final = NoRegions()


class SmallParts:
    """Regions on the event loop: `AT_ONCE` bytes of a request at most; threads read larger ones."""

    def __init__(self, regions: Regions) -> None:
        self.check, self._read, self.write = regions.check, regions.read, regions.write
        self._left = AT_ONCE

    def anew(self) -> "SmallParts":
        """Begin another request, which may read `AT_ONCE` bytes."""
        self._left = AT_ONCE
        return self

    def read(self, part: RegionPart) -> Encoded:
        """See `Regions`. Raises: UnusualField, beyond `AT_ONCE` bytes."""
        self.check(part)
        self._left -= part.size
        if self._left < 0:
            raise UnusualField
        return self._read(part)


# Equality is identity: this is the form of one reply alone.
@dataclass(frozen=True, eq=False)
class ReplyRegions:
    """The form of a reply that writes some of its outputs to regions.

    Attributes:
        parts: parts of regions for these outputs, by name.
        regions: shared memory that holds the parts.
        binary: whether each other output is raw, by name, over REST.
        raw: whether the others are, over gRPC.
    """

    parts: Mapping[str, RegionPart]
    regions: Regions
    binary: Mapping[str, bool]
    raw: bool = False

    def write(
        self, specs: Mapping[str, TensorSpec], outputs: Mapping[str, Array]
    ) -> dict[str, dict[str, str | int]]:
        """Write outputs to their regions, if each fits.

        Returns:
            The parameters of each in the reply, by name.

        Raises:
            InvalidRequest, NotFound: an output is larger than its part, or its region is gone.
        """
        written = {name: encode_raw(outputs[name], specs[name].dtype) for name in self.parts}
        for name, data in written.items():
            part, size = self.parts[name], size_of(data)
            if size > part.size:
                raise InvalidRequest(
                    f'output "{name[:200]}" has {size} bytes ({NAME_OF[specs[name].dtype]} of shape'
                    f' {list(outputs[name].shape)}), and its "{BYTE_SIZE}" is {part.size}:'
                    " give it a larger place"
                )
            self.regions.check(part)
        told: dict[str, dict[str, str | int]] = {}
        for name, data in written.items():
            part = self.parts[name]
            self.regions.write(part, data)
            told[name] = {REGION: part.region, BYTE_SIZE: size_of(data)}
            if part.offset:
                told[name][OFFSET] = part.offset
        return told


def part_of(parameters: Mapping[str, object], whose: str) -> RegionPart | None:
    """Read the parameters of a tensor; None where its values are in the message.

    Raises:
        InvalidRequest: one is missing, or of a wrong type.
    """
    region = parameters.get(REGION)
    if region is None:
        return None
    if not isinstance(region, str) or not region:
        raise InvalidRequest(f'parameter "{REGION}" of {whose} has to be the name of a region')
    size = _number(parameters, BYTE_SIZE, None, whose)
    return RegionPart(region, size, _number(parameters, OFFSET, 0, whose))


def _number(parameters: Mapping[str, object], name: str, default: int | None, whose: str) -> int:
    value = parameters.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidRequest(
            f'parameter "{name}" of {whose} has to be a number of bytes, 0 or more, beside'
            f' "{REGION}"'
        )
    return value
