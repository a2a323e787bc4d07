"""Every operation with other clients' numbers in its memory: none of them is in an answer.

`make fuzz` runs it for as long as FUZZ_SECONDS says, FUZZ_SEED begins with that one. A failure
lists the examples; `python -m tests.functional.memory_search.search --seed N --count 1` tries one.
"""

import json
import os
import random
import subprocess
import sys
import time
from dataclasses import dataclass, field

from tests.functional.fuzzing import SECONDS, marks
from tests.functional.memory_search.example import GENERATORS
from tests.functional.memory_search.search import BEGUN, ENDED, FOUND

pytestmark = marks

BESIDE_S = 120
"""Seconds that the last example may take."""


@dataclass
class Hunt:
    """What came of the examples from a seed on.

    Attributes:
        found: examples whose answers differ, and those that ended the process.
        results: how many examples were right, refused and so on.
        covered: types of the operations that were asked.
    """

    found: list[str] = field(default_factory=list)
    results: dict[str, int] = field(default_factory=dict)
    covered: set[str] = field(default_factory=set)

    def run(self, seed: int, seconds: float, *options: str) -> None:
        """Try examples, in a process that is started anew behind one that ends it."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            at = ("--seed", str(seed), "--seconds", str(left))
            command = (sys.executable, "-m", "tests.functional.memory_search.search")
            ran = subprocess.run(
                [*command, *at, *options],
                capture_output=True,
                text=True,
                timeout=left + BESIDE_S,
                check=False,
            )
            lines = ran.stdout.splitlines()
            self.found += [line for line in lines if line.startswith(FOUND)]
            if ran.returncode == 0:
                self._note(lines[-1])
                return
            last = next((line for line in reversed(lines) if line.startswith(BEGUN)), "")
            assert ran.returncode < 0 and last, ran.stderr[-2000:]
            self.found.append(f"ended by {-ran.returncode}: {last}")
            seed = int(last.split(":")[0].rpartition(" ")[2]) + 1

    def _note(self, line: str) -> None:
        noted = json.loads(line.removeprefix(ENDED))
        self.results, self.covered = noted["results"], set(noted["covered"])


def test_no_answer_holds_memory_of_other_requests() -> None:
    seed = int(os.environ.get("FUZZ_SEED") or random.randrange(1 << 32))
    hunt = Hunt()
    hunt.run(seed, SECONDS)
    print(f"seed={seed} {hunt.results} of {len(GENERATORS)} operations")
    print(f"{len(hunt.covered)} types of operations: {' '.join(sorted(hunt.covered))}")
    assert not hunt.found, "\n".join(hunt.found)
    assert hunt.results.get("right", 0) > 0, hunt.results


def test_the_search_finds_what_tile_leaves() -> None:
    hunt = Hunt()
    hunt.run(40, BESIDE_S, "--only", "tile", "--without", "Tile", "--count", "3")
    assert any(line.startswith(f"{FOUND} seed 40: tile") for line in hunt.found), hunt
