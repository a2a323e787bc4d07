"""What a target asks for: TensorFlow Serving's grammar; docs/reference/api/rest.md has it."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.requests import ModelSpec
from ie_serving.server.fronts.tfs.rest_routes import Route, VersionOverflow, route


@pytest.mark.parametrize(
    ("method", "target", "expected"),
    [
        ("GET", "/v1/models", Route("models", ModelSpec(""))),
        ("GET", "/v1/models/m", Route("status", ModelSpec("m"))),
        ("GET", "/V1/MODELS/m", Route("status", ModelSpec("m"))),
        ("GET", "/v1/models/m/versions/01", Route("status", ModelSpec("m", 1))),
        ("GET", "/v1/models/m/labels/l", Route("status", ModelSpec("m", label="l"))),
        ("GET", "/v1/models/m/metadata", Route("metadata", ModelSpec("m"))),
        ("GET", "/v1/models/m/METADATA", Route("status", ModelSpec("m"))),
        ("GET", "/v1/models/metadata", Route("status", ModelSpec("metadata"))),
        ("GET", "/v1/models/m/versions/7/metadata", Route("metadata", ModelSpec("m", 7))),
        ("GET", "/v1/models/m/labels/l/metadata", Route("metadata", ModelSpec("m", label="l"))),
        ("GET", "/v1/models/m/gen_json", Route("gen_json", ModelSpec("m"))),
        ("GET", "/v1/models/gen_json", Route("status", ModelSpec("gen_json"))),
        (
            "GET",
            "/v1/models/m/versions/7/gen_client?language=go",
            Route("gen_client", ModelSpec("m", 7), "language=go"),
        ),
        ("GET", "/v1/models/m?x=1", Route("status", ModelSpec("m?x=1"))),
        ("GET", "/v1/models/a%2Fb%3Ac+d", Route("status", ModelSpec("a/b:c+d"))),
        ("POST", "/v1/models/m:predict", Route("predict", ModelSpec("m"))),
        ("POST", "/v1/models/m/versions/0:predict", Route("predict", ModelSpec("m", 0))),
        (
            "POST",
            "/v1/models/m/labels/l%20x:predict",
            Route("predict", ModelSpec("m", label="l x")),
        ),
        ("POST", "/v1/models/m:classify", Route("classify", ModelSpec("m"))),
        ("POST", "/v1/models/m:regress", Route("regress", ModelSpec("m"))),
    ],
)
def test_what_is_asked_for(method: str, target: str, expected: Route) -> None:
    assert route(method, target) == expected


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/v1/foo"),
        ("POST", "/v1/foo"),
        ("GET", "/v1/models/"),
        ("GET", "/v1/models/m/"),
        ("GET", "/v1/models/a/b"),
        ("POST", "/v1/models"),
        ("POST", "/v1/models/m/metadata"),
        ("GET", "/v1/models/m:predict"),
        ("POST", "/v1/models/m/version/50:predict"),
        ("POST", "/v1/models/m/label/x:predict"),
        ("POST", "/v1/models/m/versions/HELLO:predict"),
        ("POST", "/v1/models/m/versions/5/labels/x:predict"),
        ("POST", "/v1/models/m:PREDICT"),
        ("POST", "/v1/models/m:predict?x=1"),
        ("PUT", "/v1/models/m"),
        ("DELETE", "/v1/models/m"),
        ("PATCH", "/v1/models/m:predict"),
    ],
)
def test_what_is_malformed(method: str, target: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        route(method, target)
    assert str(refused.value) == f"Malformed request: {method} {target}"


@pytest.mark.parametrize("target", ["/v1/models/versions/1", "/v1/models/labels/a"])
def test_a_missing_name(target: str) -> None:
    with pytest.raises(InvalidRequest, match="Missing model name in request"):
        route("GET", target)


@pytest.mark.parametrize("version", ["18446744073709551615", "9223372036854775808", "1" * 5000])
def test_a_version_beyond_64_bits(version: str) -> None:
    with pytest.raises(VersionOverflow, match="Failed to convert version"):
        route("POST", f"/v1/models/m/versions/{version}:predict")


def test_the_largest_version_and_leading_zeros() -> None:
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
