# Completes `backscroll` in fish. Save it:  backscroll completion fish > ~/.config/fish/completions/backscroll.fish
function __backscroll_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for line in (backscroll _complete fish $words[2..] "$current" 2>/dev/null)
        if test $line = :files
            __fish_complete_path "$current"
        else
            echo $line
        end
    end
end
complete -c backscroll -f -k -a '(__backscroll_complete)'
