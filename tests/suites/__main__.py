"""`make suites`: ONNX's backend tests, served and asked; compared with what is known."""

import argparse
import sys
import tempfile
import time
from collections.abc import Container, Sequence
from fnmatch import fnmatch
from pathlib import Path

from tests.suites import known, report
from tests.suites.cases import Case, cases
from tests.suites.judging import Kind, Outcome
from tests.suites.known import Entries, Key
from tests.suites.modes import AXES, MODES, Mode, Place
from tests.suites.running import Suite

LIST = Path(__file__).with_name("onnx.txt")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "suites.md"
COMMAND = ("ie_serving", "config")
HIDDEN = 'import sys\n\nsys.modules["onnxruntime"] = None\n'
"""`sitecustomize.py` of servers without onnxruntime: for them it is not installed."""
LOCALE, UNICODE = "en_US.UTF-8", Path("/usr/lib/locale/C.utf8")
"""What onnxruntime's `StringNormalizer` asks for by name, and what Debian has in its place, whose
letters are the same. `docs/start/from-tensorflow-serving.md` says so to users."""


def main(arguments: Sequence[str]) -> int:
    """Run the modes; give 1 where something is not as the list says."""
    options = _options(arguments)
    listed = known.read(LIST.read_text())
    tests = [case for case in cases() if fnmatch(case.name, options.only)]
    measured: dict[Key, Outcome] = {}
    rows = {}
    for mode in [mode for mode in MODES if _wanted(mode, options)]:
        began = time.monotonic()
        found = _run(mode, tests, options.flags)
        measured |= found
        rows[mode] = report.row(mode, found, _machine())
        print(f"{rows[mode].strip()} {time.monotonic() - began:.0f} s", flush=True)
    if options.only == "*":
        measured |= _gone(listed, {case.name for case in tests})
    if options.only == "*" and not options.flags:
        PAGE.write_text(report.with_rows(PAGE.read_text(), rows))
    return _compare(measured, listed, options.write)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.suites", description=__doc__)
    for axis in list(AXES)[:-1]:
        parser.add_argument(f"--{axis}", nargs="+", choices=AXES[axis], default=AXES[axis])
    parser.add_argument("--only", default="*", metavar="PATTERN", help="names of tests")
    parser.add_argument("--write", action="store_true", help="take what is better off the list")
    parser.add_argument(
        "--flags", nargs="*", default=[], metavar="NAME=VALUE", help="of the server"
    )
    return parser.parse_args(arguments)


def _wanted(mode: Mode, options: argparse.Namespace) -> bool:
    return all(getattr(mode, axis) in getattr(options, axis) for axis in Mode._fields)


def _run(mode: Mode, tests: Sequence[Case], flags: Sequence[str]) -> dict[Key, Outcome]:
    command = (*COMMAND, *mode.flags, *(f"--{flag}" for flag in flags))
    with tempfile.TemporaryDirectory() as temporary:
        hidden = Path(temporary, "hidden")
        hidden.mkdir()
        (hidden / "sitecustomize.py").write_text(HIDDEN)
        (hidden / LOCALE).symlink_to(UNICODE)
        env = {"LOCPATH": str(hidden)}
        if mode.engines == "openvino":
            env["PYTHONPATH"] = str(hidden)
        suite = Suite(Path(temporary, "models"), command, env, mode.sizes == "open")
        return {
            (name, Place(*mode, interface)): outcome
            for name, outcomes in suite.run(tests)
            for interface, outcome in outcomes.items()
        }


def _machine() -> str:
    return report.versions(report.cpu_kind(Path("/proc/cpuinfo").read_text()))


def _gone(listed: Entries, names: Container[str]) -> dict[Key, Outcome]:
    """Of tests that the package no longer has nothing is known."""
    return {key: Outcome(Kind.RIGHT) for key in listed if key[0] not in names}


def _compare(measured: Entries, listed: Entries, write: bool) -> int:
    worse, better = known.worse(measured, listed), known.better(measured, listed)
    if worse:
        print(f"\nworse than {LIST.name} says:\n{known.written(worse)}")
    if better and not write:
        print(f"\nbetter than {LIST.name} says; --write takes these off:\n{known.written(better)}")
    if write:
        LIST.write_text(known.written(known.shrunk(measured, listed)))
    return 1 if worse or (better and not write) else 0


sys.exit(main(sys.argv[1:]))
