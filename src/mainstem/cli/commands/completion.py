"""``mainstem completion``: prints the script that completes commands and options in a shell."""

import click
from click.shell_completion import get_completion_class

from mainstem.cli.help import Command
from mainstem.cli.root import COMPLETE_VARIABLE, root


@click.command(
    cls=Command,
    epilog="""
    mainstem completion bash >> ~/.bashrc
    mainstem completion zsh >> ~/.zshrc
    mainstem completion fish > ~/.config/fish/completions/mainstem.fish
    """,
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a shell's completion script."""
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(root, {}, "mainstem", COMPLETE_VARIABLE).source())
