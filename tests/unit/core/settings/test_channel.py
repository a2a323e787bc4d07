"""gRPC's channel arguments, and the settings that some of them are."""

import pytest

from ie_serving.core.settings.structures import arguments, settle
from ie_serving.core.values.errors import ConfigError

AGE, GRACE = "grpc.max_connection_age_ms", "grpc.max_connection_age_grace_ms"


def test_arguments_are_whole_numbers_or_text() -> None:
    assert arguments("grpc.a=-1, grpc.b=x=y,grpc.c=", "here") == {
        "grpc.a": -1,
        "grpc.b": "x=y",
        "grpc.c": "",
    }


@pytest.mark.parametrize("text", ["", "grpc.a", "grpc.a=1,,", "=1"])
def test_a_text_that_is_no_argument_is_a_fault(text: str) -> None:
    with pytest.raises(ConfigError, match=r"here: .*expected name=value"):
        arguments(text, "here")


@pytest.mark.parametrize(
    ("given", "age_s", "grace_s"),
    [
        pytest.param({AGE: 2000, GRACE: 500}, 2.0, 0.5, id="milliseconds"),
        pytest.param({AGE: 2147483647}, None, None, id="the largest number is no limit"),
        pytest.param({AGE: 2000, GRACE: 0}, 2.0, 0.001, id="no grace is not endless grace"),
        pytest.param({AGE: "soon"}, None, None, id="text means nothing"),
    ],
)
def test_ages_are_settings(
    given: dict[str, object], age_s: float | None, grace_s: float | None
) -> None:
    fields: dict[str, object] = {"grpc_channel_arguments": given}
    assert settle(fields, "http2") == []
    assert fields.get("grpc_max_connection_age_s") == age_s
    assert fields.get("grpc_max_connection_age_grace_s") == grace_s


@pytest.mark.parametrize(
    ("milliseconds", "idle_s"), [(2000, 2.0), (2147483647, 0.0)], ids=["a limit", "none"]
)
def test_idleness_is_a_setting_with_a_default(milliseconds: int, idle_s: float) -> None:
    fields: dict[str, object] = {
        "grpc_channel_arguments": {"grpc.max_connection_idle_ms": milliseconds}
    }
    assert settle(fields, "http2") == []
    assert fields["grpc_max_connection_idle_s"] == idle_s


def test_a_setting_that_is_given_counts_for_both_transports() -> None:
    fields = {"grpc_max_connection_age_s": 3.0, "grpc_channel_arguments": {AGE: 2000}}
    settle(fields, "grpcio")
    assert fields == {"grpc_max_connection_age_s": 3.0, "grpc_channel_arguments": {AGE: 3000}}


def test_arguments_without_effect_are_named() -> None:
    given = {"grpc_channel_arguments": {"grpc.b": 1, "grpc.a": 1, AGE: 1}}
    assert settle(dict(given), "grpcio") == []
    assert [text.split()[1] for text in settle(dict(given), "http2")] == ["grpc.a", "grpc.b"]
