"""Reads YAML to the values of JSON. Imported only for files that end in .yaml or .yml.

The words are those of YAML 1.2's core schema: `on`, `yes` and `NO` are texts, as in JSON, and
`switch: {on: ...}` of a graph means what it says. Source: YAML 1.2.2, section 10.3.
"""

import math
import re
from collections.abc import Hashable, Mapping
from typing import Any, Final

from ie_serving.core.settings.structures import Json
from ie_serving.core.values.errors import ConfigError

MOST_VALUES: Final = 1_000_000
"""Most values of one file with aliases expanded: a few lines of nested aliases mean billions."""
DEEPEST: Final = 200
"""Deepest nesting of lists and objects; a deeper one is refused."""

_PREFIX = "tag:yaml.org,2002:"
_SCALARS = (
    ("null", re.compile(r"~|null|Null|NULL|"), ["~", "n", "N", ""]),
    ("bool", re.compile(r"true|True|TRUE|false|False|FALSE"), list("tTfF")),
    ("int", re.compile(r"[-+]?[0-9]+"), list("-+0123456789")),
    (
        "float",
        re.compile(
            r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
        ),
        list("-+.0123456789"),
    ),
)
"""Tag, form and first characters of scalars other than text, in the order of trial."""


def yaml_text(value: str, place: str) -> Json:
    """Decode YAML strictly: no NaN or infinity, no key twice in one object, one document.

    Raises:
        ConfigError: with line and column where the text is not YAML; or PyYAML is not installed.
    """
    try:
        import yaml
    except ImportError:
        raise ConfigError(
            [f"{place}: YAML needs PyYAML: pip install '.[yaml]', or write JSON"]
        ) from None
    try:
        return _PlainValues(place).value(yaml.load(value, _loader()))
    except yaml.YAMLError as error:
        raise ConfigError([_fault_text(error, place)]) from None
    except RecursionError:
        raise ConfigError(
            [f"{place}: lists and objects nest more than {DEEPEST} deep; nest fewer of them"]
        ) from None


def _fault_text(error: Any, place: str) -> str:  # noqa: ANN401 (PyYAML has no types)
    mark = getattr(error, "problem_mark", None)
    where = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
    return f"{place}{where}: not YAML: {getattr(error, 'problem', None) or error}"


def _loader() -> Any:  # noqa: ANN401 (a class made of PyYAML's)
    """Make PyYAML's safe loader know the words of YAML 1.2 alone, and refuse equal keys."""
    import yaml

    class YamlLoader(yaml.SafeLoader):  # type: ignore[misc]
        yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 (PyYAML's own)

    def mapping(loader: Any, node: Any) -> dict[Hashable, Any]:  # noqa: ANN401
        found: dict[Hashable, Any] = {}
        for key_node, value_node in node.value:
            key = loader.construct_object(key_node, deep=True)
            text = _wrong_key(key, found)
            if text:
                raise yaml.constructor.ConstructorError(None, None, text, key_node.start_mark)
            found[key] = loader.construct_object(value_node, deep=True)
        return found

    def integer(loader: Any, node: Any) -> int:  # noqa: ANN401
        return int(loader.construct_scalar(node))

    for name, form, first in _SCALARS:
        # The whole word: PyYAML looks at its beginning alone.
        whole = re.compile(rf"(?:{form.pattern})\Z")
        YamlLoader.add_implicit_resolver(f"{_PREFIX}{name}", whole, first)
    YamlLoader.add_constructor(f"{_PREFIX}map", mapping)
    YamlLoader.add_constructor(f"{_PREFIX}int", integer)  # 010 is ten
    return YamlLoader


def _wrong_key(key: object, found: Mapping[Hashable, Any]) -> str:
    """Give the fault of a key after the keys in `found`; empty for none."""
    if not isinstance(key, Hashable):
        return f"{key} is no name of a key: write it in quotes"
    return f'key "{key}" stands twice in one object; remove one' if key in found else ""


class _PlainValues:
    """Constructs only values that JSON could have."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._count = 0

    def value(self, given: object, depth: int = 0) -> Json:
        """Copy a value; aliases become copies. Raises: ConfigError."""
        self._count += 1
        if self._count > MOST_VALUES or depth > DEEPEST:
            raise self._wrong(
                f"more than {MOST_VALUES:,} values, or {DEEPEST} within each other; write fewer"
            )
        if isinstance(given, dict):
            return {self._key(key): self.value(each, depth + 1) for key, each in given.items()}
        if isinstance(given, list):
            return [self.value(each, depth + 1) for each in given]
        if given is None or isinstance(given, str | bool | int):
            return given
        if isinstance(given, float) and math.isfinite(given):
            return given
        raise self._wrong(f"{given!r} is no value of JSON: write a text in quotes, or a number")

    def _key(self, key: object) -> str:
        # Keys become the words that JSON would write: `cases: {0: first, true: second}`.
        if isinstance(key, bool):
            return str(key).lower()
        if isinstance(key, str | int):
            return str(key)
        raise self._wrong(f"{key!r} is no name of a key: write it in quotes")

    def _wrong(self, text: str) -> ConfigError:
        return ConfigError([f"{self._place}: {text}"])
