"""Which directories are models, and which models follow from them: pure functions."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.values.errors import StorageError
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.fleet.repository import ModelRepository, changed, differ, together
from ie_serving.storage.base import Entry
from ie_serving.storage.directories import Listed

NAMES = st.sampled_from(["a", "b", "c", "d"])
REPOSITORIES = st.sampled_from(["/one", "/two"])
FOUND = st.lists(
    st.tuples(REPOSITORIES, NAMES, st.sampled_from(["", "broken"])),
    unique_by=lambda each: each[:2],
).map(
    lambda found: [
        ModelConfig(name=name, base_path=f"{above}/{name}", repository=above, fault=fault)
        for above, name, fault in sorted(found)
    ]
)
CONFIGURED = st.lists(NAMES, unique=True).map(
    lambda names: [ModelConfig(name=name, base_path=f"/own/{name}") for name in names]
)


@pytest.mark.parametrize(
    ("include", "exclude", "name", "takes"),
    [
        pytest.param(("*",), (), "resnet", True, id="every name"),
        pytest.param(("*",), (), ".git", False, id="but hidden ones"),
        pytest.param((".*",), (), ".git", False, id="even if they are named"),
        pytest.param(("res*", "bert"), (), "bert", True, id="one of several"),
        pytest.param(("res*",), (), "bert", False, id="none of them"),
        pytest.param(("res*",), ("*-old",), "resnet-old", False, id="excluded"),
        pytest.param(("[ab]?",), (), "b7", True, id="all globs of a shell"),
        pytest.param(("Res*",), (), "resnet", False, id="case counts"),
    ],
)
def test_patterns_choose_directories(
    include: tuple[str, ...], exclude: tuple[str, ...], name: str, takes: bool
) -> None:
    repository = ModelRepository(base_path="/m", include=include, exclude=exclude)
    assert repository.takes(name) is takes


class Directories:
    """Those of the given names."""

    url = "/m"

    def __init__(self, *names: str) -> None:
        self._names = names

    def expect(self, *, is_idle: bool = False) -> bool:
        return True

    def list(self) -> Listed:
        return dict.fromkeys(self._names)

    def read(self, entry: Entry) -> bytes:
        raise AssertionError(entry)


def test_the_directory_of_one_model_is_no_repository() -> None:
    repository = ModelRepository(base_path="/m")
    assert set(repository.chosen(Directories("1", "resnet", ".git"))) == {"1", "resnet"}
    assert repository.chosen(Directories()) == {}
    with pytest.raises(StorageError, match=r"/m: has versions \(1, 2\), expected directories of"):
        repository.chosen(Directories("1", "2"))


@given(CONFIGURED, FOUND)
def test_each_name_is_served_once_and_every_other_directory_is_told(
    configured: list[ModelConfig], found: list[ModelConfig]
) -> None:
    models, left_out = together(configured, found)
    names = [model.name for model in models]
    assert sorted(names) == sorted({each.name for each in (*configured, *found)})
    assert [each for each in models if not each.repository] == configured
    assert len(left_out) == len(configured) + len(found) - len(models)
    for each in found:
        assert each in models or any(text.startswith(f"{each.base_path}:") for text in left_out)


def test_a_directory_of_a_configured_model_is_no_conflict() -> None:
    own = ModelConfig(name="a", base_path="/one/a/")
    found = ModelConfig(name="a", base_path="/one/a", repository="/one")
    assert together([own], [found]) == ([own], [])


@given(CONFIGURED, FOUND, FOUND)
def test_a_change_of_directories_leaves_configured_models_alone(
    configured: list[ModelConfig], before: list[ModelConfig], after: list[ModelConfig]
) -> None:
    desired = changed(configured, before)
    result = changed(desired, after)
    assert not differ(result, together(configured, after)[0])
    assert not differ(changed(result, after), result)


@given(CONFIGURED, FOUND, FOUND)
def test_models_of_a_repository_that_is_not_known_yet_stay(
    configured: list[ModelConfig], before: list[ModelConfig], after: list[ModelConfig]
) -> None:
    desired = changed(configured, before)
    listed = [each for each in after if each.repository != "/two"]
    kept = {each.name for each in desired if each.repository == "/two"}
    unlisted = {ModelRepository(base_path="/two")}
    result = {each.name for each in changed(desired, listed, unlisted=unlisted)}
    assert kept <= result


@given(CONFIGURED, FOUND, FOUND)
def test_where_clients_load_a_change_adds_none(
    configured: list[ModelConfig], before: list[ModelConfig], after: list[ModelConfig]
) -> None:
    desired = changed(configured, before)
    result = changed(desired, after, only_known=True)
    names = {each.name for each in (*configured, *after)}
    assert {each.name for each in result} == {each.name for each in desired} & names


@given(FOUND)
def test_the_order_of_models_makes_no_difference(found: list[ModelConfig]) -> None:
    models = together([], found)[0]
    assert not differ(models, models[::-1])
    assert not models or differ(models, models[1:])


def test_labels_of_clients_stay_until_the_settings_have_others() -> None:
    found = ModelConfig(name="a", base_path="/m/a", repository="/m", version_labels={"s": 1})
    beside = ModelConfig(name="b", base_path="/m/b", repository="/m")
    labelled = replace(found, version_labels={"s": 2}, labels_found={"s": 1})
    assert changed([labelled], [found, beside]) == [labelled, beside]
    broken = ModelConfig(name="a", base_path="/m/a", repository="/m", fault="not JSON")
    assert [*changed(changed([labelled], [broken]), [found])] == [labelled]
    other = replace(found, version_labels={"s": 3})
    assert changed([labelled], [other]) == [other]
    elsewhere = replace(found, base_path="/n/a", repository="/n")
    assert changed([labelled], [elsewhere]) == [elsewhere]
