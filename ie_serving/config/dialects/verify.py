"""Parses `ie_serving verify DIR --against LIBRARY`: compares a version with its own framework.

ie_serving verify models/resnet/1 --against tensorflow --write
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ie_serving.core.settings.faults import Faults

COMMAND = "verify"
AGAINST = ("tensorflow", "onnxruntime", "litert", "torch")
"""Frameworks to compare with, if installed."""
PRECISIONS = ("f32", "bf16", "f16", "auto")


@dataclass(frozen=True, kw_only=True)
class VerifyRun:
    """The version and the requests to compare.

    Attributes:
        directory: directory of the version.
        against: one of `AGAINST`.
        requests: file with bodies of REST Predicts, one a line; None generates requests.
        write: keep the requests with the framework's answers as golden requests.
        precision: precision of the server's computation; empty leaves it to the load.
    """

    directory: Path
    against: str
    requests: Path | None
    write: bool
    precision: str


def parse(argv: Sequence[str]) -> VerifyRun:
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
    requests = None if given.requests is None else Path(given.requests)
    if requests is not None and not requests.is_file():
        faults.add("--requests", f"there is no file {given.requests}; name one that exists")
    faults.check()
    return VerifyRun(
        directory=directory,
        against=given.against,
        requests=requests,
        write=given.write,
        precision=given.inference_precision,
    )


def parser() -> argparse.ArgumentParser:
    """Give the parser of the command line after the command."""
    made = argparse.ArgumentParser(
        prog=f"ie_serving {COMMAND}",
        allow_abbrev=False,
        description="Compare a version, as it would be served, with the framework that made it.",
    )
    made.add_argument("directory", metavar="DIR", help="directory of the version")
    made.add_argument("--against", required=True, choices=AGAINST, help="an installed runtime")
    made.add_argument(
        "--requests",
        metavar="FILE",
        help="bodies of REST Predicts in columns, one a line (generated requests)",
    )
    made.add_argument(
        "--write",
        action="store_true",
        help="write the requests with the framework's answers as DIR/golden.json, by which the"
        " server refuses a version that answers otherwise",
    )
    made.add_argument(
        "--inference_precision", choices=PRECISIONS, default="", help="as of the server"
    )
    return made
