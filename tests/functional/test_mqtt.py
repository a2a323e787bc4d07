"""`ie_serving bridge mqtt` between a real broker, mosquitto, and a real server."""

import json
import queue
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

pytest.importorskip("paho.mqtt")

from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.functional.servers import Server
from tests.functional.stream_models import write
from tests.process import PATIENCE_S, Process, free_ports

MOSQUITTO = shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin") or ""
pytestmark = pytest.mark.skipif(
    not MOSQUITTO, reason="mosquitto is not there: apt-get install mosquitto"
)


@contextmanager
def broker(root: Path, port: int) -> Iterator[Process]:
    config = root / "mosquitto.conf"
    config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\nuser root\n")
    with Process(MOSQUITTO, "-v", "-c", config) as process:
        process.line(r"mosquitto version .* running")
        yield process


@contextmanager
def bridge(server: Server, port: int, *flags: str) -> Iterator[Process]:
    command = (
        "ie_serving", "bridge", "mqtt", f"--broker=127.0.0.1:{port}", f"--url={server.url}",
        "--topic=in/+", "--model_name=twice", *flags,
    )  # fmt: skip
    with Process(*command) as process:
        process.line("bridge connected")
        yield process


class Client:
    """A device at the broker."""

    def __init__(self, port: int, *topics: str) -> None:
        self._said: queue.Queue[paho.MQTTMessage] = queue.Queue()
        subscribed: queue.Queue[object] = queue.Queue()
        self._client = paho.Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv5)
        self._client.on_message = lambda _, __, message: self._said.put(message)
        self._client.on_subscribe = lambda *given: subscribed.put(given)
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        for topic in topics:
            self._client.subscribe(topic, 1)
            subscribed.get(timeout=PATIENCE_S)

    def send(self, topic: str, said: str, properties: Properties | None = None) -> None:
        self._client.publish(topic, said, 1, properties=properties).wait_for_publish(PATIENCE_S)

    def heard(self) -> paho.MQTTMessage:
        return self._said.get(timeout=PATIENCE_S)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mqtt")


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[Server]:
    with Server("ie_serving", "config", f"--config_path={write(root)}", "--allow_python") as server:
        yield server.ready()


def test_messages_are_answered_also_after_the_broker_was_away(server: Server, root: Path) -> None:
    (port,) = free_ports(1)
    with broker(root, port) as first, bridge(server, port) as running:
        with closing(Client(port, "in/+/answer", "mine")) as client:
            for number in range(3):
                client.send("in/a", json.dumps({"instances": [number]}))
            answers = [client.heard() for _ in range(3)]
            assert {each.topic for each in answers} == {"in/a/answer"}
            told = [json.loads(each.payload) for each in answers]
            assert told == [{"predictions": [2.0 * number]} for number in range(3)]
            client.send("in/a", "no JSON")
            assert "JSON" in json.loads(client.heard().payload)["error"]
            asked = Properties(PacketTypes.PUBLISH)
            asked.ResponseTopic, asked.CorrelationData = "mine", b"17"
            client.send("in/b", '{"instances": [4]}', asked)
            answer = client.heard()
            assert (answer.topic, answer.properties.CorrelationData) == ("mine", b"17")  # type: ignore[union-attr]
        first.close()
        running.line("broker lost")
        with broker(root, port):
            running.line("bridge connected")
            with closing(Client(port, "in/+/answer")) as client:
                client.send("in/a", '{"instances": [5]}')
                assert json.loads(client.heard().payload) == {"predictions": [10.0]}


def test_a_bridge_with_a_name_misses_nothing(server: Server, root: Path) -> None:
    """The broker keeps what comes while it is away, and what it has not acknowledged."""
    (port,) = free_ports(1)
    with broker(root, port), closing(Client(port, "in/+/answer")) as client:
        with bridge(server, port, "--client_id=b"):
            pass
        client.send("in/a", '{"instances": [6]}')
        with bridge(server, port, "--client_id=b"):
            assert json.loads(client.heard().payload) == {"predictions": [12.0]}


def test_topics_that_would_go_in_a_circle_are_refused(root: Path) -> None:
    command = ("bridge", "mqtt", "--topic=in/#", "--model_name=m")
    with Process("ie_serving", *command) as process:
        assert process.popen.wait(PATIENCE_S) == 2
        process.line("every answer would be a request again")


def test_credentials_that_strangers_could_read_are_said() -> None:
    command = ("ie_serving", "bridge", "mqtt", "--broker=broker.invalid", "--username=u")
    with Process(*command, "--topic=t", "--model_name=m") as process:
        line = process.line("credentials go unencrypted to a public address")
        assert "WARNING" in line
        assert line.endswith("what=password host=broker.invalid")
