"""`ie_serving bridge mqtt`: messages of a broker become predictions of a served model.

    broker ──message──> bounded queue ──> POST :predict ──> broker: answer, then the message's ack

The bridge acknowledges a message once the broker has its reply, so with QoS 1 or 2 no message is
lost if the bridge ends in between, but it may be answered twice. MQTT 5: the reply to a message
with a response topic goes to that topic, with the message's correlation data.
"""

import http.client
import json
import logging
import queue
import random
import ssl
import time
from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import urlsplit

from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from ie_serving.config.dialects.bridge import BridgeOptions
from ie_serving.core.runtime.waits import Backoff
from ie_serving.core.values.errors import ConfigError
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

AT_ONCE: Final = 16
"""Most unacknowledged messages of QoS 1 or 2 that the broker sends; it queues the others."""
MOST_WAITING_MESSAGES: Final = 100
"""Most messages of QoS 0 in the queue; beyond it the newest is lost, as the broker keeps none."""
KEEP_ALIVE_S: Final = 30
FIRST_RETRY_S: Final = 1
LONGEST_RETRY_S: Final = 30
"""Longest back-off in seconds between two attempts to reach the broker; it doubles up to this."""
KEPT_S: Final = 24 * 3600
"""Seconds for which the broker keeps the session of a bridge with a name."""
PUBLISHED_S: Final = 10.0
"""Seconds for the broker to accept a reply; then the message stays unacknowledged and returns."""


class MqttBridge:
    """One bridge. `run` is called once.

    Args of the constructor:
        options: options of the command line.

    Raises:
        ConfigError: answers would match the request topic, or a certificate cannot be read.
    """

    def __init__(self, options: BridgeOptions) -> None:
        check_topics(options.topic, options.answer_topic)
        self._options = options
        self._waiting: queue.Queue[paho.MQTTMessage] = queue.Queue(MOST_WAITING_MESSAGES)
        self._dropped = 0
        self._asker = BridgeConnection(
            options.url,
            options.path,
            options.api_key,
            timeout_s=options.timeout_s,
            retry_s=options.retry_s,
        )
        self._client = self._connected_later(options)

    def run(self) -> None:
        """Answer messages until a signal ends the process."""
        for what, host in self._options.exposed():
            log.warning(
                Event("credentials go unencrypted to a public address", what=what, host=host)
            )
        self._client.connect_async(
            *self._options.broker,
            keepalive=KEEP_ALIVE_S,
            clean_start=not self._options.client_id,
            properties=_connect(self._options),
        )
        self._client.loop_start()
        try:
            while True:
                self._answer(self._waiting.get())
        finally:
            self._client.disconnect()
            self._client.loop_stop()
            self._asker.close()

    def _connected_later(self, options: BridgeOptions) -> paho.Client:
        client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=options.client_id,
            protocol=MQTTProtocolVersion.MQTTv5,
            manual_ack=True,
        )
        if options.username:
            client.username_pw_set(options.username, options.password)
        if options.tls_ca is not None:
            client.tls_set_context(_tls(options.tls_ca))
        client.reconnect_delay_set(FIRST_RETRY_S, LONGEST_RETRY_S)
        client.on_connect = self._on_connect
        client.on_subscribe = self._on_subscribe
        client.on_disconnect = self._on_disconnect
        client.on_message = self._on_message
        return client

    # -- in paho's thread ------------------------------------------------------------------------

    def _on_connect(
        self, client: paho.Client, _: object, __: object, code: ReasonCode, ___: object
    ) -> None:
        if code.is_failure:
            log.warning(Event("broker refused the bridge", cause=str(code)))
            return
        client.subscribe(self._options.topic, self._options.qos)

    def _on_subscribe(
        self, _: paho.Client, __: object, ___: int, codes: Sequence[ReasonCode], ____: object
    ) -> None:
        refused = [code for code in codes if code.is_failure]
        if refused:
            log.warning(Event("broker refused the bridge", cause=str(refused[0])))
            return
        host, port = self._options.broker
        log.info(Event("bridge connected", broker=f"{host}:{port}", topic=self._options.topic))

    def _on_disconnect(
        self, _: paho.Client, __: object, ___: object, code: ReasonCode, ____: object
    ) -> None:
        if code.is_failure:
            log.warning(Event("broker lost", cause=str(code)))

    def _on_message(self, _: paho.Client, __: object, message: paho.MQTTMessage) -> None:
        try:
            self._waiting.put_nowait(message)
        except queue.Full:
            # QoS 0 alone overflows the queue: the broker sends at most `AT_ONCE` of the others.
            self._dropped += 1
            if self._dropped.bit_count() == 1:  # 1, 2, 4, 8: a flood fills no log
                log.warning(Event("bridge dropped messages", dropped=self._dropped))

    # -- in the thread of `run` ------------------------------------------------------------------

    def _answer(self, message: paho.MQTTMessage) -> None:
        said = self._asker.ask(bytes(message.payload))
        topic, properties = self._addressed(message)
        sent = self._client.publish(topic, said, self._options.qos, properties=properties)
        try:
            sent.wait_for_publish(PUBLISHED_S)
            done = sent.is_published()
        except (RuntimeError, ValueError):  # the connection is lost, or too many replies wait
            done = False
        if done:
            self._client.ack(message.mid, message.qos)

    def _addressed(self, message: paho.MQTTMessage) -> tuple[str, Properties]:
        given = message.properties
        answer = Properties(PacketTypes.PUBLISH)
        correlation = getattr(given, "CorrelationData", None)
        if correlation is not None:
            answer.CorrelationData = correlation
        wanted = getattr(given, "ResponseTopic", None)
        return wanted or self._options.answer_topic.replace("{topic}", message.topic), answer


def check_topics(topic: str, answer_topic: str) -> None:
    """Refuse an answer topic that matches the request topic: answers would become requests.

    Raises:
        ConfigError: the answer topic matches.
    """
    example = topic.replace("#", "x").replace("+", "x")
    if paho.topic_matches_sub(topic, answer_topic.replace("{topic}", example)):
        raise ConfigError(
            [
                f'answers would go to "{answer_topic}", which is among those of "{topic}": every'
                " answer would be a request again; let answers go elsewhere"
            ]
        )


def _connect(options: BridgeOptions) -> Properties:
    properties = Properties(PacketTypes.CONNECT)
    properties.ReceiveMaximum = AT_ONCE
    if options.client_id:
        properties.SessionExpiryInterval = KEPT_S
    return properties


def _tls(file: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=file or None)
    except OSError as error:
        raise ConfigError(
            [f"certificates of {file or 'the system'} cannot be used: {error}"]
        ) from error


AGAIN: Final = frozenset({429, 502, 503, 504})
"""Statuses after which a retry may succeed: the server is busy, or a proxy cannot reach it."""
BACKOFF: Final = Backoff(first_s=0.5, longest_s=10.0)


class BridgeConnection:
    """One connection to a server, opened anew when it breaks. Blocking.

    Args of the constructor:
        url: URL of the server.
        path: path of the model's `:predict`.
        key: API key, as in `BridgeOptions.api_key`.
        timeout_s, retry_s: see `BridgeOptions`.
        wait: waits for so many seconds.

    Raises:
        ConfigError: the URL is none of HTTP, or its port is none.
    """

    def __init__(
        self,
        url: str,
        path: str,
        key: str,
        *,
        timeout_s: float,
        retry_s: float,
        wait: Callable[[float], object] = time.sleep,
    ) -> None:
        self._server, below = _connection(url, timeout_s)
        self._path = below + path
        self._headers = {"content-type": "application/json", **({"x-api-key": key} if key else {})}
        self._retry_s = retry_s
        self._wait = wait

    def ask(self, body: bytes) -> bytes:
        """Give the server's reply, or the reason why there is none, as JSON."""
        until = time.monotonic() + self._retry_s
        failures = 0
        while True:
            said, again = self._try(body)
            failures += 1
            pause_s = BACKOFF.delay_s(failures, random.random())
            if not again or time.monotonic() + pause_s > until:
                return said
            self._wait(pause_s)

    def close(self) -> None:
        """Close the connection."""
        self._server.close()

    def _try(self, body: bytes) -> tuple[bytes, bool]:
        """Send once; give the reply, and whether to retry."""
        try:
            self._server.request("POST", self._path, body, self._headers)
            reply = self._server.getresponse()
            said = reply.read()
        except (OSError, http.client.HTTPException) as error:
            self._server.close()
            text = f"the server does not answer: {type(error).__name__}: {error}"
            return json.dumps({"error": text}).encode(), True
        if reply.will_close:
            self._server.close()
        return said, reply.status in AGAIN


def _connection(url: str, timeout_s: float) -> tuple[http.client.HTTPConnection, str]:
    """Give an unopened connection, and the path prefix of the API."""
    kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:  # a port that is none, or half an IPv6 address
        host = None
    if not host or parts.scheme not in kinds:
        raise ConfigError([f'the server\'s address is "{url}"; expected http://HOST:PORT'])
    return kinds[parts.scheme](host, port, timeout=timeout_s), parts.path.rstrip("/")
