"""A configuration file of either kind, from disk."""

import logging
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ie_serving.config.files import source
from ie_serving.core.values.errors import ConfigError
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.openvino.options import OpenVinoOptions

CONFIG = Path(__file__).parents[4] / "config"
EVERY_KEY = ["resnet", "any_batch", "any_shape", "one_input", "two_inputs"]
EVERY_KEY += ["images", "gathered", "sequences", "saved_model", "texts", "risk", "elastic"]


@pytest.mark.parametrize(
    ("file", "names"),
    [
        ("single_model.json", ["digits"]),
        ("every_key.json", EVERY_KEY),
        ("model_server_config.pbtxt", ["half_plus_two", "digits"]),
    ],
)
def test_every_example_loads_without_a_warning(file: str, names: list[str]) -> None:
    found = source.read(CONFIG / file)
    assert [model.name for model in found.models] == names
    assert found.warnings == ()


def test_every_example_is_tested() -> None:
    options = {
        "monitoring_config.pbtxt",
        "batching_parameters.pbtxt",
    }  # in test_tensorflow_model_server.py
    models = {"single_model.json", "every_key.json", "model_server_config.pbtxt"}
    assert {path.name for path in CONFIG.iterdir()} == options | models


def test_the_single_model_of_the_examples_is_there() -> None:
    (model,) = source.load(CONFIG / "single_model.json").models
    assert (Path(model.base_path) / "1").is_dir()


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        pytest.param("a.conf", ' \n{"model_config_list": []}', "JSON", id="brace"),
        pytest.param("a.json", "# m\nmodel_config_list {}", "text", id="text form, called JSON"),
        pytest.param("a.json", "model_config_list: {}", "text", id="with a colon"),
        pytest.param("a.yaml", "model_config_list {}", "text", id="text form, called YAML"),
        pytest.param("a.yaml", "model_config_list: []", "YAML", id="YAML"),
        pytest.param("a.pbtxt", '{"model_config_list": []}', "JSON", id="JSON, called text form"),
        pytest.param("a.json", "model_config_list", None, id="neither"),
        pytest.param("a.conf", "model_config_list {}", "text", id="text form"),
        pytest.param("a.conf", "", "text", id="empty, as TensorFlow Serving takes it"),
        pytest.param("a.json", '\ufeff{"model_config_list": []}', "JSON", id="byte order mark"),
    ],
)
def test_the_kind_of_a_file_is_told_by_its_first_character(
    tmp_path: Path, name: str, text: str, kind: str | None
) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    if kind is None:
        with pytest.raises(ConfigError, match=r"a\.json:1:1: not JSON"):
            source.read(path)
    else:
        assert source.read(path).models == ()


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_file_is_no_change(tmp_path: Path, text: str) -> None:
    """A program that writes a file in place empties it first; that must not unload every model."""
    path = tmp_path / "models.config"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"is empty.* write model_config_list \{\}"):
        source.load(path)
    path.write_text("model_config_list {}")
    assert source.load(path).models == ()


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.json: cannot be read: No such file"):
        source.load(tmp_path / "none.json")


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not UTF-8"):
        source.load(path)


def test_engine_options_reach_models_of_either_kind(tmp_path: Path) -> None:
    engine = EngineOptions(own=(OpenVinoOptions(inference_precision="f32"),))
    for file in ("single_model.json", "model_server_config.pbtxt"):
        assert all(m.engine == engine for m in source.load(CONFIG / file, engine).models)


def test_a_reload_logs_warnings(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "c.json"
    path.write_text('{"model_config_list": [], "monitorin": {}}')
    with caplog.at_level(logging.WARNING):
        source.load(path)
    assert 'did you mean \\"monitoring\\"?' in caplog.text


def test_a_pipe_is_refused_since_it_is_read_once(tmp_path: Path) -> None:
    pipe = tmp_path / "config.json"
    os.mkfifo(pipe)
    with pytest.raises(ConfigError, match=r"config\.json: is a pipe or a device.* to a file"):
        source.read(pipe)


def test_a_pipe_without_a_writer_is_empty_and_keeps_no_thread(tmp_path: Path) -> None:
    """Callers and certificates are renewed by a thread, which looked at no file any more."""
    pipe = tmp_path / "keys"
    os.mkfifo(pipe)
    found: list[str] = []
    reading = threading.Thread(target=lambda: found.append(source.read_text(pipe)), daemon=True)
    reading.start()
    reading.join(5)
    assert found == [""]


def test_a_pipe_is_read_to_its_end_whenever_it_is_written() -> None:
    """As `--api_key_file <(...)` of a shell has it."""
    receives, sends = os.pipe()
    reading = ThreadPoolExecutor(1).submit(source.read_text, Path(f"/dev/fd/{receives}"))
    with open(sends, "w") as file:
        file.write("alice")
    assert reading.result(5) == "alice"
    os.close(receives)
