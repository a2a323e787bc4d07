"""Parses `ie_serving kernel run DIR --input FILE`, which runs a kernel without a server.

ie_serving kernel run models/risk/1 --input request.json
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ie_serving.core.settings import structures, words
from ie_serving.core.settings.faults import Faults
from ie_serving.engines import kernels
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.kernels import KernelOptions

COMMAND = "kernel"
STANDARD = "-"
"""Name of standard input."""


@dataclass(frozen=True, kw_only=True)
class KernelRun:
    """The kernel to run, and its request.

    Attributes:
        directory: directory of the version.
        options: options of the engine, for the kernel.
        input: file of the request; None reads standard input.
        raw: request and answer are bytes of the kernel, as with `:invoke`.
    """

    directory: Path
    options: EngineOptions
    input: Path | None
    raw: bool


def parse(argv: Sequence[str]) -> KernelRun:
    """Read the command line, without the program's name.

    Raises:
        ConfigError: every fault, each with its flag.
        SystemExit: `--help`, or flags that do not belong here.
    """
    given = parser().parse_args(argv[1:])
    faults = Faults()
    directory = Path(given.directory).absolute()
    if not directory.is_dir():
        faults.add("DIR", f"{given.directory} is no directory; name that of a version")
    input_file = None if given.input == STANDARD else Path(given.input)
    if input_file is not None and not input_file.is_file():
        faults.add("--input", f"there is no file {given.input}; name one that exists")
    source = faults.take(kernels.source, given.kernel, "--kernel")
    params = faults.take(structures.params, given.params, "--params")
    if faults.take(words.boolean, given.allow_python, "--allow_python") is False:
        faults.add("--allow_python", "a kernel is Python code, which false forbids: leave it out")
    faults.check()
    options = EngineOptions(params=params or {}, allow_python=True)
    own = KernelOptions(source=source)
    return KernelRun(
        directory=directory, options=options.having(own), input=input_file, raw=given.raw
    )


def parser() -> argparse.ArgumentParser:
    """Give the parser of the command line after the command."""
    made = argparse.ArgumentParser(prog=f"ie_serving {COMMAND}", allow_abbrev=False)
    asked = made.add_subparsers(dest="what", required=True, metavar="run")
    run = asked.add_parser("run", help="load a kernel, ask it once, print its answer, and end")
    run.add_argument("directory", metavar="DIR", help="directory of the version")
    run.add_argument(
        "--input",
        default=STANDARD,
        help='body of a REST request, such as {"inputs": {...}} (standard input)',
    )
    run.add_argument("--kernel", default="kernel.py", help="FILE[:NAME] (kernel.py)")
    run.add_argument("--params", default="{}", help="params of the model as JSON ({})")
    run.add_argument(
        "--raw", action="store_true", help="the input is bytes for the kernel, as of :invoke"
    )
    # The command's purpose is to run this code: requiring another flag would protect nothing.
    run.add_argument(
        "--allow_python", nargs="?", default="true", const="true", help="true; false runs nothing"
    )
    return made
