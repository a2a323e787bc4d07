"""Base paths side by side: when one listing stands for all, and when each lists for itself."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ie_serving.core.runtime.waits import Backoff
from ie_serving.core.values.errors import Missing, StorageError, Unauthorized, Unreachable
from ie_serving.storage.base import Entry, Location
from ie_serving.storage.directories import BucketDirectories, Listed
from ie_serving.storage.mirror import Mirror
from ie_serving.storage.siblings import EACH, FEWEST, KNOWN_S, Neighbours, Siblings
from ie_serving.storage.trouble import RetryLimits

PAGE = 100
"""Objects of a page: a tenth of what stores list, so that a tenth of the models fill as many."""

QUICK = RetryLimits(most=3, backoff=Backoff(first_s=0.001, longest_s=0.01))


class Bucket:
    """Objects by key, the requests that were made, and what the next ones raise."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.requests: list[str] = []
        self.fails: deque[StorageError] = deque()
        self.forbidden = ""
        self.begun = lambda: None

    def under(self, prefix: str, request: str) -> Iterator[Entry]:
        """Yield what lies there, and note a request for each page."""
        if request == self.forbidden:
            raise Unauthorized(f"{prefix}: not allowed")
        for count, key in enumerate([key for key in self.keys if key.startswith(prefix)] or [""]):
            if count % PAGE == 0:
                self.requests.append(request)
                self.begun()
                if self.fails:
                    raise self.fails.popleft()
            if key:
                yield Entry(key, 1, f"tag of {key}", 1.0)


class Side:
    """A prefix of the bucket, as a backend reads it."""

    identity = "bucket"

    def __init__(self, bucket: Bucket, location: Location) -> None:
        self._bucket, self._location = bucket, location
        self.url = location.url

    def directories(self) -> list[str]:
        keys = [each.path for each in self._bucket.under(self._location.prefix, "alone")]
        below = [key.removeprefix(self._location.prefix) for key in keys]
        names = dict.fromkeys(path.partition("/")[0] for path in below if "/" in path)
        found = [f"{self._location.prefix}{name}/" for name in names]
        return self._location.directories(found, bool(keys))

    def list(self, directory: str) -> Iterator[Entry]:
        prefix = f"{self._location.prefix}{directory}/"
        yield from self._location.entries(self._bucket.under(prefix, "files"))

    def everything(self) -> Iterator[Entry]:
        yield from self._bucket.under(self._location.prefix, "all")


class Fleet:
    """Models below one prefix of a bucket, each with version 1."""

    def __init__(self, cache_dir: Path, count: int, prefix: str = "models/") -> None:
        self.now = 0.0
        self.bucket = Bucket()
        names = [f"m{number}" for number in range(count)]
        self.bucket.keys = [f"{prefix}{n}/1/{file}" for n in names for file in ("a.bin", "a.xml")]
        above = Location.parse(f"s3://b/{prefix}", f"b/{prefix}")
        siblings = Siblings(above, clock=lambda: self.now)
        neighbours = Neighbours()
        neighbours.add(siblings)
        places = [Location.parse(f"s3://b/{prefix}{n}", f"b/{prefix}{n}") for n in names]
        self.siblings = [neighbours.of(place) for place in places]
        remote = Side(self.bucket, above)
        self.models = [
            Mirror(Side(self.bucket, place), cache_dir, listing_tries=QUICK, beside=(each, remote))
            for place, each in zip(places, self.siblings, strict=True)
            if each
        ]

        self.whole = neighbours.below(Location.parse(f"s3://b/{prefix}", f"b/{prefix}"))
        self._directories = BucketDirectories(
            self.whole, lambda: remote, ["model.json"], lambda action: action()
        )

    def listed(self) -> Listed:
        """List the repository."""
        self.whole.expect()
        return self._directories.list()

    def poll(
        self, count: int | None = None, *, is_idle: bool = False
    ) -> list[list[str] | StorageError]:
        """List the first models after all of them were expected; forget earlier requests."""
        self.bucket.requests.clear()
        pairs = list(zip(self.siblings, self.models, strict=True))[:count]
        looking = [model for each, model in pairs if each and each.expect(is_idle=is_idle)]
        return [_outcome(model.directories) for model in looking]


def _outcome(list_once: Callable[[], list[str]]) -> list[str] | StorageError:
    try:
        return list_once()
    except StorageError as error:
        return error


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ie_serving.storage.siblings.PAGE", PAGE)


def test_many_models_cost_as_many_requests_as_their_objects_fill_pages(
    tmp_path: Path,
) -> None:
    fleet = Fleet(tmp_path, 100)
    for _ in range(3):
        assert fleet.poll() == [["1"]] * 100
        assert fleet.bucket.requests == ["all", "all"]
    entries = sorted(entry.path for entry in fleet.models[7].list("1"))
    assert entries == ["1/a.bin", "1/a.xml"]
    assert fleet.bucket.requests == ["all", "all"]


def test_a_change_is_seen_at_the_next_poll(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, 20)
    fleet.poll()
    fleet.bucket.keys += ["models/m3/2/a.xml", "models/m4/3/"]
    found = fleet.poll()
    assert found[2:6] == [["1"], ["1", "2"], ["1", "3"], ["1"]]
    assert list(fleet.models[4].list("3")) == []


def test_a_model_that_is_gone_is_missing_and_the_others_are_not(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, 20)
    fleet.bucket.keys = [key for key in fleet.bucket.keys if "/m3/" not in key]
    found = fleet.poll()
    assert isinstance(found[3], Missing)
    assert "s3://b/models/m3" in str(found[3])
    assert [each for each in found if each != ["1"]] == [found[3]]


def test_few_models_and_one_that_is_asked_for_alone_are_listed_alone(tmp_path: Path) -> None:
    few = Fleet(tmp_path, FEWEST - 1)
    few.poll()
    assert few.bucket.requests == ["alone"] * (FEWEST - 1)
    many = Fleet(tmp_path, 30)
    many.poll(1)
    assert many.bucket.requests == ["alone"]


def test_a_listing_that_began_before_a_model_was_expected_does_not_serve_it(
    tmp_path: Path,
) -> None:
    """Who says "look now" has uploaded something before that."""
    fleet = Fleet(tmp_path, 20)
    asked = fleet.siblings[9]
    assert asked is not None

    def upload() -> None:
        fleet.bucket.begun = lambda: None
        asked.expect()
        fleet.bucket.keys.append("models/m9/2/a.xml")

    fleet.bucket.begun = upload
    assert fleet.poll()[9] == ["1", "2"]
    assert fleet.bucket.requests == ["all", "alone"]


def test_much_else_beside_the_models_is_read_no_further_than_is_worthwhile(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, 10)
    fleet.bucket.keys[:0] = [f"models/checkpoints/{number}" for number in range(20 * PAGE)]
    assert fleet.poll() == [["1"]] * 10
    assert fleet.bucket.requests.count("all") == 10 * EACH // PAGE + 1
    fleet.poll()
    assert fleet.bucket.requests.count("all") == 0
    fleet.bucket.keys = fleet.bucket.keys[20 * PAGE :]
    fleet.now = KNOWN_S + 1
    assert fleet.poll() == [["1"]] * 10
    assert fleet.bucket.requests == ["all"]


def test_where_only_the_models_may_be_listed_each_is_listed_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    fleet = Fleet(tmp_path, 20)
    fleet.bucket.forbidden = "all"
    for _ in range(2):
        assert fleet.poll() == [["1"]] * 20
        assert fleet.bucket.requests == ["alone"] * 20
    assert caplog.text.count("base paths are listed alone path=s3://b/models/") == 1


def test_a_store_that_does_not_answer_is_asked_for_all_at_once(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, 20)
    fleet.poll()
    fleet.bucket.fails.extend(Unreachable("no answer") for _ in range(QUICK.most))
    found = fleet.poll()
    assert all(isinstance(each, Unreachable) for each in found)
    assert len({id(each) for each in found}) == 20
    assert fleet.bucket.requests == ["all"] * QUICK.most
    assert fleet.poll() == [["1"]] * 20


def test_threads_wait_for_the_listing_that_one_of_them_makes(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, 16)
    for sibling in fleet.siblings:
        assert sibling is not None
        sibling.expect()
    found: list[list[str]] = []
    threads = [
        threading.Thread(target=lambda model=model: found.append(model.directories()))
        for model in fleet.models
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert found == [["1"]] * 16
    assert fleet.bucket.requests == ["all"]


def test_idle_polls_of_several_pages_make_a_request_a_second(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, 200)
    fleet.poll()
    requests = 0
    for second in range(1, 11):
        fleet.now = float(second)
        found = fleet.poll(is_idle=True)
        assert found in ([], [["1"]] * 200), "all look, or none"
        requests += len(fleet.bucket.requests)
    assert requests == 8, "four pages, and perhaps an empty one, at each fifth poll"
    fleet.bucket.keys.append("models/m7/2/a.xml")
    assert fleet.poll()[7] == ["1", "2"], "what a caller waits for is listed at once"
    assert len(fleet.bucket.requests) == 5


def test_idle_models_that_a_rest_has_parted_are_not_listed_alone(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, 60)
    fleet.poll()
    fleet.now = 1.8
    assert fleet.poll(56, is_idle=True) == [], "the listing rests"
    fleet.now = 2.0
    assert fleet.poll(4, is_idle=True) == [["1"]] * 4
    assert fleet.bucket.requests == ["all", "all"]
    fleet.now = 3.8
    assert fleet.poll(is_idle=True) == []
    fleet.poll(4)
    assert fleet.bucket.requests == ["alone"] * 4, "few that a caller waits for are"


def test_a_page_alone_is_listed_at_every_idle_poll(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, 20)
    for _ in range(3):
        fleet.poll(is_idle=True)
        assert fleet.bucket.requests == ["all"]


@pytest.mark.parametrize("count", [3, 30])
def test_a_repository_is_listed_with_its_models(tmp_path: Path, count: int) -> None:
    fleet = Fleet(tmp_path, count)
    many = [f"models/m1/{number}" for number in range(EACH * count)]
    fleet.bucket.keys += ["models/m2/model.json", "models/note.txt", "models/m1/1/m1/model.json"]
    fleet.bucket.keys += many
    fleet.whole.expect()
    for order in (1, -1):
        fleet.bucket.requests.clear()
        looks: list[Callable[[], object]] = [fleet.listed, *(m.directories for m in fleet.models)]
        fleet.whole.expect()
        for sibling in fleet.siblings:
            assert sibling is not None
            sibling.expect()
        for look in looks[::order]:
            look()
        assert set(fleet.bucket.requests) == {"all"}
    assert set(fleet.listed()) == {f"m{number}" for number in range(count)}
    file = fleet.listed()["m2"]
    assert file is not None
    assert file.path == "m2/model.json"
    assert fleet.listed()["m1"] is None


def test_a_model_that_is_gone_is_no_directory_of_its_repository(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, 20)
    fleet.bucket.keys = [key for key in fleet.bucket.keys if "/m3/" not in key]
    for sibling in fleet.siblings:
        assert sibling is not None
        sibling.expect()
    assert set(fleet.listed()) == {f"m{number}" for number in range(20) if number != 3}


def test_a_repository_that_may_not_be_listed_is_trouble(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, 3)
    fleet.bucket.forbidden = "all"
    with pytest.raises(Unauthorized):
        fleet.listed()
    fleet.bucket.forbidden, fleet.bucket.keys = "", []
    with pytest.raises(Missing, match="no object in bucket 'b' begins with 'models/'"):
        fleet.listed()


@pytest.mark.parametrize(
    ("path", "above"),
    [
        pytest.param("b", None, id="the root of a bucket"),
        pytest.param("b/m", "", id="below the root"),
        pytest.param("b/models/m", "models/", id="below a prefix"),
        pytest.param("b/models/m/", "models/", id="with a slash at the end"),
        pytest.param("b/models//m", "models//", id="a slash that belongs to the keys"),
    ],
)
def test_a_base_path_lies_in_the_location_above(path: str, above: str | None) -> None:
    location = Location.parse(f"s3://{path}", path).above()
    assert (location and location.prefix) == above
    assert location is None or location.url == f"s3://b/{above}"


@pytest.mark.parametrize("prefix", ["", "a//"])
def test_any_prefix_will_do(tmp_path: Path, prefix: str) -> None:
    fleet = Fleet(tmp_path, 20, prefix)
    assert fleet.poll() == [["1"]] * 20
    assert fleet.bucket.requests == ["all"]
