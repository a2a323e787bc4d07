"""What a bridge between a broker and a server is told."""

from collections.abc import Iterator
from dataclasses import dataclass

from ie_serving.core.hosts import host_of, is_public


@dataclass(frozen=True, kw_only=True)
class BridgeOptions:
    """One bridge."""

    broker: tuple[str, int]
    """Host and port."""

    topic: str
    """Filter of the messages that are taken; `+` and `#` as MQTT has them."""

    answer_topic: str
    """Where answers go; `{topic}` stands for the topic of the request."""

    url: str
    """Of the server's REST port."""

    path: str
    """Of the model's `:predict`."""

    qos: int
    """Of the subscription and of the answers: 0, 1 or 2."""

    client_id: str
    """Name at the broker; with one the broker keeps what comes while the bridge is away."""

    username: str
    password: str
    """At the broker; empty for none."""

    api_key: str
    """At the server; empty for none."""

    tls_ca: str | None
    """File with the certificates by which the broker's is verified; `""` takes the system's; None
    speaks without TLS."""

    timeout_s: float
    """Longest time of one request to the server."""

    retry_s: float
    """For how long a request is tried again while the server is away or has no room."""

    def exposed(self) -> Iterator[tuple[str, str]]:
        """Give the credentials that strangers can read on their way, and the host they go to."""
        broker, server = self.broker[0], host_of(self.url)
        if self.username and self.tls_ca is None and is_public(broker):
            yield "password", broker
        if self.api_key and not self.url.lower().startswith("https:") and is_public(server):
            yield "API key", server
