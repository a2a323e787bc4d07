"""Parses text: booleans, words of a choice, addresses, paths."""

import os
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from ie_serving.core.settings.faults import Parser, fault
from ie_serving.core.values.errors import ConfigError

LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")

_LEVEL_OF = {"TRACE": "DEBUG", "WARN": "WARNING", "CRITICAL": "ERROR", "FATAL": "ERROR"}
_BOOLEANS = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off"), False),
}

NO_LIBRARY = ("", "false", "no", "off", "0")
_BUILT_IN = re.compile(r"(?:.*/)?libcpu_extension(?:_[a-z0-9]+)?\.so")
"""The extension of OpenVINO until 2020, which the server of 2020 loaded by default. Later releases
have its operations built in, so this name is ignored."""


def boolean(value: object, place: str) -> bool:
    """Read `true`, `yes`, `on` or 1, or their opposites, in any case."""
    if isinstance(value, bool):
        return value
    word = _BOOLEANS.get(value.strip().lower()) if isinstance(value, str) else None
    if word is None:
        raise fault(place, value, "true or false")
    return word


def text(value: object, place: str) -> str:
    """Read text that is not empty."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise fault(place, value, "text that is not empty, on one line")
    return value


def name(value: object, place: str) -> str:
    """Read the name of a model."""
    found = text(value, place)
    if wrong := too_long("name", found):
        raise ConfigError([f"{place}: {wrong}"])
    return found


def unchecked(value: object, place: str) -> str:
    """Take text unchanged. For values that only a store can check, and for secrets."""
    return str(value)


def address(value: object, place: str) -> str:
    """Read one address or host name."""
    if not isinstance(value, str) or not re.fullmatch(r"[^\s,/]*", value):
        raise fault(place, value, "one address or host name, such as 127.0.0.1 or ::")
    return value


def addresses(value: object, place: str) -> str:
    """Read addresses or host names, separated by commas; blanks around them are dropped."""
    given = [address(part.strip(), place) for part in str(value).split(",")]
    if not all(given):
        raise fault(place, value, "addresses or host names, separated by commas")
    return ",".join(given)


def url_path(value: object, place: str) -> str:
    """Read the path of a REST route."""
    # A path with a question mark or a # is unreachable: either ends the path of a request.
    if not isinstance(value, str) or not re.fullmatch(r'/[!"$->@-~]+', value):
        raise fault(place, value, "a path that begins with /, without ? and #, such as /metrics")
    return value


_TAKEN: Final = re.compile(r"/(v1/models|v1/config|v2)(/.*)?|/v1/log_level|/ping|/invocations")
"""Paths that the REST APIs, probes and SageMaker use."""


def metrics_path(value: object, place: str) -> str:
    """Read the path of the metrics, which no other route may use."""
    path = url_path(value, place)
    if _TAKEN.fullmatch(path):
        raise fault(place, value, "a path that is no route of its own, such as /metrics")
    return path


def http_url(value: object, place: str) -> str:
    """Read the URL of a service over HTTP."""
    if not isinstance(value, str) or not re.fullmatch(r"https?://[^\s/?#]+(/[^\s?#]*)?", value):
        raise fault(place, value, "a URL, such as http://collector:4318")
    return value


def directory(value: object, place: str) -> Path:
    """Read a path on this machine; made absolute."""
    return Path(text(value, place)).absolute()


def files(value: object, place: str) -> tuple[str, ...]:
    """Read paths of existing files, separated by commas or as a list; made absolute."""
    given = value if isinstance(value, list) else text(value, place).split(",")
    paths = [Path(text(each, place).strip()).absolute() for each in given]
    for path in paths:
        if not os.path.isfile(path):  # unlike Path's, it takes a name that is too long
            raise fault(place, str(path), "a file that exists")
    return tuple(map(str, paths))


def listed(value: object, place: str) -> tuple[str, ...]:
    """Read names, separated by commas or as a list; empty ones are left out."""
    given = value if isinstance(value, list) else text(value, place).split(",")
    return tuple(each for each in (text(one, place).strip() for one in given) if each)


def existing_file(value: object, place: str) -> Path:
    """Read the path of an existing file; made absolute."""
    (path,) = files([value], place)
    return Path(path)


def file_to_write(value: object, place: str) -> Path:
    """Read the path of a file that can be created or overwritten; made absolute."""
    path = directory(value, place)
    written = path if path.exists() else path.parent
    if path.is_dir() or not os.access(written, os.W_OK):
        raise fault(place, str(path), "a file that can be written to")
    return path


def library(value: object, place: str) -> str:
    """Read the path of an existing library; empty for none, and for `_BUILT_IN`."""
    given = value.strip() if isinstance(value, str) else text(value, place)
    if given.lower() in NO_LIBRARY or _BUILT_IN.fullmatch(given):
        return ""
    (path,) = files([given], place)
    return path


def resolved(base_path: str, origin: Path | str) -> str:
    """Give `base_path` unchanged if it is absolute or a URL, else below `origin`, a path or URL."""
    if "://" in base_path:
        return base_path
    if isinstance(origin, Path):
        return str(origin / base_path)
    return base_path if base_path.startswith("/") else f"{origin}/{base_path}"


def file_name(value: object, place: str) -> str:
    """Read the name of a file below a version directory."""
    path = PurePosixPath(text(value, place))
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise fault(place, value, "a file name relative to the version directory")
    return str(path)


def log_level(value: object, place: str) -> str:
    """Read a log level in any case; names of other servers become the nearest level."""
    word = value.strip().upper() if isinstance(value, str) else ""
    word = _LEVEL_OF.get(word, word)
    if word not in LOG_LEVELS:
        raise fault(place, value, f"one of {', '.join(LOG_LEVELS)}")
    return word


def log_level_or_info(value: object, place: str) -> str:
    """Read a log level; any other word means INFO, as in the server of 2020."""
    try:
        return log_level(value, place)
    except ConfigError:
        return "INFO"


def one_of(*words: str) -> Parser[str]:
    """Make a parser of one of `words`, which are in lower case; accepts any case."""

    def parse(value: object, place: str) -> str:
        word = value.strip().lower() if isinstance(value, str) else ""
        if word not in words:
            raise fault(place, value, f"one of {', '.join(filter(None, words))}")
        return word

    return parse


def meant_by(words: Mapping[str, bool]) -> Parser[bool]:
    """Make a parser of a boolean that another server spells by two `words`."""

    def parse(value: object, place: str) -> bool:
        """Read one of the words in the other server's spelling."""
        if not isinstance(value, str) or value not in words:
            raise fault(place, value, f"one of {', '.join(filter(None, words))}")
        return words[value]

    return parse


LONGEST: Final = 255
"""Characters of a name; the limit of file names, which many model names are taken from. Each log
line, metric and status of a model contains its name. TensorFlow Serving has no limit."""


def too_long(kind: str, name: str) -> str:
    """Describe the fault of a too long name; empty if it is not too long.

    Args:
        kind: kind of the name, such as "label".
        name: the name, of any length.
    """
    if len(name) <= LONGEST:
        return ""
    return (
        f'{kind} "{name[:20]}..." has {len(name)} characters; expected {LONGEST} at most:'
        " give it a shorter name"
    )
