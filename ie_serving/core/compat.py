"""What the folders of `compat/` add: commands, files, routes and drivers of other servers.

The rest of the package imports none of it. Where another server may have something of its own, it
asks here, and imports that only then. A folder that is deleted adds nothing, and nothing else
changes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

HOME: Final = "ie_serving.compat"
FOLDERS: Final = ("stfs", "edi", "konduit", "sagemaker", "kibernetika")
"""In the order in which they are asked; the routes of the last are asked first."""


@dataclass(frozen=True, kw_only=True)
class Additions:
    """What one folder has. Each place is a function, as `module:name`; none where it is empty.

    Attributes:
        words: first words of the command `ie_serving`, each with what parses the command line, as
            `config.dialects.ie_serving.parse`.
        config_file: whether an object is that server's configuration, and what it says; see
            `config.files.json_file.config_file`.
        importing: translates another server's file; see `config.dialects.importing.run`.
        drivers: gives rows of the table in `engines.listed`.
        kernels: by the name of a file beside a kernel: runs it, as
            `engines.python.opening.opened`; gives None where it is not that server's.
        raw_kernels: whether the kernel in a directory takes the whole body of a request.
        around: puts an engine around that of a model; see `app.engine_stack.layered`.
        models_of: names the models that a version asks; see `models.graph_dependencies.ModelsOf`.
        routes: puts routes before the REST API; see `server.fronts.other_servers.AddRoutes`.
        one_model: lets a gRPC service answer for one model; see `app.application`.
        tensors: decodes inputs of `:predict` in that server's form; see `wire.json.request`.
    """

    words: Mapping[str, str] = field(default_factory=dict)
    config_file: str = ""
    importing: str = ""
    drivers: str = ""
    kernels: Mapping[str, str] = field(default_factory=dict)
    raw_kernels: str = ""
    around: str = ""
    models_of: str = ""
    routes: str = ""
    one_model: str = ""
    tensors: str = ""


@cache
def registered() -> tuple[Additions, ...]:
    """Give what each folder has, in their order."""
    there = [name for name in FOLDERS if find_spec(f"{HOME}.{name}")]
    return tuple(import_module(f"{HOME}.{name}").register() for name in there)


def added(what: str) -> Iterator[Any]:
    """Import and give what the folders have for one attribute of `Additions`, in their order."""
    for each in registered():
        if place := getattr(each, what):
            yield imported(place)


def by_name(what: str) -> dict[str, str]:
    """Put together what the folders have for an attribute that is a mapping."""
    return {name: place for each in registered() for name, place in getattr(each, what).items()}


def imported(place: str) -> Any:  # noqa: ANN401  each attribute says of what type
    """Import what stands at `module:name`."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
