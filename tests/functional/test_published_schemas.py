"""Custom resources fit the schemas that their projects publish, strictly, without a cluster.

`custom_resources.yaml` has schemas of our own, which are narrower and always there; these here are
the projects' own. Each `make` that runs tests fetches them, those of npm where there is a `npm`.
"""

import copy
import importlib.util
import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.functional.deployed import MANIFESTS, Manifest, read
from tests.functional.helm_cases import TAKEN, each_rendered
from tests.functional.published import (
    MODEL_OF,
    PACKAGES,
    VALIDATOR_OF,
    kind_of,
    kserve_faults,
    npm_faults,
)
from tests.functional.servers import ROOT

pytestmark = pytest.mark.deployed

of_npm = pytest.mark.skipif(
    not PACKAGES.is_dir() or shutil.which("node") is None,
    reason="needs Node.js with npm, when `make` makes .venv-dev",
)
of_kserve = pytest.mark.skipif(
    importlib.util.find_spec("kserve") is None,
    reason="needs KServe's SDK, as `make` puts it into .venv-dev",
)
COMMITTED = [read(path) for path in sorted(MANIFESTS.glob("*/*.yaml"))]
KSERVE = sorted((ROOT / "deploy" / "kserve").glob("*.yaml"))
FREE = {"annotations", "labels", "limits", "matchLabels", "metadata", "requests"}
"""Maps that take any key, below the first level: metadata is one in a trigger of KEDA."""

Place = tuple[str | int, ...]


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """Yield the place of every map in a manifest."""
    entries = enumerate(value) if isinstance(value, list) else value.items()
    if isinstance(value, dict):
        yield at
    for key, entry in entries:
        if isinstance(entry, dict | list):
            yield from places(entry, (*at, key))


def with_unknown(manifest: Manifest, place: Place) -> Manifest:
    changed = copy.deepcopy(manifest)
    within: Any = changed
    for step in place:
        within = within[step]
    within["replica"] = "1"
    return changed


def is_free(place: Place) -> bool:
    return len(place) > 1 and place[-1] in FREE


def test_there_is_a_published_schema_of_every_custom_kind() -> None:
    kinds = {kind_of(each) for each in [*COMMITTED, *map(read, KSERVE)]}
    custom = {kind for kind in kinds if "." in kind.split("/")[0].removesuffix(".k8s.io")}
    assert custom == VALIDATOR_OF.keys() | MODEL_OF.keys()


@of_npm
def test_resources_that_the_chart_makes_fit_their_schemas() -> None:
    """Of all values that the tests of the chart give it, and the committed manifests."""
    results = each_rendered(list(TAKEN.values()))
    texts = [
        text for each in results[:-1] for name, text in each["files"].items() if "yaml" in name
    ]
    made = [*COMMITTED, *map(yaml.safe_load, texts)]
    custom = {json.dumps(each): each for each in made if kind_of(each) in VALIDATOR_OF}
    assert {kind_of(each) for each in custom.values()} == VALIDATOR_OF.keys()
    found = zip(custom.values(), npm_faults(list(custom.values())), strict=True)
    assert [(kind_of(each), faults) for each, faults in found if faults] == []


@of_npm
@pytest.mark.parametrize("kind", VALIDATOR_OF)
def test_an_unknown_field_is_refused_wherever_it_stands(kind: str) -> None:
    (manifest, *_) = [each for each in COMMITTED if kind_of(each) == kind]
    strict = [place for place in places(manifest) if not is_free(place)]
    assert len(strict) >= 4
    assert npm_faults([with_unknown(manifest, place) for place in strict]) == [
        ["/".join(["", *map(str, place), "replica"]) + " is unknown"] for place in strict
    ]


@of_npm
def test_a_wrong_value_is_refused() -> None:
    (manifest, *_) = [copy.deepcopy(each) for each in COMMITTED if each["kind"] == "ScaledObject"]
    manifest["spec"]["minReplicaCount"] = "two"
    ((fault,),) = npm_faults([manifest])
    assert fault.startswith("/spec/minReplicaCount type")


@of_kserve
@pytest.mark.parametrize("path", KSERVE, ids=lambda path: path.name)
def test_the_manifests_of_kserve_fit_and_nothing_unknown_does(path: Any) -> None:
    manifest = read(path)
    assert kserve_faults(manifest) == []
    for place in places(manifest):
        if not is_free(place):
            assert len(kserve_faults(with_unknown(manifest, place))) == 1, place


@of_kserve
def test_kserve_wants_a_runtimes_containers_and_their_types() -> None:
    manifest = read(ROOT / "deploy" / "kserve" / "runtime.yaml")
    manifest["spec"]["multiModel"] = "no"
    del manifest["spec"]["containers"]
    assert kserve_faults(manifest) == [
        "/spec/containers is missing",
        "/spec/multiModel is not of the type bool",
    ]
