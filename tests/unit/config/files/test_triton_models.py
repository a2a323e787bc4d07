"""`ie_serving config import` of Triton's `config.pbtxt`: what is printed means the same here."""

from pathlib import Path
from typing import Any

import pytest

from ie_serving.config.dialects import importing
from ie_serving.config.files import source, triton_models
from ie_serving.config.files.text_proto import parse_text
from ie_serving.core.values.errors import ConfigError
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.repository.version_policy import All, Latest, Specific
from ie_serving.wire.protobuf import inference_messages
from tests.tables import named_by

NAMED = 'name: "m" '
TENSORS = """
input [ { name: "x" data_type: TYPE_FP32 dims: [ 3, -1 ] } ]
output { name: "y" data_type: TYPE_STRING dims: 2 label_filename: "l" reshape { shape: [ 1, 2 ] } }
"""


def keys(path: Path) -> tuple[list[str], dict[str, Any]]:
    """Give the notes, and the printed keys of one model."""
    notes, _ = imported(path)
    (entry,) = triton_models.translated(path).models
    return notes, entry["config"]


def imported(path: Path) -> tuple[list[str], tuple[ModelConfig, ...]]:
    """Give the notes, and the models of the printed configuration, which the server takes."""
    lines = importing.run([str(path)])
    ours = path.parent / "ours.json"
    ours.write_text("\n".join(lines))
    found = source.read(ours)
    assert found.warnings == ()
    return [line.removeprefix("// m: ") for line in lines if line.startswith("//")], found.models


def written(root: Path, text: str, model: str = "m") -> Path:
    (root / model / "1").mkdir(parents=True)
    (root / model / "config.pbtxt").write_text(text)
    return root / model / "config.pbtxt"


def test_a_model_with_each_field_is_imported(tmp_path: Path) -> None:
    text = f"""
        # a comment
        name: "m" platform: "onnxruntime_onnx" max_batch_size : 8 {TENSORS}
        version_policy: {{ latest {{ num_versions: 2 }} }}
        dynamic_batching {{
          preferred_batch_size: [ 4, 8 ], max_queue_delay_microseconds: 100 priority_levels: 2 }}
        instance_group [ {{ count: 2 kind: KIND_CPU }}, {{ kind: KIND_GPU gpus: [ 0 ] }} ]
        optimization {{ execution_accelerators {{
          cpu_execution_accelerator : [ {{ name : "openvino" }} ] }} }}
        model_warmup [ {{ name: "w" batch_size: 1
          inputs {{ key: "x" value {{ input_data_file: "f" }} }} }} ]
        parameters [ {{ key: "NUM_STREAMS" value: {{ string_value: "2" }} }} ]
        response_cache {{ enable: true }}
    """
    notes, found = keys(written(tmp_path, text))
    assert found == {
        "name": "m",
        "base_path": str(tmp_path / "m"),
        "model_version_policy": {"latest": {"num_versions": 2}},
        "max_batch_size": 8,
        "batch_timeout_micros": 100,
        "nireq": 3,
    }
    assert notes == [
        "instance_group.gpus: left out",
        "optimization: left out",
        "response_cache: left out",
        "y: reshape left out, clients see the model's [1, 2]",
        "y: label_filename left out, signatures.json has labels",
        "model_warmup w: its files are left out",
        "model_warmup: a version is inferred with made-up values before it serves",
        "dynamic_batching.priority_levels: left out",
        "dynamic_batching.preferred_batch_size: left out, any size is formed",
        'instance_group KIND_GPU: runs on the CPU; "target_device" names another',
        "parameters NUM_STREAMS: left out",
    ]


def test_fields_that_triton_does_not_have_are_named(tmp_path: Path) -> None:
    """Triton refuses them: each is a typo, which would change what is served."""
    text = """
        name: "m" foo: 3 max_batchsize: 8  # bar: 1
        input [
          { name: "x: {", datatype: TYPE_FP32 dims: [ 3, -1 ] format: FORMAT_NCHW }, { dim: 1 } ]
        dynamic_batching < max_queue_delay_us: 100 >
        baz { inner: 1 name: [ -inf, 2 ] } optimization { graph { level: 1 } }
        output { name: 'y' reshape: { shape: [ 1 ] } }
    """
    file = written(tmp_path, text)
    notes, _ = keys(file)
    unknown = [
        "foo: Triton has no such field, left out",
        'max_batchsize: Triton has no such field, left out; did you mean "max_batch_size"?',
        'input.datatype: Triton has no such field, left out; did you mean "data_type"?',
        'input.dim: Triton has no such field, left out; did you mean "dims"?',
        "dynamic_batching.max_queue_delay_us: Triton has no such field, left out;"
        ' did you mean "max_queue_delay_microseconds"?',
        "baz: Triton has no such field, left out",
    ]
    assert notes[:8] == [
        *unknown[:3],
        "input.format: left out",
        *unknown[3:],
        "optimization: left out",
    ]
    read = triton_models.translated_text(text, str(file), "m")
    assert [each.removeprefix("m: ") for each in read.unknown] == unknown


@named_by(
    "text",
    ("text", "policy"),
    [
        ("", Latest(1)),
        ("version_policy: { latest {} }", Latest(1)),
        ("version_policy { all { }}", All()),
        ("version_policy { specific { versions: [1, 3] } }", Specific(frozenset({1, 3}))),
    ],
)
def test_a_version_policy_is_imported(tmp_path: Path, text: str, policy: object) -> None:
    _, (model,) = imported(written(tmp_path, NAMED + text))
    assert model.version_policy == policy


def test_parameters_of_the_openvino_backend_become_properties(tmp_path: Path) -> None:
    text = 'backend: "openvino" parameters { key: "NUM_STREAMS" value { string_value: "2" } }'
    notes, found = keys(written(tmp_path, NAMED + text))
    assert (notes, found["plugin_config"]) == ([], {"NUM_STREAMS": "2"})


def test_batches_need_a_batch_size(tmp_path: Path) -> None:
    notes, found = keys(written(tmp_path, NAMED + "dynamic_batching { }"))
    assert notes == ["dynamic_batching: left out, as max_batch_size is 0"]
    assert "max_batch_size" not in found


def test_torchscript_has_its_inputs_declared(tmp_path: Path) -> None:
    text = 'platform: "pytorch_libtorch" max_batch_size: 4 input { name: "INPUT__0"'
    text += " data_type: TYPE_FP32 dims: [ 3, 2 ] }"
    notes, found = keys(written(tmp_path, NAMED + text))
    assert found["params"] == {"inputs": {"INPUT__0": {"dtype": "float", "shape": [-1, 3, 2]}}}
    assert notes == ["params.inputs: name the arguments of forward in place of NAME__NUMBER"]


def test_state_inside_of_the_model_makes_it_stateful(tmp_path: Path) -> None:
    _, found = keys(written(tmp_path, NAMED + "sequence_batching { direct {} }"))
    assert found["stateful"] is True


def test_a_repository_is_imported_with_its_ensemble(tmp_path: Path) -> None:
    written(tmp_path, 'platform: "openvino"', "first")
    (tmp_path / "second" / "3").mkdir(parents=True)
    written(
        tmp_path,
        """
        platform: "ensemble" input { name: "IN" } output { name: "OUT" }
        ensemble_scheduling { step [
          { model_name: "second" model_version: 3 input_map { key: "x" value: "between" }
            output_map { key: "y" value: "OUT" } },
          { model_name: "first" model_version: -1 input_map { key: "x" value: "IN" },
            output_map { key: "y" value: "between" } } ] }
        """,
        "both",
    )
    notes, models = imported(tmp_path)
    assert [model.name for model in models] == ["first", "second", "both"]
    assert notes == []
    found = triton_models.translated(tmp_path)
    assert found.graphs == [
        {
            "name": "both",
            "steps": {
                "step0": {"model": "second", "version": 3, "in": {"x": "step1.y"}},
                "step1": {"model": "first", "in": {"x": "request.IN"}},
            },
            "outputs": {"OUT": "step0.y"},
        }
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param(
            'backend: "python"', "backend python: code for Triton is not run", id="Python"
        ),
        pytest.param(
            'platform: "tensorrt_plan"', "backend tensorrt: engines of TensorRT", id="TensorRT"
        ),
        pytest.param('backend: "fil"', "backend fil: served are onnxruntime, openvino", id="FIL"),
        pytest.param(
            'sequence_batching { control_input [ { name: "START" control [ { } ] } ] }',
            "sequence_batching.control_input: only state inside of the model",
            id="controls of sequences",
        ),
        pytest.param(
            'platform: "ensemble" output { name: "y" }',
            "no step gives y",
            id="an ensemble without steps",
        ),
        pytest.param(
            "max_batch_size: {", "config.pbtxt': Error parsing text-format", id="a text that is cut"
        ),
    ],
)
def test_a_model_that_would_answer_otherwise_is_refused(
    tmp_path: Path, text: str, fault: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        imported(written(tmp_path, NAMED + text))
    assert fault in str(caught.value)


def test_a_directory_without_models_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no config\.pbtxt, and no directory of a model"):
        triton_models.translated(tmp_path)


def test_lists_of_fields_that_are_not_read_need_no_colon() -> None:
    """As Triton's page on its rate limiter writes them; protobuf's parser skips them with one."""
    text = (
        'instance_group [ { count: 1 rate_limiter { resources [ { name: "R1[" count: 4 } ] } } ]\n'
        'input [ { name: "x [1]" dims: [ 2 ] } ] # agents [ {\n'
    )
    found = parse_text(text, inference_messages.ModelConfig, "config.pbtxt", lenient=True)
    assert found.instance_group[0].count == 1
    assert (found.input[0].name, list(found.input[0].dims)) == ("x [1]", [2])
