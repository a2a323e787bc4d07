"""The checked compile cache: verifies an engine's cached compiled models before their use.

Engines read their cache back without a check, so a damaged file would give wrong numbers. Here each
version has its own folder, with digests of the files that the engine wrote; a file that does not
match its digest, or has none, is removed before the engine can read it, and the model is compiled
again.
"""

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from ie_serving.core.values.digests import crc32_of
from ie_serving.core.values.hints import Hint
from ie_serving.engines.base import CompiledModel, EngineAround, EngineOptions
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

DIGESTS = "digests.json"
"""Name of the file of digests in the folder of a version."""

MOST_TOLD = 1024
"""Warnings that are remembered, so that none is repeated."""

Digests = Mapping[str, tuple[int, int, int]]
"""CRC-32, size and time of modification, in nanoseconds, of each file by its name."""


class CheckedCompileCache(EngineAround):
    """`engine` with a compile cache whose files are checked before use. See `Engine`."""

    def compile(self, directory: Path, options: EngineOptions) -> CompiledModel:
        """See `engines.base`; without the cache where a damaged file cannot be removed."""
        if options.cache_dir is None:
            return self._engine.compile(directory, options)
        name = hashlib.sha256(str(directory).encode("utf-8", "surrogateescape")).hexdigest()[:16]
        folder = options.cache_dir / name
        try:
            before = _checked(folder)
        except OSError as error:
            log.warning(Event("compiled models not used", path=folder, cause=error.strerror))
            return self._engine.compile(directory, replace(options, cache_dir=None))
        compiled = self._engine.compile(directory, replace(options, cache_dir=folder))
        _keep(folder, before)
        return compiled


def _checked(folder: Path) -> Digests:
    """Remove files that have changed since they were written; give the rest. Raises: OSError."""
    known = _known_digests(folder)
    sound: dict[str, tuple[int, int, int]] = {}
    for file in _files(folder):
        digest, *_ = known.get(file.name, (-1,))
        if digest == crc32_of(file):
            sound[file.name] = _measured(file, digest)
            continue
        if file.name in known:  # else it was being written when its process ended
            log.warning(Event("compiled model damaged, compiled again", path=file))
        file.unlink(missing_ok=True)
    return sound


def _keep(folder: Path, before: Digests) -> None:
    """Write the digests of the present files; only files new from the engine are read again."""
    try:
        after = {
            file.name: known
            if (known := before.get(file.name)) and known == _measured(file, known[0])
            else _measured(file, crc32_of(file))
            for file in _files(folder)
        }
        if after == before:
            return
        beside = folder / f"{DIGESTS}.new"
        beside.write_text(json.dumps(after))
        beside.replace(folder / DIGESTS)
    except OSError as error:
        warn_not_kept(str(folder), error.strerror)


@lru_cache(MOST_TOLD)
def warn_not_kept(folder: str, cause: str) -> None:
    """Log, once for each cause, that a version will be compiled again; it may be, every minute."""
    advice = Hint("check {storage.cache_dir}")
    log.warning(Event("compiled model not kept", path=folder, cause=cause, advice=advice))


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return [f for f in folder.iterdir() if f.is_file() and not f.name.startswith(DIGESTS)]


def _measured(file: Path, digest: int) -> tuple[int, int, int]:
    status = file.stat()
    return digest, status.st_size, status.st_mtime_ns


def _known_digests(folder: Path) -> Digests:
    try:
        found = json.loads((folder / DIGESTS).read_text())
        return {
            str(name): (int(crc), int(size), int(at)) for name, (crc, size, at) in found.items()
        }
    except (OSError, ValueError, TypeError, AttributeError):  # none, or damaged itself
        return {}
