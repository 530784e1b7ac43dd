#compdef backscroll
# Completes `backscroll` in zsh. Write this to a file named _backscroll in a folder of $fpath, or add this line to
# ~/.zshrc after compinit:  eval "$(backscroll completion zsh)"
_backscroll() {
    local value description wants_files
    local -a values shown prefixes
    while IFS=$'\t' read -r value description; do
        if [[ $value == :files ]]; then
            wants_files=1
        elif [[ $value == *: ]]; then
            prefixes+=("$value")
        else
            values+=("$value")
            description="$value${description:+  -- $description}"
            shown+=("${description[1,COLUMNS-1]}")
        fi
    done < <(backscroll _complete zsh "${(Q@)words[2,CURRENT]}" 2>/dev/null)
    (( ${#values} )) && compadd -l -V backscroll -d shown -a values
    (( ${#prefixes} )) && compadd -V filters -S '' -a prefixes
    [[ -n $wants_files ]] && _files
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _backscroll "$@"
else
    compdef _backscroll backscroll
fi
