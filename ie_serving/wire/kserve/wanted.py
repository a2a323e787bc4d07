"""Reads which outputs a request wants, and how each is written."""

import enum
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ie_serving.core.values.errors import NotSupported
from ie_serving.wire.json.buffers import Lazy
from ie_serving.wire.kserve.classes import CLASSIFICATION, number_of_classes
from ie_serving.wire.kserve.inputs import NOT_SERVED, unique
from ie_serving.wire.kserve.members import Parameters, flag, parameters_of, text_of

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
        form: of the reply.
        binary: whether each is raw, by its name; for a mixed reply.
        classes: how many classes, by the names of the outputs that are wanted as such.
    """

    names: tuple[str, ...]
    form: Form
    binary: Mapping[str, bool]
    classes: Mapping[str, int] = {}


EVERYTHING: Final = Wanted((), Form.JSON, {})
EVERYTHING_RAW: Final = Wanted((), Form.BINARY, {})


def wanted_outputs(outputs: Sequence[Lazy], parameters: Parameters) -> Wanted:
    """Read the requested outputs.

    Args:
        outputs: objects of the list in the request.
        parameters: of the request.

    Raises:
        InvalidRequest: one has no name, or a repeated name, or a parameter of a wrong type.
        NotSupported: one demands an unsupported feature.
    """
    default = flag(parameters, ALL_BINARY, False, "the request") if parameters else False
    if not outputs:
        return EVERYTHING_RAW if default else EVERYTHING
    names: list[str] = []
    binary: dict[str, bool] = {}
    classes: dict[str, int] = {}
    for each in outputs:
        name = text_of(each, "name", "each of the outputs")
        own = parameters_of(each, list(each), f'output "{name[:200]}"')
        for word in NOT_SERVED:
            if own.get(word):
                raise NotSupported(f'parameter "{word}" of output "{name[:200]}" is not supported')
        if (wanted := own.get(CLASSIFICATION)) is not None:
            classes[name] = number_of_classes(wanted, name)
        names.append(name)
        binary[name] = flag(own, BINARY, default, f'output "{name[:200]}"')
    kinds = set(binary.values())
    form = Form.MIXED if len(kinds) > 1 else Form.BINARY if True in kinds else Form.JSON
    return Wanted(unique(names, "output"), form, binary, classes)
