"""The settings of the server itself: flags of every command, some of them variables too."""

from ie_serving.config.schema.access import ACCESS
from ie_serving.config.schema.limits import LIMITS
from ie_serving.config.schema.setting import BOOLEAN, Setting
from ie_serving.config.schema.storage import CACHE
from ie_serving.config.schema.tls import TLS
from ie_serving.config.schema.traces import TRACES
from ie_serving.config.schema.workers import WORKERS
from ie_serving.config.values import numbers, words

CONFIG_PATH = Setting(
    place="settings.config_path",
    parse=words.text,
    form="FILE",
    required=True,
    meaning="configuration file, JSON or TensorFlow Serving's text form; it is watched",
    example="config/every_key.json",
    flag="config_path",
    tfs="model_config_file",
    ovms=("config_path",),
)

SERVER: tuple[Setting, ...] = (
    Setting(
        place="server.port",
        # 0 is off instead of "any free port": clients could not know which one it was.
        parse=numbers.port,
        form="N",
        meaning="gRPC port; 0 is off",
        example="9000",
        flag="port",
        tfs="port",
        ovms=("port",),
    ),
    Setting(
        place="server.rest_port",
        parse=numbers.port,
        form="N",
        meaning="REST port; 0 is off",
        example="8000",
        flag="rest_port",
        tfs="rest_api_port",
        ovms=("rest_port",),
    ),
    Setting(
        place="server.host",
        parse=words.address,
        form="ADDRESS",
        default="every IPv6 and IPv4 address",
        meaning="address that both ports listen on",
        example="127.0.0.1",
        flag="host",
    ),
    Setting(
        place="server.grpc_host",
        parse=words.addresses,
        form="ADDRESS,..",
        default="those of both ports",
        meaning="addresses that the gRPC port listens on",
        example="127.0.0.1",
        flag="grpc_bind_address",
        ovms=("grpc_bind_address",),
    ),
    Setting(
        place="server.rest_host",
        parse=words.addresses,
        form="ADDRESS,..",
        default="those of both ports",
        meaning="addresses that the REST port listens on",
        example="127.0.0.1",
        flag="rest_bind_address",
        ovms=("rest_bind_address",),
    ),
    Setting(
        place="server.grpc_socket_path",
        parse=words.text,
        form="FILE",
        meaning="UNIX socket on which gRPC is served, beside the port or instead of it",
        example="/run/ie_serving/grpc.sock",
        flag="grpc_socket_path",
        tfs="grpc_socket_path",
    ),
    Setting(
        place="server.rest_socket_path",
        parse=words.text,
        form="FILE",
        meaning="UNIX socket on which REST is served, beside the port or instead of it",
        example="/run/ie_serving/rest.sock",
        flag="rest_socket_path",
    ),
    WORKERS,
    *TLS,
    *ACCESS,
    *LIMITS,
    # Of the server, not of a model: the right to write a repository or the configuration must not
    # include the right to run code here.
    Setting(
        place="engine.allow_pickle",
        parse=words.boolean,
        form=BOOLEAN,
        meaning="read models from pickles (*.pkl, *.joblib), which may run any code when read",
        example="true",
        flag="allow_pickle",
        tfs="allow_pickle",
    ),
    Setting(
        place="engine.allow_python",
        parse=words.boolean,
        form=BOOLEAN,
        meaning="run Python code that a model names or brings along",
        example="true",
        flag="allow_python",
        tfs="allow_python",
    ),
    Setting(
        place="server.busy_poll_us",
        # At most a millisecond: beyond it the loop would hold a processor and win nothing.
        parse=numbers.integer(0, 1000),
        form="MICROSECONDS",
        meaning="microseconds that the server looks for the next request before it sleeps",
        example="0",
        flag="busy_poll_microseconds",
    ),
    Setting(
        place="server.enable_cors",
        parse=words.boolean,
        form=BOOLEAN,
        meaning="add CORS headers to REST replies",
        example="true",
        flag="enable_cors",
        tfs="rest_api_enable_cors_support",
    ),
    Setting(
        place="server.poll_wait_s",
        parse=numbers.poll_wait,
        form="SECONDS",
        meaning="seconds between two listings of a repository; 0 or less lists once, at start",
        example="0.5",
        flag="file_system_poll_wait_seconds",
        tfs="file_system_poll_wait_seconds",
        variables=("FILE_SYSTEM_POLL_WAIT_SECONDS",),
        ovms=("file_system_poll_wait_seconds",),
    ),
    # OpenVINO Model Server has one interval for both; the original reads the file once by default.
    Setting(
        place="server.config_poll_wait_s",
        parse=numbers.poll_wait,
        form="SECONDS",
        default="as for repositories",
        meaning="seconds between two looks at the configuration file; 0 or less reads it once",
        example="10",
        flag="config_poll_wait_seconds",
        tfs="model_config_file_poll_wait_seconds",
        ovms=("file_system_poll_wait_seconds",),
    ),
    Setting(
        place="server.sequence_cleaner_poll_wait_minutes",
        parse=numbers.integer(0, numbers.LONGEST_S // 60),
        form="MINUTES",
        meaning="minutes between two scans of stateful models for sequences without a request since"
        " the scan before, which are dropped; 0 never looks",
        example="10",
        flag="sequence_cleaner_poll_wait_minutes",
        ovms=("sequence_cleaner_poll_wait_minutes",),
    ),
    # A load balancer goes on sending for a while after readiness has gone false.
    Setting(
        place="server.drain_delay_s",
        parse=numbers.delay,
        form="SECONDS",
        meaning="seconds that a stopping server still takes connections, no longer ready",
        example="5",
        flag="drain_delay_seconds",
    ),
    Setting(
        place="server.drain_timeout_s",
        parse=numbers.delay,
        form="SECONDS",
        meaning="seconds that requests in flight may still take when a version or the server stops",
        example="20",
        flag="drain_timeout_seconds",
    ),
    Setting(
        place="server.load_threads",
        parse=numbers.positive,
        form="N",
        meaning="versions that are compiled at a time",
        example="4",
        flag="load_threads",
        tfs="num_load_threads",
    ),
    # A load cannot be interrupted; its waiters can give up.
    Setting(
        place="server.load_timeout_s",
        parse=numbers.delay,
        form="SECONDS",
        meaning="seconds after which a load counts as failed, waiting for its turn included; it"
        " goes on, and the version serves if it ends well; 0 sets no limit",
        example="600",
        flag="load_timeout_seconds",
    ),
    # Typed lists cost both sides more than bytes that are copied. 2020 let its users choose, and so
    # does the original, which answers in lists by default.
    Setting(
        place="server.tensor_content",
        parse=words.boolean,
        form=BOOLEAN,
        meaning="encode gRPC outputs as tensor_content; false uses the typed lists",
        example="false",
        flag="tensor_content",
        tfs="enable_serialization_as_tensor_content",
        variables=("SERIALIZATION_FUNCTION",),
        # In 2020 the variable named the function that encodes.
        reads=words.meant_by(
            {
                "_prepare_output_with_make_tensor_proto": True,
                "_prepare_output_as_AppendArrayToTensorProto": False,
            }
        ),
    ),
    Setting(
        place="server.rest_metadata",
        parse=words.one_of("camel", "snake"),
        form="camel|snake",
        meaning="names in REST metadata: modelSpec and signatureDef, as the server of 2020 and"
        " OpenVINO Model Server have them, or model_spec and signature_def, as TensorFlow Serving",
        example="snake",
        flag="rest_metadata",
    ),
    Setting(
        place="server.metrics_path",
        parse=words.metrics_path,
        form="PATH",
        meaning="REST path of the Prometheus metrics",
        example="/monitoring/prometheus/metrics",
        flag="metrics_path",
        tfs="monitoring_config_file",
        # There a switch, with the path fixed.
        ovms=("metrics_enable",),
    ),
    Setting(
        place="server.invocations_model",
        parse=words.text,
        form="TEXT",
        meaning="model that answers POST /invocations, as Amazon SageMaker asks for them beside"
        " GET /ping",
        example="resnet",
        flag="invocations_model",
    ),
    # A label of a version that does not serve makes requests fail; rollouts that set labels before
    # versions need it.
    Setting(
        place="server.labels_for_unavailable",
        parse=words.boolean,
        form=BOOLEAN,
        meaning="let a new version label name a version that is not AVAILABLE yet",
        example="true",
        flag="allow_version_labels_for_unavailable_models",
        tfs="allow_version_labels_for_unavailable_models",
    ),
    # Off as in the original: SavedModels of TensorFlow 2 call every method predict.
    Setting(
        place="server.method_name_check",
        parse=words.boolean,
        form=BOOLEAN,
        meaning="refuse a signature whose method does not fit the RPC",
        example="true",
        flag="enable_signature_method_name_check",
        tfs="enable_signature_method_name_check",
    ),
    # By default a path that cannot be listed is taken for a misspelt one, and ends the start.
    Setting(
        place="server.allow_unavailable_models",
        parse=words.boolean,
        form=BOOLEAN,
        meaning="start although a repository cannot be listed, and wait for it",
        example="true",
        flag="allow_unavailable_models",
    ),
    # Thousands of models take a while, and most answer long before the last one does.
    Setting(
        place="server.open_ports_early",
        parse=words.boolean,
        form=BOOLEAN,
        meaning="open the ports before the models are loaded; those that are ready answer",
        example="true",
        flag="open_ports_early",
    ),
    # A rollout waits for readiness: this lets it go on without a broken model.
    Setting(
        place="server.ready_after_s",
        parse=numbers.delay,
        form="SECONDS",
        default="wait for every model",
        meaning="seconds after which the server is ready although some model has never served; 0"
        " waits for none",
        example="300",
        flag="ready_after_seconds",
    ),
    # An unmounted volume looks like this, and is more frequent than an owner who removes all
    # versions of a model but keeps it configured.
    Setting(
        place="server.unload_when_empty",
        parse=words.boolean,
        form=BOOLEAN,
        meaning="unload a model when its repository becomes empty; false keeps what serves",
        example="true",
        flag="unload_when_empty",
    ),
    Setting(
        place="server.reload_changed_versions",
        parse=words.boolean,
        form=BOOLEAN,
        meaning="load a version anew, beside itself, when its files change while it serves; false"
        " warns",
        example="true",
        flag="reload_changed_versions",
    ),
    # As in the original, where a model with records is replayed and one without loads as ever.
    Setting(
        place="server.warmup",
        parse=words.boolean,
        form=BOOLEAN,
        meaning="replay assets.extra/tf_serving_warmup_requests of a version before it serves",
        example="false",
        flag="enable_model_warmup",
        tfs="enable_model_warmup",
    ),
    Setting(
        place="server.warmup_iterations",
        parse=numbers.positive,
        form="N",
        meaning="how often each warm-up record is replayed",
        example="3",
        flag="num_request_iterations_for_warmup",
        tfs="num_request_iterations_for_warmup",
    ),
    *CACHE,
    Setting(
        place="server.log_level",
        # The words of both other servers are taken, so that their manifests start this one.
        parse=words.log_level,
        form="|".join(words.LOG_LEVELS),
        meaning="least severe lines that are logged",
        example="debug",
        flag="log_level",
        variables=("LOG_LEVEL",),
        # A container's environment may carry a word that was meant for another program.
        reads=words.log_level_or_info,
        ovms=("log_level",),
    ),
    Setting(
        place="server.log_path",
        parse=words.text,
        form="FILE",
        meaning="file that log lines are appended to as well",
        example="/var/log/ie_serving.log",
        flag="log_path",
        variables=("LOG_PATH",),
        ovms=("log_path",),
    ),
    Setting(
        place="server.log_format",
        parse=words.one_of("text", "json"),
        form="text|json",
        meaning="form of the log lines: text as in 2020, or one JSON object a line",
        example="json",
        flag="log_format",
        variables=("LOG_FORMAT",),
    ),
    Setting(
        place="server.access_log",
        parse=words.text,
        form="FILE",
        meaning="file that a line is appended to for each request; - is standard output",
        example="-",
        flag="access_log",
        variables=("ACCESS_LOG",),
    ),
    *TRACES,
)
