"""The settings that limit clients: bytes, connections, time."""

from ie_serving.config.schema.setting import BOOLEAN, Setting
from ie_serving.config.values import channel, numbers, words
from ie_serving.core.values.integers import INT32_MAX, INT64_MAX

LIMITS: tuple[Setting, ...] = (
    Setting(
        place="server.max_message_bytes",
        # gRPC counts the bytes of a message in 32 bits.
        parse=numbers.integer(1, INT32_MAX),
        form="BYTES",
        meaning="largest gRPC message and REST body in bytes; gzip over REST may grow to 8 MiB or"
        " a hundredfold, whichever is more, and to 100 MiB at most",
        example="67108864",
        flag="max_message_bytes",
    ),
    Setting(
        place="server.memory_budget_bytes",
        parse=numbers.integer(0, INT64_MAX),
        form="BYTES",
        default="half of the memory",
        meaning="bytes that requests and unread replies of both ports may hold together; further"
        " ones are refused. 0 takes half of the memory of the cgroup, or of the machine",
        example="1073741824",
        flag="memory_budget_bytes",
    ),
    # grpcio is the fallback for a client that our own HTTP/2 does not understand.
    Setting(
        place="server.grpc_transport",
        parse=words.one_of("http2", "grpcio"),
        form="http2|grpcio",
        meaning="what carries gRPC: the server's own HTTP/2 or grpcio's, several times as costly",
        example="grpcio",
        flag="grpc_transport",
    ),
    # A Kubernetes Service balances connections, and gRPC's clients keep theirs: without an age new
    # servers get no calls.
    Setting(
        place="server.grpc_max_connection_age_s",
        parse=numbers.delay,
        form="SECONDS",
        meaning="seconds after which a gRPC connection takes no new calls, more or less a tenth; 0"
        " lets it live for ever",
        example="300",
        flag="grpc_max_connection_age_seconds",
    ),
    Setting(
        place="server.grpc_max_connection_age_grace_s",
        parse=numbers.delay,
        form="SECONDS",
        meaning="seconds that its calls may still take then; 0 waits until they have ended",
        example="30",
        flag="grpc_max_connection_age_grace_seconds",
    ),
    Setting(
        place="server.grpc_max_connection_idle_s",
        parse=numbers.delay,
        form="SECONDS",
        meaning="seconds without a call, pings do not count, after which a gRPC connection ends; 0"
        " lets it live for ever",
        example="300",
        flag="grpc_max_connection_idle_seconds",
    ),
    Setting(
        place="server.reload_by_rpc",
        parse=words.boolean,
        form=BOOLEAN,
        meaning="let clients change the models by HandleReloadConfigRequest, reload by POST"
        " /v1/config/reload, poll by POST .../NAME:poll, and set labels and the log level;"
        " false answers PERMISSION_DENIED",
        example="false",
        flag="reload_by_rpc",
    ),
    Setting(
        place="server.max_in_flight_requests",
        parse=numbers.integer(0, 1_000_000),
        form="N",
        default="no limit",
        meaning="requests that run a model, of both ports and all models, that are taken at a"
        " time; one more gets 429 or RESOURCE_EXHAUSTED. Streams do not count",
        example="500",
        flag="max_in_flight_requests",
    ),
    Setting(
        place="server.max_connections",
        parse=numbers.integer(0, 1_000_000),
        form="N",
        default="10000",
        meaning="connections of both ports that may be open; for one more those idle longest are"
        " closed. grpcio counts its port alone, and closes the new one. 0 takes 10000, or what the"
        " limit of open files allows",
        example="2000",
        flag="max_connections",
    ),
    Setting(
        place="server.max_connections_per_address",
        parse=numbers.integer(0, 1_000_000),
        form="N",
        default="no limit",
        meaning="connections of both ports that one address (of IPv6 a network of 64 bits) may have"
        " open, where no proxy is in front; for one more its own that is idle longest is closed."
        " Not over grpcio",
        example="100",
        flag="max_connections_per_address",
    ),
    Setting(
        place="server.grpc_channel_arguments",
        parse=channel.arguments,
        form="NAME=VALUE,..",
        default="none",
        meaning="gRPC's channel arguments; the server's own HTTP/2 takes"
        " grpc.max_connection_age_ms, grpc.max_connection_age_grace_ms and"
        " grpc.max_connection_idle_ms, grpcio all",
        example="grpc.max_connection_age_ms=300000",
        flag="grpc_channel_arguments",
        tfs="grpc_channel_arguments",
        ovms=("grpc_channel_arguments",),
    ),
    Setting(
        place="server.rest_timeout_s",
        # Without any limit, a client that sets no deadline could hold an infer request for ever.
        parse=numbers.timeout,
        form="SECONDS",
        meaning="longest time in seconds that one REST inference may take, waiting included; also a"
        " poll",
        example="5",
        flag="rest_timeout_seconds",
        tfs="rest_api_timeout_in_ms",
    ),
    Setting(
        place="server.grpc_timeout_s",
        parse=numbers.delay,
        form="SECONDS",
        meaning="longest time in seconds that one gRPC inference may take, beside the deadline that"
        " the client sets; 0 sets no limit",
        example="5",
        flag="grpc_timeout_seconds",
    ),
)
