"""ModelServerConfig to models, with TensorFlow Serving's checks and phrases."""

import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from tensorflow_serving.config import model_server_config_pb2 as reference

from ie_serving.config.files.text_proto import from_message, parse_model_server_config
from ie_serving.core.values.errors import ConfigError
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.repository.version_policy import All, Latest, Specific, VersionPolicy
from ie_serving.wire.protobuf import messages

FIELDS = 'name: "m" base_path: "/models/m" model_platform: "tensorflow"'


def read(text: str, engine: EngineOptions | None = None) -> tuple[ModelConfig, ...]:
    return parse_model_server_config(text, "models.config", engine)


def one(fields: str) -> ModelConfig:
    (model,) = read(f"model_config_list {{ config {{ {fields} }} }}")
    return model


def faults(*configs: str) -> tuple[str, ...]:
    entries = " ".join(f"config {{ {config} }}" for config in configs)
    with pytest.raises(ConfigError) as caught:
        read(f"model_config_list {{ {entries} }}")
    return caught.value.faults


def test_a_model_is_read() -> None:
    assert one(FIELDS) == ModelConfig(name="m", base_path="/models/m", platform="tensorflow")


@pytest.mark.parametrize("platform", ["model_type: TENSORFLOW", "model_type: 1"])
def test_other_ways_to_say_tensorflow(platform: str) -> None:
    assert one(f'name: "m" base_path: "/m" {platform}').platform == "tensorflow"


@pytest.mark.parametrize("base_path", ["/models/m", "s3://bucket/m", "gs://bucket/m"])
def test_a_base_path_is_absolute_or_a_uri(base_path: str) -> None:
    assert one(f'name: "m" base_path: "{base_path}" model_type: 1').base_path == base_path


@pytest.mark.parametrize(
    ("policy", "meant"),
    [
        pytest.param("", Latest(1), id="none given"),
        pytest.param("latest {}", Latest(1), id="latest"),
        pytest.param("latest { num_versions: 0 }", Latest(1), id="0 is 1"),
        pytest.param("latest { num_versions: 3 }", Latest(3), id="latest 3"),
        pytest.param("all {}", All(), id="all"),
        pytest.param(
            "specific { versions: 42 versions: 43 }", Specific(frozenset({42, 43})), id="specific"
        ),
        pytest.param("specific {}", Specific(frozenset()), id="specific without versions"),
    ],
)
def test_a_version_policy_is_read(policy: str, meant: VersionPolicy) -> None:
    assert one(f"{FIELDS} model_version_policy {{ {policy} }}").version_policy == meant


def test_version_labels_are_read() -> None:
    labels = 'version_labels { key: "a" value: 1 } version_labels { key: "b" value: 2 }'
    assert one(f"{FIELDS} {labels}").version_labels == {"a": 1, "b": 2}


def test_the_servers_engine_options_hold() -> None:
    engine = EngineOptions(own=(OpenVinoOptions(inference_precision="f32"),))
    (model,) = read(f"model_config_list {{ config {{ {FIELDS} }} }}", engine)
    assert model.engine is engine


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"model_config_list: {{ config: {{ {FIELDS} }} }}", id="colons"),
        pytest.param(f"model_config_list {{ config [ {{ {FIELDS} }} ] }}", id="list"),
        pytest.param(f"# c\nmodel_config_list {{ config {{ {FIELDS} }}, }}", id="comment, comma"),
        pytest.param(
            "model_config_list < config < name: 'm'; base_path: '/models/m', "
            "model_platform: 'tensorflow' > >",
            id="quotes, separators, angle brackets",
        ),
    ],
)
def test_the_leniency_of_the_text_form_is_kept(text: str) -> None:
    assert read(text) == (one(FIELDS),)


@pytest.mark.parametrize("text", ["", "# nothing", "model_config_list {}"])
def test_an_empty_configuration_has_no_models(text: str) -> None:
    assert read(text) == ()


@pytest.mark.parametrize(
    ("config", "phrase"),
    [
        pytest.param(
            'name: "m" base_path: "models/m" model_type: 1',
            "Expected model m to have an absolute path or URI; got base_path()=models/m",
            id="relative path",
        ),
        pytest.param('base_path: "/m" model_type: 1', "has no name", id="no name"),
        pytest.param(
            f'name: "{256 * "n"}"',
            f'model "{20 * "n"}..." has 256 characters; expected 255 at most',
            id="a long name, which no fault quotes",
        ),
        pytest.param(
            f'{FIELDS} version_labels {{ key: "{256 * "l"}" }}',
            f'Model m: label "{20 * "l"}..." has 256 characters; expected 255 at most',
            id="a long label",
        ),
    ],
)
def test_a_fault_is_told_in_the_originals_phrase(config: str, phrase: str) -> None:
    """More are in `tests/functional/conformance/cases/reload.py`."""
    (fault,) = faults(config)
    assert fault.startswith("models.config: ")
    assert phrase in fault


def test_faults_of_all_models_are_told_together() -> None:
    assert len(faults('name: "a" base_path: "x"', FIELDS, 'name: "b" base_path: "/b"')) == 3


def test_a_syntax_error_has_line_and_column() -> None:
    with pytest.raises(ConfigError) as caught:
        read("model_config_list {\n  confik {}\n}")
    text = str(caught.value)
    assert "Invalid protobuf file: 'models.config'" in text
    assert "Error parsing text-format tensorflow.serving.ModelServerConfig: 2:3" in text


def test_a_custom_configuration_is_refused() -> None:
    message = messages.ModelServerConfig()
    message.custom_model_config.type_url = "type.googleapis.com/x"
    with pytest.raises(ConfigError, match="custom_model_config is not supported"):
        from_message(message)


@given(
    st.lists(
        st.builds(
            reference.ModelConfig,
            name=st.text(min_size=1, max_size=8),
            base_path=st.just("/m"),
            model_platform=st.just("tensorflow"),
            version_labels=st.dictionaries(
                st.text(max_size=5), st.integers(min_value=0, max_value=2**63 - 1), max_size=3
            ),
        ),
        unique_by=lambda config: config.name,
    )
)
def test_a_configuration_that_the_reference_prints_is_read_back(
    configs: list[reference.ModelConfig],
) -> None:
    message = reference.ModelServerConfig()
    message.model_config_list.config.extend(configs)
    found = read(text_format.MessageToString(message))
    assert [(model.name, model.version_labels) for model in found] == [
        (config.name, dict(config.version_labels)) for config in configs
    ]


@given(st.text() | st.text(alphabet="model_config_list{}:\"'\\ux0123[]<>#;, \n"))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        read(text)
    except ConfigError as error:
        assert error.faults
