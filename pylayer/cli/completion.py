"""``pylayer completion``: prints the script with which a shell completes ``pylayer`` and its arguments."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")


@click.command
@click.argument("shell", metavar="SHELL", type=click.Choice(SHELLS), help="bash, zsh or fish.")
def completion(shell: str) -> None:
    """Print the script with which a shell completes pylayer's commands.

    It completes commands, options and file names, and the programs, driver identities and recorded runs in the
    store. bash must be 4.4 or newer.

    \b
    Example:
      pylayer completion bash > ~/.local/share/bash-completion/completions/pylayer
      pylayer completion fish > ~/.config/fish/completions/pylayer.fish
    For zsh, in ~/.zshrc after compinit:
      source <(pylayer completion zsh)
    """
    from .main import COMPLETE

    root = click.get_current_context().find_root()
    found = get_completion_class(shell)
    assert found is not None  # click supports all three shells
    completer = found(root.command, {}, "pylayer", COMPLETE)
    # Do not call source(): it starts bash to check the version, and the script may be for another machine.
    script = completer.source_template % completer.source_vars()
    click.echo(script.rstrip("\n"))
