# Completes `backscroll` in bash. Add this line to ~/.bashrc:  eval "$(backscroll completion bash)"
_backscroll() {
    local value description
    COMPREPLY=()
    while IFS=$'\t' read -r value description; do
        [[ $value != :files ]] && COMPREPLY+=("$value")
    done < <(backscroll _complete bash "$COMP_WORDBREAKS" "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *: ]]; then
        compopt -o nospace
    fi
}
complete -o default -o nosort -F _backscroll backscroll 2>/dev/null || complete -o default -F _backscroll backscroll
