"""`ie_serving bridge mqtt`: messages of a broker become predictions of a served model.

    broker ──message──> bounded queue ──> POST :predict ──> broker: answer, then the message's ack

A message is acknowledged when its answer is with the broker, so with QoS 1 or 2 none is lost where
the bridge ends in between; it may then be answered twice. MQTT 5: a message that names a response
topic is answered there, with its correlation data.
"""

import logging
import queue
import ssl
from collections.abc import Sequence
from typing import Final

from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from ie_serving.commands.bridge.bridge_asking import Asker
from ie_serving.config.dialects.bridge import BridgeOptions
from ie_serving.core.values.errors import ConfigError
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

AT_ONCE: Final = 16
"""Messages of QoS 1 or 2 that the broker sends ahead of our acknowledgement; it keeps others."""
MOST_WAITING: Final = 100
"""Messages of QoS 0 that wait; nobody keeps them for us, and the newest is dropped beyond."""
KEEP_ALIVE_S: Final = 30
FIRST_RETRY_S: Final = 1
LONGEST_RETRY_S: Final = 30
"""Seconds between two attempts to reach the broker; doubled from the first to the longest."""
KEPT_S: Final = 24 * 3600
"""Seconds for which the broker keeps the session of a bridge with a name."""
PUBLISHED_S: Final = 10.0
"""Seconds in which the broker has to take an answer before the message is left for a repetition."""


class MqttBridge:
    """One bridge. `run` is called once.

    Args of the constructor:
        options: see there.

    Raises:
        ConfigError: answers would come back as requests, or a certificate cannot be read.
    """

    def __init__(self, options: BridgeOptions) -> None:
        check_topics(options.topic, options.answer_topic)
        self._options = options
        self._waiting: queue.Queue[paho.MQTTMessage] = queue.Queue(MOST_WAITING)
        self._dropped = 0
        self._asker = Asker(
            options.url,
            options.path,
            options.api_key,
            timeout_s=options.timeout_s,
            retry_s=options.retry_s,
        )
        self._client = self._connected_later(options)

    def run(self) -> None:
        """Take messages until the process is told to end."""
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
            # Of QoS 0: of others the broker sends `AT_ONCE` at most.
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
        except (RuntimeError, ValueError):  # the connection is lost, or too many answers wait
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
    """Refuse topics by which every answer would be a request again.

    Raises:
        ConfigError: they are so.
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
