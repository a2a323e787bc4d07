"""Verdicts of earlier comparisons: workers of one server share them, and so do its starts.

A verdict lies in the folder of a version's compiled models and has its own digest.
"""

import fcntl
import json
import logging
import os
import zlib
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from ie_serving import __version__
from ie_serving.core.values.digests import crc32_of
from ie_serving.core.values.hints import Hint
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.generated import ValueKind
from ie_serving.engines.verification.verdict import Findings
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

FOLDER = "verdicts"
"""Name of the folder: `engines.kept` looks after files, and leaves folders alone."""


RULES = 2
"""Raised where models are compared in another way: verdicts of before no longer count."""


class Verdicts:
    """The verdict of one model, for these packages, options and this kind of processor.

    Args of the constructor:
        folder: that keeps compiled models of the version.
        file: of the model; files beside it may hold its weights, and count as well.
        options: with which it is compared.
        package: of the second engine; its release may change a verdict, as OpenVINO's and our own.

    Raises:
        OSError: a file of the model cannot be read, or the folder not be written.
    """

    def __init__(self, folder: Path, file: Path, options: EngineOptions, package: str) -> None:
        (folder / FOLDER).mkdir(parents=True, exist_ok=True)
        self._path = folder / FOLDER / f"{_key(file, options, package)}.json"
        # Other workers wait for it, and the kernel frees it when its process ends.
        self._lock = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)

    def found(self, compare: Callable[[], Findings]) -> Findings:
        """Give the verdict that is kept, or else compare and keep it. Blocking."""
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            if known := self._read():
                return known
            found = compare()
            if not found.why_not and not found.cut_off:
                self._write(found)
            return found
        finally:
            os.close(self._lock)

    def _read(self) -> Findings | None:
        try:
            text = self._path.read_text()
            digest, _, body = text.partition("\n")
            if int(digest) != zlib.crc32(body.encode()):
                return None
            return _findings(json.loads(body))
        except (OSError, ValueError, LookupError, TypeError):  # none, damaged, or of other code
            return None

    def _write(self, found: Findings) -> None:
        body = json.dumps({**asdict(found), **{n: _named(getattr(found, n)) for n in _BY_KIND}})
        beside = self._path.with_suffix(".new")
        try:
            beside.write_text(f"{zlib.crc32(body.encode())}\n{body}")
            beside.replace(self._path)
        except OSError as error:
            advice = Hint("check {storage.cache_dir}")
            cause = error.strerror
            log.warning(Event("verdict not kept", path=beside, cause=cause, advice=advice))


_BY_KIND = ("differs", "crashed")


def _named(found: dict[ValueKind, str]) -> dict[str, str]:
    return {kind.name: text for kind, text in found.items()}


def _findings(fields: dict[str, object]) -> Findings:
    kinds = {name: {ValueKind[k]: text for k, text in fields[name].items()} for name in _BY_KIND}  # type: ignore[attr-defined]
    return Findings(**{**fields, **kinds})  # type: ignore[arg-type]


def _key(file: Path, options: EngineOptions, package: str) -> str:
    files = sorted(each for each in file.parent.iterdir() if each.is_file())
    model = [(each.name, each.stat().st_size, crc32_of(each)) for each in files]
    releases = [__version__, version("openvino"), package, version(package)]
    told = (RULES, file.name, model, releases, repr(options), _processor())
    return sha256(repr(told).encode("utf-8", "surrogateescape")).hexdigest()[:32]


@cache
def _processor() -> str:
    """Name the kind of processor and what it can do: engines choose their kernels by it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().partition("\n\n")[0].splitlines()
    except OSError:
        return ""
    told = ("model name", "flags", "Features", "CPU part")
    return "\n".join(line for line in lines if line.startswith(told))
