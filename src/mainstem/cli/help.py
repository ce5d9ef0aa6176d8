"""Help texts of commands, in which the examples come first."""

import inspect

import click

HELP = ["-h", "--help"]


class Command(click.Command):
    """A command whose help shows its examples (click's epilog) before anything else."""

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help: summary, examples, usage, details, options."""
        examples_first(self, ctx, formatter)

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        """Return the names of the help option, with -h for every command."""
        return HELP


class Group(click.Group):
    """A group of commands whose help shows its examples (click's epilog) before anything else."""

    command_class = Command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse arguments; without any, show the help."""
        return super().parse_args(ctx, args or ["--help"])

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help: summary, examples, usage, details, commands, options."""
        examples_first(self, ctx, formatter)

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        """Return the names of the help option, with -h for every command."""
        return HELP


def examples_first(
    command: click.Command, ctx: click.Context, formatter: click.HelpFormatter
) -> None:
    """Write a command's help: summary, examples, usage, details, commands, options."""
    summary, _, details = inspect.cleandoc(command.help or "").partition("\n\n")
    formatter.write_text(" ".join(summary.split()))
    if command.epilog:
        with formatter.section("Examples"):
            for line in command.epilog.strip().splitlines():
                formatter.write(f"  {line.strip()}\n")
    formatter.write_paragraph()
    command.format_usage(ctx, formatter)
    if details:
        formatter.write_paragraph()
        formatter.write_text(details)
    # For a group, ``format_options`` also writes the list of commands.
    command.format_options(ctx, formatter)
