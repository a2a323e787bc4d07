#!/bin/sh
# The image's entry point; /usr/bin/tf_serving_entrypoint.sh and /ie-serving-py/start_server.sh are
# links to it.
#
#   no command, or flags only:  what the image tensorflow/serving runs
#   a command:                  that command, such as `ie_serving config --config_path FILE`
#
# exec leaves the server as the container's process 1, so that it gets the signal to stop.
set -eu

case "$0" in
    */start_server.sh) cd "${0%/*}" ;; # where relative paths of 2020 begin
esac

case "${1-}" in
    "" | -*)
        name=${MODEL_NAME:-model}
        set -- tensorflow_model_server --port=8500 --rest_api_port=8501 \
            --model_name="$name" --model_base_path="${MODEL_BASE_PATH:-/models}/$name" "$@"
        ;;
esac
exec "$@"
