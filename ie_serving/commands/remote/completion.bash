# Completes ie_serving; made by `ie_serving completion bash`.
_ie_serving() {
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}
    local command=${COMP_WORDS[1]} words="" prefix=""
    COMPREPLY=()
    # bash takes the equals sign between a flag and its value for a word of its own.
    if [[ $current == "=" ]]; then
        current=""
    elif [[ $before == "=" ]]; then
        before=${COMP_WORDS[COMP_CWORD-2]}
    elif [[ $current == --*=* ]]; then # zsh does not
        prefix=${current%%=*}=
        before=${current%%=*}
        current=${current#*=}
    fi
    if (( COMP_CWORD == 1 )); then
        words="@commands@ --help --version"
    else
        case "$command $before" in
@values@
        esac
        if [[ -z $words && $current == -* ]]; then
            case "$command" in
@flags@
            esac
        elif [[ -z $words ]] && (( COMP_CWORD == 2 )); then
            case "$command" in
@first@
            esac
        fi
    fi
    # Without words bash offers files.
    mapfile -t COMPREPLY < <(compgen -P "$prefix" -W "$words" -- "$current")
}
complete -o default -F _ie_serving ie_serving
