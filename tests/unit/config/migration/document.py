"""The tables of docs/guide/migration-*.md; `tests/unit/config/document.py` writes them."""

from collections.abc import Callable, Iterable, Mapping

from tests.unit.config.migration import files, of_2020, ovms, tensorflow_serving
from tests.unit.config.migration.rows import Row


def _table(head: str, rows: Iterable[Row], dashes: str) -> str:
    lines = [f"| {head} | here |", "| --- | --- |"]
    lines += [f"| `{dashes}{row.word}` | {row.here} |" for row in rows]
    return "\n".join(lines)


def _flags(rows: Iterable[Row]) -> Callable[[], str]:
    return lambda: _table("flag", rows, "--")


def _variables(rows: Iterable[Row]) -> Callable[[], str]:
    return lambda: _table("variable", rows, "")


def _keys(rows: Iterable[Row]) -> Callable[[], str]:
    return lambda: _table("key", rows, "")


TABLES: Mapping[str, Callable[[], str]] = {
    "from tensorflow serving": _flags(tensorflow_serving.FLAGS),
    "from its image": _variables(tensorflow_serving.VARIABLES),
    "from ovms server": _flags(ovms.SERVER),
    "from ovms model": _flags(ovms.MODEL),
    "from ovms management": _flags(ovms.MANAGEMENT),
    "from ovms variables": _variables(ovms.VARIABLES),
    "from ovms file": _keys(files.MODEL),
    "from ovms top": _keys(files.TOP),
    "from tensorflow serving models": _keys(files.TFS_MODEL),
    "from tensorflow serving batching": _keys(files.BATCHING),
    "from tensorflow serving monitoring": _keys(files.MONITORING),
    "from 2020": _flags(of_2020.FLAGS),
    "from 2020 variables": _variables(of_2020.VARIABLES),
}
