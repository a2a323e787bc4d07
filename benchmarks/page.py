"""`docs/reference/performance.md` and the README's table, made of `benchmarks/results.md`.

`make bench` writes the results and calls this; `python -m benchmarks.page` makes the pages anew.
A unit test holds that the pages are those of the results.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from benchmarks.environments import PROJECT
from benchmarks.report import table

RESULTS = PROJECT / "benchmarks" / "results.md"
PAGE = PROJECT / "docs" / "reference" / "performance.md"
README = PROJECT / "README.md"
OURS = "ie_serving"
LABELS = {"Triton": "Triton (Python backend, by PyTriton)"}
"""What the tables call a peer whose short name would say too much."""

Table = Mapping[str, Mapping[str, str]]
"""By a row's first cell and a column's heading: the cell."""


class Question(NamedTuple):
    """A question that one table answers, and the cases that answer it."""

    title: str
    case: str
    about: str


QUESTIONS = (
    Question(
        "How fast is a small request?",
        "dummy_b1",
        "10 numbers in and out; the engine needs some 20 µs: the rest is the server's.",
    ),
    Question(
        "And with a small net behind it?",
        "mnist_b1",
        "784 numbers in, 10 out.",
    ),
    Question(
        "What do 100 rows in one request cost?",
        "mnist_b100",
        "313 KB in, 4 KB out.",
    ),
    Question(
        "What do 4 MB in and out cost?",
        "dummy_b100000",
        "100,000 rows of 10 numbers: the bytes are what is measured.",
    ),
    Question(
        "And when the engine does nearly all of the work?",
        "resnet50",
        "A net of ResNet-50's shape, with one image a request.",
    ),
)


@dataclass(frozen=True)
class Results:
    """What `results.md` says: its date, its machine and its tables by heading."""

    date: str
    about: str
    tables: Mapping[str, Table]

    @classmethod
    def read(cls, text: str) -> "Results":
        """Read the report that `results.Results.report` wrote."""
        title, *sections = re.split(r"^#+ ", text.strip(), flags=re.MULTILINE)[1:]
        heading, _, about = title.partition("\n")
        tables = dict(_section(section) for section in sections)
        return cls(heading.removeprefix("Benchmark of "), about.strip().split("\n\n")[0], tables)

    def of(self, heading: str) -> Table:
        """Give the table whose heading begins with `heading`; empty, where there is none."""
        return next((t for name, t in self.tables.items() if name.startswith(heading)), {})

    @property
    def peers(self) -> list[str]:
        """The other servers, in the report's order."""
        first = next(iter(self.of("Requests per second").values()))
        return [name for name in list(first)[1:] if not name.startswith(OURS)]


def _section(section: str) -> tuple[str, Table]:
    heading, *lines = section.splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "|" in line]
    if len(rows) < 2:
        return heading, {}
    names, _, *body = rows
    if names[1] == "limit":  # two columns name such a row
        return heading, {f"{row[0]}, {row[1]}": {names[2]: row[2]} for row in body}
    return heading, {row[0]: dict(zip(names, row, strict=True)) for row in body}


def page(results: Results) -> str:
    """Write the page: one table a question."""
    parts = [
        "# Performance: results",
        f"`make bench` measured this on {results.date}. `python -m benchmarks.page` writes this "
        "page of [all figures](../../benchmarks/results.md). "
        "[Performance](../guide/performance.md) says how to measure and tune, and the "
        "[diary](../../benchmarks/diary/measurements.md) has the other measurements, with days "
        "and machines.",
        results.about,
        "A ratio is this server's requests a second to the other's in the same round: the "
        "median, with the least and the greatest. The load is h2load (gRPC), wrk (REST), or "
        "where it says so the client of `grpcio`; `c16` is 16 requests at a time.",
        *(_answer(results, question) for question in QUESTIONS),
        f"## How long does a start take, and how much memory?\n\n{_processes(results)}",
    ]
    return "\n\n".join(parts) + "\n"


def _answer(results: Results, question: Question) -> str:
    parts = [f"## {question.title}", question.about]
    for server in (OURS, f"{OURS}, v2"):
        rows = list(_rows(results, question.case, server))
        if rows:
            parts += ["By the Open Inference Protocol:"] if server != OURS else []
            headings = ["", "requests/s", "p50 / p99 ms", "CPU µs", *_ratio_names(results)]
            parts.append(table(headings, rows))
    limits = _limits(results, question.case)
    if limits:
        parts += ["Limits of the same run, without a server or without an engine:", limits]
    return "\n\n".join(parts)


def _ratio_names(results: Results) -> list[str]:
    return [f"to {LABELS.get(peer, peer)}" for peer in results.peers]


def _rows(results: Results, case: str, server: str) -> Iterable[list[str]]:
    ratios = results.of(f"Ratio of {server} to each")
    for title, cells in results.of("Requests per second").items():
        if title.startswith(f"{case}, ") and cells.get(server):
            told = [results.of(name)[title][server] for name in ("p50 / p99", "Processor time")]
            beside = [ratios.get(title, {}).get(peer, "") for peer in results.peers]
            yield [title.removeprefix(f"{case}, "), cells[server], *told, *beside]


def _limits(results: Results, case: str) -> str:
    rows = [
        [title.removeprefix(f"{case}, "), *cells.values()]
        for title, cells in results.of("Limits").items()
        if title.startswith(f"{case}, ")
    ]
    return table(["", "a second"], rows) if rows else ""


def _processes(results: Results) -> str:
    rows = [list(cells.values()) for cells in results.of("Processes").values()]
    return table(["server, model", "first reply s", "idle MB", "peak MB"], rows)


def readme_table(results: Results) -> str:
    """Write the README's table: small requests a second, by server."""
    cases = {
        "gRPC, 16 at a time": "dummy_b1, gRPC c16",
        "gRPC, one at a time": "dummy_b1, gRPC c1",
        "REST, 16 at a time": "dummy_b1, REST c16",
    }
    rates = results.of("Requests per second")
    rows = [
        [name, *(rates[case].get(s, "").split(" ")[0] for s in (OURS, *results.peers))]
        for name, case in cases.items()
    ]
    return table(["", "here", *(LABELS.get(peer, peer) for peer in results.peers)], rows)


README_TABLE = re.compile(r"(in the same run\sof )[\d-]+(:\n\n)(?:\|.*\n)+")


def readme(text: str, results: Results) -> str:
    """Give the README with the table and the day of these results."""
    return README_TABLE.sub(
        lambda found: f"{found[1]}{results.date}{found[2]}{readme_table(results)}\n", text
    )


def write() -> None:
    """Write both pages."""
    results = Results.read(RESULTS.read_text())
    PAGE.write_text(page(results))
    README.write_text(readme(README.read_text(), results))


if __name__ == "__main__":
    write()
