"""The digests of the files of each copy, kept beside the copies: `digests/<fingerprint>`.

The store's checksums are verified when a copy is made. What happens to it on this disk later, only
a digest of our own tells: it is compared when a process uses the copy for the first time.
"""

import json
import logging
from collections.abc import Iterable
from pathlib import Path

from ie_serving.core.values.digests import crc32_of
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)


class CopyDigests:
    """The digests under `folder`, and which copies this process has compared with theirs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._compared: set[str] = set()

    def keep(self, fingerprint: str, copy: Path, files: Iterable[str]) -> None:
        """Write the digests of a copy, in the directory `copy`, that was just verified.

        Raises:
            OSError: it cannot be read, or they cannot be written.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        digests = {path: crc32_of(copy / path) for path in files}
        # Written beside and renamed: another process may read them now.
        beside = self._folder / f"{fingerprint}.new"
        beside.write_text(json.dumps(digests))
        beside.replace(self._folder / fingerprint)
        self._compared.add(fingerprint)

    def fit(self, fingerprint: str, copy: Path, files: Iterable[str]) -> bool:
        """Tell whether a copy is as it was written; reads it at its first use alone."""
        if fingerprint in self._compared:
            return True
        known = self._read(fingerprint)
        try:
            if known is None:  # made by an earlier release, which kept none
                self.keep(fingerprint, copy, files)
                return True
            damaged = [path for path in files if crc32_of(copy / path) != known.get(path)]
        except OSError as error:  # a cache that cannot be written keeps none; else it is not sound
            log.warning(Event("copy not compared", path=copy, cause=error.strerror))
            return known is None
        if damaged:
            log.warning(Event("copy damaged, fetched again", path=copy, file=damaged[0]))
            return False
        self._compared.add(fingerprint)
        return True

    def forget(self, fingerprint: str) -> None:
        """Remove the digests of a copy that is gone."""
        self._compared.discard(fingerprint)
        (self._folder / fingerprint).unlink(missing_ok=True)

    def _read(self, fingerprint: str) -> dict[str, int] | None:
        try:
            found: dict[str, int] = json.loads((self._folder / fingerprint).read_text())
        except (OSError, ValueError):
            return None
        return found
