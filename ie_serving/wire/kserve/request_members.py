"""Reads members of the objects in a request, and which outputs it wants."""

import enum
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import simdjson

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.wire.json.buffers import Lazy
from ie_serving.wire.kserve.classes import CLASSIFICATION, number_of_classes
from ie_serving.wire.kserve.inputs import unique
from ie_serving.wire.kserve.regions import RegionPart, Regions, ReplyRegions, part_of

Parameters: TypeAlias = Mapping[str, Any]
"""Values by name: None, bool, int, float or str."""

NESTED: Final = "[...]"
"""Stands for a parameter that is a list or an object, which the protocol does not have."""

_CONTAINERS: Final = (simdjson.Array, simdjson.Object, list, dict)

BINARY: Final = "binary_data"
ALL_BINARY: Final = "binary_data_output"


def entries(owner: Lazy, key: str) -> Sequence[Lazy]:
    """Give a member that is a list of objects. Raises: InvalidRequest."""
    value = owner[key]
    if isinstance(value, (simdjson.Array, list)):
        found = list(value)
        if all(isinstance(each, (simdjson.Object, dict)) for each in found):
            return found
    raise InvalidRequest(f'"{key}" has to be a list of objects, such as [{{"name": "x"}}]')


def text_of(owner: Lazy, key: str, whose: str) -> str:
    """Give a member that is a string. Raises: InvalidRequest."""
    value = owner[key] if key in list(owner) else None
    if not isinstance(value, str):
        raise InvalidRequest(f'{whose} needs "{key}", a string')
    return value


def parameters_of(owner: Lazy, keys: Sequence[str], whose: str) -> Parameters:
    """Give the parameters of an object whose keys are known; none where it has none.

    Raises:
        InvalidRequest: `parameters` is no object.
    """
    if "parameters" not in keys:
        return {}
    value = owner["parameters"]
    if not isinstance(value, (simdjson.Object, dict)):
        raise InvalidRequest(f'"parameters" of {whose} has to be an object')
    found: dict[str, Any] = {}
    for name, each in value.items():
        # The first of equal names counts, as everywhere.
        found.setdefault(name, NESTED if isinstance(each, _CONTAINERS) else each)
    return found


def flag(parameters: Parameters, name: str, default: bool, whose: str) -> bool:
    """Give a parameter that is true or false. Raises: InvalidRequest."""
    value = parameters.get(name, default)
    if not isinstance(value, bool):
        raise InvalidRequest(f'parameter "{name}" of {whose} has to be true or false')
    return value


class OutputForm(enum.Enum):
    """How the outputs of a reply are written."""

    JSON = "json"
    BINARY = "binary"
    """Raw, behind JSON that describes them."""
    MIXED = "mixed"
    """Some so, some so."""


class RequestedOutputs(NamedTuple):
    """The outputs that a request wants.

    Attributes:
        names: names of the outputs; empty for all.
        form: form of the reply, or of its part that is in no region.
        binary: whether each is raw, by its name; for a mixed reply.
        classes: numbers of classes, by the names of the outputs that are wanted as such.
        placing: outputs that are wanted in regions; None where none are.
    """

    names: tuple[str, ...]
    form: OutputForm
    binary: Mapping[str, bool]
    classes: Mapping[str, int] = {}
    placing: ReplyRegions | None = None


EVERYTHING: Final = RequestedOutputs((), OutputForm.JSON, {})
EVERYTHING_RAW: Final = RequestedOutputs((), OutputForm.BINARY, {})


def wanted_outputs(
    outputs: Sequence[Lazy], parameters: Parameters, regions: Regions
) -> RequestedOutputs:
    """Read the requested outputs.

    Args:
        outputs: objects of the list in the request.
        parameters: parameters of the request.
        regions: regions of shared memory.

    Raises:
        InvalidRequest: one has no name, or a repeated name, or a parameter of a wrong type.
        NotFound, NotSupported: as `regions.check`.
    """
    default = flag(parameters, ALL_BINARY, False, "the request") if parameters else False
    if not outputs:
        return EVERYTHING_RAW if default else EVERYTHING
    names: list[str] = []
    binary: dict[str, bool] = {}
    classes: dict[str, int] = {}
    parts: dict[str, RegionPart] = {}
    for each in outputs:
        name = text_of(each, "name", "each of the outputs")
        own = parameters_of(each, list(each), f'output "{name[:200]}"')
        if (wanted := own.get(CLASSIFICATION)) is not None:
            classes[name] = number_of_classes(wanted, name)
        names.append(name)
        is_binary = flag(own, BINARY, default, f'output "{name[:200]}"')
        if own and (part := part_of(own, f'output "{name[:200]}"')):
            regions.check(part)
            parts[name] = part
        else:
            binary[name] = is_binary
    if classes and parts:
        raise InvalidRequest(
            "classification and shared memory of outputs exclude each other: leave one of them out"
        )
    kinds = set(binary.values()) or {True}
    form = (
        OutputForm.MIXED
        if len(kinds) > 1
        else OutputForm.BINARY
        if True in kinds
        else OutputForm.JSON
    )
    placing = ReplyRegions(parts, regions, binary) if parts else None
    return RequestedOutputs(unique(names, "output"), form, binary, classes, placing)
