"""completion: a script for a shell, which asks `pullcord __complete` what may come next."""

from typing import Any, Final

_BASH: Final = """\
# pullcord: commands, options and run ids. Load it with: eval "$(pullcord completion bash)"
_pullcord() {
    local IFS=$'\\n' words
    words=("${COMP_WORDS[@]:1:COMP_CWORD}")
    COMPREPLY=($(pullcord __complete "${words[@]}" 2>/dev/null))
    compopt -o nosort 2>/dev/null
    if [[ ${#COMPREPLY[@]} -eq 0 && ${COMP_WORDS[1]} =~ ^(run|serve)$ ]]; then
        compopt -o default 2>/dev/null
    fi
}
complete -F _pullcord pullcord
"""

_ZSH: Final = """\
#compdef pullcord
# pullcord: commands, options and run ids. Load it with: eval "$(pullcord completion zsh)"
_pullcord() {
    local -a found
    found=("${(@f)$(pullcord __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    found=("${(@)found:#}")
    if (( ${#found} )); then
        compadd -V runs -- "${(@)found}"
    elif [[ ${words[2]} == (run|serve) ]]; then
        _files
    fi
}
if [[ ${funcstack[1]} == _pullcord ]]; then _pullcord "$@"; else compdef _pullcord pullcord; fi
"""

_FISH: Final = """\
# pullcord: commands, options and run ids. Load it with: pullcord completion fish | source
function __pullcord_complete
    set -l words (commandline -opc)
    pullcord __complete $words[2..-1] (commandline -ct) 2>/dev/null
end
complete -c pullcord -f -k -a '(__pullcord_complete)'
complete -c pullcord -n '__fish_seen_subcommand_from run serve' -F
"""

_SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def carry_out(asked: Any) -> int:
    print(_SCRIPTS[asked.shell], end="")
    return 0
