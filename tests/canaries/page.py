"""Prints the declared faults into `docs/reference/openvino-faults.md`."""

from collections.abc import Iterable

from tests.canaries.declared import ROOMS
from tests.canaries.fault import Fault

TRACKER = "https://github.com/openvinotoolkit/openvino/issues"


def printed(text: str, faults: Iterable[Fault]) -> str:
    """Put the faults of each module between its two marks."""
    faults = list(faults)
    for room in (module.__name__.rpartition(".")[2] for module in ROOMS):
        begin, end = (f"<!-- {room}: {word} -->\n" for word in ("begin", "end"))
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        shown = "\n".join(_shown(fault) for fault in faults if fault.room == room)
        text = f"{before}{begin}\n{shown}\n{end}{after}"
    return text


def _shown(fault: Fault) -> str:
    lines = [
        f"### {fault.name.replace('_', ' ').capitalize()}",
        "",
        f"{fault.what[0].upper()}{fault.what[1:]}.",
        "",
        f"- Done: {fault.done}.",
    ]
    if fault.where:
        lines.append(f"- Where, and its cost: {fault.where}.")
    if fault.issue:
        lines.append(f"- OpenVINO's issue: [{fault.issue}]({TRACKER}/{fault.issue}).")
    if fault.no_canary:
        lines.append(f"- No canary: {fault.no_canary}.")
    tests = ", ".join(f"`{test}`" for test in fault.tests)
    return "\n".join([*lines, f"- Tests: {tests}.", ""])
