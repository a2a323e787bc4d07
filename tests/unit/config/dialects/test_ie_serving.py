"""The command line `ie_serving`: flags, file and environment come to Settings, or to all faults."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.config.dialects import ie_serving, own_flags
from ie_serving.config.schema import foreign
from ie_serving.config.settings import ServerSettings, Settings
from ie_serving.core.values.errors import ConfigError
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.preprocessing import Preprocessing, PropertyPair
from ie_serving.engines.tensorflow.options import TensorFlowOptions
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.repository.version_policy import Specific

ONE = ("model", "--model_name", "m", "--model_path", "/models/m")


def settings(*argv: str, **environ: str) -> Settings:
    return ie_serving.parse(argv, environ).settings


def server(*argv: str, **environ: str) -> ServerSettings:
    return settings(*ONE, *argv, **environ).server


def faults(*argv: str, **environ: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        ie_serving.parse(argv, environ)
    return caught.value.faults


def warnings(*argv: str, **environ: str) -> tuple[str, ...]:
    return ie_serving.parse(argv, environ).warnings


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config.json"
    path.write_text('{"model_config_list": [{"config": {"name": "f", "base_path": "models/f"}}]}')
    return path


def test_one_model_has_every_default() -> None:
    assert settings(*ONE) == Settings(
        server=ServerSettings(), models=(ModelConfig(name="m", base_path="/models/m"),)
    )
    assert (ServerSettings().port, ServerSettings().rest_port) == (9000, 0)


def test_one_model_takes_every_flag() -> None:
    (model,) = settings(
        *ONE,
        *("--shape", '{"a": "(1,3)"}'),
        *("--model_version_policy", '{"specific": {"versions": [1, 3]}}'),
        *("--version_labels", '{"stable": 3}'),
        *("--nireq", "4"),
        *("--target_device", "HETERO:GPU,CPU"),
        *("--plugin_config", '{"NUM_STREAMS": "2"}'),
        *("--inference_precision", "bf16"),
        *("--ready_marker", "READY"),
    ).models
    assert model == ModelConfig(
        name="m",
        base_path="/models/m",
        version_policy=Specific(frozenset({1, 3})),
        version_labels={"stable": 3},
        ready_marker="READY",
        engine=EngineOptions(
            nireq=4,
            own=(
                OpenVinoOptions(
                    target_device="HETERO:GPU,CPU",
                    plugin_config={"NUM_STREAMS": "2"},
                    shape={"a": (1, 3)},
                    inference_precision="bf16",
                ),
            ),
        ),
    )


def test_a_relative_model_path_begins_at_the_working_directory() -> None:
    (model,) = settings("model", "--model_name", "m", "--model_path", "models/m").models
    assert model.base_path == str(Path.cwd() / "models/m")


def test_models_of_a_file_are_read(file: Path) -> None:
    found = settings("config", "--config_path", str(file))
    assert found.config_path == file
    assert [model.base_path for model in found.models] == [str(file.parent / "models/f")]


def test_precision_is_set_for_every_model_of_a_file_now_and_after_a_reload(file: Path) -> None:
    found = settings("config", "--config_path", str(file), "--inference_precision", "f32")
    assert found.engine.of(OpenVinoOptions).inference_precision == "f32"
    assert found.models[0].engine == found.engine


TENSORFLOW = ("--tensorflow_fallback", "--tensorflow_memory_bytes", "4096")


def test_tensorflow_is_set_for_one_model_or_for_every_model_of_a_file(file: Path) -> None:
    meant = TensorFlowOptions(fallback=True, memory_bytes=4096)
    (one,) = settings(*ONE, *TENSORFLOW).models
    assert one.engine.of(TensorFlowOptions) == meant
    found = settings("config", "--config_path", str(file), *TENSORFLOW)
    assert found.models[0].engine.of(TensorFlowOptions) == meant


def test_a_library_of_operations_that_does_not_exist_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"--custom_op_paths: '/no/ops.so' given; expected a file"
    ):
        settings(*ONE, "--custom_op_paths", "/no/ops.so")


def test_a_flat_command_line_means_the_same(file: Path) -> None:
    assert settings(*ONE[1:]) == of_ovms(settings(*ONE))
    same = settings("config", "--config_path", str(file))
    assert settings(f"--config_path={file}") == of_ovms(same)


def of_ovms(found: Settings) -> Settings:
    assert not found.server.is_ovms
    return replace(found, server=replace(found.server, is_ovms=True))


@pytest.mark.parametrize("flags", [("--rest_port", "9000"), ("--rest_port=9000",)])
def test_a_rest_port_alone_may_be_the_default_of_grpc(flags: tuple[str, ...]) -> None:
    """OpenVINO Model Server serves gRPC only where its port is given."""
    found = settings(*ONE[1:], *flags).server
    assert (found.port, found.rest_port) == (0, 9000)
    assert settings(*ONE[1:], "--rest_port", "8000").server.port == 9000
    assert settings(*ONE[1:], *flags, "--port", "9000").server.shares_port


def test_flags_may_be_shortened_as_in_2020() -> None:
    (model,) = settings(*ONE, "--model_v", '{"specific": {"versions": [2]}}').models
    assert model.version_policy == Specific(frozenset({2}))


@pytest.mark.parametrize(
    ("argv", "field", "value"),
    [
        (("--port", "9001"), "port", 9001),
        (("--host", "::1"), "host", "::1"),
        (("--max_message_bytes", "1048576"), "max_message_bytes", 1 << 20),
        (("--grpc_transport", "grpcio"), "grpc_transport", "grpcio"),
        (("--rest_timeout_seconds", "2.5"), "rest_timeout_s", 2.5),
        (("--grpc_timeout_seconds", "2.5"), "grpc_timeout_s", 2.5),
        (("--busy_poll_microseconds", "50"), "busy_poll_us", 50),
        (("--enable_cors",), "enable_cors", True),
        (("--enable_cors", "false"), "enable_cors", False),
        (("--drain_delay_seconds", "3"), "drain_delay_s", 3.0),
        (("--drain_timeout_seconds", "0"), "drain_timeout_s", 0.0),
        (("--load_threads", "4"), "load_threads", 4),
        (("--tensor_content", "false"), "tensor_content", False),
        (
            ("--allow_version_labels_for_unavailable_models",),
            "labels_for_unavailable",
            True,
        ),
        (("--enable_signature_method_name_check",), "method_name_check", True),
        (("--allow_unavailable_models",), "allow_unavailable_models", True),
        (("--enable_model_warmup=false",), "warmup", False),
        (("--num_request_iterations_for_warmup", "3"), "warmup_iterations", 3),
        (("--log_level", "debug"), "log_level", "DEBUG"),
        (("--log_format", "JSON"), "log_format", "json"),
        (("--access_log", "-"), "access_log", "-"),
        (("--file_system_poll_wait_seconds", "-1"), "poll_wait_s", 0.0),
        (("--file_system_poll_wait_seconds", "0"), "config_poll_wait_s", 0.0),
        (("--config_poll_wait_seconds", "7"), "config_poll_wait_s", 7.0),
        (("--rest_port", "1", "--metrics_path", "/m"), "metrics_path", "/m"),
        (("--rest_port", "1", "--metrics_enable"), "metrics_path", "/metrics"),
        (
            ("--rest_port", "1", "--metrics_enable"),
            "metrics_pages",
            {"/metrics": ("ovms_",), "/metrics/all": ()},
        ),
        (
            ("--rest_port", "1", "--metrics_enable", "--metrics_path", "/m"),
            "metrics_pages",
            {"/m": ()},
        ),
        (("--grpc_bind_address", "127.0.0.1, ::1"), "grpc_host", "127.0.0.1,::1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_flag_sets_its_field_of_the_server(
    argv: tuple[str, ...], field: str, value: object
) -> None:
    """Beside what other servers have as well, which is in `tests/unit/config/migration`."""
    assert getattr(server(*argv), field) == value


def test_flags_of_the_cache_are_read() -> None:
    flags = ("--cache_dir", "/var/cache", "--cache_size_bytes", "5000000000")
    found = ie_serving.parse([*ONE, *flags], {}).storage
    assert (found.cache_dir, found.cache_size_bytes) == (Path("/var/cache"), 5_000_000_000)


def test_faults_of_storage_are_reported_with_all_others() -> None:
    found = faults(*ONE, "--port", "x", S3_VERIFY_SSL="perhaps")
    assert [fault.split(":")[0] for fault in found] == ["--port", "S3_VERIFY_SSL"]


def test_a_cache_that_was_named_keeps_compiled_models_too() -> None:
    found = settings(*ONE, "--cache_dir", "/var/cache")
    assert found.models[0].engine.cache_dir == found.engine.cache_dir == Path("/var/cache/compiled")


@pytest.mark.parametrize(
    ("variables", "field", "value"),
    [
        ({"LOG_LEVEL": "error"}, "log_level", "ERROR"),
        ({"LOG_FORMAT": "json"}, "log_format", "json"),
        ({"ACCESS_LOG": "/tmp/access"}, "access_log", "/tmp/access"),
        ({"FILE_SYSTEM_POLL_WAIT_SECONDS": "0.25"}, "config_poll_wait_s", 0.25),
        ({"FILE_SYSTEM_POLL_WAIT_SECONDS": "-1"}, "poll_wait_s", 0.0),
        ({"LOG_LEVEL": ""}, "log_level", "INFO"),
    ],
    ids=str,
)
def test_a_variable_sets_its_field(variables: dict[str, str], field: str, value: object) -> None:
    assert getattr(server(**variables), field) == value


@pytest.mark.parametrize("beaten", ["DEBUG", "loud"], ids=["a level", "which is not even read"])
def test_the_command_line_beats_the_environment(beaten: str) -> None:
    assert server("--log_level", "ERROR", LOG_LEVEL=beaten).log_level == "ERROR"


def test_an_unknown_log_level_of_the_environment_is_info_with_a_warning() -> None:
    found = ie_serving.parse(ONE, {"LOG_LEVEL": "loud"})
    assert found.settings.server.log_level == "INFO"
    (warning,) = found.warnings
    assert warning.startswith("LOG_LEVEL: 'loud' given; expected one of DEBUG, INFO")
    assert warning.endswith("; INFO is used")
    assert ie_serving.parse(ONE, {"LOG_LEVEL": "warn"}).warnings == ()
    assert ie_serving.parse((*ONE, "--log_level", "ERROR"), {"LOG_LEVEL": "loud"}).warnings == ()


def test_the_command_line_beats_the_file(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text('{"model_config_list": [], "monitoring": {"metrics": {"enable": true}}}')
    both = ("config", "--config_path", str(path), "--rest_port", "8000")
    assert settings(*both).server.metrics_path == "/metrics"
    assert settings(*both, "--metrics_enable", "false").server.metrics_path == ""
    assert settings(*both, "--metrics_path", "/m").server.metrics_path == "/m"


def test_every_fault_of_flags_file_and_environment_is_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text('{"model_config_list": [{"config": {"name": "f", "nireq": -1}}]}')
    found = faults(
        *("config", "--config_path", str(path), "--port", "99999", "--rest_prot", "1"),
        FILE_SYSTEM_POLL_WAIT_SECONDS="often",
    )
    assert [fault.split(": ")[0] for fault in found] == [
        "--rest_prot",
        "--port",
        "FILE_SYSTEM_POLL_WAIT_SECONDS",
        "model_config_list[0].config.base_path",
        "model_config_list[0].config.nireq",
    ]


@pytest.mark.parametrize(
    ("argv", "fault"),
    [
        pytest.param(("model",), "--model_name: missing", id="no name"),
        pytest.param(("model",), "--model_path: missing", id="no path"),
        pytest.param(("config",), "--config_path: missing", id="no file"),
        pytest.param(
            ("config", "--config_path", "/none.json"), "/none.json: cannot be read", id="no such"
        ),
        pytest.param((*ONE, "--port", "0"), "cannot both be unset", id="both ports off"),
        pytest.param(
            (*ONE, "--rest_port", "9000", "--grpc_transport", "grpcio"),
            "--rest_port: the same port as that of gRPC; expected another one",
            id="one port by grpcio",
        ),
        pytest.param(
            (*ONE, "--rest_port", "9000", "--tls_ports", "grpc"),
            "--tls_ports: grpc given; expected both",
            id="half of a port encrypted",
        ),
        pytest.param((*ONE, "--rest_port", "-1"), "--rest_port: '-1' given", id="negative port"),
        pytest.param((*ONE, "--nireq", "many"), "--nireq: 'many' given", id="no number"),
        pytest.param((*ONE, "--shape", "(1,x)"), "--shape[1]: 'x' given", id="shape"),
        pytest.param((*ONE, "--plugin_config", "x"), "--plugin_config:1:1: not JSON", id="JSON"),
        pytest.param((*ONE, "--nirek", "4"), 'did you mean "--nireq"?', id="unknown flag"),
        pytest.param((*ONE, "extra"), "extra: unknown argument", id="a word too many"),
        pytest.param(("config", "--nireq", "4"), "--nireq: a setting of one", id="other command"),
        pytest.param((*ONE, "--metrics_enable"), "give --rest_port", id="metrics without REST"),
        pytest.param(
            (*ONE, "--metrics_list=ovms_streams,ovms_graph_err"),
            "--metrics_list: 'ovms_graph_err' given; expected some of ovms_requests_success, ",
            id="a metric that is not served",
        ),
        pytest.param(
            (*ONE, "--grpc_bind_address", "::1,,::"),
            "expected addresses or host names, separated by commas",
            id="no address between commas",
        ),
        pytest.param(
            (*ONE, "--grpc_channel_arguments", "grpc.x"), "expected name=value", id="no value"
        ),
    ],
)
def test_a_wrong_line_is_told_by_its_flag(argv: tuple[str, ...], fault: str) -> None:
    assert any(fault in found for found in faults(*argv))


@pytest.mark.parametrize("name", foreign.FLAGS)
def test_a_flag_without_effect_warns_with_what_to_use(name: str) -> None:
    advice = foreign.FLAGS[name].said(own_flags.names("model"))
    assert advice
    assert warnings(*ONE, f"--{name}", "4") == (f"--{name} has no effect: {advice}",)


def test_preprocessing_has_flags() -> None:
    flags = ("--layout", "NHWC:NCHW", "--mean", "[1,2,3]", "--scale", "2.5", "--precision", "uint8")
    (model,) = settings(*ONE, *flags, "--color_format", "BGR:RGB").models
    assert model.engine.of(Preprocessing) == Preprocessing(
        layout=PropertyPair("NHWC", "NCHW"),
        mean=(1.0, 2.0, 3.0),
        scale=(2.5,),
        color_format=PropertyPair("BGR", "RGB"),
        precision=PropertyPair("u8"),
    )


@pytest.mark.parametrize("name", foreign.VARIABLES)
def test_a_variable_without_effect_warns(name: str) -> None:
    (warning,) = warnings(*ONE, **{name: "x"})
    advice = foreign.VARIABLES[name].said(own_flags.names("model"))
    assert advice
    assert warning == f"environment variable {name} has no effect: {advice}"


@pytest.mark.parametrize(
    ("flags", "workers"),
    [
        pytest.param(("--workers", "3"), 3, id="as it is said"),
        pytest.param(("--grpc_workers", "1"), 1, id="one as before"),
        pytest.param(("--grpc_workers", "1", "--rest_workers", "2"), 2, id="the larger one"),
        pytest.param(("--rest_workers", "24"), 2, id="one for each processor at most"),
        pytest.param(("--workers", "1", "--grpc_workers", "8"), 1, id="its own flag counts"),
    ],
)
def test_workers_are_set_by_new_and_old_flags(
    monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], workers: int
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1})
    assert settings(*ONE, *flags).server.workers == workers


def test_an_old_flag_of_workers_is_told_what_it_means(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1})
    (said,) = warnings(*ONE, "--grpc_workers", "8", "--rest_workers", "4")
    assert said == (
        "--grpc_workers and --rest_workers: taken for --workers 2; there is one process for each"
        " processor at most"
    )


def test_an_old_flag_of_workers_gives_way_to_a_stateful_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Command lines of other servers start; the new flag is refused beside it."""
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1})
    line = (*ONE, "--stateful", "--grpc_workers", "2")
    assert settings(*line).server.workers == 1
    (said,) = warnings(*line)
    assert said.startswith("--grpc_workers: one process serves, since model")


def test_advice_for_a_file_names_the_files_keys(file: Path) -> None:
    (warning,) = warnings("config", "--config_path", str(file), "--grpc_max_threads", "4")
    assert warning == (
        "--grpc_max_threads has no effect: one event loop serves every call; "
        "nireq in the configuration file sets how many infer at once"
    )


def test_shape_and_batch_size_together_warn_and_shape_counts() -> None:
    parsed = ie_serving.parse([*ONE, "--shape", "auto", "--batch_size", "4"], {})
    assert parsed.settings.models[0].engine == EngineOptions(own=(OpenVinoOptions(shape="auto"),))
    assert "batch_size will be ignored" in parsed.warnings[0]


@given(
    st.lists(
        st.sampled_from([f"--{name}" for name in own_flags.known_flags("model")])
        | st.text(max_size=10)
    )
)
def test_any_command_line_gives_settings_faults_or_exit(rest: list[str]) -> None:
    try:
        found = ie_serving.parse([*ONE, *rest], {})
    except ConfigError as error:
        assert error.faults
    except SystemExit as error:
        assert error.code in (0, 2)
    else:
        assert len(found.settings.models) == 1


@pytest.mark.parametrize(
    "line",
    [
        "--source_model OpenVINO/Qwen3 --model_repository_path /models --rest_port 8000",
        "--rest_port 8000 --model_name q --model_path /q --pull --task text_generation",
    ],
)
def test_a_start_of_a_generative_model_is_refused_with_the_reasons_alone(line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ie_serving.parse(line.split(), {})
    reasons = {
        "models are not pulled: put them into the repository",
        "there are no generative endpoints",
    }
    assert {fault.partition(": ")[2] for fault in caught.value.faults} <= reasons
