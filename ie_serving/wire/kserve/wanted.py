"""Reads which outputs a request wants, and how each is written."""

import enum
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.wire.json.buffers import Lazy
from ie_serving.wire.kserve.classes import CLASSIFICATION, number_of_classes
from ie_serving.wire.kserve.inputs import unique
from ie_serving.wire.kserve.members import Parameters, flag, parameters_of, text_of
from ie_serving.wire.kserve.regions import Placing, RegionPart, Regions, place_of

BINARY: Final = "binary_data"
ALL_BINARY: Final = "binary_data_output"


class Form(enum.Enum):
    """How the outputs of a reply are written."""

    JSON = "json"
    BINARY = "binary"
    """Raw, behind JSON that describes them."""
    MIXED = "mixed"
    """Some so, some so."""


class Wanted(NamedTuple):
    """The outputs that a request wants.

    Attributes:
        names: of the outputs; empty for all.
        form: of the reply, or of its part that is in no region.
        binary: whether each is raw, by its name; for a mixed reply.
        classes: how many classes, by the names of the outputs that are wanted as such.
        placing: outputs that are wanted in regions; None where none are.
    """

    names: tuple[str, ...]
    form: Form
    binary: Mapping[str, bool]
    classes: Mapping[str, int] = {}
    placing: Placing | None = None


EVERYTHING: Final = Wanted((), Form.JSON, {})
EVERYTHING_RAW: Final = Wanted((), Form.BINARY, {})


def wanted_outputs(outputs: Sequence[Lazy], parameters: Parameters, regions: Regions) -> Wanted:
    """Read the requested outputs.

    Args:
        outputs: objects of the list in the request.
        parameters: of the request.
        regions: of shared memory.

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
    places: dict[str, RegionPart] = {}
    for each in outputs:
        name = text_of(each, "name", "each of the outputs")
        own = parameters_of(each, list(each), f'output "{name[:200]}"')
        if (wanted := own.get(CLASSIFICATION)) is not None:
            classes[name] = number_of_classes(wanted, name)
        names.append(name)
        is_binary = flag(own, BINARY, default, f'output "{name[:200]}"')
        if own and (place := place_of(own, f'output "{name[:200]}"')):
            regions.check(place)
            places[name] = place
        else:
            binary[name] = is_binary
    if classes and places:
        raise InvalidRequest("classification and shared memory of outputs exclude each other")
    kinds = set(binary.values()) or {True}
    form = Form.MIXED if len(kinds) > 1 else Form.BINARY if True in kinds else Form.JSON
    placing = Placing(places, regions, binary) if places else None
    return Wanted(unique(names, "output"), form, binary, classes, placing)
