"""What `ie_serving` says of its commands and flags: help, version, and lines that name none."""

import re
from pathlib import Path

import pytest

from ie_serving import __version__
from ie_serving.app.main import main
from ie_serving.config.dialects import ie_serving, manage, own_flags, own_help
from ie_serving.config.dialects.ie_serving import EXAMPLE
from ie_serving.config.dialects.ovms import ALIASES
from ie_serving.config.schema import foreign
from ie_serving.config.schema.catalogue import SERVER, TOPICS
from ie_serving.core.values.commands import ASKING, BESIDE, HELP, MEANINGS, VERSION
from ie_serving.core.values.errors import ConfigError
from tests.tables import named_by

ONE = ("model", "--model_name", "m", "--model_path", "/models/m")


@pytest.mark.parametrize("argv", [(*ONE, "--port"), (*ONE, "--model")])
def test_a_line_that_argparse_cannot_read_exits_with_2(argv: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as caught:
        ie_serving.parse(argv, {})
    assert caught.value.code == 2


@named_by(
    "argv",
    ("argv", "found"),
    [
        ((), ("no command",)),
        (("serve",), ("no command 'serve'",)),
        (("statsu",), ("no command 'statsu'; did you mean \"status\"?",)),
        (("--port", "1"), ("no command",)),
        (
            ("--helo",),
            ('--helo: no flag has this name: see --help; did you mean "--help"?', "no command"),
        ),
        (
            ("--model_nam", "m", "--model_pat=m/plus"),
            (
                '--model_nam: no flag has this name: see --help; did you mean "--model_name"?',
                '--model_pat: no flag has this name: see --help; did you mean "--model_path"?',
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
        f"expected {', '.join(MEANINGS)}; to serve, for example: {EXAMPLE};"
        " ie_serving --help says what each does"
    )
    assert ie_serving.parse(EXAMPLE.split()[1:], {}).settings.models[0].name == "resnet"


SUBJECT = (
    "expected --model_path DIRECTORY for one model, --config_path FILE or"
    " --model_repository DIRECTORY for several"
)


@pytest.mark.parametrize(
    ("argv", "found"),
    [
        pytest.param(("check",), [f"ie_serving check: nothing to check: {SUBJECT}"], id="bare"),
        pytest.param(
            ("check", "models/k"),
            [f"models/k: ie_serving check takes no bare path: {SUBJECT}"],
            id="path",
        ),
        pytest.param(
            ("check", "--nireqs=2"),
            [
                "--nireqs: unknown argument of ie_serving check: see its --help;"
                ' did you mean "--nireq"?',
                f"ie_serving check: nothing to check: {SUBJECT}",
            ],
            id="flag",
        ),
        pytest.param(
            ("check", "--model_path=/m", "more"),
            ["more: unknown argument of ie_serving check: see its --help"],
            id="more",
        ),
        pytest.param(
            ("tune",),
            [
                "ie_serving tune: nothing to tune: expected --model_path DIRECTORY, or"
                " --config_path FILE with --model_name NAME"
            ],
            id="tune",
        ),
    ],
)
def test_check_and_tune_say_what_they_need(argv: tuple[str, ...], found: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        ie_serving.parse(argv, {})
    assert [*caught.value.faults] == found


@pytest.mark.parametrize(
    ("argv", "flags"),
    [
        (("check", "--model_path=m", "--model_name=m"), ["model_name", "model_path"]),
        (("tune", "--model_name=m", "--model_path=m"), ["model_path"]),
    ],
)
def test_a_file_is_not_checked_instead_of_a_model_that_is_named(
    tmp_path: Path, argv: tuple[str, ...], flags: list[str]
) -> None:
    file = tmp_path / "c.json"
    file.write_text('{"model_config_list": [{"config": {"name": "m", "base_path": "/m"}}]}')
    with pytest.raises(ConfigError) as caught:
        ie_serving.parse((*argv, f"--config_path={file}"), {})
    keys = {"model_path": "base_path", "model_name": "name"}
    assert [*caught.value.faults] == [
        f'--{flag}: a setting of one model: set the key "{keys[flag]}" in its entry of the file, or'
        " leave out --config_path"
        for flag in flags
    ]


def test_version_takes_no_more_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version", "foo"]) == 2
    assert capsys.readouterr().err == (
        "ie_serving: error: foo: unknown argument of ie_serving version, which takes none: leave it"
        " out\n"
    )


@pytest.mark.parametrize("flag", ["-h", "--help", "--he"])
def test_help_needs_no_command(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = helped(capsys, flag)
    assert said.startswith("usage: ie_serving ")
    assert all(f"--{name}" in said for name in (manage.LIST, manage.ADD, manage.REMOVE))


def helped(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    with pytest.raises(SystemExit) as caught:
        ie_serving.parse(argv, {})
    assert caught.value.code == 0
    return capsys.readouterr().out


def test_help_lists_every_command_once(capsys: pytest.CaptureFixture[str]) -> None:
    said = helped(capsys, "--help")
    listed = re.findall(r"^  ([a-z]+(?: [a-z]+)?)  +[a-z]", said, re.MULTILINE)
    assert listed == [*MEANINGS]
    known = {*own_flags.OWN_FLAGS, *ASKING, *BESIDE, HELP, VERSION}
    assert {name.partition(" ")[0] for name in listed} == known
    assert len(said.splitlines()) < 50


@pytest.mark.parametrize("command", own_flags.OWN_FLAGS)
def test_help_fits_one_screen_and_shows_the_common_flags(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    said = helped(capsys, command, "--help")
    shown = set(re.findall(r"^  --([a-z_]+)", said, re.MULTILINE))
    settings = (*own_flags.OWN_FLAGS[command], *SERVER)
    switches = {"help", *(own_flags.ONLY_OF_CHECK if command == "check" else ())}
    assert shown == switches | {each.flag for each in settings if each.is_common}
    assert len(said.splitlines()) <= 64
    for topic in own_help.topics(command):
        assert f"  --help={topic} " in said


@pytest.mark.parametrize("command", own_flags.OWN_FLAGS)
def test_every_flag_has_one_topic(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    found: list[str] = []
    for topic in own_help.topics(command):
        if topic in TOPICS:
            said = helped(capsys, command, f"--help={topic}")
            own = re.findall(r"^  --([a-z_0-9]+)", said, re.MULTILINE)
            found += [flag for flag in own if flag not in own_flags.ONLY_OF_CHECK]
    settings = (*own_flags.OWN_FLAGS[command], *SERVER)
    assert sorted(found) == sorted(setting.flag for setting in settings)


def test_an_unknown_topic_is_refused_with_those_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as caught:
        ie_serving.parse(["model", "--help=batchin"], {})
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert "no topic 'batchin'; did you mean \"batching\"?; expected one of model, " in said


@pytest.mark.parametrize("flag", ["response_cache_bytes", "signature_changes", "nireq"])
def test_a_flag_of_one_model_is_refused_beside_a_file_with_its_key(flag: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ie_serving.parse(["config", "--config_path=none.json", f"--{flag}=1"], {})
    expected = f'a setting of one model: set the key "{flag}" in its entry of the file'
    assert expected in str(caught.value)
    assert "did you mean" not in str(caught.value)


def test_a_topic_without_a_command_is_that_of_the_command_that_has_all_topics(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for argv in (["--help=batching"], ["-h", "batching"]):
        with pytest.raises(SystemExit) as caught:
            ie_serving.parse(argv, {})
        assert caught.value.code == 0
        assert capsys.readouterr().out == own_help.text("model", "batching")
    assert {topic for each in own_flags.OWN_FLAGS for topic in own_help.topics(each)} - {
        "tune"
    } == {*own_help.topics("model")}
    with pytest.raises(SystemExit):
        ie_serving.parse(["--help=batchin"], {})
    assert "no topic 'batchin'; did you mean \"batching\"?" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        ie_serving.parse(["--help", "config"], {})
    assert "usage: ie_serving COMMAND" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["model", "config"])
def test_help_tells_each_flag_its_meaning_and_default(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    text = helped(capsys, command, "--help=all")
    for setting in SERVER:
        assert f"--{setting.flag} " in text
        assert f"{setting.meaning} (default: {setting.shown_default})" in text
    called = own_flags.names(command)
    advice = {name: hint.said(called) for name, hint in foreign.FLAGS.items()}
    for name, meaning in {**ALIASES, **advice}.items():
        assert f"--{name}" in text
        assert meaning in text
    assert "\n  LOG_LEVEL: as --log_level\n" in text


@named_by(
    "argv",
    ("argv", "begins"),
    [
        (("help",), "usage: ie_serving COMMAND"),
        (("help", "help"), "usage: ie_serving COMMAND"),
        (("help", "model"), "usage: ie_serving model"),
        (("help", "status"), "usage: ie_serving status"),
        (("help", "config", "import"), "usage: ie_serving config import"),
        (("help", "key", "new"), "usage: ie_serving key new"),
    ],
)
def test_help_is_a_command(
    argv: tuple[str, ...], begins: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith(begins)


def test_version_is_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert capsys.readouterr().out.startswith(f"ie_serving {__version__}\nOpenVINO ")


def test_version_names_the_server_and_openvino(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        ie_serving.parse(["--version"], {})
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith(f"ie_serving {__version__}\nOpenVINO ")
