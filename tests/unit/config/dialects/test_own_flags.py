"""What `ie_serving` says of its commands and flags: help, version, and lines that name none."""

import pytest

from ie_serving import __version__
from ie_serving.config.dialects import ie_serving, manage, own_flags
from ie_serving.config.dialects.no_command import EXAMPLE
from ie_serving.config.dialects.ovms import ALIASES
from ie_serving.config.schema import foreign
from ie_serving.config.schema.catalogue import SERVER
from ie_serving.core.values.errors import ConfigError

ONE = ("model", "--model_name", "m", "--model_path", "/models/m")


@pytest.mark.parametrize("argv", [(*ONE, "--port"), (*ONE, "--model")])
def test_what_argparse_cannot_tell_apart_exits_with_2(argv: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as caught:
        ie_serving.parse(argv, {})
    assert caught.value.code == 2


@pytest.mark.parametrize(
    ("argv", "found"),
    [
        ((), ("no command",)),
        (("serve",), ("no command 'serve'",)),
        (("statsu",), ("no command 'statsu'; did you mean \"status\"?",)),
        (("--port", "1"), ("no command",)),
        (
            ("--model_nam", "m", "--model_pat=m/plus"),
            (
                '--model_nam: no flag has this name; did you mean "--model_name"?',
                '--model_pat: no flag has this name; did you mean "--model_path"?',
                "no command",
            ),
        ),
    ],
)
def test_a_line_without_a_command_is_answered_with_an_example(
    argv: tuple[str, ...], found: tuple[str, ...]
) -> None:
    with pytest.raises(ConfigError) as caught:
        ie_serving.parse(argv, {})
    *unknown, last = caught.value.faults
    assert (*unknown, last.partition(":")[0]) == found
    assert last.endswith(
        f"expected config, model, check, tune, then its flags, for example: {EXAMPLE}"
    )
    assert ie_serving.parse(EXAMPLE.split()[1:], {}).settings.models[0].name == "resnet"


@pytest.mark.parametrize("flag", ["-h", "--help", "--he"])
def test_help_needs_no_command(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        ie_serving.parse([flag], {})
    assert caught.value.code == 0
    said = capsys.readouterr().out
    assert said.startswith("usage: ie_serving ")
    assert all(f"--{name}" in said for name in (manage.LIST, manage.ADD, manage.REMOVE))


@pytest.mark.parametrize("command", ["model", "config"])
def test_help_tells_each_flag_its_meaning_and_default(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    with pytest.raises(SystemExit) as caught:
        ie_serving.parse([command, "--help"], {})
    assert caught.value.code == 0
    text = capsys.readouterr().out
    for setting in SERVER:
        assert f"--{setting.flag} " in text
        assert f"{setting.meaning} (default: {setting.shown_default})" in text
    called = own_flags.names(command)
    advice = {name: hint.said(called) for name, hint in foreign.FLAGS.items()}
    for name, meaning in {**ALIASES, **advice}.items():
        assert f"--{name}" in text
        assert meaning in text


def test_version_names_the_server_and_openvino(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        ie_serving.parse(["--version"], {})
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith(f"ie_serving {__version__}\nOpenVINO ")
