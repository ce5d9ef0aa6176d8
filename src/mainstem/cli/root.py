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
    "pub": ("mainstem.cli.commands.pub:pub", "Publish events: from arguments, files or a pipe."),
    "sub": ("mainstem.cli.commands.sub:sub", "Print events, and wait for more."),
    "topic": (
        "mainstem.cli.commands.topic:topic",
        "List, create, show, alter, remove and trim topics.",
    ),
    "group": (
        "mainstem.cli.commands.group:group",
        "List, show, seek and remove groups; their lag.",
    ),
    "queue": (
        "mainstem.cli.commands.queue:queue",
        "List, show, peek into, purge, move and delete queues.",
    ),
    "exchange": (
        "mainstem.cli.commands.exchange:exchange",
        "List, show and bind exchanges of AMQP clients.",
    ),
    "connector": (
        "mainstem.cli.commands.connector:connector",
        "Capture the changes of databases as events.",
    ),
    "webhook": (
        "mainstem.cli.commands.webhook:webhook",
        "Deliver events to URLs, and receive webhooks.",
    ),
    "feed": (
        "mainstem.cli.commands.feed:feed",
        "Publish topics as multicast feeds, and receive them.",
    ),
    "stats": ("mainstem.cli.commands.stats:stats", "Show the metrics that StatsD clients send."),
    "dead": (
        "mainstem.cli.commands.dead:dead",
        "List dead letters, publish them again, or delete them.",
    ),
    "sql": ("mainstem.cli.commands.sql:sql", "Query the events of topics in SQL."),
    "pipeline": (
        "mainstem.cli.commands.pipeline:pipeline",
        "Run data pipelines on Spark, show their state.",
    ),
    "index": ("mainstem.cli.commands.index:index", "Search the indexes that pipelines write."),
    "serve": ("mainstem.cli.commands.serve:serve", "Serve a log to Kafka and other clients."),
    "verify": ("mainstem.cli.commands.verify:verify", "Check every byte of a data directory."),
    "repair": (
        "mainstem.cli.commands.verify:repair",
        "Move damaged parts of a data directory to quarantine.",
    ),
    "bench": (
        "mainstem.cli.commands.bench:bench",
        "Measure the log on this machine beside raw files.",
    ),
    "doctor": (
        "mainstem.cli.commands.doctor:doctor",
        "Check what this machine and directory need.",
    ),
    "completion": (
        "mainstem.cli.commands.completion:completion",
        "Print a shell's completion script.",
    ),
}
"""Import path and summary of each command, so that ``--help`` need not import the commands."""


class Commands(Group):
    """A command group that imports a command's module only when that command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order of ``COMMANDS``."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands to the help, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete command names, without importing any."""
        return [
            CompletionItem(name, help=line)
            for name, (_, line) in COMMANDS.items()
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
