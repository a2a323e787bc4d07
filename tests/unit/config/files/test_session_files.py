"""Files that configure TensorFlow: without effect here, but not unread."""

import pytest

from ie_serving.config.files.option_files import check_session
from ie_serving.core.values.errors import ConfigError
from tests.tables import named_by

SESSION = "tensorflow_session_config_file"
PLATFORM = "platform_config_file"
POOL = "thread_pool_factory_config_file"


def bundle(fields: str) -> str:
    """A PlatformConfigMap, as people write it for TensorFlow's platform."""
    kind = "type.googleapis.com/tensorflow.serving.SavedModelBundleSourceAdapterConfig"
    config = f"source_adapter_config {{ [{kind}] {{ legacy_config {{ {fields} }} }} }}"
    return f'platform_configs {{ key: "tensorflow" value {{ {config} }} }}'


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        pytest.param(SESSION, "", id="an empty file"),
        pytest.param(
            SESSION,
            'device_count { key: "CPU" value: 1 } intra_op_parallelism_threads: 4',
            id="threads and devices",
        ),
        pytest.param(
            SESSION, "gpu_options { allow_growth: true } # of another machine", id="memory of a GPU"
        ),
        pytest.param(
            SESSION,
            "graph_options { rewrite_options { auto_mixed_precision: OFF } }",
            id="mixed precision off",
        ),
        pytest.param(
            PLATFORM,
            bundle("session_config { } batching_parameters { max_batch_size { value: 4 } }"),
            id="sessions of a platform",
        ),
        pytest.param(
            PLATFORM,
            bundle('saved_model_tags: "serve" mixed_precision: ""'),
            id="tags of a platform",
        ),
        pytest.param(
            POOL,
            "thread_pool_factory_config { [type.googleapis.com/a.B] { } }",
            id="a pool of threads",
        ),
    ],
)
def test_a_file_that_changes_no_answer_is_taken(flag: str, text: str) -> None:
    check_session(flag, text, "f")


@pytest.mark.parametrize(
    ("flag", "text", "fault"),
    [
        pytest.param(
            SESSION,
            "gpu_options {",
            "Error parsing text-format tensorflow.ConfigProto: ",
            id="a text that is cut",
        ),
        pytest.param(
            SESSION, "gpu_option { }", 'has no field named "gpu_option"', id="an unknown field"
        ),
        pytest.param(
            PLATFORM,
            "= 3",
            "Error parsing text-format tensorflow.serving.PlatformConfigMap: ",
            id="no field",
        ),
        pytest.param(
            POOL,
            "pool { }",
            'Type "tensorflow.serving.ThreadPoolFactoryConfig" has no field',
            id="an unknown field of a pool",
        ),
    ],
)
def test_a_file_that_cannot_be_parsed_is_refused(flag: str, text: str, fault: str) -> None:
    with pytest.raises(ConfigError) as refused:
        check_session(flag, text, "f")
    assert str(refused.value).startswith("Invalid protobuf file: 'f': ")
    assert fault.lower() in str(refused.value).lower()


@named_by(
    "name",
    ("flag", "text", "name"),
    [
        (
            SESSION,
            "graph_options { rewrite_options { auto_mixed_precision_onednn_bfloat16: ON } }",
            "auto_mixed_precision_onednn_bfloat16",
        ),
        (PLATFORM, bundle('saved_model_tags: "train"'), "saved_model_tags"),
        (PLATFORM, bundle('mixed_precision: "bfloat16"'), "mixed_precision"),
        (
            PLATFORM,
            bundle('experimental_fixed_input_tensors { name: "x" }'),
            "experimental_fixed_input_tensors",
        ),
    ],
)
def test_a_file_that_changes_answers_is_refused(flag: str, text: str, name: str) -> None:
    with pytest.raises(ConfigError, match=f"f: {name} changes answers, and is not supported"):
        check_session(flag, text, "f")
