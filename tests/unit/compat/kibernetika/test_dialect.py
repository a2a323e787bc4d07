"""The command line of kibernetika-serving."""

from pathlib import Path

import pytest

from ie_serving.compat.kibernetika.dialect import parse
from ie_serving.config.settings import ParsedCommandLine
from ie_serving.core.values.errors import ConfigError
from ie_serving.engines.kernels import HookOptions
from ie_serving.engines.openvino.options import OpenVinoOptions
from tests.tables import named_by


def hooks_of(parsed: ParsedCommandLine) -> HookOptions:
    return parsed.settings.models[0].engine.of(HookOptions)


def test_one_model_is_a_chain_of_one() -> None:
    parsed = parse(["--model-path", "m.onnx"], {})
    (model,) = parsed.settings.models
    server = parsed.settings.server
    assert (model.name, server.port, server.rest_port) == ("default", 9000, 0)
    (link,) = hooks_of(parsed).chain
    assert (link.driver, link.path, link.options.driver) == (
        "auto",
        str(Path.cwd() / "m.onnx"),
        "auto",
    )
    assert not model.engine.allow_python and not parsed.warnings


def test_pairs_are_a_chain_in_their_order(tmp_path: Path) -> None:
    hooks = tmp_path / "hooks.py"
    hooks.touch()
    parsed = parse(
        [
            *("--driver", "openvino", "--model-path", "/a.xml"),
            *("--driver=tensorflow", "--model-path=/b"),
            *("--hooks", str(hooks), "-o", "device=GPU,CPU", "--option", "threshold=0.5=x"),
            *("-o", "model_signature=other", "-o", "flexible_batch_size=true"),
            *("--port", "1234", "--http-enable", "--http-port=1235"),
        ],
        {},
    )
    found = hooks_of(parsed)
    assert [link.path for link in found.chain] == ["/a.xml", "/b"]
    assert [link.options.driver for link in found.chain] == ["openvino", "openvino"]
    assert [link.signature for link in found.chain] == ["", "other"]
    assert all(link.flexible for link in found.chain)
    devices = {link.options.of(OpenVinoOptions).target_device for link in found.chain}
    assert devices == {"HETERO:GPU,CPU"}
    engine = parsed.settings.models[0].engine
    assert engine.params["threshold"] == "0.5=x" and engine.params["device"] == "GPU,CPU"
    assert engine.allow_python and parsed.settings.engine.allow_python
    assert found.source and found.source.file == str(hooks)
    assert (parsed.settings.server.port, parsed.settings.server.rest_port) == (1234, 1235)


@named_by(
    "arguments",
    ("arguments", "text"),
    [
        (["--driver", "onnx"], "--driver: given 2 times, and --model-path 1 times: pair them"),
        (["-o", "threshold"], "--option: 'threshold' given; expected KEY=VALUE"),
        (["--port", "http"], "--port: 'http' given; expected a whole number from 1"),
        (
            ["--http-enable", "--http-port", "0"],
            "--http-port: '0' given; expected a whole number from 1",
        ),
        (["--hooks", "/no/hooks.py"], "--hooks: /no/hooks.py: no such file"),
        (["--hooks", "hooks.txt"], "--hooks: "),
        (["-o", "flexible_batch_size=no"], "flexible_batch_size=no: expected true or false"),
    ],
)
def test_a_wrong_flag_is_told_by_its_name(arguments: list[str], text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse(["--driver", "openvino", "--model-path", "m.xml", *arguments], {})
    assert text in str(raised.value)


def test_an_unknown_driver_is_answered_with_the_list() -> None:
    with pytest.raises(ConfigError, match=r"one of auto, catboost, .*openvino.*did you mean"):
        parse(["--driver", "openvin", "--model-path", "m.xml"], {})


def test_flags_without_effect_are_told() -> None:
    line = ["--driver", "onnx", "--model-path", "m", "--http_server_command", "x"]
    line += ["--webrtc", "--input-name=x", "--http_enable", "--http_port=9002"]
    line += ["--driver", "tensorflow", "--model-path", "m.pb", "-o", "inputs=x"]
    parsed = parse([*line, "-o", "runtime_backend=NNP", "-o", "device=MYRIAD"], {})
    assert [each.partition(":")[0] for each in parsed.warnings] == [
        "--http-server-command has no effect",
        "--webrtc has no effect",
        "--input-name has no effect",
        "device=MYRIAD",
        "runtime_backend=NNP",
        "inputs has no effect",
    ]


@pytest.mark.parametrize(
    ("code", "text"),
    [
        pytest.param(
            "x = 1\ndef process(inputs ctx): ...",
            "hooks.py, line 2: SyntaxError: invalid syntax",
            id="a syntax error",
        ),
        pytest.param(
            "def preprocess(x, y, z): ...",
            "hooks.py, line 1: preprocess takes (x, y, z); expected",
            id="three places",
        ),
        pytest.param(
            "\nfrom a import b\n\ndef f(x: b, n=b): ...\npreprocess = [f, None]",
            "hooks.py, line 5: preprocess has 2 entries, and there are 1 models",
            id="too many entries",
        ),
        pytest.param(
            "from a import b\n\ndef f(x: b, n=b): ...\npostprocess = [f]",
            "hooks.py, line 4: postprocess takes (x, n=None); expected (outputs)",
            id="a function that takes no outputs",
        ),
    ],
)
def test_a_fault_of_the_code_ends_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], code: str, text: str
) -> None:
    (tmp_path / "hooks.py").write_text(code)
    with pytest.raises(SystemExit) as raised:
        parse(["--model-path", "m.xml", "--hooks", str(tmp_path / "hooks.py")], {})
    assert isinstance(raised.value.code, str) and text in raised.value.code


def test_faults_that_only_the_run_can_show_are_left_to_it(tmp_path: Path) -> None:
    code = "@b\ndef preprocess(a, b, c): ...\ntry:\n    pass\nfinally:\n    process = c\n"
    (tmp_path / "hooks.py").write_text(code)
    assert parse(["--model-path", "m.xml", "--hooks", str(tmp_path / "hooks.py")], {})


def test_variables_of_the_environment_count_beside_the_flags() -> None:
    parsed = parse(["--model-path", "m.onnx"], {"LOG_LEVEL": "DEBUG"})
    assert parsed.settings.server.log_level == "DEBUG"
    assert parse(["--model-path", "m.onnx"], {"LOG_LEVEL": "LOUD"}).warnings
