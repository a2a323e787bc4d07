"""Keys of the configuration files of the three servers.

Source: `schema.cpp` of OpenVINO Model Server, and the messages of TensorFlow Serving's text files.
"""

from tests.unit.config.migration.rows import already, no_effect, refused, taken

_OPENVINO = "models.ModelConfig.engine.own.OpenVinoOptions"
_BEFORE = "models.ModelConfig.engine.own.Preprocessing"
_SEQUENCES = "models.ModelConfig.engine.own.Sequences"

MODEL = (
    taken("name", '"o"', "models.ModelConfig.name=o"),
    taken(
        "base_path", '"/models/o"', "models.ModelConfig.base_path=/models/o", "relative to the file"
    ),
    taken("batch_size", "4", f"{_OPENVINO}.batch_size=4", "text or number"),
    taken("shape", '{"x": "(1,3)"}', f"{_OPENVINO}.shape={{'x': (1, 3)}}", "text or lists"),
    taken("layout", '"NHWC:NCHW"', f"{_BEFORE}.layout.client=NHWC"),
    taken("mean", "[1, 2, 3]", f"{_BEFORE}.mean=(1.0, 2.0, 3.0)"),
    taken("scale", "2", f"{_BEFORE}.scale=(2.0,)"),
    taken("color_format", '"BGR:RGB"', f"{_BEFORE}.color_format.client=BGR"),
    taken("precision", '"uint8:fp32"', f"{_BEFORE}.precision.client=u8"),
    taken("model_version_policy", '{"specific": {"versions": [3]}}', "versions=frozenset({3})"),
    taken("nireq", "4", "models.ModelConfig.engine.nireq=4"),
    taken("target_device", '"GPU"', f"{_OPENVINO}.target_device=GPU"),
    taken(
        "plugin_config", '{"NUM_STREAMS": 2}', f"{_OPENVINO}.plugin_config={{'NUM_STREAMS': '2'}}"
    ),
    taken("stateful", "true", f"{_SEQUENCES}.stateful=True"),
    taken("idle_sequence_cleanup", "false", f"{_SEQUENCES}.idle_sequence_cleanup=False"),
    taken(
        "low_latency_transformation",
        "true",
        f"{_SEQUENCES}.low_latency_transformation=True",
        "needs `stateful`",
        '"stateful": true',
    ),
    taken(
        "max_sequence_number",
        "9",
        f"{_SEQUENCES}.max_sequence_number=9",
        "needs `stateful`",
        '"stateful": true',
    ),
    no_effect("allow_cache", "true", "`--cache_dir` decides for all models"),
    no_effect("subconfig", '"a.json"', "a `subconfig.json` beside a graph is read"),
    refused("custom_loader_options", '{"loader_name": "a"}', "there are no custom loaders"),
    taken(
        "graph_path",
        '"node.pbtxt"',
        "ModelConfig.base_path=graph:m",
        "the model is that graph, as is one whose directory holds a `graph.pbtxt`",
        '"base_path": "."',
    ),
)
"""Of a model in `config.json`."""

TOP = (
    taken(
        "model_config_list", '[{"config": {"name": "o", "base_path": "/o"}}]', "ModelConfig.name=o"
    ),
    taken(
        "pipeline_config_list",
        '[{"name": "p", "inputs": ["x"], "nodes": [{"name": "n", "model_name": "m",'
        ' "type": "DL model", "inputs": [{"x": {"node_name": "request", "data_item": "x"}}],'
        ' "outputs": [{"data_item": "y", "alias": "y"}]}],'
        ' "outputs": [{"y": {"node_name": "n", "data_item": "y"}}]}]',
        "models.ModelConfig.name=p",
        "[graphs](graphs-of-other-servers.md#pipelines-of-openvino-model-server) has what differs",
    ),
    already(
        "custom_node_library_config_list",
        '[{"name": "a", "base_path": "a.py:A"}]',
        "Python code, `FILE.py:NAME`, in the place of a library",
    ),
    taken(
        "mediapipe_config_list",
        '[{"name": "g", "base_path": "graph"}]',
        "models.ModelConfig.name=g",
        "[graphs](graphs-of-other-servers.md#graphs-of-mediapipe) has the calculators;"
        " any other is refused",
    ),
    no_effect(
        "custom_loader_config_list",
        '[{"config": {"loader_name": "a", "library_path": "a"}}]',
        "there are no custom loaders",
    ),
    taken(
        "monitoring",
        '{"metrics": {"enable": false}}',
        "server.metrics_path=",
        "with `metrics_list`; a name that is not served is refused",
    ),
)
"""Beside the list of models."""

TFS_MODEL = (
    taken("name", '"o"', "models.ModelConfig.name=o"),
    taken(
        "base_path", '"/models/o"', "models.ModelConfig.base_path=/models/o", "absolute or a URL"
    ),
    taken(
        "model_platform",
        '"openvino"',
        "models.ModelConfig.platform=openvino",
        "`tensorflow`, and `openvino`",
    ),
    refused("model_type", "OTHER", "unless it is `TENSORFLOW`"),
    taken(
        "model_version_policy",
        "{ latest { num_versions: 2 } }",
        "models.ModelConfig.version_policy.num_versions=2",
    ),
    taken(
        "version_labels",
        '{ key: "stable" value: 3 }',
        "models.ModelConfig.version_labels={'stable': 3}",
    ),
    refused("logging_config", "{ }", "unless its type is `tfrecord`"),
)
"""Of ModelConfig, in `--model_config_file`."""

BATCHING = (
    taken("max_batch_size", "{ value: 32 }", "Batching.max_batch_size=32"),
    taken("batch_timeout_micros", "{ value: 500 }", "Batching.batch_timeout_micros=500"),
    taken("max_enqueued_batches", "{ value: 7 }", "Batching.max_enqueued_batches=7"),
    taken(
        "num_batch_threads",
        "{ value: 3 }",
        "Batching.num_batch_threads=3",
        "batches of each signature at a time; there of all models",
    ),
    no_effect("thread_pool_name", '{ value: "a" }', "metrics name the model"),
    taken("allowed_batch_sizes", "[500, 1000]", "Batching.allowed_batch_sizes=(500, 1000)"),
    no_effect("pad_variable_length_inputs", "true", "other shapes get batches of their own"),
    already("enable_large_batch_splitting", "{ value: true }", "the same; by the next field"),
    taken(
        "max_execution_batch_size",
        "{ value: 16 }",
        "Batching.max_batch_size=16",
        "needs the field before",
        "enable_large_batch_splitting { value: true }",
    ),
)
"""Of BatchingParameters, in `--batching_parameters_file`."""

MONITORING = (
    taken("enable", "false", "server.metrics_path=", "on by default"),
    taken("path", '"/p"', "server.monitoring_path=/p", "beside `/metrics`", "enable: true"),
)
"""Of PrometheusConfig, in `--monitoring_config_file`."""
