"""The command line of `kibernetika-serving`, which is also `kserving`, to `Settings`.

Source: its documentation, and the start lines of its users. `-o` values stay text, as its hooks
expect them.
"""

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from ie_serving.compat.kibernetika.hooks.hook_faults import fault
from ie_serving.compat.kibernetika.hooks.links import DRIVERS, link_of
from ie_serving.config.dialects import environment
from ie_serving.config.schema.catalogue import SERVER, names_in_ie_serving
from ie_serving.config.settings import ParsedCommandLine, ServerSettings, Settings
from ie_serving.core.settings.declaration import fields_of
from ie_serving.core.settings.faults import Faults
from ie_serving.core.settings.numbers import LARGEST_PORT, integer
from ie_serving.core.values.errors import ConfigError, LoadFailed
from ie_serving.engines import drivers, kernels
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.kernels import ChainedModel, CodeSource, HookOptions, KernelOptions
from ie_serving.models.configuration import ConfiguredGraph, ModelConfig

NAME = "default"
"""Name of the chain, whatever name requests give it."""
FILE = "chain.json"
"""File name of the version that stands for the chain, which no store has."""

_VIDEO = "video is not served; single frames are"
DEAD = {
    "http_server_command": "this server answers HTTP itself",
    **dict.fromkeys(("webrtc", "input_name", "output_name"), _VIDEO),
}
"""Flags without effect, and why."""


def parse(argv: Sequence[str], environ: Mapping[str, str]) -> ParsedCommandLine:
    """Read the command line and the environment.

    Args:
        argv: arguments without the program's name.
        environ: the process's environment.

    Raises:
        ConfigError: every fault, with its flag.
        SystemExit: 0 after `--help`, 2 when argparse cannot tell flags apart, 1 for a fault of the
            file of hooks.
    """
    given = _parser().parse_args(argv)
    faults = Faults()
    options = _options(given.option, faults)
    warnings = [
        f"--{n.replace('_', '-')} has no effect: {DEAD[n]}"
        for n in DEAD
        if vars(given)[n] is not None
    ]
    links = _links(given, options, warnings, faults)
    hooks = _hooks(given.hooks, faults)
    variables = environment.read(SERVER, environ, faults)
    own = {
        "port": _port(given.port, "--port", faults),
        "rest_port": _port(given.http_port, "--http-port", faults) if given.http_enable else 0,
        "answering_model": NAME,
    }
    server = ServerSettings(**{**fields_of("server", variables), **own})
    stores = fields_of("storage", variables)
    storage = environment.storage_options(environ, faults, **stores)
    faults.check()
    if hooks is not None and (why := fault(Path(hooks.file), len(links))):
        raise SystemExit(f"kibernetika-serving: error: {why}")
    # A configuration that names hooks permits them to run.
    engine = EngineOptions(allow_python=hooks is not None or _brings_class(links))
    return ParsedCommandLine(
        settings=Settings(
            server=server, models=(_model(links, hooks, options, engine),), engine=engine
        ),
        storage=storage,
        warnings=(*dict.fromkeys(warnings), *environment.warnings(environ)),
        names=names_in_ie_serving(()),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kibernetika-serving",
        description="Serve one model, or a chain of models, with hooks around them.",
    )
    parser.add_argument(
        "--driver",
        action="append",
        default=[],
        metavar="DRIVER",
        help=f"{', '.join(filter(None, DRIVERS))} or a driver of ie_serving; once"
        " for each --model-path, in order",
    )
    parser.add_argument(
        "--model-path",
        action="append",
        required=True,
        metavar="PATH",
        help="file or directory of a model; several are a chain",
    )
    parser.add_argument(
        "--hooks", metavar="FILE", help="Python file with hooks, which may then run"
    )
    parser.add_argument(
        "--option",
        "-o",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="option of the drivers and of the hooks; may repeat",
    )
    parser.add_argument("--port", default="9000", help="gRPC port (default: 9000)")
    parser.add_argument(*_both("http-enable"), action="store_true", help="answer HTTP, too")
    parser.add_argument(*_both("http-port"), default="9001", help="HTTP port (default: 9001)")
    for name in DEAD:
        flags = _both(name.replace("_", "-"))
        parser.add_argument(*flags, nargs="?", const="", help="accepted without effect")
    return parser


def _both(name: str) -> tuple[str, str]:
    """Give both spellings of a flag; users write either."""
    return f"--{name}", f"--{name.replace('-', '_')}"


def _port(text: str, flag: str, faults: Faults) -> int:
    return faults.take(integer(1, LARGEST_PORT), text, flag) or 0


def _options(given: Sequence[str], faults: Faults) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in given:
        key, equals, value = each.partition("=")
        if not equals or not key:
            faults.add("--option", f"{each!r} given; expected KEY=VALUE")
        found[key] = value
    return found


def _links(
    given: argparse.Namespace, options: Mapping[str, Any], warnings: list[str], faults: Faults
) -> tuple[ChainedModel, ...]:
    if given.driver and len(given.driver) != len(given.model_path):
        count, paths = len(given.driver), len(given.model_path)
        faults.add("--driver", f"given {count} times, and --model-path {paths} times: pair them")
        return ()
    found: list[ChainedModel] = []
    for driver, path in zip_longest(given.driver, given.model_path, fillvalue=""):
        try:
            if driver not in DRIVERS:
                drivers.parse_name(driver, "--driver", beside=[each for each in DRIVERS if each])
            link, warned = link_of(driver, str(Path(path).absolute()), options, EngineOptions())
        except ConfigError as error:
            faults.found.extend(error.faults)
        except LoadFailed as error:
            faults.add("--option", str(error))
        else:
            found.append(link)
            warnings += warned
    return tuple(found)


def _hooks(given: str | None, faults: Faults) -> CodeSource | None:
    if given is None:
        return None
    source = faults.take(kernels.file, str(Path(given).absolute()), "--hooks")
    if source is not None and not os.path.isfile(source.file):
        faults.add("--hooks", f"{given}: no such file; name one that exists")
    return source


def _brings_class(links: Sequence[ChainedModel]) -> bool:
    """Tell whether `-o model_class` names code, which the command line asks to run."""
    return any("model_class" in link.options.params for link in links)


def _model(
    links: tuple[ChainedModel, ...],
    hooks: CodeSource | None,
    options: Mapping[str, Any],
    engine: EngineOptions,
) -> ModelConfig:
    consent = engine.allow_python
    links = tuple(_allowed(link, consent) for link in links)
    own = EngineOptions(allow_python=consent, params=options)
    own = own.having(HookOptions(source=hooks, chain=links))
    # Files of hooks were written for a server that called them in several threads.
    own = own.having(KernelOptions(max_concurrency=os.cpu_count() or 1))
    text = json.dumps({"models": [link.path for link in links]})
    graph = ConfiguredGraph(text=text, file=FILE)
    return ModelConfig(name=NAME, base_path=f"chain:{NAME}", graph=graph, engine=own)


def _allowed(link: ChainedModel, consent: bool) -> ChainedModel:
    return replace(link, options=replace(link.options, allow_python=consent))
