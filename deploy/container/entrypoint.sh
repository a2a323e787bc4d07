#!/bin/sh
# The image's entry point; /usr/bin/tf_serving_entrypoint.sh and /ie-serving-py/start_server.sh are
# links to it.
#
#   flags of OpenVINO Model Server:   ie_serving with them
#   no command, or other flags only:  what the image tensorflow/serving runs
#   serve:                            the model at /opt/ml/model, as Amazon SageMaker asks for it
#   a command:                        that command, such as `ie_serving config --config_path FILE`
#
# exec leaves the server as the container's process 1, so that it gets the signal to stop.
set -eu

case "$0" in
    */start_server.sh) cd "${0%/*}" ;; # where relative paths of 2020 begin
esac

# By flags that TensorFlow Serving lacks: it would ignore them, and serve a model that is not there.
has_flags_of_ovms() {
    for argument in "$@"; do
        case "${argument%%=*}" in
            --model_path | --config_path | --rest_port | --model_repository_path | \
                --list_models | --add_to_config | --remove_from_config) return 0 ;;
        esac
    done
    return 1
}

# Versions lie in the archive's root, under export/Servo, or under a name: the first that has any.
sagemaker_model() {
    for directory in "$1/export/Servo" "$1" "$1"/*; do
        for version in "$directory"/[0-9]*; do
            if [ -d "$version" ]; then
                echo "$directory"
                return
            fi
        done
    done
    echo "$1"
}

case "${1-}" in
    serve)
        shift
        set -- ie_serving model --model_name=model \
            --model_path="$(sagemaker_model "${SAGEMAKER_MODEL_DIR:-/opt/ml/model}")" --port=0 \
            --rest_port="${SAGEMAKER_BIND_TO_PORT:-8080}" --invocations_model=model "$@"
        ;;
    "" | -*)
        if has_flags_of_ovms "$@"; then
            set -- ie_serving "$@"
        else
            name=${MODEL_NAME:-model}
            set -- tensorflow_model_server --port=8500 --rest_api_port=8501 \
                --model_name="$name" --model_base_path="${MODEL_BASE_PATH:-/models}/$name" "$@"
        fi
        ;;
esac
exec "$@"
