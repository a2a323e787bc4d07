"""How stores are reached and where copies are kept: all that storage takes from the environment."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class StorageOptions:
    """Settings of every backend and of the local cache."""

    cache_dir: Path
    """Directory of local copies and compiled models."""

    cache_size_bytes: int = 0
    """Size at which the least recently used copies are evicted; 0 sets no limit."""


def from_environment(
    environ: Mapping[str, str], *, cache_dir: Path | None = None, cache_size_bytes: int = 0
) -> StorageOptions:
    """Read the options that `environ` sets.

    Args:
        environ: the process's environment.
        cache_dir: None takes `ie_serving` in the user's cache directory.
        cache_size_bytes: 0 sets no limit.
    """
    return StorageOptions(
        cache_dir=cache_dir or _user_cache(environ), cache_size_bytes=cache_size_bytes
    )


def _user_cache(environ: Mapping[str, str]) -> Path:
    """Source: XDG Base Directory Specification."""
    base = environ.get("XDG_CACHE_HOME") or str(Path(environ.get("HOME") or "/tmp") / ".cache")
    return Path(base) / "ie_serving"
