"""Parses `ie_serving bridge mqtt`, a separate process between a broker and a server.

ie_serving bridge mqtt --broker broker:1883 --topic 'cameras/+' --answer_topic '{topic}/seen'
    --url http://127.0.0.1:8000 --model_name faces
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ie_serving.core.settings import numbers
from ie_serving.core.values.errors import ConfigError
from ie_serving.core.values.hosts import host_of, is_public
from ie_serving.wire.clients import model_path

COMMAND = "bridge"
KEY, PASSWORD = "IE_SERVING_API_KEY", "IE_SERVING_MQTT_PASSWORD"
"""Variables of the environment for secrets: other users can see a process's arguments."""
PORT, TLS_PORT = 1883, 8883


@dataclass(frozen=True, kw_only=True)
class BridgeOptions:
    """The options of a bridge between a broker and a server."""

    broker: tuple[str, int]
    """Host and port."""

    topic: str
    """Filter of the request topics; `+` and `#` as in MQTT."""

    answer_topic: str
    """Topic of answers; `{topic}` stands for the topic of the request."""

    url: str
    """URL of the server's REST port."""

    path: str
    """Path of the model's `:predict`."""

    qos: int
    """Quality of service of the subscription and of the answers: 0, 1 or 2."""

    client_id: str
    """Client id at the broker; with one the broker keeps messages while the bridge is down."""

    username: str
    password: str
    """Password at the broker; empty for none."""

    api_key: str
    """API key of the server; empty for none."""

    tls_ca: str | None
    """File of certificates that verify the broker's; `""` uses the system's; None disables TLS."""

    timeout_s: float
    """Longest time of one request to the server."""

    retry_s: float
    """Seconds for which a request is retried while the server is down or overloaded."""

    def exposed(self) -> Iterator[tuple[str, str]]:
        """Give the credentials that go unencrypted over the network, and the host they go to."""
        broker, server = self.broker[0], host_of(self.url)
        if self.username and self.tls_ca is None and is_public(broker):
            yield "password", broker
        if self.api_key and not self.url.lower().startswith("https:") and is_public(server):
            yield "API key", server


def parse(argv: Sequence[str], environ: Mapping[str, str]) -> BridgeOptions:
    """Read the command line.

    Args:
        argv: arguments without the program's name.
        environ: environment variables of the process.

    Raises:
        ConfigError: a flag has an invalid value.
        SystemExit: `--help`, or flags that do not belong here.
    """
    given = parser().parse_args(argv[1:])
    label = given.version_label or None
    return BridgeOptions(
        broker=_broker(given.broker, TLS_PORT if given.tls_ca is not None else PORT),
        topic=given.topic,
        answer_topic=given.answer_topic,
        url=given.url,
        path=f"{model_path(given.model_name, given.model_version, label)}:predict",
        qos=given.qos,
        client_id=given.client_id,
        username=given.username,
        password=environ.get(PASSWORD, ""),
        api_key=environ.get(KEY, ""),
        tls_ca=given.tls_ca,
        timeout_s=numbers.timeout(given.timeout_seconds, "--timeout_seconds"),
        retry_s=numbers.delay(given.retry_seconds, "--retry_seconds"),
    )


def parser() -> argparse.ArgumentParser:
    """Give the parser of the command line after the command."""
    made = argparse.ArgumentParser(
        prog=f"ie_serving {COMMAND}",
        allow_abbrev=False,
        epilog=f"{KEY}: key of the server; {PASSWORD}: of --username.",
    )
    asked = made.add_subparsers(dest="what", required=True, metavar="{mqtt}")
    mqtt = asked.add_parser("mqtt", help="take messages of an MQTT broker to a served model")
    add = mqtt.add_argument
    add("--broker", default="127.0.0.1", help="HOST[:PORT] (127.0.0.1:1883, with TLS :8883)")
    add("--topic", required=True, help="messages to take, each a body of :predict; + and # too")
    add("--answer_topic", default="{topic}/answer", help="where answers go ({topic}/answer)")
    add("--url", default="http://127.0.0.1:8000", help="of the server's REST port")
    add("--model_name", required=True)
    which = mqtt.add_mutually_exclusive_group()
    which.add_argument("--model_version", type=int, help="this version alone")
    which.add_argument("--version_label", help="the version with this label")
    add("--qos", type=int, choices=(0, 1, 2), default=1, help="of messages and answers (1)")
    add("--client_id", default="", help="with a name, the broker keeps messages for the bridge")
    add("--username", default="", help="at the broker")
    add("--tls_ca", nargs="?", const="", help="speak TLS; by these certificates, or the system's")
    add("--timeout_seconds", default="60", help="of one request to the server (60)")
    add("--retry_seconds", default="60", help="how long it is asked again (60)")
    return made


def _broker(text: str, port: int) -> tuple[str, int]:
    host, colon, digits = text.rpartition(":")
    if not colon:
        return text, port
    number = numbers.whole(digits) or 0
    if not host or not 0 < number <= numbers.LARGEST_PORT:
        raise ConfigError([f'--broker is "{text}"; expected HOST or HOST:PORT'])
    return host.strip("[]"), number
