#!/bin/sh
# The image's entry point; /usr/bin/tf_serving_entrypoint.sh and /ie-serving-py/start_server.sh are
# links to it.
#
#   flags of OpenVINO Model Server:   ie_serving with them
#   no command, or other flags only:  what the image tensorflow/serving runs
#   serve:                            the models in /opt/ml/model, as Amazon SageMaker starts it
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

case "${1-}" in
    serve) set -- ie_serving "$@" ;;
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
