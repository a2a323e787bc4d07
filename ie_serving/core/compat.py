"""Registry of the folders of `compat/`: commands, files, routes and drivers of other servers.

The rest of the package does not import these folders. Where another server may add something, code
asks this registry, which imports the addition only then. A deleted folder adds nothing, and nothing
else changes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

HOME: Final = "ie_serving.compat"
FOLDERS: Final = ("stfs", "edi", "konduit", "sagemaker", "kibernetika")
"""The folders in the order in which they are asked; routes of the last one are tried first."""


@dataclass(frozen=True, kw_only=True)
class Additions:
    """The additions of one folder. Each is a function, as `module:name`; empty: no such addition.

    Attributes:
        words: first words of the command `ie_serving`, each with the parser of the command line, as
            `config.dialects.ie_serving.parse`.
        config_file: recognises and reads that server's configuration; see
            `config.files.json_file.config_file`.
        importing: translates another server's file; see `config.dialects.importing.run`.
        drivers: returns rows of the table in `engines.drivers`.
        kernels: functions by the name of a file beside a kernel; each runs it, as
            `engines.python.opening.opened`; returns None if it is not that server's.
        foreign_kernels: whether the kernel in a directory is that server's: it takes the whole body
            of a request, and has a process of its own where no setting says otherwise.
        around: puts an engine around that of a model; see `app.engine_stack.layered`.
        models_of: names the models that a version calls; see `models.graph_dependencies.ModelsOf`.
        routes: puts routes before the REST API; see `server.fronts.other_servers.AddRoutes`.
        token_headers: further headers, in lower case, by which REST clients say who they are.
        one_model: restricts a gRPC service to one model; see `app.application`.
        tensors: decodes inputs of `:predict` in that server's form; see `wire.json.request`.
    """

    words: Mapping[str, str] = field(default_factory=dict)
    config_file: str = ""
    importing: str = ""
    drivers: str = ""
    kernels: Mapping[str, str] = field(default_factory=dict)
    foreign_kernels: str = ""
    token_headers: tuple[str, ...] = ()
    around: str = ""
    models_of: str = ""
    routes: str = ""
    one_model: str = ""
    tensors: str = ""


@cache
def registered() -> tuple[Additions, ...]:
    """Return the additions of each folder, in the order of `FOLDERS`."""
    there = [name for name in FOLDERS if find_spec(f"{HOME}.{name}")]
    return tuple(import_module(f"{HOME}.{name}").register() for name in there)


def added(what: str) -> Iterator[Any]:
    """Import and yield the folders' additions for one attribute of `Additions`, in their order."""
    for each in registered():
        if reference := getattr(each, what):
            yield imported(reference)


def by_name(what: str) -> dict[str, str]:
    """Merge the folders' additions for an attribute that is a mapping."""
    return {
        name: reference for each in registered() for name, reference in getattr(each, what).items()
    }


def imported(reference: str) -> Any:  # noqa: ANN401  each attribute says of what type
    """Import the object at `module:name`."""
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)
