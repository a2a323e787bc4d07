"""Reads and compiles versions without serving them, and reports the outcome for each."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field

from ie_serving.core.values.errors import NoSignatureServed, NotThereYet, ServingError
from ie_serving.core.values.tensors import Signature
from ie_serving.engines.base import Engine, EngineOptions
from ie_serving.models.repository.signature_file import with_signature_file
from ie_serving.models.repository.source import Candidate, VersionSource
from ie_serving.models.repository.version_policy import VersionPolicy
from ie_serving.storage.base import Storage


@dataclass(frozen=True)
class ExaminedVersion:
    """The outcome that serving one version would have.

    Attributes:
        version: version number.
        served: the engine of each signature that would be served, by its name.
        left_out: the reason for each signature that would not, by its name.
        fault: reason why the version as a whole does not load; empty for one that does, and where
            `left_out` has the reason.
        signatures: signatures of a version that loads, for graphs that use it.
    """

    version: int
    served: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    fault: str = ""
    signatures: Mapping[str, Signature] = field(default_factory=dict, repr=False)

    @property
    def is_whole(self) -> bool:
        """Whether every signature would be served."""
        return not (self.left_out or self.fault)


def examine(
    storage: Storage,
    engine: Engine,
    policy: VersionPolicy,
    options: EngineOptions,
    labelled: Collection[int] = (),
    *,
    lists_base: bool = False,
    takes_base: bool = False,
) -> Iterator[ExaminedVersion]:
    """Examine the versions that `policy` or a label wants, the lowest first. Blocking.

    Raises:
        StorageError: the versions cannot be listed, or there are none.
    """
    # One look suffices: the caller vouches that the files are complete.
    source = VersionSource(
        storage, engine, rest_s=0.0, lists_base=lists_base, takes_base=takes_base
    )

    def wanted(found: Collection[int]) -> frozenset[int]:
        return policy.aspired(found) | policy.labelled(found, labelled)

    listing = source.poll(wanted)
    if listing.fault:
        raise NotThereYet(listing.fault)
    for _, candidate in sorted(listing.candidates.items()):
        yield _examined(storage, engine, candidate, options)


def _examined(
    storage: Storage, engine: Engine, candidate: Candidate, options: EngineOptions
) -> ExaminedVersion:
    if candidate.fault:
        return ExaminedVersion(candidate.version, fault=candidate.fault)
    try:
        with (
            storage.copy(candidate.directory, candidate.entries) as directory,
            closing(engine.compile(directory, options)) as compiled,
        ):
            return _sorted(candidate.version, with_signature_file(directory, compiled.signatures))
    except NoSignatureServed as error:
        return ExaminedVersion(candidate.version, left_out=error.causes)
    except ServingError as error:
        return ExaminedVersion(candidate.version, fault=str(error))


def _sorted(version: int, signatures: Mapping[str, Signature]) -> ExaminedVersion:
    return ExaminedVersion(
        version,
        served={name: _runs_on(s) for name, s in signatures.items() if not _is_listed_only(s)},
        left_out={name: s.left_out for name, s in signatures.items() if s.left_out},
        signatures=signatures,
    )


def _is_listed_only(signature: Signature) -> bool:
    return bool(signature.left_out or signature.definition)


def _runs_on(signature: Signature) -> str:
    if signature.examples is not None and not signature.runs_on:
        return f'signatures.json, from "{signature.examples.base.name}"'
    return f"{signature.runs_on}{_precision(signature)}"


def _precision(signature: Signature) -> str:
    """Name a precision in which digits are lost."""
    return "" if signature.precision in ("", "f32") else f", in {signature.precision}"
