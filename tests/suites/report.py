"""The table of `docs/reference/suites.md`: a row for each mode, of its last whole run. Pure."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import version

from tests.suites.judging import Kind
from tests.suites.known import Entries
from tests.suites.modes import MODES, Mode

BEGIN, END = "<!-- onnx: begin -->\n", "<!-- onnx: end -->"
LIBRARIES = ("onnx", "openvino", "onnxruntime")
HEADINGS = (*Mode._fields, *(kind.value for kind in Kind), "right over REST", "right, raw", "with")
HEAD = f"| {' | '.join(HEADINGS)} |\n|{'---|' * len(HEADINGS)}\n"


def row(mode: Mode, measured: Entries, machine: str) -> str:
    """Count what became of the tests: each kind over Predict, what is right over the others."""
    counts = Counter((place.interface, each.kind) for (_, place), each in measured.items())
    numbers = [counts["predict", kind] for kind in Kind]
    numbers += [counts[interface, Kind.RIGHT] for interface in ("rest", "raw")]
    return f"| {' | '.join((*mode, *map(str, numbers), machine))} |\n"


def versions(cpu: str, libraries: Sequence[str] = LIBRARIES) -> str:
    """What a row was measured with."""
    return ", ".join([*(f"{each} {version(each)}" for each in libraries), cpu])


def cpu_kind(flags: str) -> str:
    """What decides the precision that is left to the CPU, of the flags in /proc/cpuinfo."""
    has = re.search(r"\bavx512_bf16\b|\bamx_bf16\b", flags)
    return "CPU with bf16" if has else "CPU without bf16"


def with_rows(page: str, rows: Mapping[Mode, str]) -> str:
    """The page with these rows in its table, beside those of other modes."""
    before, _, rest = page.partition(BEGIN)
    table, _, after = rest.partition(END)
    lines = table.splitlines(keepends=True)
    kept = {
        mode: line for mode in MODES for line in lines if line.startswith(f"| {' | '.join(mode)} |")
    }
    body = "".join(each for mode in MODES if (each := (kept | dict(rows)).get(mode)))
    return f"{before}{BEGIN}{HEAD}{body}{END}{after}"
