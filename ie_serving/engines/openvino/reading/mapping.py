"""Reads `mapping_config.json`: public names for a model's tensors, a file beside the model.

    {"inputs": {"tensor name": "public name"}, "outputs": {"tensor name": "public name"}}

Tensors that are not mentioned keep their own names. Source: docs of ie_serving 2020.
"""

import json
import logging
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from ie_serving.core.values.errors import LoadFailed
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

FILE = "mapping_config.json"
Renames = Mapping[str, str]


def read_mapping(directory: Path) -> tuple[Renames, Renames]:
    """Read the renames of inputs and of outputs.

    Both are empty without the file, and, with a warning, when the file has another form than the
    module's docstring shows: then the tensors keep their own names, as in 2020.
    """
    path = directory / FILE
    if not path.is_file():
        return {}, {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return _renames(content, "inputs"), _renames(content, "outputs")
    except (OSError, ValueError) as error:
        log.warning(
            Event("mapping_config.json cannot be read, own names serve", path=path, cause=error)
        )
        return {}, {}


def _renames(content: Any, kind: str) -> Renames:  # noqa: ANN401 (whatever JSON holds)
    """Give one kind's renames. Raises ValueError where they are not an object of text to text."""
    renames = content.get(kind, {}) if isinstance(content, dict) else None
    if isinstance(renames, dict) and all(isinstance(v, str) and v for v in renames.values()):
        return renames
    raise ValueError(f'"{kind}" must be an object of tensor name to public name')


def aliases(
    own: Sequence[str], known: Sequence[Collection[str]], renames: Renames, kind: str
) -> list[str]:
    """Name tensors for clients: their own names, renamed.

    Args:
        own: each tensor's own name.
        known: every name by which `renames` may speak of it.
        renames: tensor name to public name.
        kind: `inputs` or `outputs`, for the texts.

    Raises:
        LoadFailed: two tensors would have one name, or one tensor two.
    """
    _warn_of_unknown(known, renames, kind)
    given = [_alias(name, names, renames) for name, names in zip(own, known, strict=True)]
    twice = sorted({name for name in given if given.count(name) > 1})
    if twice:
        raise LoadFailed(f"two {kind} would be called {', '.join(twice)}; see {FILE}")
    return given


# An unknown name gets a warning, as in 2020: one file is often kept beside several versions of a
# model, and some versions lack a tensor.
def _warn_of_unknown(known: Sequence[Collection[str]], renames: Renames, kind: str) -> None:
    unknown = [name for name in renames if not any(name in names for names in known)]
    if unknown:
        log.warning(
            Event("mapping_config.json names unknown tensors", kind=kind, names=", ".join(unknown))
        )


def _alias(own: str, names: Collection[str], renames: Renames) -> str:
    wanted = {renames[name] for name in names if name in renames}
    if len(wanted) > 1:
        raise LoadFailed(f"{FILE} gives {own} two names: {', '.join(sorted(wanted))}; keep one")
    return wanted.pop() if wanted else own
