"""`docs/reference` names every log event and every metric of the package, and no other.

The table is compared with the calls in the code, by AST. A text that changes in the code changes in
the table; the failure prints the row's first three cells as they must read.
"""

import ast
import gc
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ie_serving.server.gate import certificates
from ie_serving.server.transport import handshake
from ie_serving.telemetry.metrics import batch_metrics, layers, process, stores
from ie_serving.telemetry.metrics import ovms_families as ovms
from ie_serving.telemetry.metrics import page as metrics
from ie_serving.telemetry.metrics import requests as streams
from ie_serving.telemetry.metrics import step_metrics as steps
from ie_serving.telemetry.metrics import tensorflow_families as tensorflow
from ie_serving.telemetry.metrics import version_metrics as residency
from ie_serving.telemetry.metrics import version_metrics as versions

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
PAGE = "".join((REFERENCE / name).read_text() for name in ("log-events.md", "metrics.md"))
LOGS = re.compile(r"\bEvent\(|\b_?log\.|^FAILED\b", re.MULTILINE)
LEVELS = {
    "debug": "DEBUG",
    "info": "INFO",
    "warning": "WARNING",
    "error": "ERROR",
    "exception": "ERROR",
}
WAITED_FOR = {
    "%s server listens on %s and will be serving models: %s",
    "Running gRPC ModelServer at 0.0.0.0:%d ...",
    "Running gRPC ModelServer at unix:%s ...",
    "Exporting HTTP/REST API at:localhost:%d ...",
}
"""The lines that are no events: scripts for the server of 2020 and the original wait for them."""

Events = dict[str, tuple[str, frozenset[str]]]
"""Level and facts by event."""


class Call(NamedTuple):
    """One call of `Event`, and the level of the line that it is written with.

    Attributes:
        level: None where the event is made apart from its line.
        open: facts are added by `**`, which the code alone does not name.
    """

    event: str
    level: str | None
    facts: frozenset[str]
    open: bool
    place: str


@cache
def modules() -> dict[Path, ast.Module]:
    """Parse the modules that log, and those with texts of events alone."""
    found = {path: path.read_text() for path in sorted((ROOT / "ie_serving").rglob("*.py"))}
    logs = {path: text for path, text in found.items() if LOGS.search(text)}
    gc.disable()  # which would look through all nodes again and again
    try:
        return {path.relative_to(ROOT): ast.parse(text) for path, text in logs.items()}
    finally:
        gc.enable()


@cache
def calls_in() -> dict[Path, list[ast.Call]]:
    return {
        path: [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        for path, tree in modules().items()
    }


@cache
def texts() -> dict[str, str]:
    """Give the constants of all modules that hold text, by name."""
    found = {}
    for tree in modules().values():
        for node in tree.body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(
                node.value, ast.Constant
            ):
                names = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
                found.update({n.id: node.value.value for n in names if isinstance(n, ast.Name)})
    return found


def is_event(node: ast.Call) -> bool:
    function = node.func
    if isinstance(function, ast.Attribute):
        return function.attr == "Event" and bool(node.args) and is_name(function.value, "logs")
    return is_name(function, "Event") and bool(node.args)


def is_line(node: ast.Call) -> bool:
    function = node.func
    return (
        isinstance(function, ast.Attribute)
        and function.attr in LEVELS
        and is_name(function.value, "log", "_log")
    )


def is_name(node: ast.AST, *names: str) -> bool:
    return isinstance(node, ast.Name) and node.id in names


@cache
def calls() -> Sequence[Call]:
    return [call for path, made in calls_in().items() for call in events_of(path, made)]


def events_of(path: Path, made: Sequence[ast.Call]) -> Iterator[Call]:
    levels = {
        node.args[0]: LEVELS[node.func.attr]  # type: ignore[attr-defined]
        for node in made
        if is_line(node)
    }
    for node in made:
        if is_event(node):
            names = [keyword.arg for keyword in node.keywords]
            text = node.args[0]
            event = texts()[text.id] if isinstance(text, ast.Name) else ast.literal_eval(text)
            facts = frozenset(name for name in names if name)
            place = f"{path}:{node.lineno}"
            yield Call(event, levels.get(node), facts, None in names, place)


def cells(kind: str) -> Iterator[list[str]]:
    """Yield the rows of the table between two marks; those of a heading have no code in them."""
    table = PAGE.partition(f"<!-- {kind}: begin -->")[2].partition(f"<!-- {kind}: end -->")[0]
    for line in table.splitlines():
        if line.startswith("| `"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def documented() -> Events:
    return {
        event.strip("`"): (level, frozenset(re.findall(r"`(\w+)`", facts)))
        for event, level, facts, _ in cells("events")
    }


DOCUMENTED = documented()


def expected_row(call: Call) -> str:
    facts = ", ".join(f"`{fact}`" for fact in sorted(call.facts))
    return f"log-events.md needs the row | `{call.event}` | {call.level} | {facts} | ... |"


def test_an_event_of_the_code_is_in_the_table() -> None:
    for call in calls():
        assert call.event in DOCUMENTED, expected_row(call)
        level, facts = DOCUMENTED[call.event]
        assert call.level is None or call.level == level, expected_row(call)
        assert call.facts <= facts, expected_row(call)


def test_an_event_of_the_table_is_in_the_code() -> None:
    for event, (_, facts) in DOCUMENTED.items():
        found = [call for call in calls() if call.event == event]
        assert found, f'docs/reference/log-events.md has the event "{event}", which no code logs'
        if not any(call.open for call in found):
            assert facts == frozenset().union(*(call.facts for call in found)), event


def test_a_line_with_text_of_its_own_is_an_event() -> None:
    """An error or a warning is a fact of one, so that alerts can name the event."""
    for path, node in ((path, node) for path, made in calls_in().items() for node in made):
        if is_line(node):
            text = node.args[0]
            assert not is_name(text, "error", "cause", "warning", "message"), (
                f"{path}:{node.lineno}"
            )
            is_text = isinstance(text, ast.Constant | ast.JoinedStr)
            assert not is_text or ast.literal_eval(text) in WAITED_FOR, f"{path}:{node.lineno}"  # type: ignore[attr-defined]


MODULES_OF_METRICS = (
    *(metrics, batch_metrics, ovms, process, layers, steps, stores, streams, tensorflow, versions),
    certificates,
    handshake,
    residency,
    versions,
)


def test_the_page_lists_every_metric_and_no_other() -> None:
    names = {
        value
        for module in MODULES_OF_METRICS
        for value in vars(module).values()
        if isinstance(value, str)
        and value.startswith((":tensorflow:", "ie_serving_", "ovms_", "process_", "python_"))
    }
    assert {row[0].strip("`") for row in cells("metrics")} == names
