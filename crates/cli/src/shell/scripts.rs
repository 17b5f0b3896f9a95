//! The completion scripts. Each calls `swb __complete` with the typed words.

/// The script for bash. It passes the whole line, because bash splits words at `:` and `=`.
pub const BASH_SCRIPT: &str = r#"# Completions of swb for bash: source this file, or put it where bash-completion looks.
_swb() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("$line")
    done < <("$1" __complete bash "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2>/dev/null)
}
complete -o default -o bashdefault -F _swb swb
"#;

/// The script for zsh.
pub const ZSH_SCRIPT: &str = r#"#compdef swb
# Completions of swb for zsh: put this file into a folder of $fpath as _swb.
_swb() {
    local -a lines values shown
    local line
    lines=("${(@f)$("${words[1]}" __complete words -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
    for line in $lines; do
        values+=("${line%%$'	'*}")
        shown+=("${line/$'	'/  -- }")
    done
    if (( $#values )); then
        compadd -l -d shown -a values
    else
        _files
    fi
}
if [ "$funcstack[1]" = "_swb" ]; then
    _swb "$@"
else
    compdef _swb swb
fi
"#;

/// The script for fish.
pub const FISH_SCRIPT: &str = r#"# Completions of swb for fish: put this file into ~/.config/fish/completions as swb.fish.
function __swb_complete
    set -l words (commandline -opc)
    set -l found ($words[1] __complete words -- $words[2..-1] (commandline -ct) 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s
' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c swb -f -a '(__swb_complete)'
"#;
