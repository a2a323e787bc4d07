"""What a bridge between a broker and a server is told."""

from dataclasses import dataclass


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
