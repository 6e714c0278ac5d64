"""The completion script for bash: click's, with words that hold a colon left whole.

Bash splits words at every character of COMP_WORDBREAKS, which has the colon: of `demo:vllm` it
passes `demo`, `:` and `vllm`, and it replaces only what follows the last colon.
"""

from __future__ import annotations

from typing import ClassVar

from click.shell_completion import BashComplete, add_completion_class

_SOURCE = """\
%(complete_func)s() {
    local IFS=$'\\n'
    local at before completion glued response rest=$COMP_LINE type value word words=()

    # Words that no blank separates, at a colon, are one.
    for ((at = 0; at <= COMP_CWORD; at++)); do
        word=${COMP_WORDS[at]}
        before=${rest%%%%"$word"*}
        glued=${words[${#words[@]} - 1]-}
        if [[ $at -gt 1 && -z $before && ( $word == :* || $glued == *: ) ]]; then
            words[${#words[@]} - 1]+=$word
        else
            words+=("$word")
        fi
        rest=${rest:$((${#before} + ${#word}))}
    done
    word=${words[${#words[@]} - 1]}
    local shown=
    if [[ $COMP_WORDBREAKS == *:* && $word == *:* ]]; then
        shown=${word%%"${word##*:}"}
    fi

    response=$(env COMP_WORDS="${words[*]}" COMP_CWORD=$((${#words[@]} - 1)) \\
        %(complete_var)s=bash_complete "$1")

    for completion in $response; do
        IFS=',' read -r type value <<< "$completion"

        if [[ $type == 'dir' ]]; then
            COMPREPLY=()
            compopt -o dirnames
        elif [[ $type == 'file' ]]; then
            COMPREPLY=()
            compopt -o default
        elif [[ $type == 'plain' ]]; then
            COMPREPLY+=("${value#"$shown"}")
        fi
    done

    return 0
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class ColonComplete(BashComplete):
    """Completion for bash that knows words such as `demo:vllm-b200`."""

    source_template: ClassVar[str] = _SOURCE


def use_our_script() -> None:
    """Let click answer bash with the script above."""
    add_completion_class(ColonComplete, "bash")
