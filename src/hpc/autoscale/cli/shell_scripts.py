"""The command completion: what makes a shell complete command lines of `azscale`.

What is offered is worked out by `completion`; argcomplete, which asks it, knows the shells.
"""

from __future__ import annotations

import re
from argparse import ArgumentParser

from hpc.autoscale.cli.base import CommandLine
from hpc.autoscale.cli.parsing import needs_no_config

# where each shell looks for it, or how to load it by hand
_HOW = {
    "bash": 'eval "$(azscale completion bash)" in ~/.bashrc',
    "zsh": 'eval "$(azscale completion zsh)" in ~/.zshrc, after compinit',
    "fish": "azscale completion fish > ~/.config/fish/completions/azscale.fish",
}


_BARE = 'completions=("${completions[@]%:}")'
_OR_FILES = "(( ${#completions} )) || { compset -P '--*='; _files; return; }"
_FISH_OR_FILES = """\
function __fish_azscale_or_files
    set -l offered (__fish_azscale_complete)
    if string length --quiet -- $offered
        printf '%s\\n' $offered
    else
        __fish_complete_path (commandline --current-token)
    end
end
complete --command azscale -f -a '(__fish_azscale_or_files)'
"""


class CompletionCommands(CommandLine):
    """The command completion."""

    def completion_parser(self, parser: ArgumentParser) -> None:
        """Options of completion."""
        how = "; ".join(_HOW.values())
        parser.add_argument("shell", choices=list(_HOW), help=f"the shell: {how}")

    @needs_no_config
    def completion(self, shell: str) -> None:
        """Prints the script by which bash, zsh or fish complete command lines."""
        from argcomplete.shell_integration import shellcode

        script = shellcode(["azscale"], shell=shell)
        print(_fish(script) if shell == "fish" else _bash_and_zsh(script))


def _bash_and_zsh(script: str) -> str:
    """The script of both. Behind the comma of a list, which goes on, neither writes a space. zsh
    offers files where nothing is offered, as bash does; and words of which nothing is said come
    without the colon that stands before what is said, for which zsh shows `--`."""
    more = rf"\1{_BARE}\n\1{_OR_FILES}\n\1"
    script = re.sub(r"^( *)(?=_describe )", more, script, flags=re.MULTILINE)
    return script.replace("[=/:]", "[=/:,]")


def _fish(script: str) -> str:
    """The script of fish, which offers files where nothing is offered."""
    return script[: script.index("complete --command")] + _FISH_OR_FILES
