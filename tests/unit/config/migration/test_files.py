"""Each row of the keys of configuration files in docs/guide/migration-*.md does what it says."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from ie_serving.config.dialects import ie_serving, tensorflow_model_server
from ie_serving.config.settings import ParsedCommandLine
from tests.unit.config.files.test_mediapipe import INFERENCE, PYTHON, SESSION
from tests.unit.config.migration import files
from tests.unit.config.migration.rows import Outcome, Row
from tests.unit.config.migration.test_migration import compared, name_of, said_against

# Source: schema.cpp of OpenVINO Model Server 2026.2. Those of 2020 are among them.
MODEL_KEYS = """name base_path batch_size shape layout mean scale color_format precision
model_version_policy nireq target_device allow_cache plugin_config stateful idle_sequence_cleanup
low_latency_transformation max_sequence_number custom_loader_options graph_path subconfig"""
TOP_KEYS = """model_config_list pipeline_config_list custom_node_library_config_list
mediapipe_config_list custom_loader_config_list monitoring"""

# Source: model_server_config.proto, session_bundle_config.proto and monitoring_config.proto.
TFS_MODEL = """name base_path model_type model_platform model_version_policy version_labels
logging_config"""
BATCHING = """max_batch_size batch_timeout_micros max_enqueued_batches num_batch_threads
thread_pool_name allowed_batch_sizes pad_variable_length_inputs enable_large_batch_splitting
max_execution_batch_size"""
MONITORING = "enable path"


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        pytest.param(files.MODEL, MODEL_KEYS, id="a model"),
        pytest.param(files.TOP, TOP_KEYS, id="the file"),
        pytest.param(files.TFS_MODEL, TFS_MODEL, id="ModelConfig"),
        pytest.param(files.BATCHING, BATCHING, id="BatchingParameters"),
        pytest.param(files.MONITORING, MONITORING, id="PrometheusConfig"),
    ],
)
def test_every_key_has_a_row(rows: Iterable[Row], words: str) -> None:
    assert sorted(row.word for row in rows) == sorted(words.split())


def check(row: Row, parse: Callable[[str], ParsedCommandLine], before: str, after: str) -> None:
    if row.outcome is Outcome.REFUSED:
        assert row.expected in said_against(lambda: parse(after))
    else:
        compared(row, parse(after), parse(before))


def of_json(file: Path) -> Callable[[str], ParsedCommandLine]:
    def parse(text: str) -> ParsedCommandLine:
        file.write_text(text)
        line = ["config", "--config_path", str(file), "--rest_port=8000", "--allow_python"]
        return ie_serving.parse(line, {})

    return parse


def of_text(file: Path, flag: str, *more: str) -> Callable[[str], ParsedCommandLine]:
    def parse(text: str) -> ParsedCommandLine:
        file.write_text(text)
        line = [f"--{flag}={file}", "--rest_api_port=8501", *more]
        return tensorflow_model_server.parse(line, {})

    return parse


GRAPH = (
    'input_stream: "in" output_stream: "out"'
    + SESSION.format("m", "1")
    + INFERENCE.format("m", 'input_stream: "X:in" output_stream: "Y:out"', "")
)
"""Of MediaPipe, around one model."""

NAMED = {"name": '"m"', "base_path": '"/models/m"'}


@pytest.mark.parametrize("row", files.MODEL, ids=name_of)
def test_a_key_of_a_model_does_as_its_row_says(row: Row, tmp_path: Path) -> None:
    def text(keys: dict[str, str]) -> str:
        entry = ", ".join([*(f'"{key}": {value}' for key, value in keys.items()), *row.beside])
        return f'{{"model_config_list": [{{"config": {{{entry}}}}}]}}'

    (tmp_path / "node.pbtxt").write_text(PYTHON)
    named = {key: value for key, value in NAMED.items() if f'"{key}"' not in str(row.beside)}
    check(row, of_json(tmp_path / "c.json"), text(named), text(named | {row.word: row.given}))


@pytest.mark.parametrize("row", files.TOP, ids=name_of)
def test_a_key_of_the_file_does_as_its_row_says(row: Row, tmp_path: Path) -> None:
    def text(keys: dict[str, str]) -> str:
        return "{" + ", ".join(f'"{key}": {value}' for key, value in keys.items()) + "}"

    (tmp_path / "graph").mkdir()
    (tmp_path / "graph" / "graph.pbtxt").write_text(GRAPH)
    listed = {"model_config_list": '[{"config": {"name": "m", "base_path": "/models/m"}}]'}
    parse = of_json(tmp_path / "c.json")
    check(row, parse, text(listed), text(listed | {row.word: row.given}))


@pytest.mark.parametrize("row", files.TFS_MODEL, ids=name_of)
def test_a_field_of_a_model_does_as_its_row_says(row: Row, tmp_path: Path) -> None:
    def text(fields: dict[str, str]) -> str:
        said = " ".join(f"{name}: {value}" for name, value in fields.items())
        return f"model_config_list {{ config {{ {said} }} }}"

    fields = NAMED | {"model_platform": '"tensorflow"'}
    if row.word == "model_type":  # it cannot stand beside model_platform
        del fields["model_platform"]
    before = fields if "model_platform" in fields else fields | {"model_type": "TENSORFLOW"}
    parse = of_text(tmp_path / "m.pbtxt", "model_config_file")
    check(row, parse, text(before), text(fields | {row.word: row.given}))


@pytest.mark.parametrize("row", files.BATCHING, ids=name_of)
def test_a_field_of_the_batches_does_as_its_row_says(row: Row, tmp_path: Path) -> None:
    more = ("--enable_batching", "--model_base_path=/models/m")
    parse = of_text(tmp_path / "b.pbtxt", "batching_parameters_file", *more)
    before = " ".join(row.beside)
    check(row, parse, before, f"{before} {row.word}: {row.given}")


@pytest.mark.parametrize("row", files.MONITORING, ids=name_of)
def test_a_field_of_the_metrics_does_as_its_row_says(row: Row, tmp_path: Path) -> None:
    parse = of_text(tmp_path / "m.pbtxt", "monitoring_config_file", "--model_base_path=/models/m")
    other = " ".join(row.beside) or "enable: true"
    after = f"prometheus_config {{ {' '.join(row.beside)} {row.word}: {row.given} }}"
    check(row, parse, f"prometheus_config {{ {other} }}", after)
