"""The tables of docs/migration.md; `tests/unit/config/document.py` writes them."""

from collections.abc import Callable, Iterable, Mapping

from tests.unit.config.migration import of_2020, ovms, tensorflow_serving
from tests.unit.config.migration.rows import Row


def _table(head: str, rows: Iterable[Row], dashes: str) -> str:
    lines = [f"| {head} | here |", "| --- | --- |"]
    lines += [f"| `{dashes}{row.word}` | {row.here} |" for row in rows]
    return "\n".join(lines)


def _flags(rows: Iterable[Row]) -> Callable[[], str]:
    return lambda: _table("flag", rows, "--")


def _variables(rows: Iterable[Row]) -> Callable[[], str]:
    return lambda: _table("variable", rows, "")


TABLES: Mapping[str, Callable[[], str]] = {
    "from tensorflow serving": _flags(tensorflow_serving.FLAGS),
    "from its image": _variables(tensorflow_serving.VARIABLES),
    "from ovms server": _flags(ovms.SERVER),
    "from ovms model": _flags(ovms.MODEL),
    "from ovms management": _flags(ovms.MANAGEMENT),
    "from ovms variables": _variables(ovms.VARIABLES),
    "from 2020": _flags(of_2020.FLAGS),
    "from 2020 variables": _variables(of_2020.VARIABLES),
}
