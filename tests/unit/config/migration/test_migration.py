"""Each row of the three servers in docs/guide/migration-*.md does what it says."""

import contextlib
import dataclasses
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ie_serving.app import command_line as main
from ie_serving.config.dialects import ie_serving, tensorflow_model_server
from ie_serving.config.files import access_file
from ie_serving.config.settings import ParsedCommandLine, ServerSettings
from ie_serving.core.values.errors import ConfigError
from tests.unit.config.migration import of_2020, ovms, tensorflow_serving
from tests.unit.config.migration.rows import Outcome, Row

ROOT = Path(__file__).parents[4]
Parse = Callable[[list[str], Mapping[str, str]], ParsedCommandLine]
TFS: Parse = tensorflow_model_server.parse
OURS: Parse = ie_serving.parse

FLAGS: list[tuple[Parse, tuple[str, ...], Row]] = [
    *((TFS, tensorflow_serving.BASE, row) for row in tensorflow_serving.FLAGS),
    *((OURS, ovms.BASE, row) for row in (*ovms.SERVER, *ovms.MODEL, *ovms.MANAGEMENT)),
    *((OURS, of_2020.BASE, row) for row in of_2020.FLAGS),
]
VARIABLES: list[tuple[Parse, tuple[str, ...], Row]] = [
    *((OURS, ovms.BASE, row) for row in ovms.VARIABLES),
    *((OURS, of_2020.BASE, row) for row in of_2020.VARIABLES),
]

# Source: main.cc of TensorFlow Serving 2.21.
OF_TFS = """port grpc_socket_path rest_api_port rest_api_num_threads rest_api_timeout_in_ms
rest_api_enable_cors_support enable_batching batching_parameters_file
enable_per_model_batching_parameters allow_version_labels_for_unavailable_models model_config_file
model_config_file_poll_wait_seconds model_name model_base_path num_load_threads num_unload_threads
max_num_load_retries load_retry_interval_micros file_system_poll_wait_seconds
flush_filesystem_caches tensorflow_session_parallelism tensorflow_intra_op_parallelism
tensorflow_inter_op_parallelism tensorflow_session_config_file use_alts_credentials ssl_config_file
platform_config_file per_process_gpu_memory_fraction saved_model_tags grpc_channel_arguments
grpc_max_threads enable_model_warmup num_request_iterations_for_warmup version
monitoring_config_file remove_unused_fields_from_bundle_metagraph prefer_tflite_model
num_tflite_pools num_tflite_interpreters_per_pool enable_signature_method_name_check
xla_cpu_compilation_enabled xla_gpu_compilation_enabled enable_profiler
thread_pool_factory_config_file mixed_precision skip_initialize_tpu
enable_grpc_healthcheck_service enable_serialization_as_tensor_content"""

# Source: cli_parser.cpp of OpenVINO Model Server, 2025.4 to 2026.4.
OF_OVMS = """help version port rest_port grpc_bind_address rest_bind_address grpc_workers
grpc_max_threads grpc_memory_quota grpc_channel_arguments rest_workers file_system_poll_wait_seconds
sequence_cleaner_poll_wait_minutes custom_node_resources_cleaner_interval_seconds log_level log_path
trace_path cache_dir cpu_extension metrics_enable metrics_list allow_credentials allowed_origins
allowed_methods allowed_headers api_key_file allowed_media_domains allowed_local_media_path
model_name model_path batch_size shape layout mean scale color_format precision
model_version_policy nireq target_device plugin_config stateful idle_sequence_cleanup
low_latency_transformation max_sequence_number config_path list_models add_to_config
remove_from_config model_repository_path pull source_model gguf_filename overwrite_models task
weight-format extra_quantization_params vocoder max_num_seqs pipeline_type enable_prefix_caching
cache_size tool_parser reasoning_parser num_streams normalize truncate pooling source_loras
configure verbose_response disable_input_count_validation idle_unload_timeout_seconds"""

# Source: the parsers of its two commands.
OF_2020 = """config_path port rest_port grpc_workers rest_workers max_workers model_name model_path
batch_size shape model_version_policy nireq target_device plugin_config"""

VARIABLES_OF_2020 = """LOG_LEVEL LOG_PATH FILE_SYSTEM_POLL_WAIT_SECONDS CPU_EXTENSION PLUGIN_DIR
SERIALIZATION_FUNCTION REST_REQUESTS_QUEUE_SIZE ENGINE_REQUESTS_QUEUE_SIZE
ENGINE_REQUESTS_QUEUE_TIMEOUT AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_REGION S3_ENDPOINT
S3_SIGNATURE GOOGLE_APPLICATION_CREDENTIALS http_proxy https_proxy no_proxy DEVICE
OVMS_MODEL_DEVICES"""


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        pytest.param(tensorflow_serving.FLAGS, OF_TFS, id="tensorflow_model_server"),
        pytest.param((*ovms.SERVER, *ovms.MODEL, *ovms.MANAGEMENT), OF_OVMS, id="OVMS"),
        pytest.param(of_2020.FLAGS, OF_2020, id="2020"),
        pytest.param(of_2020.VARIABLES, VARIABLES_OF_2020, id="variables of 2020"),
    ],
)
def test_every_word_has_a_row(rows: Iterable[Row], words: str) -> None:
    assert sorted(row.word for row in rows) == sorted(words.split())


@pytest.fixture(autouse=True)
def paths_begin_at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def name_of(row: Any) -> str | None:
    return row.word if isinstance(row, Row) else ""


@pytest.fixture(autouse=True)
def four_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which old flags for more at a time ask for as much as they say."""
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(4)))


@pytest.mark.parametrize(
    ("parse", "base", "row"),
    [each for each in FLAGS if each[2].outcome != Outcome.ENDS],
    ids=name_of,
)
def test_a_flag_does_as_its_row_says(parse: Parse, base: tuple[str, ...], row: Row) -> None:
    line = [*base, *row.beside]
    check(row, parse, line, [*line, f"--{row.word}={row.given}"], {})


@pytest.mark.parametrize(("parse", "base", "row"), VARIABLES, ids=name_of)
def test_a_variable_does_as_its_row_says(parse: Parse, base: tuple[str, ...], row: Row) -> None:
    check(row, parse, [*base], [*base], {row.word: row.given})


def check(
    row: Row,
    parse: Parse,
    before: list[str],
    after: list[str],
    environ: Mapping[str, str],
) -> None:
    """Compare what the two command lines come to."""
    if row.outcome is Outcome.REFUSED:
        assert row.expected in said_against(lambda: parse(after, environ))
    else:
        compared(row, parse(after, environ), parse_before(parse, tuple(before)))


@cache
def parse_before(parse: Parse, line: tuple[str, ...]) -> Any:
    return parse([*line], {})


def said_against(parse: Callable[[], ParsedCommandLine]) -> str:
    """Give what is printed and raised instead of settings."""
    said = io.StringIO()
    with (
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(said),
        pytest.raises((ConfigError, SystemExit)) as caught,
    ):
        parse()
    return f"{said.getvalue()}{caught.value}"


def compared(row: Row, parsed: ParsedCommandLine, without: ParsedCommandLine) -> None:
    """Compare what is parsed with the word, and without it."""
    if row.outcome in (Outcome.TAKEN, Outcome.MAPPED):
        new = set(lines(parsed)) - set(lines(without))
        assert any(row.expected in line for line in new), sorted(new)
    else:
        assert list(lines(parsed)) == list(lines(without))
    about = [warning for warning in parsed.warnings if row.word in warning]
    assert len(about) == (row.outcome in (Outcome.NO_EFFECT, Outcome.MAPPED))


def lines(parsed: ParsedCommandLine) -> Iterator[str]:
    """Give every setting as `PLACE=VALUE`."""
    yield from _lines(parsed.settings, "")
    yield from _lines(parsed.storage, "storage.")


def _lines(value: Any, place: str) -> Iterator[str]:
    if dataclasses.is_dataclass(value):
        yield f"{place.rstrip('.')}={type(value).__name__}"
        for field in dataclasses.fields(value):
            yield from _lines(getattr(value, field.name), f"{place}{field.name}.")
    elif isinstance(value, tuple) and any(map(dataclasses.is_dataclass, value)):
        for each in value:
            yield from _lines(each, f"{place}{type(each).__name__}.")
    else:
        yield f"{place.rstrip('.')}={value}"


@pytest.mark.usefixtures("restored_words")
@pytest.mark.parametrize(
    "row", [row for _, _, row in FLAGS if row.outcome == Outcome.ENDS], ids=name_of
)
def test_a_command_that_ends_does_as_its_row_says(
    row: Row, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "m").symlink_to(ROOT / "examples/models/digits")
    config = tmp_path / "config.json"
    entry = f'{{"name": "m", "base_path": "{tmp_path}/models/m"}}'
    config.write_text(f'{{"model_config_list": [{{"config": {entry}}}]}}')
    line = row.given.format(
        repository=tmp_path / "models", config=config, new=tmp_path / "new.json"
    )
    command, *arguments = line.split()
    entries = {"ie_serving": main.main, "tensorflow_model_server": main.tensorflow_model_server}
    try:
        assert entries[command](arguments) == 0
    except SystemExit as end:
        assert end.code == 0
    assert row.expected in capsys.readouterr().out


def test_the_variables_of_the_image_of_tensorflow_serving_are_all_listed() -> None:
    """What they do is in `config/dialects/test_tensorflow_model_server.py`."""
    variables = [row.word for row in tensorflow_serving.VARIABLES]
    assert variables == ["MODEL_NAME", "MODEL_BASE_PATH"]


def test_the_key_file_of_ovms_ends_the_start(tmp_path: Path) -> None:
    """It holds the key as it is; here a line says who has it, and which rights."""
    keys = tmp_path / "keys"
    keys.write_text("a-secret-key\n")
    with pytest.raises(ConfigError, match="keys") as caught:
        access_file.read(ServerSettings(api_key_file=str(keys)))
    assert "a-secret-key" not in str(caught.value)
