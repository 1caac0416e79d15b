"""``segue completion``: the script for completing commands, options, agents and accounts in a shell."""

from __future__ import annotations

import click

from segue.cli.render.output import answer

WHERE = {
    "bash": 'add to ~/.bashrc: eval "$(segue completion bash)"',
    "zsh": 'add to ~/.zshrc: eval "$(segue completion zsh)"',
    "fish": "save as ~/.config/fish/completions/segue.fish",
}


@click.command("completion", short_help="Print the shell completion script.")
@click.argument("shell", type=click.Choice(list(WHERE)))
def command(shell: str) -> None:
    """Print the completion script for a shell.

    \b
      bash   eval "$(segue completion bash)"   in ~/.bashrc
      zsh    eval "$(segue completion zsh)"    in ~/.zshrc
      fish   segue completion fish > ~/.config/fish/completions/segue.fish
    """
    from click.shell_completion import get_completion_class

    from segue.cli.commands import cli

    complete = get_completion_class(shell)
    assert complete is not None
    answer(complete(cli, {}, "segue", "_SEGUE_COMPLETE").source() + "\n")
