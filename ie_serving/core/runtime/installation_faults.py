"""Explains exceptions whose cause is the installation of this package, or a limit of the system.

The user gets one line with what to do. All other exceptions are defects and keep their tracebacks.
"""

import errno
import sys
from collections.abc import Iterator
from importlib import metadata

_PACKAGE = "ie_serving"


def explained(error: BaseException) -> str:
    """Return what was wrong and what to do; empty if the cause is not known to lie outside."""
    if isinstance(error, OSError) and error.errno in _LIMITS:
        where = f" ({error.filename})" if error.filename else ""
        return f"{error.strerror}{where}: {_LIMITS[error.errno]}"
    if lacking := [*_lacking()]:
        asked = " ".join(f"'{requirement}'" for requirement, _ in lacking)
        found = ", ".join(f"{requirement} ({has})" for requirement, has in lacking)
        return (
            f"this Python lacks packages of {_PACKAGE}: {found}: install them:"
            f" {sys.executable} -m pip install {asked}"
        )
    if isinstance(error, ImportError) and error.name and not error.name.startswith(_PACKAGE):
        package = error.name.partition(".")[0]
        return (
            f"the package {package} cannot be imported ({' '.join(str(error).split())}): install it"
            f" again: {sys.executable} -m pip install --force-reinstall {package}"
        )
    return ""


_LIMITS = {
    errno.EMFILE: "raise the limit of open files of this process: ulimit -n, LimitNOFILE of"
    " systemd, ulimits of Docker",
    errno.ENFILE: "raise the limit of open files of this system, fs.file-max",
    errno.ENOSPC: "free space on that disk, or write to another",
    errno.EDQUOT: "free space of this user's quota, or write to another disk",
}
"""Advice by the number of the system's error."""


def _lacking() -> Iterator[tuple[str, str]]:
    """Yield each requirement of this package that is not met, and the version that is installed."""
    try:
        from packaging.requirements import Requirement

        asked = [Requirement(each) for each in metadata.requires(_PACKAGE) or ()]
    except (ImportError, metadata.PackageNotFoundError):
        return
    for each in asked:
        if each.marker is not None and not each.marker.evaluate({"extra": ""}):
            continue
        try:
            has = metadata.version(each.name)
        except metadata.PackageNotFoundError:
            yield str(each), "not installed"
        else:
            if not each.specifier.contains(has, prereleases=True):
                yield str(each), f"{has} is installed"
