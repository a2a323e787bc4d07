#!/bin/sh
# The image's entry point, as /usr/bin/tf_serving_entrypoint.sh; /ie-serving-py/start_server.sh and
# /ovms/bin/ovms are links to another copy.
#
#   flags of OpenVINO Model Server:   ie_serving with them; of the name ovms any flags
#   no command, other flags, or a word that is no command:
#                                     what the image tensorflow/serving runs
#   tensorflow_model_server:          the same, as there: with the ports and the model in front
#   serve:                            the models in /opt/ml/model, as Amazon SageMaker starts it
#   another command:                  that command, such as `ie_serving config --config_path FILE`
#
# Started as root it runs all this as the user IE_SERVING_USER, without a way back; started as any
# other user it stays that. exec leaves the server as the container's process 1, so that it gets the
# signal to stop.
set -eu

# By flags that TensorFlow Serving lacks: it would ignore them, and serve a model that is not there.
has_flags_of_ovms() {
    for argument in "$@"; do
        case "${argument%%=*}" in
            --model_path | --config_path | --rest_port | --model_repository_path | \
                --list_models | --add_to_config | --remove_from_config | --source_model | --pull)
                return 0
                ;;
        esac
    done
    return 1
}

is_command() {
    case "$1" in
        */*) [ -f "$1" ] && [ -x "$1" ] ;;
        *) command -v "$1" >/dev/null ;;
    esac
}

is_help_wanted() {
    for argument in "$@"; do
        [ "$argument" != --help ] || return 0
    done
    return 1
}

# Gives directories of the image to the user; not those of a volume, which may be the host's.
give() {
    if [ "$(stat -c %d "$1")" = "$(stat -c %d /)" ]; then
        find "$@" -xdev -type d -user 0 -exec chown "$user" {} + 2>/dev/null || true
    fi
}

# What a container may write as root, its server can still write.
give_what_it_writes() {
    give /models
    if [ "$PWD" = / ]; then
        chmod 1777 / 2>/dev/null || true # not its own: /usr and the like are to stay root's
    else
        give . -maxdepth 0
    fi
}

# Becomes the user, with the capabilities that are kept, and then the command.
as_user() {
    exec setpriv --reuid "$user" --regid "$user" "$groups" --no-new-privs \
        --inh-caps="$kept" --ambient-caps="$kept" "$@"
}

case "$0" in
    */start_server.sh) cd "${0%/*}" ;; # where relative paths of 2020 begin
    */ovms) set -- ie_serving "$@" ;;
esac

as_tensorflow_serving=
case "${1-}" in
    serve) set -- ie_serving "$@" ;;
    tensorflow_model_server | */tensorflow_model_server)
        shift
        as_tensorflow_serving=1
        ;;
    "" | -*)
        if has_flags_of_ovms "$@"; then
            set -- ie_serving "$@"
        else
            as_tensorflow_serving=1
        fi
        ;;
    *) is_command "$1" || as_tensorflow_serving=1 ;;
esac
if [ "$as_tensorflow_serving" ]; then
    if is_help_wanted "$@"; then
        set -- tensorflow_model_server --help
    else
        name=${MODEL_NAME:-model}
        set -- tensorflow_model_server --port=8500 --rest_api_port=8501 \
            --model_name="$name" --model_base_path="${MODEL_BASE_PATH:-/models}/$name" "$@"
    fi
fi

user=${IE_SERVING_USER:-0}
if [ "$user" != 0 ] && [ "$(id -u)" = 0 ]; then
    groups=
    for group in $(id -G); do # those of --group-add and fsGroup
        [ "$group" = 0 ] || groups=$groups,$group
    done
    if [ "$groups" ]; then
        groups=--groups=${groups#,}
    else
        groups=--clear-groups
    fi
    # Ports below 1024 stay its server's, as in the originals. A container without the capabilities
    # to give root up goes on as root, and the server warns.
    for kept in -all,+net_bind_service -all; do
        if (as_user true) 2>/dev/null; then
            give_what_it_writes
            [ "${HOME:-/root}" != /root ] || export HOME=/home/ie_serving
            as_user "$@"
        fi
    done
fi
exec "$@"
