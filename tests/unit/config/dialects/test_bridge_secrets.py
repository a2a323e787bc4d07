"""Which credentials of a bridge strangers could read."""

import pytest

from ie_serving.config.dialects import bridge

LINE = ["bridge", "mqtt", "--topic=t", "--model_name=m"]
SECRETS = {"IE_SERVING_MQTT_PASSWORD": "word", "IE_SERVING_API_KEY": "key"}


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        pytest.param([], [], id="both on this machine"),
        pytest.param(["--broker=broker:1883", "--url=http://10.0.0.1:8501"], [], id="not public"),
        pytest.param(["--broker=mqtt.example.com"], [], id="no password"),
        pytest.param(
            ["--broker=mqtt.example.com:1883", "--username=u"],
            [("password", "mqtt.example.com")],
            id="a password",
        ),
        pytest.param(["--broker=mqtt.example.com", "--username=u", "--tls_ca"], [], id="with TLS"),
        pytest.param(
            ["--url=http://serving.example.com"], [("API key", "serving.example.com")], id="a key"
        ),
        pytest.param(["--url=https://serving.example.com"], [], id="with HTTPS"),
    ],
)
def test_credentials_that_strangers_could_read_are_told(
    flags: list[str], expected: list[tuple[str, str]]
) -> None:
    assert list(bridge.parse([*LINE, *flags], SECRETS).exposed()) == expected


def test_without_a_key_there_is_none_to_read() -> None:
    assert list(bridge.parse([*LINE, "--url=http://serving.example.com"], {}).exposed()) == []
