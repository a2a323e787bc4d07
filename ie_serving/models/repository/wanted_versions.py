"""The versions of one model that are wanted, as the version policy, labels and graphs say."""

from collections.abc import Callable, Collection, Mapping, Sequence

from ie_serving.models.repository.source import Candidate, ChooseVersions, Listing
from ie_serving.models.repository.version_policy import VersionPolicy


class WantedVersions:
    """The choice among the versions that storage lists.

    Args of the constructor are those attributes:
        policy: version policy.
        labels: versions by the labels that are to mean them.
        held: gives the versions that graphs name.

    Attributes:
        listing: the last one.
        aspired: versions that the policy wants.
        labelled: versions that labels or graphs keep.
        recalled: the version to serve first, instead of those the policy wants: it answered until
            a worker died, and its replacement there may take long to load, or never load.
    """

    def __init__(
        self,
        policy: VersionPolicy,
        labels: Mapping[str, int],
        held: Callable[[], Collection[int]] = tuple,
    ) -> None:
        self.policy = policy
        self.labels = labels
        self.held = held
        self.listing = Listing({}, moving=False)
        self.aspired: frozenset[int] = frozenset()
        self.labelled: frozenset[int] = frozenset()
        self.recalled: int | None = None

    @property
    def kept(self) -> frozenset[int]:
        """The versions that are wanted, whatever stands in for them."""
        return self.aspired | self.labelled

    def ends_recall(self, is_tried: Callable[[int], bool]) -> bool:
        """Forget the recalled version once it serves or cannot; tell whether that was now.

        Args:
            is_tried: tells whether a version serves or has failed to load.
        """
        number = self.recalled
        if number is None:
            return False
        # A version that is not wanted is gone, or the policy wants no version at all.
        is_wanted = number in self._aspired(self.listing.offered)
        if is_wanted and not is_tried(number):
            return False
        self.recalled = None
        return True

    def choose(self, serving: Collection[int] = ()) -> Sequence[Candidate]:
        """Choose again, and give the wanted candidates.

        Args:
            serving: they go on while all that is there instead is still being written.
        """
        offered, candidates = self.listing.offered, self.listing.candidates
        aspired = self._aspired(offered)
        self.labelled = self.policy.labelled(offered, self._held_versions())
        # While files move, the aspired versions stay the same until the next listing: otherwise the
        # serving version would be unloaded before the files of its replacement are known.
        if not aspired and self.listing.moving:
            self.aspired = frozenset(serving)
        elif aspired <= candidates.keys():
            self.aspired = aspired
        return [candidates[number] for number in self.kept & candidates.keys()]

    def _held_versions(self) -> Collection[int]:
        return {*self.labels.values(), *self.held()}

    def _aspired(self, found: Collection[int]) -> frozenset[int]:
        aspired = self.policy.aspired(found)
        if self.recalled is None or not aspired or self.recalled not in found:
            return aspired
        # Versions that served beside it, such as the other of the latest two, stay.
        return frozenset(n for n in aspired if n < self.recalled) | {self.recalled}

    def stand_ins(self, failed: Collection[int]) -> frozenset[int]:
        """Give the versions to serve while all aspired versions, `failed`, cannot."""
        return self.policy.stand_ins(self.listing.offered, failed)

    def choice(self, failed: Collection[int]) -> ChooseVersions:
        """Give the function that chooses the versions whose files a poll lists."""
        policy, named, aspired = self.policy, self._held_versions(), self._aspired

        def choose(found: Collection[int]) -> frozenset[int]:
            """Choose out of the numbers that were found: aspired, labelled, and to stand in."""
            kept = policy.labelled(found, named)
            return aspired(found) | kept | policy.stand_ins(found, failed)

        return choose

    def unlisted(self, failed: Collection[int]) -> frozenset[int]:
        """Give the wanted versions that the last listing knows only by number.

        The policy has changed since, or a version has failed that another may stand in for.
        """
        wanted = frozenset(self.choice(failed)(self.listing.offered))
        return wanted - self.listing.candidates.keys()

    def why_not(self, number: int, serving: Collection[int]) -> str:
        """Say why a version is not wanted any more, where those of `serving` serve."""
        if number not in self.listing.offered:
            return "it vanished from the repository"
        higher = [each for each in serving if each > number]
        return f"version {min(higher)} replaces it" if higher else "the policy does not want it"
