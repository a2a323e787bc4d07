"""The JSON file: what each key means, and every fault with its path at once."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.config.files import source
from ie_serving.config.files.json_file import ConfigFile, parse_config_file
from ie_serving.config.schema.catalogue import MODEL as MODEL_SETTINGS
from ie_serving.core.values.errors import ConfigError
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.kernels import CodeSource, HookOptions, Instances, KernelOptions
from ie_serving.engines.layer_options import Batching, Caching, Recording, RequestLog, Sequences
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.preprocessing import Preprocessing, PropertyPair
from ie_serving.engines.tensorflow.options import TensorFlowOptions
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.repository.version_policy import All, Latest, Specific
from ie_serving.models.traffic.policy import Rollback
from ie_serving.models.traffic.shadow import Shadow
from ie_serving.storage.options import StorageOptions

CONFIG = Path(__file__).parents[4] / "config"
MODEL = {"name": "m", "base_path": "/models/m"}


def read(top: object, engine: EngineOptions | None = None) -> ConfigFile:
    text = top if isinstance(top, str) else json.dumps(top)
    return parse_config_file(text, origin=Path("/etc/serving"), place="c.json", engine=engine)


def of(*configs: dict[str, Any]) -> dict[str, Any]:
    return {"model_config_list": [{"config": config} for config in configs]}


def faults(top: object) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        read(top)
    return caught.value.faults


def test_a_model_needs_a_name_and_a_path_only() -> None:
    assert read(of(MODEL)) == ConfigFile(models=(ModelConfig(name="m", base_path="/models/m"),))


def test_comments_are_read_over_and_places_stay() -> None:
    text = """// of the team
    {"model_config_list": [ /* one
      model */ {"config": {"name": "m", "base_path": "s3://b//*x*/\\"//y"}} // the only one
    ]}"""
    (model,) = read(text).models
    assert model.base_path == 's3://b//*x*/"//y'
    assert faults('/* 1\n2 */ {"a" 1}') == ("c.json:2:11: not JSON: Expecting ':' delimiter",)


@pytest.mark.parametrize("text", ['"\\', "/* "])
def test_text_without_an_end_takes_no_time(text: str) -> None:
    """Python's regular expressions hold the interpreter, and with it all requests."""
    began = time.thread_time()
    assert "not JSON" in faults("{" + text * 20_000)[0]
    assert time.thread_time() - began < 1.0


def test_a_fault_names_the_model_of_its_entry() -> None:
    assert faults(of(MODEL, {**MODEL, "name": "resnet", "nireq": "x"})) == (
        "model_config_list[1].config.nireq: 'x' given; expected a whole number from 0 to 100000"
        ' (model "resnet")',
    )


def test_an_empty_list_is_a_server_without_models() -> None:
    assert read(of()).models == ()


KERNEL = KernelOptions(
    source=CodeSource(file="kernel.py", name="Risk", beside=str(CONFIG)),
    isolation="process",
    memory_limit_mb=2000,
    max_concurrency=4,
    timeout_ms=2000,
)
ELASTIC = KernelOptions(
    source=CodeSource(file="kernel.py", beside=str(CONFIG)),
    isolation="process",
    instances=Instances(min=1, max=4, idle_seconds=30.0),
)
IMAGES = Preprocessing(
    layout=PropertyPair("NHWC", "NCHW"),
    mean=(123.675, 116.28, 103.53),
    scale=(58.395, 57.12, 57.375),
    color_format=PropertyPair("BGR", "RGB"),
    precision=PropertyPair("u8", "f32"),
    resize="linear",
)
GATHERED = Batching(
    max_batch_size=32,
    batch_timeout_micros=1000,
    allowed_batch_sizes=(8, 16, 32),
    max_enqueued_batches=10,
    num_batch_threads=2,
)
SEQUENCES = Sequences(
    stateful=True,
    idle_sequence_cleanup=False,
    max_sequence_number=2000,
    low_latency_transformation=True,
)


def test_every_key_reaches_its_field() -> None:
    found = parse_config_file(
        (CONFIG / "every_key.json").read_text(), origin=CONFIG, place="every_key.json"
    )
    resnet, any_batch, any_shape, one_input, two_inputs, *others = found.models
    assert resnet == ModelConfig(
        name="resnet",
        base_path="/models/resnet",
        version_policy=Latest(2),
        version_labels={"stable": 3, "canary": 4},
        engine=EngineOptions(
            nireq=4,
            own=(
                OpenVinoOptions(
                    target_device="CPU",
                    plugin_config={"NUM_STREAMS": "2", "INFERENCE_NUM_THREADS": "8"},
                    batch_size=8,
                    inference_precision="f32",
                    precision_tolerance=0.002,
                    live_tuning="off",
                ),
                Caching(response_cache_bytes=1 << 20),
                Recording(logging_config=RequestLog(prefix="/tmp/every_key", sampling_rate=0.0)),
            ),
        ),
        poll_wait_s=5.0,
        ready_marker="READY",
        load="on_demand",
        pinned=True,
        signature_changes="refuse",
        traffic={"stable": 95, "canary": 5},
        sticky="x-user",
        rollback=Rollback(error_rate=0.05, latency_ms=200.0, min_requests=50),
        shadow=Shadow(label="canary", sampling_rate=0.01),
    )
    assert (any_batch.engine.of(OpenVinoOptions).batch_size, any_batch.version_policy) == (
        -1,
        All(),
    )
    assert any_shape.engine.of(OpenVinoOptions).shape == "auto"
    assert any_shape.version_policy == Specific(frozenset({1, 3}))
    assert one_input.engine.of(OpenVinoOptions).shape == (1, 3, (200, 500), (200, 500))
    assert two_inputs.engine.of(OpenVinoOptions).shape == {
        "image": (-1, 3, 224, 224),
        "scale": (1, 3),
    }
    assert (found.metrics, found.warnings) == (True, ())
    images, gathered, sequences, saved_model, texts, risk, elastic = (
        each.engine for each in others
    )
    assert images == EngineOptions(image_inputs=False, verify="off", own=(IMAGES,))
    assert risk == EngineOptions(driver="python", own=(KERNEL,))
    assert elastic == EngineOptions(driver="python", own=(ELASTIC,))
    assert gathered == EngineOptions(own=(GATHERED,))
    assert sequences == EngineOptions(own=(SEQUENCES,))
    assert saved_model == EngineOptions(
        driver="openvino",
        execution="async",
        own=(
            OpenVinoOptions(integers="fast", prefer_tflite_model=True),
            TensorFlowOptions(fallback=True, memory_bytes=1 << 32),
        ),
    )
    inputs = {"inputs": {"text": {"dtype": "string", "shape": [-1]}}}
    hooks = HookOptions(source=CodeSource(file="hooks.py", beside=str(CONFIG)))
    assert texts == EngineOptions(driver="sklearn", params=inputs, own=(hooks,))


def test_the_example_of_every_key_has_every_key() -> None:
    """`every_key.json` promises it by its name: a new key goes there, and into the test above."""
    entries = json.loads((CONFIG / "every_key.json").read_text())["model_config_list"]
    used = {key for entry in entries for key in entry["config"]}
    assert used == {setting.key for setting in MODEL_SETTINGS if setting.key}


@pytest.mark.parametrize(
    ("base_path", "meant"),
    [
        pytest.param("models/m", "/etc/serving/models/m", id="relative to the file"),
        pytest.param("/models/m", "/models/m", id="absolute"),
        pytest.param("s3://bucket/m", "s3://bucket/m", id="URL"),
    ],
)
def test_a_base_path_is_relative_to_the_file(base_path: str, meant: str) -> None:
    assert read(of({**MODEL, "base_path": base_path})).models[0].base_path == meant


@pytest.mark.parametrize(
    ("base_path", "meant"),
    [("models/m", "s3://b/etc/models/m"), ("/models/m", "/models/m"), ("gs://c/m", "gs://c/m")],
)
def test_base_path_in_a_file_in_a_store(base_path: str, meant: str) -> None:
    file = source.at("s3://b/etc/config", StorageOptions(cache_dir=Path("/nowhere")))
    text = json.dumps(of({**MODEL, "base_path": base_path}))
    assert source.parse(text, file).models[0].base_path == meant


def test_engine_options_hold_where_an_entry_says_nothing() -> None:
    general = EngineOptions(nireq=2, own=(OpenVinoOptions(inference_precision="f32"),))
    silent, loud = read(of(MODEL, {**MODEL, "name": "n", "nireq": 5}), general).models
    assert silent.engine == general
    assert loud.engine == EngineOptions(nireq=5, own=(OpenVinoOptions(inference_precision="f32"),))


def test_a_precision_in_plugin_config_counts_against_that_of_every_model() -> None:
    general = EngineOptions(own=(OpenVinoOptions(inference_precision="f32"),))
    hint = {"INFERENCE_PRECISION_HINT": "bf16"}
    (own,) = read(of({**MODEL, "plugin_config": hint}), general).models
    assert own.engine.of(OpenVinoOptions) == OpenVinoOptions(plugin_config=hint)


def test_every_fault_is_reported_with_its_path() -> None:
    found = faults(
        {
            "model_config_list": [
                {"config": {"name": "m", "nireq": "x", "batch_size": -7}},
                {"conf": {}},
                {"config": {**MODEL, "shape": {"a": [1, 0]}}},
                5,
            ],
            "monitoring": {"metrics": {"enable": "perhaps", "metrics_list": ["ovms_none"]}},
        }
    )
    places = [fault.split(":")[0] for fault in found]
    assert places == [
        "model_config_list[0].config.base_path",
        "model_config_list[0].config.batch_size",
        "model_config_list[0].config.nireq",
        "model_config_list[1]",
        "model_config_list[2].config.shape.a[1]",
        "model_config_list[2].config.name",
        "model_config_list[3]",
        "monitoring.metrics.metrics_list",
        "monitoring.metrics.enable",
    ]
    assert all("expected" in fault or "already" in fault for fault in found)


@pytest.mark.parametrize(
    ("top", "fault"),
    [
        pytest.param("{", "c.json:1:2: not JSON", id="not JSON"),
        pytest.param("", "c.json: the file is empty; expected an object such", id="empty"),
        pytest.param([], "c.json: [] given; expected an object", id="a list"),
        pytest.param({}, "model_config_list: missing", id="no list"),
        pytest.param({"model_config_list": {}}, "model_config_list: {} given", id="object"),
        pytest.param(
            of(MODEL, MODEL),
            'model_config_list[1].config.name: "m" is the name of model_config_list[0].config',
            id="a name twice, of which 2020 leaked one",
        ),
        pytest.param(
            of({**MODEL, "name": 256 * "n"}),
            f'model_config_list[0].config.name: name "{20 * "n"}..." has 256 characters',
            id="a long name",
        ),
        pytest.param({**of(), "monitoring": 1}, "monitoring: expected an object", id="monitoring"),
    ],
)
def test_a_fault_is_told_with_its_path(top: object, fault: str) -> None:
    assert any(fault in found for found in faults(top))


@pytest.mark.parametrize(
    ("top", "warning"),
    [
        pytest.param(
            of({**MODEL, "nirek": 1}),
            'model_config_list[0].config.nirek: unknown key, ignored; did you mean "nireq"?',
            id="the nearest key is named",
        ),
        pytest.param({**of(), "zzz": 1}, "zzz: unknown key, ignored", id="no key is near"),
        pytest.param(
            {**of({**MODEL, "allow_cache": True}), "custom_loader_config_list": []},
            "keys of OpenVINO Model Server without meaning here are ignored: "
            "custom_loader_config_list, model_config_list[0].config.allow_cache",
            id="foreign keys stand in one warning",
        ),
        pytest.param(
            of({**MODEL, "shape": "auto", "batch_size": 2}),
            "Both shape and batch_size parameters are set for model: m. "
            "Assuming that model is reshapable - batch_size will be ignored",
            id="shape beats batch_size",
        ),
    ],
)
def test_a_key_without_effect_is_warned_of(top: object, warning: str) -> None:
    assert read(top).warnings == (warning,)


def test_preprocessing_is_read_from_the_models_entry() -> None:
    entry = {
        "layout": {"image": "NHWC:NCHW"},
        "mean": [1, 2, 3],
        "scale": 2.5,
        "color_format": "BGR:RGB",
        "precision": "uint8:fp32",
    }
    (model,) = read(of({**MODEL, **entry})).models
    assert model.engine.of(Preprocessing) == Preprocessing(
        layout={"image": PropertyPair("NHWC", "NCHW")},
        mean=(1.0, 2.0, 3.0),
        scale=(2.5,),
        color_format=PropertyPair("BGR", "RGB"),
        precision=PropertyPair("u8", "f32"),
    )


def test_a_key_that_would_change_the_outputs_is_refused_not_ignored() -> None:
    key, value = "custom_loader_options", {"loader_name": "x"}
    (fault,) = faults(of({**MODEL, key: value}))
    assert fault.startswith(f"model_config_list[0].config.{key}: {value!r} given; ")
    for off in ({}, None):
        assert read(of({**MODEL, key: off})).warnings == ()


@pytest.mark.parametrize(
    ("entry", "key"),
    [
        ({"max_sequence_number": 3}, "max_sequence_number"),
        ({"stateful": True, "shape": {"x": "auto"}}, "shape"),
        ({"stateful": True, "max_batch_size": 8}, "max_batch_size"),
    ],
)
def test_a_key_that_cannot_be_beside_sequences_is_told_with_its_model(
    entry: dict[str, object], key: str
) -> None:
    (fault,) = faults(of({**MODEL, **entry}))
    assert fault.startswith(f"model_config_list[0].config.{key}: ")
    assert fault.endswith(f'(model "{MODEL["name"]}")')


def test_batch_size_is_dropped_beside_shape() -> None:
    (model,) = read(of({**MODEL, "shape": "auto", "batch_size": 2})).models
    assert model.engine.of(OpenVinoOptions) == OpenVinoOptions(shape="auto")


KEYS = ["model_config_list", "config", "name", "base_path", "shape", "monitoring", "nireq"]


@given(
    st.text()
    | st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner),
    ).map(json.dumps)
)
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = read(text)
    except ConfigError as error:
        assert error.faults
    else:
        assert len({model.name for model in found.models}) == len(found.models)


@pytest.mark.parametrize(
    ("keys", "warned"),
    [
        ({"batch_timeout_micros": 500, "num_batch_threads": 2}, "num_batch_threads of model m"),
        ({"batch_timeout_micros": 500, "max_batch_size": 0}, ""),
        ({"batch_timeout_micros": 500, "max_batch_size": 8}, ""),
        ({"num_batch_threads": 2, "allowed_batch_sizes": [4, 8]}, ""),
    ],
    ids=str,
)
def test_settings_of_batches_without_batches_are_warned_of(
    keys: dict[str, Any], warned: str
) -> None:
    """Nothing would say why they change nothing."""
    warnings = read(of({"name": "m", "base_path": "/m", **keys})).warnings
    assert bool(warnings) == bool(warned)
    if warned:
        assert f"{warned}: no effect without max_batch_size" in warnings[0]


def test_a_batch_size_above_the_largest_batch_is_warned_of() -> None:
    keys = {"max_batch_size": 16, "allowed_batch_sizes": [4, 16, 64]}
    (warning,) = read(of({"name": "m", "base_path": "/m", **keys})).warnings
    assert warning == "allowed_batch_sizes of model m: no effect above max_batch_size 16: 64"
