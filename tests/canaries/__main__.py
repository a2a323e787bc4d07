"""`make canaries`: ask OpenVINO alone whether each declared fault is still there.

Each canary has a process of its own, as on a CPU with AVX2, which all machines contain: one that
ends the process shows its fault by that, and what it wrote elsewhere in memory harms no other.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from pathlib import Path

import openvino as ov

from tests.canaries import page
from tests.canaries.declared import FAULTS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "openvino-faults.md"
TRIES = 8
"""Processes of which none may show a fault that is gone."""
CPU = {"ONEDNN_MAX_CPU_ISA": "AVX2", "TF_CPP_MIN_LOG_LEVEL": "3"}
PATIENCE_S = 60.0
"""For one canary: most take half a second, and ten with the import of TensorFlow.

A process whose heap was overwritten may wait for a lock of its allocator without an end.
"""
WRONG, GONE, ENDS, HANGS = "wrong", "gone", "ends the process", "hangs"
REFUSED = "refused here"


def main(arguments: Sequence[str]) -> int:
    """Run the canaries; give 1 where a fault is gone, and what keeps it from answers may go."""
    parser = argparse.ArgumentParser(prog="python -m tests.canaries", description=__doc__)
    parser.add_argument("--only", default="*", metavar="PATTERN", help="names of canaries")
    parser.add_argument("--write", action="store_true", help="print the faults into their page")
    parser.add_argument("--here", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.here:
        try:
            print(WRONG if FAULTS[options.here].canary() else GONE)
        except RuntimeError:  # of OpenVINO, which on some CPUs does not compile the graph at all
            print(REFUSED)
        return 0
    if options.write:
        PAGE.write_text(page.printed(PAGE.read_text(), FAULTS.values()))
        return 0
    names = [each.name for each in FAULTS.values() if not each.no_canary]
    return _report([name for name in names if fnmatch(name, options.only)])


def _report(names: Sequence[str]) -> int:
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        found = dict(zip(names, threads.map(repeated, names), strict=True))
    for name, state in found.items():
        print(f"{state:16}  {name}")
    gone = [name for name, state in found.items() if state == GONE]
    for name in gone:
        print(f"{name} is gone; what may be deleted: {FAULTS[name].done}")
    print(f"OpenVINO {ov.__version__}: {len(gone)} of {len(found)} faults are gone")
    return 1 if gone else 0


def repeated(name: str) -> str:
    """Ask again where nothing was wrong: what is overwritten beside a tensor is chance."""
    states = (_state(name) for _ in range(TRIES))
    return next((state for state in states if state != GONE), GONE)


def _state(name: str) -> str:
    command = (sys.executable, "-m", "tests.canaries", "--here", name)
    try:
        ran = subprocess.run(
            command, env=os.environ | CPU, capture_output=True, timeout=PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired:
        return HANGS
    if ran.returncode < 0:
        return ENDS
    words = ran.stdout.decode().split()
    if ran.returncode or not words:
        raise SystemExit(f"the canary {name} failed itself:\n{ran.stderr.decode()}")
    return words[-1]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
