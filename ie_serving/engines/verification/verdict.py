"""Verdicts of comparisons of two engines: the findings, the tolerances, and their files.

Workers of one server and later starts reuse a verdict. It is a file in the folder of a version's
compiled models, named by its own digest.
"""

import fcntl
import json
import logging
import os
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

import numpy as np

from ie_serving import __version__
from ie_serving.core.values.difference import difference
from ie_serving.core.values.digests import crc32_of
from ie_serving.core.values.hints import Hint
from ie_serving.core.values.tensors import Array, Arrays
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.generated_requests import ValueKind
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

RTOL, SHARE = 1e-3, 1e-4
"""Tolerance of floats in f32: relative to each number, and to the greatest number of its output.
Sums of thousands of terms, added in another order, differ by a hundredth of it."""
QUANTIZED = "quantized"
LOWER: Mapping[str, tuple[float, float]] = {
    "bf16": (2e-2, 1e-2),
    "f16": (5e-3, 5e-3),
    QUANTIZED: (1e-1, 1e-1),
}
"""The same for lower precisions, with 8 and 11 bits of mantissa, and for quantized models, where
each engine rounds every operation's results to one of 255 values in its own way."""
MORE_SHARE = 0.15
"""Share of a load's time that either engine may spend on further requests to a large model."""
MANY, FEW_SHARE = 1000, 1e-3
"""Outputs of at least `MANY` integers, such as classes of pixels: the share `FEW_SHARE` may differ:
rounding decides between classes of nearly equal scores."""

OPENVINO = "OpenVINO"
"""Name of the first engine in steps and texts."""
FOLDER = "verdicts"
"""Name of the folder: `engines.checked_cache` manages files only, not folders."""
RULES = 4
"""Version of the comparison; raise it when the comparison changes, to discard old verdicts."""
_BY_KIND = ("differs", "crashed")


@dataclass(frozen=True)
class ComparisonTask:
    """One model to compare.

    Attributes:
        file: file of the model.
        options: options with which OpenVINO compiles it.
        large: whether, if all inputs are floats, only the second engine runs, on few requests: the
            server compiles the model meanwhile, and a second compilation would double the load.
        limit_s: seconds after which the process is ended.
        scratch: directory that the process may create; the server removes it.
        skipped: numbers of inferences that have ended a process before.
    """

    file: Path
    options: EngineOptions
    large: bool
    limit_s: int
    scratch: Path
    skipped: frozenset[int] = field(default_factory=frozenset)


@dataclass
class Findings:
    """The results of all requests.

    Attributes:
        reference: name and release of the second engine.
        asked: requests that both engines answered.
        differs: the first difference of each kind of request, as text.
        refused: the first request of finite values that only OpenVINO refuses, and why.
        crashed: engines that ended the process, by kind of request, as text, OpenVINO first.
        cut_off: whether time ran out before all requests were sent.
        why_not: reason why nothing was compared; empty if something was.
    """

    reference: str = ""
    asked: int = 0
    differs: dict[ValueKind, str] = field(default_factory=dict)
    refused: str = ""
    crashed: dict[ValueKind, str] = field(default_factory=dict)
    cut_off: bool = False
    why_not: str = ""

    def summary(self) -> str:
        """Describe the comparison for the log and `check`."""
        if self.why_not:
            return f"not compared: {self.why_not}"
        end = ", when the time was over" if self.cut_off else ""
        return f"compared with {self.reference} on {self.asked} requests{end}"


@dataclass(frozen=True)
class Serve:
    """OpenVINO serves."""


@dataclass(frozen=True)
class Compare:
    """The comparison decides: OpenVINO has compiled each signature."""


@dataclass(frozen=True)
class Replace:
    """The second engine serves; `cause` says why OpenVINO does not.

    Attributes:
        cause: reason for the log and the signatures.
        or_compare: whether the comparison decides if the second engine does not serve either.
    """

    cause: str
    or_compare: bool = False


@dataclass(frozen=True)
class Fail:
    """No engine serves; `cause` says why, and what to do."""

    cause: str


def choose_uncompared(*, refusal: str | None = None, left_out: str = "") -> Compare | Replace:
    """Choose the engine of a model before the comparison has ended. Pure.

    Args:
        refusal: why OpenVINO does not compile the model; None if it does.
        left_out: why OpenVINO leaves a signature out; empty if it leaves out none.
    """
    if refusal is not None:
        return Replace(refusal)
    return Replace(left_out, or_compare=True) if left_out else Compare()


def choose(
    found: Findings,
    second: str,
    *,
    needs_reference: str = "",
    advice: str | None = None,
    sooner: str = "",
) -> Serve | Replace | Fail:
    """Choose the engine of a model that OpenVINO has compiled. Pure.

    Args:
        found: the findings.
        second: library of the second engine.
        needs_reference: reason why OpenVINO serves only what was compared; empty if it need not be.
        advice: advice to users about a model that was not compared; None if it is served all the
            same.
        sooner: by how much the second engine answers sooner; empty if it does not, or before it
            was measured.
    """
    if why := _wrong(found):
        differ = f"{OPENVINO} and {found.reference} differ: {why}"
        crash = found.crashed.get(ValueKind.FINITE, "")
        if second in crash:
            return Fail(f"{differ}; and {crash}: neither engine can serve it, export it anew")
        return Replace(differ)
    if found.why_not and needs_reference:
        return Replace(needs_reference)
    if found.why_not and advice is not None:
        return Fail(f"the version is {found.summary()}{advice}")
    return Replace(sooner) if sooner else Serve()


def may_be_sooner(found: Findings, *, is_replaceable: bool, refused: str) -> bool:
    """Whether the second engine may serve a model only because it answers sooner. Pure.

    Args:
        found: the findings.
        is_replaceable: whether the second engine is installed, and no driver is configured.
        refused: an option that only OpenVINO takes, as text; empty if none is set.
    """
    return is_replaceable and ValueKind.FINITE not in found.crashed and not refused


def _wrong(found: Findings) -> str:
    """Say why OpenVINO does not serve a model; empty if it does."""
    finite = ValueKind.FINITE
    if finite in found.differs:
        return found.differs[finite]
    if found.crashed.get(finite, "").startswith(OPENVINO):
        return found.crashed[finite]
    return found.refused if not found.asked else ""


def differences(found: Arrays, expected: Arrays, precision: str) -> str:
    """Say how the outputs of one request differ; empty if they do not.

    Args:
        found: OpenVINO's outputs by the names of the reference.
        expected: outputs of the reference.
        precision: precision in which OpenVINO computes, such as `bf16`; empty counts as f32.
    """
    said = (_difference(name, found[name], expected[name], precision) for name in expected)
    return "; ".join(filter(None, said))


def _difference(name: str, found: Array, expected: Array, precision: str) -> str:
    if found.shape == expected.shape and _are_few(found, expected):
        return ""
    if precision == QUANTIZED and found.shape == expected.shape and expected.dtype.kind != "f":
        return _steps_apart(name, found, expected)
    rtol, share = LOWER.get(precision, (RTOL, SHARE))
    if expected.dtype == np.float16:
        rtol, share = (max(a, b) for a, b in zip((rtol, share), LOWER["f16"], strict=True))
    return difference(name, found, expected, rtol, share * _greatest(expected))


def _steps_apart(name: str, found: Array, expected: Array) -> str:
    """Compare integers of a quantized model: those of 8 and 16 bits stand for floats.

    Others are indices, classes or booleans, which rounding may change if scores are nearly equal.
    """
    if expected.dtype.kind == "b" or expected.dtype.itemsize > 2:
        return ""
    ends = np.iinfo(expected.dtype)
    _, share = LOWER[QUANTIZED]
    allowed = share * (ends.max - ends.min) / 2
    return difference(name, found.astype(np.float64), expected.astype(np.float64), 0.0, allowed)


def _greatest(expected: Array) -> float:
    """Give the greatest finite magnitude, but at least one in reach of other numbers' rounding."""
    if expected.dtype.kind != "f":
        return 0.0
    finite = np.abs(expected[np.isfinite(expected)].astype(np.float64))
    return max(float(finite.max(initial=0.0)), 1e-2)


def _are_few(found: Array, expected: Array) -> bool:
    if expected.dtype.kind not in "iu" or expected.size < MANY:
        return False
    return bool(np.count_nonzero(found != expected) <= FEW_SHARE * expected.size)


class Verdicts:
    """The verdict of one model, for these packages, options and this kind of processor.

    Args of the constructor:
        folder: folder of the version's compiled models.
        file: file of the model; other files in its directory may hold weights, and count as well.
        options: options of the comparison.
        package: package of the second engine; its release decides, as OpenVINO's and this server's
            do.

    Raises:
        OSError: a file of the model cannot be read, or the folder cannot be written.
    """

    def __init__(self, folder: Path, file: Path, options: EngineOptions, package: str) -> None:
        (folder / FOLDER).mkdir(parents=True, exist_ok=True)
        self._path = folder / FOLDER / f"{_key(file, options, package)}.json"
        # Other workers wait for this lock; the kernel frees it when its process ends.
        self._lock = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)

    def found(self, compare: Callable[[], Findings]) -> Findings:
        """Give the stored verdict, or else compare and store it. Blocking."""
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
        body = json.dumps(
            {**asdict(found), **{n: _by_kind_name(getattr(found, n)) for n in _BY_KIND}}
        )
        beside = self._path.with_suffix(".new")
        try:
            beside.write_text(f"{zlib.crc32(body.encode())}\n{body}")
            beside.replace(self._path)
        except OSError as error:
            advice = Hint("check {storage.cache_dir}")
            cause = error.strerror
            log.warning(Event("verdict not kept", path=beside, cause=cause, advice=advice))


def _by_kind_name(found: dict[ValueKind, str]) -> dict[str, str]:
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
    """Name the processor and its instruction sets, by which engines choose their kernels."""
    try:
        lines = Path("/proc/cpuinfo").read_text().partition("\n\n")[0].splitlines()
    except OSError:
        return ""
    told = ("model name", "flags", "Features", "CPU part")
    return "\n".join(line for line in lines if line.startswith(told))
