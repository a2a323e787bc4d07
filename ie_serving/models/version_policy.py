"""Which of the versions that storage lists should be loaded. Pure.

Source: ServableVersionPolicy, file_system_storage_path_source.proto of TensorFlow Serving.
"""

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Latest:
    """The `num_versions` highest."""

    num_versions: int = 1

    def aspired(self, found: Collection[int]) -> frozenset[int]:
        """Choose among the versions `found`."""
        return frozenset(sorted(found)[-self.num_versions :])


@dataclass(frozen=True, slots=True)
class All:
    """Every version."""

    def aspired(self, found: Collection[int]) -> frozenset[int]:
        """Choose among the versions `found`."""
        return frozenset(found)


@dataclass(frozen=True, slots=True)
class Specific:
    """The named versions, as far as they exist."""

    versions: frozenset[int]

    def aspired(self, found: Collection[int]) -> frozenset[int]:
        """Choose among the versions `found`."""
        return self.versions & frozenset(found)


VersionPolicy = Latest | All | Specific
