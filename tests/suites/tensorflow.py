"""`make suites`: each operation of TensorFlow that is claimed, asked in this process's children.

Each test has its own SavedModel, which is loaded as the server loads it and compared with
TensorFlow's answers. `tensorflow.txt` holds what is known not to be right.
"""

import argparse
import json
import queue
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

import tensorflow as tf

from tests.suites import known, report
from tests.suites.judging import Kind, Outcome
from tests.suites.tensorflow_asking import Found
from tests.suites.tensorflow_claimed import claimed
from tests.suites.tensorflow_graphs import OPERANDS, SIZES, tests
from tests.suites.tensorflow_table import NO_TEST, TABLE
from tests.suites.tensorflow_wire import asked_over_the_wire

LIST = Path(__file__).with_name("tensorflow.txt")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "suites.md"
WIRE = "wire"
AXES = {"sizes": (*SIZES, WIRE), "operands": OPERANDS}
CHILDREN = 2
LONGEST_S = 60.0
"""Of one test, with the start of its process; beyond it the test hangs."""
ASKING = "tests.suites.tensorflow_asking"


class Place(NamedTuple):
    """One way to serve a test."""

    sizes: str
    operands: str


Key = tuple[str, Place]


def main(arguments: Sequence[str]) -> int:
    """Ask all tests; give 1 where something is not as the list says."""
    parser = argparse.ArgumentParser(prog="python -m tests.suites.tensorflow", description=__doc__)
    parser.add_argument("--only", default="*", metavar="PATTERN", help="names of tests")
    parser.add_argument("--sizes", nargs="+", choices=AXES["sizes"], default=AXES["sizes"])
    parser.add_argument("--write", action="store_true", help="take what is better off the list")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    asked = [test for test in tests() if fnmatch(test.name, options.only)]
    keys = [
        (test.name, Place(sizes, operands))
        for test in asked
        for sizes in options.sizes
        if sizes != WIRE
        for operands in (OPERANDS if test.holds else OPERANDS[:1])
    ]
    found = dict(_all_of(keys))
    if WIRE in options.sizes:
        found |= {
            (test.name, Place(WIRE, OPERANDS[0])): each for test, each in asked_over_the_wire(asked)
        }
    print(f"{len(found)} answers of {len(keys)} places in {time.monotonic() - began:.0f} s")
    measured = {key: each.outcome for key, each in found.items()}
    for size in options.sizes:
        print(_row(size, found))
    listed = known.read(LIST.read_text(), AXES, Place)
    missing = []
    if options.only == "*":
        missing = _missing({name.partition(".")[0] for name, _ in found})
        every = {test.name for test in asked}
        measured |= {key: Outcome(Kind.RIGHT) for key in listed if key[0] not in every}
        rows = {size: _row(size, found) for size in options.sizes}
        PAGE.write_text(_with_rows(PAGE.read_text(), rows))
    print("".join(f"claimed, and neither tested nor in NO_TEST: {name}\n" for name in missing))
    worse, better = known.worse(measured, listed), known.better(measured, listed)
    print(f"worse than {LIST.name} says:\n{known.written(worse, AXES)}" if worse else "")
    if options.write:
        LIST.write_text(known.written(known.shrunk(measured, listed), AXES))
    elif better:
        print(
            f"better than {LIST.name} says; --write takes these off:\n{known.written(better, AXES)}"
        )
    return 1 if worse or missing or (better and not options.write) else 0


def _missing(answered: set[str]) -> list[str]:
    """Name the operations that are claimed and have no answer, and no reason for it."""
    return sorted(claimed() - answered - set(NO_TEST)) + sorted(set(NO_TEST) & set(TABLE))


def _all_of(keys: Sequence[Key]) -> Iterator[tuple[Key, Found]]:
    found: queue.Queue[tuple[Key, Found] | None] = queue.Queue()
    workers = [
        threading.Thread(target=_work, args=(keys[first::CHILDREN], found), daemon=True)
        for first in range(CHILDREN)
    ]
    for worker in workers:
        worker.start()
    for _ in workers:
        yield from iter(found.get, None)


def _work(keys: Sequence[Key], found: "queue.Queue[tuple[Key, Found] | None]") -> None:
    left = list(keys)
    while left:
        for said in _child(list(left)):
            key = left.pop(0)
            if said is not None:
                found.put((key, said))
    found.put(None)


def _child(keys: Sequence[Key]) -> Iterator[Found | None]:
    """Ask in a process; its last answer tells where it has ended or hung."""
    child = subprocess.Popen(
        [sys.executable, "-m", ASKING],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write("\n".join(f"{name} {' '.join(place)}" for name, place in keys))
    child.stdin.close()
    hangs = threading.Event()
    for name, place in keys:
        begins = f"{name} {' '.join(place)} "
        timer = threading.Timer(LONGEST_S, lambda: (hangs.set(), child.kill()))
        timer.start()
        line = next((line for line in child.stdout if line.startswith(begins)), None)
        timer.cancel()
        if line is None:
            kind = Kind.HANG if hangs.is_set() else Kind.CRASH
            yield Found(Outcome(kind, f"its process has ended with {child.wait()}"), "")
            return
        said = json.loads(line.removeprefix(begins))
        yield said and Found(Outcome(Kind(said[0]), said[1]), said[2])
    child.wait()


BEGIN, END = "<!-- tensorflow: begin -->\n", "<!-- tensorflow: end -->"
KINDS = (Kind.RIGHT, Kind.REFUSED, Kind.WRONG, Kind.CRASH, Kind.HANG)
HEADINGS = (
    "sizes",
    *(kind.value for kind in KINDS),
    "not finite: right",
    "refused",
    "wrong",
    "with",
)
HEAD = f"| {' | '.join(HEADINGS)} |\n|{'---|' * len(HEADINGS)}\n"


def _row(size: str, found: dict[Key, Found]) -> str:
    here = [each for (_, place), each in found.items() if place.sizes == size]
    kinds = Counter(each.outcome.kind for each in here)
    others = Counter(each.nonfinite for each in here)
    numbers = [kinds[kind] for kind in KINDS]
    numbers += [others[kind.value] for kind in (Kind.RIGHT, Kind.REFUSED, Kind.WRONG)]
    machine = report.cpu_kind(Path("/proc/cpuinfo").read_text())
    versions = f"tensorflow {tf.__version__}, {report.versions(machine, ('openvino',))}"
    return f"| {' | '.join((size, *map(str, numbers), versions))} |\n"


def _with_rows(page: str, rows: dict[str, str]) -> str:
    before, _, rest = page.partition(BEGIN)
    table, _, after = rest.partition(END)
    kept = {line.split()[1]: line for line in table.splitlines(keepends=True)[2:]} | rows
    body = "".join(kept[size] for size in AXES["sizes"] if size in kept)
    return f"{before}{BEGIN}{HEAD}{body}{END}{after}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
