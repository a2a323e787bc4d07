"""Every setting is declared once, and each word of a dialect means one setting."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from ie_serving.config.dialects import ovms, own_flags
from ie_serving.config.dialects.tfs_flags import BY_NAME
from ie_serving.config.schema import foreign
from ie_serving.config.schema.catalogue import (
    BY_TFS,
    OWNERS,
    SERVER,
    SETTINGS,
    names_in_ie_serving,
    names_in_tensorflow_model_server,
)
from ie_serving.core.settings import words
from ie_serving.core.settings.declaration import Setting

DERIVED = {
    "settings.server",
    "settings.models",
    "settings.engine",
    "settings.in_file",  # model_repository_list of the configuration file
    "model.engine",
    "model.graph",  # a list of its own beside the models
    "model.repository",  # a model that was found in a directory of models
    "model.declared",  # by its config.pbtxt there
    "model.fault",
    "model.labels_found",  # beside those that a client has set
    "model.platform",  # a word of the text form alone, which its reader checks
    "engine.own",  # the parts of single drivers, such as openvino
    "openvino.is_precision_tried",  # of the precision that the server chooses
    "engine.ahead",  # asked of the engine by the layer of batches
    "server.old_front",  # the command whose routes are asked
    "engine.cache_dir",  # below storage.cache_dir
    "server.require_available",  # what distinguishes the two commands
    "batching.in_version",  # two flags of tensorflow_model_server, and its file of parameters
    "batching.most_request_rows",
    "s3.endpoint_variable",  # which variable told the endpoint, for advice
    "server.announce_as_tfs",
    "server.takes_grpc_socket",
    "engine.saved_model_tags",  # a flag of tensorflow_model_server alone
    "server.is_ovms",
    "server.metrics_families",
    "server.answering_model",  # of kibernetika-serving, as the chain
    "hooks.chain",
    "server.monitoring_path",  # of the monitoring file of tensorflow_model_server
    "storage.own",
}
"""Fields that no setting fills: parts of the whole, and what follows from something else."""


def test_every_field_of_the_configuration_is_declared_or_derived() -> None:
    fields = {
        f"{o}.{field.name}" for o, kind in OWNERS.items() for field in dataclasses.fields(kind)
    }
    declared = {setting.name for setting in SETTINGS if not setting.merged}
    assert fields == declared | DERIVED
    assert not declared & DERIVED


@pytest.mark.parametrize(
    "words_of",
    [
        pytest.param(lambda setting: [setting.name], id="places"),
        pytest.param(lambda setting: [setting.flag], id="flags of ie_serving"),
        pytest.param(lambda setting: [setting.tfs], id="flags of tensorflow_model_server"),
        pytest.param(lambda setting: [setting.key], id="keys"),
        pytest.param(lambda setting: setting.variables, id="variables"),
    ],
)
def test_no_word_means_two_settings(words_of: Callable[[Setting], list[str]]) -> None:
    found = [word for setting in SETTINGS for word in words_of(setting) if word]
    assert sorted(found) == sorted(set(found))


def test_no_setting_has_a_word_that_is_said_to_have_no_effect() -> None:
    flags = {setting.flag for setting in SETTINGS}
    variables = {name for setting in SETTINGS for name in setting.variables}
    keys = {setting.key for setting in SETTINGS}
    assert not flags & {*foreign.FLAGS, *ovms.ALIASES}
    assert not variables & set(foreign.VARIABLES)
    assert not keys & {*foreign.MODEL_KEYS, *foreign.REFUSED_KEYS, *foreign.TOP_KEYS}


def test_a_setting_has_a_word_a_default_and_an_example_that_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for setting in SETTINGS:
        assert setting.flag or setting.key or setting.variables, setting.name
        if setting.parse in (words.files, words.library, words.existing_file):
            (tmp_path / setting.example).touch()  # which take files that are there
        setting.parse(setting.example, setting.name)
        if not setting.merged:
            assert setting.shown_default, setting.name
            assert setting.help.startswith(setting.meaning), setting.name


def test_flags_of_tensorflow_model_server_are_the_originals() -> None:
    assert set(BY_TFS) <= set(BY_NAME)


def test_aliases_are_declared_as_words_of_openvino_model_server() -> None:
    assert set(ovms.ALIASES) <= {name for setting in SERVER for name in setting.ovms}


def test_a_command_calls_a_setting_by_a_flag_it_takes() -> None:
    config, model = own_flags.names("config"), own_flags.names("model")
    assert (model["engine.nireq"], config["engine.nireq"]) == (
        "--nireq",
        "nireq in the configuration file",
    )
    assert model["s3.region"] == config["s3.region"] == "AWS_REGION"
    assert "settings.config_path" not in model
    assert config["settings.config_path"] == "--config_path"


def test_without_flags_keys_and_variables_are_left() -> None:
    found = names_in_ie_serving(())
    assert found["server.log_level"] == "LOG_LEVEL"
    assert "server.port" not in found


def test_a_setting_that_tensorflow_model_server_lacks_has_no_name_under_it() -> None:
    found = names_in_tensorflow_model_server()
    assert found["server.rest_port"] == "--rest_api_port"
    assert found["server.log_level"] == "LOG_LEVEL"
    assert found["server.poll_wait_s"] == "--file_system_poll_wait_seconds"
    assert not {"server.max_message_bytes", "storage.cache_dir", "engine.nireq"} & set(found)
