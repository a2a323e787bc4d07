"""One value of a setting: text from a command line, or JSON from a file, checked.

Every parser takes `(value, place)` and returns the typed value, or raises `ConfigError` whose
faults begin with `place` and say what was expected. Text and JSON mean the same: `"4"` is 4, and
`{"latest": {}}` may be given as an object or as its text. Shapes have their own module, `shapes`.
"""

import json
import math
import re
import reprlib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias, TypeVar

from ie_serving.errors import ConfigError
from ie_serving.models.version_policy import All, Latest, Specific, VersionPolicy

Json: TypeAlias = Any
"""What JSON decodes to: objects, lists, text, numbers, booleans and null."""

T = TypeVar("T")
V = TypeVar("V")
Parser = Callable[[object, str], T]

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
GRPC_TRANSPORTS = ("http2", "grpcio")
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
PRECISIONS = ("f32", "bf16", "f16")
EXECUTIONS = ("auto", "inline", "async")
ANY = -1

_INTEGER = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
_LEVEL_OF = {"TRACE": "DEBUG", "WARN": "WARNING", "CRITICAL": "ERROR", "FATAL": "ERROR"}
_WORDS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_SHORT = reprlib.Repr()
_SHORT.maxstring = 80


class Faults:
    """Collects what is wrong, so that all of it is reported at once."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def add(self, place: str, text: str) -> None:
        """Note one fault."""
        self.found.append(f"{place}: {text}")

    def take(self, parse: Callable[[V, str], T], value: V, place: str) -> T | None:
        """Parse, or note the faults and return None."""
        try:
            return parse(value, place)
        except ConfigError as error:
            self.found.extend(error.faults)
            return None

    def check(self) -> None:
        """Raise ConfigError with every fault, if there is one."""
        if self.found:
            raise ConfigError(self.found)


def shown(value: object) -> str:
    """Give `value` as a fault shows it: short, whatever its size and depth."""
    return _SHORT.repr(value)


def fault(place: str, value: object, expected: str) -> ConfigError:
    """Make the usual fault: what is there, what was expected."""
    return ConfigError([f"{place}: {shown(value)} given; expected {expected}"])


def integer(low: int, high: int) -> Parser[int]:
    """Make a parser of whole numbers from `low` to `high`."""

    def parse(value: object, place: str) -> int:
        number = whole(value)
        if number is None or not low <= number <= high:
            raise fault(place, value, f"a whole number from {low} to {high}")
        return number

    return parse


def whole(value: object) -> int | None:
    """Give the whole number that `value` is or spells; None when it is none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
        return int(value)
    return None


port: Parser[int] = integer(0, 65535)
count: Parser[int] = integer(0, 100_000)
positive: Parser[int] = integer(1, 100_000)
size: Parser[int] = integer(0, INT64_MAX)
message_size: Parser[int] = integer(1, INT32_MAX)
version: Parser[int] = integer(0, INT64_MAX)
busy_poll: Parser[int] = integer(0, 1000)


def number(value: object, place: str) -> float:
    """Read a finite number, of any sign."""
    given = value.strip() if isinstance(value, str) else value
    if isinstance(given, str) and _NUMBER.fullmatch(given):
        given = float(given)
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise fault(place, value, "a number of seconds, such as 1 or 0.5")
    if abs(given) > INT32_MAX or math.isnan(given):
        raise fault(place, value, f"at most {INT32_MAX} seconds")
    return float(given)


def poll_wait(value: object, place: str) -> float:
    """Read seconds between two looks; zero and less switch polling off, as 0.0."""
    return max(number(value, place), 0.0)


def timeout(value: object, place: str) -> float:
    """Read a time in seconds that must be more than zero."""
    seconds = number(value, place)
    if seconds <= 0:
        raise fault(place, value, "more than 0 seconds")
    return seconds


def delay(value: object, place: str) -> float:
    """Read a time in seconds; zero waits for nothing."""
    seconds = number(value, place)
    if seconds < 0:
        raise fault(place, value, "0 seconds or more")
    return seconds


def boolean(value: object, place: str) -> bool:
    """Read `true` or `false`, in any case, or 1 or 0."""
    if isinstance(value, bool):
        return value
    word = _WORDS.get(value.strip().lower()) if isinstance(value, str) else None
    if word is None:
        raise fault(place, value, "true or false")
    return word


def text(value: object, place: str) -> str:
    """Read text that is not empty."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise fault(place, value, "text that is not empty, on one line")
    return value


def address(value: object, place: str) -> str:
    """Read one address or host name; both ports listen on it."""
    if not isinstance(value, str) or not re.fullmatch(r"[^\s,/]*", value):
        raise fault(place, value, "one address or host name, such as 127.0.0.1 or ::")
    return value


def url_path(value: object, place: str) -> str:
    """Read the path of a REST route."""
    if not isinstance(value, str) or not re.fullmatch(r"/[!-~]+", value):
        raise fault(place, value, "a path that begins with /, such as /metrics")
    return value


def directory(value: object, place: str) -> Path:
    """Read a path on this machine; made absolute."""
    return Path(text(value, place)).absolute()


def resolved(base_path: str, origin: Path) -> str:
    """Give `base_path` as it is when it is absolute or a URL, else below `origin`."""
    return base_path if "://" in base_path else str(origin / base_path)


def file_name(value: object, place: str) -> str:
    """Read the name of a file below a version directory."""
    path = PurePosixPath(text(value, place))
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise fault(place, value, "a file name relative to the version directory")
    return str(path)


def grpc_transport(value: object, place: str) -> str:
    """Read what carries gRPC."""
    word = text(value, place).lower()
    if word not in GRPC_TRANSPORTS:
        raise fault(place, value, f"one of {', '.join(GRPC_TRANSPORTS)}")
    return word


def log_level(value: object, place: str) -> str:
    """Read a log level, in any case; the names of other servers become the nearest of ours."""
    word = value.strip().upper() if isinstance(value, str) else ""
    word = _LEVEL_OF.get(word, word)
    if word not in LOG_LEVELS:
        raise fault(place, value, f"one of {', '.join(LOG_LEVELS)}")
    return word


def precision(value: object, place: str) -> str:
    """Read an inference precision."""
    return _one_of(PRECISIONS, value, place)


def execution(value: object, place: str) -> str:
    """Read where inference runs."""
    return _one_of(EXECUTIONS, value, place)


def _one_of(words: Collection[str], value: object, place: str) -> str:
    word = value.strip().lower() if isinstance(value, str) else ""
    if word not in words:
        raise fault(place, value, f"one of {', '.join(words)}")
    return word


def batch_size(value: object, place: str) -> int | None:
    """Read a batch size: -1 for `auto`, None for 0, which keeps the model's."""
    if isinstance(value, str) and value.strip().lower() == "auto":
        return ANY
    number = whole(value)
    if number is None or not ANY <= number <= INT32_MAX:
        raise fault(place, value, 'a whole number, "auto" for any, or 0 to keep the model\'s')
    return number or None


def json_text(value: str, place: str) -> Json:
    """Decode JSON strictly: no NaN or infinity, no key twice in one object.

    Raises:
        ConfigError: with line and column where the text is not JSON.
    """
    twice: list[str] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        seen: dict[str, Any] = {}
        for key, item in pairs:
            twice.extend([key] if key in seen else [])
            seen[key] = item
        return seen

    try:
        found = json.loads(value, object_pairs_hook=unique, parse_constant=_not_finite)
    except json.JSONDecodeError as error:
        raise ConfigError(
            [f"{place}:{error.lineno}:{error.colno}: not JSON: {error.msg}"]
        ) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError([f"{place}: not JSON: {error}"]) from None
    if twice:
        raise ConfigError([f'{place}: key "{key}" stands twice in one object' for key in twice])
    return found


def _not_finite(word: str) -> None:
    raise ValueError(f"{word} is not a number in JSON")


def mapping(value: object, place: str, expected: str) -> Mapping[str, Any]:
    """Read an object, or the text of one."""
    found = json_text(value, place) if isinstance(value, str) else value
    if not isinstance(found, Mapping):
        raise fault(place, value, expected)
    return found


def version_labels(value: object, place: str) -> Mapping[str, int]:
    """Read label to version."""
    faults = Faults()
    given = mapping(value, place, 'an object such as {"stable": 3}')
    labels = {key: faults.take(version, item, f"{place}.{key}") for key, item in given.items()}
    if "" in labels:
        faults.add(place, "a label is empty; name it")
    faults.check()
    return {key: item for key, item in labels.items() if item is not None}


def plugin_config(value: object, place: str) -> Mapping[str, str]:
    """Read device properties; numbers and booleans become OpenVINO's words for them."""
    faults = Faults()
    given = mapping(value, place, 'an object such as {"NUM_STREAMS": "2"}')
    properties = {
        key: faults.take(_property, item, f"{place}.{key}") for key, item in given.items()
    }
    faults.check()
    return {key: item for key, item in properties.items() if item is not None}


def _property(value: object, place: str) -> str:
    if isinstance(value, bool):
        return "YES" if value else "NO"
    if isinstance(value, str | int | float):
        return str(value)
    raise fault(place, value, "text, a number, true or false")


def version_policy(value: object, place: str) -> VersionPolicy:
    """Read exactly one of `latest`, `all` and `specific`. Source: ServableVersionPolicy."""
    expected = (
        'exactly one of {"latest": {"num_versions": 1}}, {"all": {}} '
        'and {"specific": {"versions": [1]}}'
    )
    given = mapping(value, place, expected)
    if len(given) != 1:
        raise fault(place, given, expected)
    ((kind, options),) = given.items()
    if kind not in _POLICIES or not isinstance(options, Mapping):
        raise fault(place, given, expected)
    return _POLICIES[kind](options, f"{place}.{kind}")


def _latest(options: Mapping[str, Any], place: str) -> VersionPolicy:
    _only(options, "num_versions", place)
    return Latest(positive(options.get("num_versions", 1), f"{place}.num_versions"))


def _all(options: Mapping[str, Any], place: str) -> VersionPolicy:
    _only(options, "", place)
    return All()


def _specific(options: Mapping[str, Any], place: str) -> VersionPolicy:
    _only(options, "versions", place)
    given = options.get("versions")
    if not isinstance(given, list) or not given:
        raise fault(f"{place}.versions", given, "a list of one version or more, such as [1, 3]")
    faults = Faults()
    found = [
        faults.take(version, item, f"{place}.versions[{index}]") for index, item in enumerate(given)
    ]
    faults.check()
    return Specific(frozenset(item for item in found if item is not None))


def _only(options: Mapping[str, Any], key: str, place: str) -> None:
    others = sorted(set(options) - {key})
    if others:
        expected = f"only {key}" if key else "no key"
        raise ConfigError([f"{place}: unknown {', '.join(others)}; expected {expected}"])


_POLICIES: Mapping[str, Callable[[Mapping[str, Any], str], VersionPolicy]] = {
    "latest": _latest,
    "all": _all,
    "specific": _specific,
}
