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

        print(_without_bare_dashes(shellcode(["azscale"], shell=shell)))


def _without_bare_dashes(script: str) -> str:
    """The script, which hands words of which nothing is said to zsh without the colon that stands
    before what is said: zsh shows `--` for it."""
    return re.sub(r"^( *)(?=_describe )", rf"\1{_BARE}\n\1", script, flags=re.MULTILINE)
