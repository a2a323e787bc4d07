"""The command lines of simple_tensorflow_serving, as its documentation has them, and its traps."""

import json
from pathlib import Path
from typing import Any

import pytest

from ie_serving.compat.stfs.dialect import parse
from ie_serving.compat.stfs.flags import FLAGS
from ie_serving.config.settings import ParsedCommandLine, ServerSettings
from ie_serving.core.values.errors import ConfigError
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.tensorflow.options import TensorFlowOptions
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.repository.version_policy import All
from tests.tables import named_by

TEMPLATE = "./models/tensorflow_template_application_model"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def server(*argv: str, **environ: str) -> ServerSettings:
    return parse(argv, environ).settings.server


def models(*argv: str, **environ: str) -> tuple[ModelConfig, ...]:
    return parse(argv, environ).settings.models


def faults(*argv: str, **environ: str) -> list[str]:
    with pytest.raises(ConfigError) as error:
        parse(argv, environ)
    return list(error.value.faults)


def test_quick_start(tmp_path: Path) -> None:
    """README.md, "Quick Start"."""
    parsed = parse([f"--model_base_path={TEMPLATE}"], {})
    (model,) = parsed.settings.models
    assert (model.name, model.base_path) == ("default", str(tmp_path / TEMPLATE))
    assert (model.platform, model.version_policy) == ("tensorflow", All())
    assert model.engine.of(OpenVinoOptions).inference_precision == "f32"
    assert model.engine.of(TensorFlowOptions).fallback
    found = parsed.settings.server
    assert (found.port, found.rest_port, found.rest_host) == (0, 8500, "0.0.0.0")
    assert (found.old_front, found.enable_cors, found.poll_wait_s) == ("stfs", True, 10.0)
    assert not (found.has_tls or found.has_access)
    assert parsed.warnings == ()


def test_several_models_are_read_from_a_file(tmp_path: Path) -> None:
    """README.md, "Multiple Models", without its model of MXNet."""
    entries = [
        {"name": "template", "base_path": f"{TEMPLATE}/", "platform": "tensorflow"},
        {"name": "deep_image_model", "base_path": "./models/deep_image_model/"},
    ]
    file = tmp_path / "examples" / "model_config_file.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"model_config_list": entries}))
    found = models("--model_config_file=./examples/model_config_file.json")
    assert [each.name for each in found] == ["template", "deep_image_model"]
    assert found[1].base_path == str(tmp_path / "models/deep_image_model")


def test_session_options_have_no_effect(tmp_path: Path) -> None:
    """README.md, "GPU Acceleration": as a flag and in the file."""
    session = {
        "log_device_placement": True,
        "allow_soft_placement": True,
        "allow_growth": True,
        "per_process_gpu_memory_fraction": 0.5,
    }
    parsed = parse([f"--model_base_path={TEMPLATE}", f"--session_config={json.dumps(session)}"], {})
    (warning,) = parsed.warnings
    assert warning.startswith("--session_config has no effect")
    entry = {"name": "default", "base_path": TEMPLATE, "session_config": session}
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"model_config_list": [entry]}))
    assert [each.name for each in models(f"--model_config_file={file}")] == ["default"]


def test_custom_operations_are_every_library_of_the_directories(tmp_path: Path) -> None:
    """README.md, "Custom Op": every library of the directories."""
    (tmp_path / "foo_op").mkdir()
    for name in ("b.so", "a.so", "notes.txt"):
        (tmp_path / "foo_op" / name).touch()
    (model,) = models("--model_base_path=./model/", "--custom_op_paths=./foo_op/")
    expected = tuple(str(tmp_path / "foo_op" / name) for name in ("a.so", "b.so"))
    assert model.engine.of(TensorFlowOptions).custom_op_paths == expected
    (found,) = faults("--custom_op_paths=./bar_op/")
    assert "./bar_op/ holds no *.so" in found


def test_one_user_is_authenticated() -> None:
    """README.md, "Authentication"."""
    user = ("--auth_username=admin", "--auth_password=admin")
    found = server(f"--model_base_path={TEMPLATE}", "--enable_auth=True", *user)
    assert (found.enable_auth, found.auth_username, found.auth_password) == (True, "admin", "admin")
    assert not found.open_health, "of the routes of health only /health is open"


def test_encryption_takes_a_certificate_and_a_key() -> None:
    """README.md, "TSL/SSL"."""
    files = ("--secret_pem=/tmp/secret.pem", "--secret_key=/tmp/secret.key")
    found = server("--enable_ssl=True", *files, f"--model_base_path={TEMPLATE}")
    assert (found.tls_certificate, found.tls_key) == ("/tmp/secret.pem", "/tmp/secret.key")
    assert not server(*files).has_tls


@named_by(
    "base_path",
    ("base_path", "platform", "driver"),
    [
        ("./models/scikitlearn_iris/model.joblib", "scikitlearn", "sklearn"),
        ("./models/scikitlearn_iris/model.pkl", "scikitlearn", "sklearn"),
        ("./models/xgboost_iris/model.bst", "xgboost", "xgboost"),
        ("./models/xgboost_iris/model.joblib", "xgboost", "sklearn"),
        ("./models/xgboost_iris/model.pkl", "xgboost", "sklearn"),
        ("./models/onnx_mnist_model/onnx_model.onnx", "onnx", "auto"),
        ("./models/pmml_iris/DecisionTreeIris.pmml", "pmml", "pmml"),
    ],
)
def test_a_platform_chooses_its_driver(base_path: str, platform: str, driver: str) -> None:
    """README.md, "Supported Models"; of ONNX the file has another name there."""
    (model,) = models(f"--model_base_path={base_path}", f"--model_platform={platform}")
    assert model.engine.driver == driver
    assert model.engine.allow_pickle is (platform not in ("onnx", "pmml"))


@named_by(
    "base_path",
    ("base_path", "platform", "advice"),
    [
        ("./models/mxnet_mlp/mx_mlp", "mxnet", "export the model to ONNX"),
        ("./models/h2o_prostate_model/GLM_model", "h2o", "export the model to ONNX"),
        ("./models/spark", "spark", "onnxmltools"),
        ("./models/pytorch_onnx", "pytorch_onnx", "name platform onnx"),
        ("./models/onnx_mnist_model/onnx_model.proto", "onnx", "rename the file"),
        ("./model", "tensorflwo", "did you mean"),
    ],
)
def test_a_platform_that_cannot_be_had_is_refused_with_advice(
    base_path: str, platform: str, advice: str
) -> None:
    """README.md, "Supported Models"."""
    (found,) = faults(f"--model_base_path={base_path}", f"--model_platform={platform}")
    assert found.startswith("--model_platform: ")
    assert advice in found


VALUES: dict[str, tuple[str, Any]] = {
    "host": ("127.0.0.1", "127.0.0.1"),
    "port": ("8501", 8501),
    "enable_auth": ("true", True),
    "enable_cors": ("False", False),
    "log_level": ("debug", "DEBUG"),
}
"""Some values of flags, and what they become; each is read alike from both places."""


@pytest.mark.parametrize("name", VALUES)
def test_each_flag_has_a_variable_and_beats_it(name: str) -> None:
    text, value = VALUES[name]
    user = {"STFS_AUTH_USERNAME": "u", "STFS_AUTH_PASSWORD": "p"}
    flag = next(each for each in FLAGS if each.name == name)
    by_variable = server(**{flag.variable: text}, **user)
    assert by_variable == server(f"--{name}={text}", **user)
    assert getattr(by_variable, flag.setting.removeprefix("server.")) == value
    assert server(f"--{name}={text}", **{flag.variable: "0"}, **user) == by_variable


def test_the_variable_of_another_name_is_warned_of() -> None:
    parsed: ParsedCommandLine = parse([], {"STFS_B64_AUTOCONVERT": "true"})
    assert parsed.warnings[0].startswith("--enable_b64_autoconvert has no effect")


@pytest.mark.parametrize("text", ["False", "false", "0", ""])
def test_a_switch_that_is_off_is_off(text: str) -> None:
    """In the original any text but none means true."""
    assert not server(f"--enable_auth={text}").has_access


@named_by(
    "argv",
    ("argv", "words"),
    [
        (("--enable_auth",), "known to everybody"),
        (("--enable_auth", "--auth_username=a"), "known to everybody"),
        (("--download_inference_images=true",), "never kept"),
        (("--port=0",), "--port: "),
        (('--session_config={"allow_grow": true}',), "did you mean"),
        (("--model_platform=onnx", "--custom_op_paths=."), "only platform tensorflow"),
        (("--model_config_file=gone.json",), "gone.json"),
    ],
)
def test_a_wrong_command_line_is_refused(argv: tuple[str, ...], words: str) -> None:
    assert any(words in fault for fault in faults(*argv))


@pytest.mark.parametrize(
    ("document", "words"),
    [
        pytest.param({}, "expected", id="nothing"),
        pytest.param(
            {"model_config_list": [{"name": "a"}]},
            "model_config_list[0].base_path",
            id="no base path",
        ),
        pytest.param(
            {"model_config_list": [{"name": "a", "base_path": "b", "base": 1}]},
            "base: unknown key",
            id="an unknown key",
        ),
        pytest.param(
            {"model_config_list": [3]}, "an object with name and base_path", id="no object"
        ),
        pytest.param(
            {"model_config_list": 2 * [{"name": "a", "base_path": "b"}]},
            "two models are called a",
            id="two models of one name",
        ),
        pytest.param(
            {"model_config_list": [{"name": "a", "base_path": "b", "platform": "mxnet"}]},
            "model_config_list[0].platform: mxnet is not served",
            id="another platform",
        ),
    ],
)
def test_a_fault_of_a_file_is_told(tmp_path: Path, document: object, words: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(document))
    (found,) = faults(f"--model_config_file={file}")
    assert words in found


def test_models_are_not_polled_with_reload_models_false() -> None:
    assert server("--reload_models=False").poll_wait_s == 0
