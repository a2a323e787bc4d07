"""What neighbouring servers document, with the test that runs it, or what their users change.

The numbers are lines of the notes on these systems, which name the public page or source of each;
they lie beside the repository (`facts/other-systems.md`, and of OpenVINO Model Server
`facts/ovms-and-oip.md`). `tests/unit/test_documented_examples.py` looks up every test and sentence.
"""

from typing import NamedTuple

UNIT, FUNCTIONAL = "tests/unit", "tests/functional"
PYTHON, COMPAT = f"{UNIT}/engines/python", f"{UNIT}/compat"
KSERVING, STFS = f"{FUNCTIONAL}/test_kibernetika.py", f"{FUNCTIONAL}/test_stfs.py"
OLD = f"{FUNCTIONAL}/test_old_contracts.py"
HOOKS = f"{COMPAT}/kibernetika/hooks/test_hooks.py"
CHAINS = f"{COMPAT}/kibernetika/hooks/test_chains.py"
FORMS = f"{COMPAT}/kibernetika/hooks/test_functions.py"
FIELDS = f"{COMPAT}/kibernetika/test_predict_body.py"
COMMAND = f"{COMPAT}/kibernetika/test_dialect.py"
STFS_COMMAND = f"{COMPAT}/stfs/test_dialect.py"
STFS_BODY = f"{COMPAT}/stfs/front/test_post_body.py"
EDI = f"{COMPAT}/edi/package/test_edi.py"
IRIS = "test_a_kernel_of_scikit_learn_answers_in_both_forms_of_the_samples"
KONDUIT = f"{COMPAT}/konduit/pipeline/test_pipelines.py"
STEPS, BOXES = (
    f"{COMPAT}/konduit/pipeline/test_built_in.py",
    f"{COMPAT}/konduit/pipeline/test_boxes.py",
)
KONDUIT_FILE = f"{COMPAT}/konduit/test_config_file.py"
PIPELINES = f"{UNIT}/config/files/test_pipelines.py"
MEDIAPIPE = f"{UNIT}/config/files/test_mediapipe.py"
NODES = f"{PYTHON}/test_ovms.py"
GRAPHS = f"{FUNCTIONAL}/test_graphs.py"
PYTHON_NODES = f"{FUNCTIONAL}/test_python_nodes.py"


class Example(NamedTuple):
    """One documented example.

    Attributes:
        line: of the notes.
        what: as it is documented, in short.
        shown_by: `FILE::TEST` that runs it; or a sentence of docs/guide/migration-*.md.
    """

    line: int
    what: str
    shown_by: str


KIBERNETIKA = (
    Example(
        37,
        "kibernetika-serving --driver D --model-path P --hooks FILE -o K=V",
        f"{KSERVING}::test_the_pages_commands_do_what_it_says",
    ),
    Example(
        38,
        "--driver and --model-path repeat, pairwise: a chain",
        f"{COMMAND}::test_pairs_are_a_chain_in_their_order",
    ),
    Example(
        39,
        "-o values go to the driver and to init_hook, as text",
        f"{COMMAND}::test_pairs_are_a_chain_in_their_order",
    ),
    Example(
        40,
        "--webrtc, --input-name, --output-name, kstreaming",
        "no effect, with a warning: video is not served",
    ),
    Example(
        46,
        "--driver tensorflow -o model_signature=",
        f"{COMPAT}/kibernetika/hooks/test_tensorflow.py::test_a_signature_is_chosen",
    ),
    Example(
        46,
        "--driver tensorflow, a .pb, -o outputs=x,y",
        f"{COMPAT}/kibernetika/hooks/test_tensorflow.py::test_outputs_of_a_frozen_graph_are_chosen",
    ),
    Example(
        46,
        "hooks get graph, sess",
        'A hook that reads them has to call `kwargs["driver"].predict(inputs)`',
    ),
    Example(47, "--driver pytorch -o model_class=", "as [here](libraries.md#pytorch)"),
    Example(48, "--driver openvino -o model_weights=", f"{CHAINS}::test_weights_may_lie_apart"),
    Example(48, "-o device=GPU,MYRIAD", f"{CHAINS}::test_devices_of_before_become_those_of_now"),
    Example(
        48,
        "-o flexible_batch_size=true",
        f"{CHAINS}::test_a_flexible_batch_takes_any_number_of_rows",
    ),
    Example(49, "--driver onnx -o runtime_backend=", "nGraph is gone: the model runs on the CPU"),
    Example(50, "--driver null --model-path any", f"{CHAINS}::test_null_echoes_whatever_comes"),
    Example(
        52,
        "load_driver('openvino')().load_model(path)",
        f"{HOOKS}::test_the_modules_that_hooks_import_are_there_for_them",
    ),
    Example(
        54,
        "predict_hooks, release, driver_name",
        f"{HOOKS}::test_the_modules_that_hooks_import_are_there_for_them",
    ),
    Example(
        59,
        "init_hook(**params), init_hook(ctx, **params)",
        f"{FORMS}::test_init_takes_the_context_or_not",
    ),
    Example(60, "update_hook(ctx, **params)", f"{HOOKS}::test_parameters_change_without_a_load"),
    Example(61, "preprocess in its four forms", f"{FORMS}::test_each_form_gets_what_it_takes"),
    Example(62, "postprocess", f"{HOOKS}::test_hooks_scale_inputs_and_name_classes"),
    Example(
        63,
        "process(inputs, ctx), ctx.drivers[i].predict",
        f"{HOOKS}::test_process_asks_the_drivers_itself",
    ),
    Example(
        64, "RuntimeError on bad input", f"{KSERVING}::test_an_exception_is_its_class_and_text"
    ),
    Example(
        65,
        "preprocess = [f0, None], postprocess = [None, g1]",
        f"{CHAINS}::test_models_and_hooks_run_in_the_order_of_the_chain",
    ),
    Example(66, "'ml-serving-ignore'", f"{HOOKS}::test_a_model_that_is_ignored_is_not_run"),
    Example(
        67,
        "helpers load_image, get_param, boolean_string",
        f"{HOOKS}::test_the_modules_that_hooks_import_are_there_for_them",
    ),
    Example(
        70, "Proxy-Addr, Proxy-Port", "the headers `Proxy-Addr` and `Proxy-Port` have no effect"
    ),
    Example(
        71, "POST /{prefix}/{model}/{signature}/{version}", f"{KSERVING}::test_json_says_its_dtypes"
    ),
    Example(72, "POST /predict/ with JSON", f"{KSERVING}::test_json_says_its_dtypes"),
    Example(73, "form fields {type}_{input}", f"{FIELDS}::test_fields_say_their_types"),
    Example(
        74,
        "curl URL/predict/ -F bytes_input=@input.jpg",
        f"{KSERVING}::test_a_picture_goes_in_and_a_picture_comes_out",
    ),
    Example(74, "raw_input=yes", "and `raw_input=yes` are refused"),
    Example(
        75, "out_mime_type image/*", f"{KSERVING}::test_a_picture_goes_in_and_a_picture_comes_out"
    ),
    Example(
        76,
        "POST /serving-proxy, PredictJSON",
        "There are no `PredictJSON`, `POST /serving-proxy`, `/mjpg` and `/hls`",
    ),
    Example(77, "errors are plain text", f"{KSERVING}::test_errors_are_plain_text"),
)

SIMPLE_TENSORFLOW_SERVING = (
    Example(99, "simple_tensorflow_serving, stfs", f"{STFS_COMMAND}::test_quick_start"),
    Example(99, "uwsgi", "| test pages for the browser; `uwsgi` | none |"),
    Example(100, "STFS_<FLAG>", f"{STFS_COMMAND}::test_each_flag_has_a_variable_and_beats_it"),
    Example(
        100,
        "STFS_B64_AUTOCONVERT",
        f"{STFS_COMMAND}::test_the_variable_of_another_name_is_warned_of",
    ),
    Example(
        101,
        "--enable_ssl --secret_pem --secret_key",
        f"{STFS_COMMAND}::test_encryption_takes_a_certificate_and_a_key",
    ),
    Example(
        102,
        "--reload_models",
        f"{STFS_COMMAND}::test_models_are_not_polled_with_reload_models_false",
    ),
    Example(
        102,
        "--custom_op_paths",
        f"{STFS_COMMAND}::test_custom_operations_are_every_library_of_the_directories",
    ),
    Example(102, "--session_config", f"{STFS_COMMAND}::test_session_options_have_no_effect"),
    Example(
        103,
        "--enable_auth --auth_username --auth_password",
        f"{STFS_COMMAND}::test_one_user_is_authenticated",
    ),
    Example(103, "--enable_cors", f"{STFS}::test_a_browser_may_ask_before_it_asks"),
    Example(103, "--download_inference_images", "`true` is refused: uploads stay in memory"),
    Example(
        104, "--model_config_file", f"{STFS_COMMAND}::test_several_models_are_read_from_a_file"
    ),
    Example(
        106,
        "--model_platform tensorflow, onnx, scikitlearn, xgboost",
        f"{STFS_COMMAND}::test_a_platform_chooses_its_driver",
    ),
    Example(
        106,
        "--model_platform mxnet, pytorch_onnx, h2o, spark",
        f"{STFS_COMMAND}::test_a_platform_that_cannot_be_had_is_refused_with_advice",
    ),
    Example(107, "--model_platform pmml", f"{STFS}::test_pmml_answers_a_flat_record"),
    Example(108, "<model>-signature.json", "Files `*-signature.json` are not read"),
    Example(113, "POST / with data", f"{STFS}::test_a_post_is_answered_as_in_the_readme"),
    Example(113, "curl -X POST -d", f"{STFS}::test_curl_is_answered_as_in_the_readme"),
    Example(114, "POST / multipart, field image", f"{STFS}::test_an_image_of_the_user_is_answered"),
    Example(
        114, "POST / multipart, field images", f"{STFS_BODY}::test_files_of_a_form_become_inputs"
    ),
    Example(115, "GET /v1/models", f"{STFS}::test_the_list_of_models_describes_each_model"),
    Example(
        116, "GET /v1/models/NAME that is not there", f"{STFS}::test_unknown_models_are_not_found"
    ),
    Example(117, "gen_json", f"{STFS}::test_generated_data_are_answered"),
    Example(118, "gen_client?language=", f"{STFS}::test_generated_clients_run"),
    Example(119, "GET /health", f"{STFS}::test_health_is_open_to_all"),
    Example(120, "GET /", "a table of models, versions and tensors, without forms"),
    Example(
        121, "/json_inference, /image_inference, /generate_clients", "test pages for the browser"
    ),
    Example(123, "a bare list in data", f"{STFS_BODY}::test_the_only_input_needs_no_name"),
    Example(
        124,
        "predict, predict_proba, predict_log_proba",
        f"{STFS}::test_scikit_learn_answers_with_its_three_results",
    ),
    Example(125, "run_profile", "| `run_profile` | `true` is refused"),
    Example(
        126,
        "preprocess_function.marshal",
        "which ran code of `*.marshal` files | `true` is refused",
    ),
    Example(127, "clients in bash, Python, JavaScript", f"{STFS}::test_generated_clients_run"),
)

EDI_KERNELS = (
    Example(
        150,
        "class K(Kernel) with its three methods",
        f"{EDI}::test_the_reply_is_what_the_task_was_given",
    ),
    Example(
        155,
        "on_kernel_shutdown deletes the package",
        f"{EDI}::test_a_shutdown_that_deletes_the_package_deletes_links",
    ),
    Example(
        160,
        "KernelContext.get_model_description()",
        f"{EDI}::test_the_kernel_is_told_of_its_package",
    ),
    Example(161, "methods of TaskContext", f"{EDI}::test_a_task_has_the_methods_of_the_contract"),
    Example(
        162, "Kernel.log_info and its like", f"{EDI}::test_a_task_has_the_methods_of_the_contract"
    ),
    Example(163, "while task_context != None", f"{EDI}::test_calls_that_wait_are_one_chain"),
    Example(
        164,
        "REDHARE_MODEL_PATH, REDHARE_MODEL_NAME",
        f"{EDI}::test_the_kernel_is_told_of_its_package",
    ),
    Example(
        164,
        "python kernel.py with input.json",
        f"{UNIT}/commands/test_kernel_run.py::test_a_package_of_edi_runs_on_its_input",
    ),
    Example(167, "README.md beside it", "| `README.md` | optional |"),
    Example(168, "model.json", f"{EDI}::test_the_kernel_is_told_of_its_package"),
    Example(174, "POST /auth/token", "`user_token`, `access_token` and `service_token`"),
    Example(
        175,
        "POST /dlim/v1/inference/{model}",
        f"{OLD}::test_a_body_reaches_the_kernel_and_comes_back",
    ),
    *(
        Example(line, "other routes of /dlim/v1", f"{OLD}::test_other_routes_of_edi_are_not_there")
        for line in range(176, 181)
    ),
    Example(181, "JSON with inputs and outputs", f"{EDI}::{IRIS}"),
    Example(182, "JSON with data_value", f"{EDI}::{IRIS}"),
    Example(182, "pingpong", f"{OLD}::test_a_body_reaches_the_kernel_and_comes_back"),
    Example(183, "dlim model deploy and its like", "a package is deployed by its directory"),
    Example(
        187,
        "kernel_min, kernel_max, kernel_delay_release_time",
        '"instances": {"min", "max", "idle_seconds"}',
    ),
    Example(
        188,
        "task_batch_size",
        f"{EDI}::test_calls_that_wait_are_one_chain",
    ),
    Example(188, "task_execution_timeout", "the process of a task that hangs is killed"),
    Example(188, "stream_discard_slow_tasks", "`drop_oldest` of a [stream](streams.md)"),
    Example(188, "task_pipe_size, stream_number_per_group", "a busy one gets none in advance"),
    Example(186, "replica, connection_timeout, run_as", "set for the server as a whole"),
    Example(190, "gRPC", f"{OLD}::test_a_kernel_answers_over_grpc"),
    Example(189, "gpu, resource_allocation", "the server's own environment and limits"),
)

KONDUIT_SERVING = (
    Example(211, "a configuration in JSON", f"{KONDUIT_FILE}::test_files_of_steps_become_models"),
    Example(
        212,
        "port, KONDUIT_SERVING_PORT",
        f"{KONDUIT_FILE}::test_the_port_of_the_file_is_that_of_rest",
    ),
    Example(
        212,
        "YAML in snake case",
        f"{KONDUIT_FILE}::test_yaml_has_the_words_of_the_server_in_snake_case",
    ),
    Example(213, "Kafka", "nor does Kafka"),
    Example(216, "POST /predict with JSON", f"{OLD}::test_a_pipeline_answers_predict"),
    Example(216, "POST /predict with a form", f"{OLD}::test_a_form_is_data"),
    Example(216, "application/octet-stream", "Protobuf (`application/octet-stream`) is refused"),
    Example(217, "errorCode, errorMessage", f"{OLD}::test_errors_have_konduits_form"),
    Example(218, "GET /metrics", "the names are those of [monitoring](monitoring.md#metrics)"),
    Example(219, "staticContentRoot, customEndpoints", "`staticContentRoot` and its like"),
    Example(220, "gRPC service Inference", "Konduit's own gRPC service does not exist here"),
    Example(222, "data JSON", f"{KONDUIT}::test_data_come_back_as_they_went"),
    Example(225, "a sequence", f"{KONDUIT}::test_a_list_is_a_sequence"),
    Example(225, "a graph with @input and outputStep", f"{KONDUIT}::test_a_switch_runs_one_branch"),
    Example(226, "MERGE", f"{KONDUIT}::test_a_merge_joins_data"),
    Example(226, "SWITCH, SWITCH_OUTPUT, ANY", f"{KONDUIT}::test_a_switch_runs_one_branch"),
    Example(227, "@AsyncTrigger", "`@AsyncTrigger` | refused"),
    Example(231, "ONNX, TENSORFLOW", f"{KONDUIT_FILE}::test_files_of_steps_become_models"),
    Example(
        231,
        "KERAS, DEEPLEARNING4J, SAMEDIFF, TVM; TENSORRT",
        "refused: convert the model to ONNX or a SavedModel",
    ),
    Example(234, "IMAGE_TO_NDARRAY", f"{STEPS}::test_a_picture_becomes_an_array"),
    Example(235, "IMAGE_RESIZE", f"{STEPS}::test_a_picture_gets_another_size"),
    Example(235, "IMAGE_CROP", f"{BOXES}::test_a_region_is_cut_out"),
    Example(
        235,
        "GRAY_SCALE and its like, video",
        "other steps of images and boxes, `DOCUMENTPARSER`, video",
    ),
    Example(236, "CLASSIFIER_OUTPUT", f"{STEPS}::test_a_classifier_names_the_best"),
    Example(237, "REGRESSION_OUTPUT", f"{STEPS}::test_a_regression_names_columns"),
    Example(238, "SSD_TO_BBOX", f"{STEPS}::test_boxes_of_an_ssd_are_chosen"),
    Example(239, "YOLO_BBOX", f"{BOXES}::test_boxes_of_a_yolo_stand_where_their_cells_do"),
    Example(240, "BOUNDING_BOX_FILTER", f"{STEPS}::test_boxes_of_an_ssd_are_chosen"),
    Example(240, "EXTRACT_BOUNDING_BOX", f"{BOXES}::test_boxes_are_cut_out"),
    Example(241, "DRAW_BOUNDING_BOX", f"{BOXES}::test_boxes_are_drawn_in_their_colours"),
    Example(242, "LOGGING", f"{KONDUIT}::test_a_list_is_a_sequence"),
    Example(243, "DOCUMENTPARSER", "other steps of images and boxes, `DOCUMENTPARSER`, video"),
    Example(246, "importCode", f"{KONDUIT}::test_import_code_runs_once"),
    Example(246, "pythonCodePath", f"{KONDUIT_FILE}::test_paths_of_scripts_begin_at_the_file"),
    Example(246, "CONDA, VENV, CUSTOM", "also for `CONDA`, `VENV`, `CUSTOM`"),
    Example(
        247, "variables of each request", f"{KONDUIT}::test_each_request_has_variables_of_its_own"
    ),
    Example(247, "lists and texts", f"{KONDUIT}::test_scripts_take_and_give_lists_and_texts"),
    Example(247, "image -> PNG", f"{KONDUIT}::test_a_picture_is_a_file_of_png"),
    Example(
        250,
        "konduit serve -c FILE",
        "`ie_serving config --config_path FILE`; `-p` is `--rest_port`",
    ),
    Example(250, "konduit predict ID DATA", "localhost:PORT/predict"),
    Example(
        250,
        "konduit list, stop, inspect, logs",
        "a server is one process, kept by systemd or a container",
    ),
    Example(250, "konduit build, profile, pythonpaths", "a package is installed by pip"),
    Example(251, "konduit config -p with a switch", "missing: write the file"),
    Example(
        252,
        "PMML by a Python step",
        f"{UNIT}/engines/pmml/test_driver.py::test_a_classifier_gives_labels_and_probabilities",
    ),
)

OPENVINO_MODEL_SERVER = (
    Example(
        50,
        "model_config_list",
        f"{FUNCTIONAL}/test_command.py::test_the_file_is_watched",
    ),
    Example(58, "pipeline_config_list", f"{PIPELINES}::test_nodes_are_steps"),
    Example(
        58,
        "pipeline_config_list over REST and gRPC",
        f"{GRAPHS}::test_a_pipeline_of_openvino_model_server_is_answered",
    ),
    Example(
        58,
        "demultiply_count of the pipeline",
        f"{PIPELINES}::test_a_request_that_is_a_list_runs_each_entry",
    ),
    Example(
        61, "demultiply_count, gather_from_node", f"{PIPELINES}::test_a_node_that_gathers_runs_once"
    ),
    Example(62, "custom_node_library_config_list", f"{GRAPHS}::test_a_custom_node_is_python_code"),
    Example(
        62, "a shared library as base_path", f"{PIPELINES}::test_a_library_is_refused_by_its_name"
    ),
    Example(
        63,
        "mediapipe_config_list: models in a row",
        f"{MEDIAPIPE}::test_models_in_a_row_become_steps",
    ),
    Example(
        63,
        "mediapipe_config_list: a Python node",
        f"{GRAPHS}::test_a_graph_of_mediapipe_is_answered",
    ),
    Example(63, "subconfig.json", f"{MEDIAPIPE}::test_models_of_the_graph_s_own_file"),
    Example(63, "other calculators", f"{MEDIAPIPE}::test_a_graph_that_cannot_be_served_is_refused"),
    Example(
        63, "a graph in model_config_list", f"{MEDIAPIPE}::test_a_graph_among_the_models_is_served"
    ),
    Example(63, "--model_path with a graph", f"{PYTHON_NODES}::test_a_directory_is_a_graph"),
    Example(63, "Python nodes, quickstart", f"{PYTHON_NODES}::test_the_quickstart_is_answered"),
    Example(63, "access inputs via index", f"{PYTHON_NODES}::test_names_and_the_order_of_tags"),
    Example(63, "custom types", f"{PYTHON_NODES}::test_a_node_gets_the_buffer_as_it_was_sent"),
    Example(
        63,
        "incomplete inputs",
        f"{PYTHON_NODES}::test_incomplete_inputs_are_kept_until_they_are_complete",
    ),
    Example(63, "incomplete outputs", f"{PYTHON_NODES}::test_a_node_may_leave_out_outputs"),
    Example(63, "generative mode", f"{PYTHON_NODES}::test_a_generator_answers_one_by_one"),
    Example(
        63,
        "OvmsPythonModel with execute",
        f"{NODES}::test_the_basic_example_is_found_without_a_name",
    ),
    Example(
        63,
        "OvmsPythonModel with a generator",
        f"{FUNCTIONAL}/test_streams.py::test_a_generator_of_ovms_gives_all_that_it_yields",
    ),
)

EXAMPLES = {
    "kibernetika-serving": KIBERNETIKA,
    "simple_tensorflow_serving": SIMPLE_TENSORFLOW_SERVING,
    "IBM EDI": EDI_KERNELS,
    "Konduit Serving": KONDUIT_SERVING,
    "OpenVINO Model Server": OPENVINO_MODEL_SERVER,
}
