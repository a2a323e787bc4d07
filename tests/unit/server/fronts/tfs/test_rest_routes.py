"""What a target asks for: TensorFlow Serving's grammar; docs/reference/api/rest.md has it.

Most targets, malformed ones among them, are in `tests/functional/conformance/cases/rest_routes.py`.
"""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.requests import ModelSpec
from ie_serving.server.fronts.tfs.rest_routes import Route, VersionOverflow, route
from tests.tables import named_by


@named_by(
    "method target",
    ("method", "target", "expected"),
    [
        ("GET", "/v1/models", Route("models", ModelSpec(""))),
        ("GET", "/v1/models/m/labels/l", Route("status", ModelSpec("m", label="l"))),
        ("GET", "/v1/models/m/metadata", Route("metadata", ModelSpec("m"))),
        ("GET", "/v1/models/m/versions/7/metadata", Route("metadata", ModelSpec("m", 7))),
        ("GET", "/v1/models/m/labels/l/metadata", Route("metadata", ModelSpec("m", label="l"))),
        ("GET", "/v1/models/m/gen_json", Route("gen_json", ModelSpec("m"))),
        ("GET", "/v1/models/gen_json", Route("status", ModelSpec("gen_json"))),
        (
            "GET",
            "/v1/models/m/versions/7/gen_client?language=go",
            Route("gen_client", ModelSpec("m", 7), "language=go"),
        ),
        ("GET", "/v1/models/a%2Fb%3Ac+d", Route("status", ModelSpec("a/b:c+d"))),
        ("POST", "/v1/models/m/versions/0:predict", Route("predict", ModelSpec("m", 0))),
        ("POST", "/v1/models/m:classify", Route("classify", ModelSpec("m"))),
        ("POST", "/v1/models/m:regress", Route("regress", ModelSpec("m"))),
    ],
)
def test_a_target_names_a_task_and_a_model(method: str, target: str, expected: Route) -> None:
    assert route(method, target) == expected


@named_by(
    "method target",
    ("method", "target"),
    [
        ("GET", "/v1/foo"),
        ("POST", "/v1/models/m:PREDICT"),
        ("POST", "/v1/models/m:predict?x=1"),
        ("PATCH", "/v1/models/m:predict"),
    ],
)
def test_a_malformed_target_is_refused(method: str, target: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        route(method, target)
    assert str(refused.value) == f"Malformed request: {method} {target}"


@pytest.mark.parametrize("version", ["18446744073709551615", "9223372036854775808", "1" * 5000])
def test_a_version_beyond_64_bits_is_refused(version: str) -> None:
    with pytest.raises(VersionOverflow, match="Failed to convert version"):
        route("POST", f"/v1/models/m/versions/{version}:predict")


def test_the_largest_version_and_leading_zeros_are_taken() -> None:
    assert route("GET", f"/v1/models/m/versions/{2**63 - 1}").model.version == 2**63 - 1
    assert route("GET", f"/v1/models/m/versions/{'0' * 400}5").model.version == 5


@given(st.sampled_from(["GET", "POST", "PUT"]), st.text(max_size=40))
def test_any_target_gives_a_route_or_an_invalid_request(method: str, rest: str) -> None:
    with suppress(InvalidRequest):
        assert isinstance(route(method, f"/v1/{rest}"), Route)


def test_the_same_target_is_read_once_unless_it_is_very_long() -> None:
    """What strangers send does not fill the memory."""
    for length, same in ((10, True), (300, False)):
        target = f"/v1/models/{'m' * length}"
        assert (route("GET", target) is route("GET", target)) is same
