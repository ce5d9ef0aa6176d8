"""The root command: it knows every subcommand by name, and imports one only when it is used."""

import os
from collections.abc import Sequence
from importlib import import_module

import click
from click.shell_completion import CompletionItem, shell_complete

from mainstem import __version__
from mainstem.cli.exit_codes import Exit, code_of
from mainstem.cli.help import Group
from mainstem.core.errors import MainstemError

COMPLETE_VARIABLE = "_MAINSTEM_COMPLETE"

COMMANDS = {
    "pub": "Publish events: from arguments, files or a pipe.",
    "sub": "Print events, and wait for more.",
    "topic": "List, create, show, alter, remove and trim topics.",
    "group": "List, show, seek and remove groups; their lag.",
    "queue": "List, show, peek into, purge, move and delete queues.",
    "exchange": "List, show and bind exchanges of AMQP clients.",
    "connector": "Capture the changes of databases as events.",
    "webhook": "Deliver events to URLs, and receive webhooks.",
    "feed": "Publish topics as multicast feeds, and receive them.",
    "stats": "Show the metrics that StatsD clients send.",
    "dead": "List dead letters, publish them again, or delete them.",
    "sql": "Query the events of topics in SQL.",
    "pipeline": "Run data pipelines on Spark, show their state.",
    "index": "Search the indexes that pipelines write.",
    "serve": "Serve a log to Kafka and other clients.",
    "verify": "Check every byte of a data directory.",
    "repair": "Move damaged parts of a data directory to quarantine.",
    "bench": "Measure the log on this machine beside raw files.",
    "doctor": "Check what this machine and directory need.",
    "completion": "Print a shell's completion script.",
}
"""The summary of each command, so that ``--help`` need not import the commands."""
_MODULES = {"repair": "verify"}
"""The module of a command, if it does not have the command's name."""


class Commands(Group):
    """A command group that imports a command's module only when that command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order of ``COMMANDS``."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"mainstem.cli.commands.{_MODULES.get(cmd_name, cmd_name)}")
        command = getattr(module, cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands to the help, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete command names, without importing any."""
        return [
            CompletionItem(name, help=line)
            for name, line in COMMANDS.items()
            if name.startswith(incomplete)
        ]


@click.group(
    cls=Commands,
    context_settings={"max_content_width": 100},
    epilog="""
    seq 1000 | mainstem pub numbers            publish one event per line
    mainstem sub numbers -e | tail -1          read to the end
    mainstem sub orders -g billing             read as a member of a group, from its cursor
    mainstem topic create orders --partitions 4 --durability fsync
    mainstem topic ls
    mainstem group lag billing
    """,
)
@click.option(
    "--at",
    envvar="MAINSTEM_AT",
    metavar="DIR|HOST:PORT",
    help="Where the log is: a data directory, or the address of a server (also as $MAINSTEM_AT, "
    "and after the command's name).  [default: ./mainstem-data, or the server that holds it]",
)
@click.version_option(__version__, message="mainstem %(version)s")
@click.pass_context
def root(ctx: click.Context, at: str | None) -> None:
    """One durable event log: publish, subscribe, administer.

    Exit codes: 0 ok, 1 error, 2 usage, 3 not found, 4 timeout, 5 unreachable, 6 refused.
    Lists are tables on a terminal and JSON lines in a pipe. MAINSTEM_DEBUG=1 shows tracebacks.
    """
    ctx.obj = at


def run(args: Sequence[str]) -> int:
    """Run one command and return its exit code; 128 + n stands for an exit by signal n."""
    if instruction := os.environ.get(COMPLETE_VARIABLE):
        return shell_complete(root, {}, "mainstem", COMPLETE_VARIABLE, instruction)
    try:
        with root.make_context("mainstem", list(args)) as context:
            root.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    except (click.ClickException, click.Abort, MainstemError, OSError, KeyboardInterrupt) as error:
        return code_of(error)
    return Exit.OK
