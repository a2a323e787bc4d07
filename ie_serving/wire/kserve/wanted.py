"""Which outputs a request asks for, and how each is to be written."""

import enum
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ie_serving.core.values.errors import NotSupported
from ie_serving.wire.json.buffers import Lazy
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
    """What a request asks for.

    Attributes:
        names: of the outputs; empty for all.
        form: of the reply.
        binary: whether each is raw, by its name; of a reply that is mixed.
    """

    names: tuple[str, ...]
    form: Form
    binary: Mapping[str, bool]


EVERYTHING: Final = Wanted((), Form.JSON, {})
EVERYTHING_RAW: Final = Wanted((), Form.BINARY, {})


def wanted_outputs(outputs: Sequence[Lazy], parameters: Parameters) -> Wanted:
    """Read the outputs that are asked for.

    Args:
        outputs: objects of the list in the request.
        parameters: of the request.

    Raises:
        InvalidRequest: one has no name, or that of another, or a parameter of another type than it
            has to be.
        NotSupported: one asks for what this server does not have.
    """
    default = flag(parameters, ALL_BINARY, False, "the request") if parameters else False
    if not outputs:
        return EVERYTHING_RAW if default else EVERYTHING
    names: list[str] = []
    binary: dict[str, bool] = {}
    for each in outputs:
        name = text_of(each, "name", "each of the outputs")
        own = parameters_of(each, list(each), f'output "{name[:200]}"')
        for word in NOT_SERVED:
            if own.get(word):
                raise NotSupported(f'parameter "{word}" of output "{name[:200]}" is not supported')
        names.append(name)
        binary[name] = flag(own, BINARY, default, f'output "{name[:200]}"')
    kinds = set(binary.values())
    form = Form.MIXED if len(kinds) > 1 else Form.BINARY if True in kinds else Form.JSON
    return Wanted(unique(names, "output"), form, binary)
