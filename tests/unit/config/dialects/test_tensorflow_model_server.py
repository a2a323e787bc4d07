"""The command line `tensorflow_model_server`: a manifest for the original starts unchanged."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving import __version__
from ie_serving.config.dialects import tensorflow_model_server
from ie_serving.config.dialects.tfs_flags import FLAGS
from ie_serving.config.settings import ParsedCommandLine, ServerSettings, Settings
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.layer_options import Batching
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.tensorflow.options import TensorFlowOptions
from ie_serving.models.configuration import ModelConfig
from tests.tables import named_by

CONFIG = Path(__file__).parents[4] / "config"
PATH = "--model_base_path=/models/m"


def parse(*argv: str, **environ: str) -> ParsedCommandLine:
    return tensorflow_model_server.parse(argv, environ)


def printed(capsys: pytest.CaptureFixture[str], *argv: str, **environ: str) -> str:
    """Give what is printed before the exit with the original's code."""
    with pytest.raises(SystemExit) as caught:
        parse(*argv, **environ)
    assert caught.value.code == 255
    return capsys.readouterr().out


def test_defaults_are_the_originals() -> None:
    engine = EngineOptions(own=(OpenVinoOptions(inference_precision="f32"),))
    model = ModelConfig(name="default", base_path="/models/m", platform="tensorflow", engine=engine)
    parsed = parse(PATH)
    assert parsed.warnings == ()
    assert parsed.settings == Settings(
        server=ServerSettings(
            port=8500,
            rest_port=0,
            tensor_content=False,
            config_poll_wait_s=0.0,
            allow_unavailable_models=True,
            require_available=True,
            announce_as_tfs=True,
            takes_grpc_socket=True,
            rest_metadata="snake",
            page=False,
            enable_profiler=True,
        ),
        models=(model,),
        engine=engine,
    )


@named_by(
    "argument",
    ("argument", "field", "value"),
    [
        ("--file_system_poll_wait_seconds=-1", "poll_wait_s", 0.0),
        ("--num_load_threads=0", "load_threads", ServerSettings().load_threads),
        ("--num_request_iterations_for_warmup=0", "warmup_iterations", 1),
        ("--enable_signature_method_name_check", "method_name_check", True),
        ("--enable_serialization_as_tensor_content", "tensor_content", True),
    ],
)
def test_a_flag_beyond_its_usual_value_sets_its_field(
    argument: str, field: str, value: object
) -> None:
    """Beside the usual value of each, which is a row in `tests/unit/config/migration`."""
    assert getattr(parse(PATH, argument).settings.server, field) == value


SSL = (PATH, "--ssl_config_file=ssl.config")
REST = "--rest_api_port=8501"


@pytest.mark.parametrize(
    ("argv", "environ", "ports", "warned"),
    [
        pytest.param((*SSL, REST), {}, "grpc", True, id="as there"),
        pytest.param(SSL, {}, "grpc", False, id="there is no REST"),
        pytest.param((*SSL, REST), {"TLS_PORTS": "grpc"}, "grpc", False, id="it was asked for"),
        pytest.param((*SSL, REST), {"TLS_PORTS": "both"}, "both", False, id="both are asked for"),
        pytest.param((PATH, REST), {}, "both", False, id="nothing is encrypted"),
    ],
)
def test_an_ssl_config_encrypts_grpc_alone(
    argv: tuple[str, ...], environ: dict[str, str], ports: str, warned: bool
) -> None:
    parsed = parse(*argv, **environ)
    assert parsed.settings.server.tls_ports == ports
    assert ["TLS_PORTS=both" in each for each in parsed.warnings] == [True] * warned


def test_tensorflow_runs_the_rest_where_it_is_asked_for(tmp_path: Path) -> None:
    library = tmp_path / "ops.so"
    library.touch()
    flags = (f"--custom_op_paths={library}", "--tensorflow_memory_bytes=4096")
    engine = parse(PATH, "--tensorflow_fallback", *flags).settings.engine
    assert engine.of(TensorFlowOptions) == TensorFlowOptions(
        fallback=True, custom_op_paths=(str(library),), memory_bytes=4096
    )
    assert not parse(PATH).settings.engine.of(TensorFlowOptions).fallback


def test_a_precision_may_be_chosen_at_load_within_a_tolerance() -> None:
    flags = ("--mixed_precision=auto", "--precision_tolerance=0.002")
    found = parse(PATH, *flags).settings.engine.of(OpenVinoOptions)
    assert (found.inference_precision, found.precision_tolerance) == ("auto", 0.002)


@pytest.mark.parametrize(
    ("argv", "name", "base_path"),
    [
        pytest.param((), "half", "/models/half", id="variables alone, as the image is run"),
        pytest.param(("--model_name=other",), "other", "/models/half", id="name by flag"),
        pytest.param((PATH,), "half", "/models/m", id="path by flag"),
    ],
)
def test_entry_point_variables(argv: tuple[str, ...], name: str, base_path: str) -> None:
    (model,) = parse(*argv, MODEL_NAME="half", MODEL_BASE_PATH="/models").settings.models
    assert (model.name, model.base_path) == (name, base_path)


def test_the_config_file_beats_the_model_of_flags_and_variables() -> None:
    path = CONFIG / "model_server_config.pbtxt"
    found = parse(
        f"--model_config_file={path}", PATH, MODEL_NAME="x", MODEL_BASE_PATH="/y"
    ).settings
    assert found.config_path == path
    assert [model.name for model in found.models] == ["half_plus_two", "digits"]
    assert {model.engine.of(OpenVinoOptions).inference_precision for model in found.models} == {
        "f32"
    }


def test_the_monitoring_file_names_the_path_of_the_metrics(tmp_path: Path) -> None:
    example = CONFIG / "monitoring_config.pbtxt"
    silent = tmp_path / "m"
    silent.write_text("prometheus_config { enable: true }")
    off = tmp_path / "off"
    off.write_text('prometheus_config { path: "/x" }')
    paths = {
        file: parse(PATH, "--rest_api_port=1", f"--monitoring_config_file={file}")
        for file in (example, silent, off)
    }
    assert [found.settings.server.metrics_paths for found in paths.values()] == [
        ("/metrics", "/monitoring/prometheus/metrics"),
        ("/metrics", "/monitoring/prometheus/metrics"),
        (),
    ]
    families = paths[silent].settings.server.metrics_pages
    assert families == {"/monitoring/prometheus/metrics": (":tensorflow:",), "/metrics": ()}


def test_metrics_are_at_their_usual_path_without_a_monitoring_file() -> None:
    assert parse(PATH, "--rest_api_port=1").settings.server.metrics_paths == ("/metrics",)
    assert parse(PATH).settings.server.metrics_paths == ()


BATCHING_FILE = f"--batching_parameters_file={CONFIG / 'batching_parameters.pbtxt'}"


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        pytest.param((), Batching(), id="off"),
        pytest.param(
            ("--enable_batching",),
            Batching(max_batch_size=1000, max_enqueued_batches=10, most_request_rows=1000),
            id="without a file, as the original",
        ),
        pytest.param(
            ("--enable_batching", BATCHING_FILE),
            Batching(
                max_batch_size=128,
                batch_timeout_micros=1000,
                max_enqueued_batches=100,
                num_batch_threads=4,
                allowed_batch_sizes=(32, 64, 128),
                most_request_rows=128,
            ),
            id="a file",
        ),
        pytest.param(
            ("--enable_batching", "--enable_per_model_batching_parameters", BATCHING_FILE),
            Batching(in_version=True, num_batch_threads=4),
            id="parameters of each version leave the file its lanes",
        ),
    ],
)
def test_batching_holds_for_every_model(argv: tuple[str, ...], expected: Batching) -> None:
    found = parse(PATH, *argv)
    assert found.warnings == ()
    (model,) = found.settings.models
    assert model.engine.of(Batching) == found.settings.engine.of(Batching) == expected


def test_parameters_of_each_version_without_enable_batching_are_a_warning() -> None:
    (warning,) = parse(PATH, "--enable_per_model_batching_parameters").warnings
    assert "has no effect without --enable_batching" in warning


def test_large_requests_are_split_where_the_file_says_so(tmp_path: Path) -> None:
    file = tmp_path / "batching"
    file.write_text(
        "max_batch_size { value: 100 } enable_large_batch_splitting { value: true }"
        " max_execution_batch_size { value: 10 }"
    )
    argv = (PATH, "--enable_batching", f"--batching_parameters_file={file}")
    found = parse(*argv).settings.engine.of(Batching)
    assert (found.rows, found.most_request_rows) == (10, 100)


def test_fields_without_effect_are_named(tmp_path: Path) -> None:
    file = tmp_path / "batching"
    file.write_text('pad_variable_length_inputs: true thread_pool_name { value: "mine" }')
    found = parse(PATH, "--enable_batching", f"--batching_parameters_file={file}").warnings
    assert [warning.split(": ")[1].partition(" has no effect")[0] for warning in found] == [
        "pad_variable_length_inputs",
        "thread_pool_name",
    ]


def test_an_unknown_argument_is_printed_and_ignored(capsys: pytest.CaptureFixture[str]) -> None:
    found = parse(PATH, "--nope=1", "word", "--model_name")
    text = capsys.readouterr().out
    assert text.startswith(
        "unknown argument: --nope=1\nunknown argument: word\nunknown argument: --model_name\nusage:"
    )
    assert found.settings.models[0].name == "default"


@pytest.mark.parametrize(
    "argument", ["--port=x", "--port=", "--port=99999999999", "--enable_batching=perhaps"]
)
def test_a_value_of_another_type_prints_the_usage(
    argument: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed(capsys, PATH, argument)
    assert text.startswith("Couldn't interpret value")
    assert all(f"--{flag.name}=" in text for flag in FLAGS)


def test_flags_without_meaning_warn_once() -> None:
    (warning,) = parse(PATH, "--xla_cpu_compilation_enabled", "--grpc_max_threads=4").warnings
    assert warning == (
        "flags without meaning here are ignored: --xla_cpu_compilation_enabled, --grpc_max_threads"
    )


@pytest.mark.parametrize(
    ("argv", "phrase"),
    [
        pytest.param(
            (),
            "Both server_options.model_base_path and server_options.model_config_file are empty!",
            id="no model",
        ),
        pytest.param(
            (PATH, "--port=0", "--rest_api_port=8501"),
            "At least one of server_options.grpc_port or server_options.grpc_socket_path "
            "must be set.",
            id="gRPC off",
        ),
        pytest.param(
            (PATH, BATCHING_FILE),
            "server_options.batching_parameters_file is set without setting "
            "server_options.enable_batching to true.",
            id="parameters without batching",
        ),
        pytest.param((PATH, "--use_alts_credentials"), "does not speak ALTS", id="ALTS"),
        pytest.param(
            (PATH, "--tensorflow_session_parallelism=2", "--tensorflow_intra_op_parallelism=2"),
            "Either configure server_options.tensorflow_session_parallelism or "
            "(server_options.tensorflow_intra_op_parallelism, "
            "server_options.tensorflow_inter_op_parallelism) separately. "
            "You cannot configure all.",
            id="threads twice",
        ),
        pytest.param(
            ("--model_base_path=models/m",),
            "Expected model default to have an absolute path or URI; got base_path()=models/m",
            id="relative path",
        ),
        pytest.param((PATH, "--rest_api_port=8500"), "8500 is the gRPC port", id="same port"),
        pytest.param((PATH, "--port=65536"), "--port: 65536 given", id="port too high"),
        pytest.param((PATH, "--rest_api_timeout_in_ms=0"), "more than 0 milli", id="no time"),
        pytest.param((PATH, "--custom_op_paths=/no/ops.so"), "a file that exists", id="library"),
        pytest.param((PATH, "--mixed_precision=int8"), "expected bfloat16", id="precision"),
        pytest.param(
            (PATH, "--precision_tolerance=2"), "expected a number from 0 to 1", id="tolerance"
        ),
    ],
)
def test_a_command_line_that_cannot_start_fails_in_the_originals_words(
    argv: tuple[str, ...], phrase: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed(capsys, *argv)
    assert text.startswith("Failed to start server. Error: INVALID_ARGUMENT: ")
    assert phrase in text


def test_a_unix_socket_is_enough() -> None:
    found = parse(PATH, "--port=0", "--grpc_socket_path=/run/s").settings.server
    assert (found.port, found.grpc_socket_path) == (0, "/run/s")


def test_faults_are_on_standard_error_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "models.config"
    path.write_text("nonsense {")
    with pytest.raises(SystemExit):
        parse(f"--model_config_file={path}", "--port=65536")
    error = capsys.readouterr().err
    assert f"tensorflow_model_server: error: Invalid protobuf file: '{path}'" in error
    assert "tensorflow_model_server: error: --port: 65536 given" in error


def test_all_faults_are_printed_together(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "--port=0", "--rest_api_port=-1", S3_VERIFY_SSL="loud")
    assert all(
        part in text for part in ("grpc_port", "--rest_api_port", "S3_VERIFY_SSL", "are empty!")
    )


UNUSED = (
    "tensorflow_session_config_file",
    "platform_config_file",
    "thread_pool_factory_config_file",
)


@pytest.mark.parametrize(
    "flag", ["model_config_file", "monitoring_config_file", "batching_parameters_file", *UNUSED]
)
def test_files_that_are_missing_or_broken_end_the_start(
    flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "f"
    argv = (PATH, "--enable_batching", f"--{flag}={path}")
    missing = f"Failed to start server. Error: NOT_FOUND: {path}; No such file or directory\n"
    assert printed(capsys, *argv) == missing
    path.write_text("nonsense {")
    text = printed(capsys, *argv)
    assert f"INVALID_ARGUMENT: Invalid protobuf file: '{path}'" in text
    assert "1:1" in text or flag in UNUSED
    path.write_text("")
    if flag in UNUSED:
        (warning,) = parse(*argv).warnings
        assert f"--{flag}" in warning


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param("max_batch_size { value: 0 }", "max_batch_size is 0", id="a batch of 0"),
        pytest.param(
            "max_batch_size { value: 8 } enable_large_batch_splitting { value: true }"
            " max_execution_batch_size { value: 9 }",
            "max_execution_batch_size is 9; expected at most max_batch_size, 8",
            id="an execution batch beyond the batch",
        ),
        pytest.param(
            "batch_timeout_micros { value: -1 }",
            "batch_timeout_micros is negative",
            id="a negative timeout",
        ),
        pytest.param(
            "allowed_batch_sizes: [4, 2, 1000]",
            "monotonically increasing",
            id="sizes that do not increase",
        ),
        pytest.param(
            "max_batch_size { value: 8 } allowed_batch_sizes: [2, 4]",
            "Last entry in allowed_batch_sizes must match max_batch_size; "
            "last entry was 4; expected 8",
            id="a last size below the batch",
        ),
    ],
)
def test_batching_parameters_that_cannot_be_are_refused(
    text: str, fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "b"
    path.write_text(text)
    argv = (PATH, "--enable_batching", f"--batching_parameters_file={path}")
    assert fault in printed(capsys, *argv)


def test_log_variables_count_where_the_original_has_no_flag() -> None:
    found = parse(PATH, LOG_LEVEL="debug", LOG_PATH="/tmp/log").settings.server
    assert (found.log_level, found.log_path) == ("DEBUG", "/tmp/log")


@pytest.mark.parametrize("argument", ["--version", "--version=true"])
def test_version_prints_two_lines(argument: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(argument)
    assert caught.value.code == 0
    server, library = capsys.readouterr().out.splitlines()
    assert server.startswith(f"TensorFlow ModelServer: {__version__}")
    assert library.startswith("TensorFlow Library: ")


@given(
    st.lists(
        st.builds(
            "--{}={}".format,
            st.sampled_from([flag.name for flag in FLAGS]),
            st.text(max_size=5) | st.integers().map(str),
        )
        | st.text(max_size=10)
    )
)
def test_any_command_line_gives_settings_or_the_originals_exit(argv: list[str]) -> None:
    try:
        found = parse(*argv)
    except SystemExit as error:
        assert error.code in (0, 255)
    else:
        assert found.settings.models
