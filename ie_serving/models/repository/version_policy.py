"""The version policy: which of the listed versions should be loaded. Pure.

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

    def labelled(self, found: Collection[int], wanted: Collection[int]) -> frozenset[int]:
        """Choose those of `found` that labels name: a canary stays when the latest moves on."""
        return frozenset(found) & frozenset(wanted)

    def stand_ins(self, found: Collection[int], failed: Collection[int]) -> frozenset[int]:
        """Choose the versions of `found` to load while no aspired version can serve.

        A server that ran while a broken version arrived still serves the one before it; one that
        starts with both finds it here. Lower versions are tried one after the other, the highest
        first; those that failed stay chosen, so that their back-off goes on.
        """
        aspired = self.aspired(found)
        if not aspired or not aspired <= set(failed):
            return frozenset()
        lower = sorted((version for version in found if version < min(aspired)), reverse=True)
        untried = next((i for i, version in enumerate(lower) if version not in failed), len(lower))
        return frozenset(lower[: untried + 1])


@dataclass(frozen=True, slots=True)
class All:
    """Every version."""

    def aspired(self, found: Collection[int]) -> frozenset[int]:
        """Choose among the versions `found`."""
        return frozenset(found)

    def labelled(self, found: Collection[int], wanted: Collection[int]) -> frozenset[int]:
        """Choose none: every version is aspired."""
        return frozenset()

    def stand_ins(self, found: Collection[int], failed: Collection[int]) -> frozenset[int]:
        """Choose none: every version is aspired."""
        return frozenset()


@dataclass(frozen=True, slots=True)
class Specific:
    """The named versions, as far as they exist."""

    versions: frozenset[int]

    def aspired(self, found: Collection[int]) -> frozenset[int]:
        """Choose among the versions `found`."""
        return self.versions & frozenset(found)

    def labelled(self, found: Collection[int], wanted: Collection[int]) -> frozenset[int]:
        """Choose none: another version than those named is not wanted, label or not."""
        return frozenset()

    def stand_ins(self, found: Collection[int], failed: Collection[int]) -> frozenset[int]:
        """Choose none: another version than those named is not wanted."""
        return frozenset()


VersionPolicy = Latest | All | Specific
