"""``mainstem serve``: serves a data directory to protocol clients."""

import gc
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mainstem import __version__
from mainstem.cli.connection import IN_MEMORY, is_address, target_of
from mainstem.cli.exit_codes import Refused
from mainstem.cli.help import Command
from mainstem.cli.server_logging import LogFormat, start_logging
from mainstem.cli.signals import leave_closed_terminal
from mainstem.core.errors import InvalidSetting
from mainstem.heads import HEADS
from mainstem.heads.addresses import LOOPBACK, parse_address

if TYPE_CHECKING:
    from mainstem.node.server import Running

_logger = logging.getLogger("mainstem.serve")

_EXAMPLES = """
mainstem serve                       serve ./mainstem-data at 127.0.0.1:9092
mainstem serve data --kafka :19092   another directory, another port
mainstem serve :memory:              nothing is kept
mainstem serve --set kafka.max_connections=100
"""
_PROMISES = {
    "memory": "lost when this process ends",
    "disk": "survives kill -9, not a power cut",
    "fsync": "survives kill -9 and a power cut, not the loss of this disk",
}


def _listen_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add to a command an option for each protocol's listen address."""
    for head in reversed(HEADS):
        default = head.settings.listen
        if head.auto is not None and default == "auto":
            default = f"{head.auto}, or a free port if that is taken"
        command = click.option(
            head.flag,
            head.name,
            metavar="HOST:PORT|off",
            help=f"{head.serves}  [default: {default}]",
        )(command)
    return command


@click.command(cls=Command, epilog=_EXAMPLES)
@click.argument("directory", required=False)
@_listen_options
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Format of log lines on stderr.",
)
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="NAME=VALUE",
    help="Any setting, such as the limits kafka.max_connections, kafka.max_frame_bytes (of the "
    "largest request), kafka.max_fetch_partitions, kafka.max_fetch_sessions, topics.max_partitions "
    "and groups.max_members; may be repeated. All are in docs/reference/settings.md, and can be "
    "set by variables and in a file, too.",
)
def serve(
    *,
    directory: str | None,
    log_format: LogFormat,
    assignments: tuple[str, ...],
    **listen: str | None,
) -> None:
    """Serve a log to clients until stopped; port 0 selects a free port.

    Ctrl-C, SIGTERM or closing the terminal stops it gracefully: requests in progress are finished.
    """
    # Looking for garbage took 10 % of the start time, and hardly found any.
    gc.disable()
    # The server's modules are only imported when it is started.
    from mainstem.node import server  # noqa: PLC0415
    from mainstem.node.config import load_config  # noqa: PLC0415

    flags = {f"{name}.listen": each for name, each in listen.items() if each is not None}
    for head in HEADS:
        if (text := flags.get(f"{head.name}.listen")) is not None:
            _check_address(text, head.flag)
    path = _path(directory)
    config = load_config(path, os.environ, dict(map(_assignment, assignments)) | flags)
    start_logging(log_format)

    def ready(running: "Running") -> None:
        gc.enable()
        if log_format == "json":
            _logger.info("serving", extra={"fields": _fields(running)})
        else:
            for line in _introduction(running):
                click.echo(line, err=True)
        report = running.node.recovery
        if report is not None and not report.clean:
            _logger.warning(
                "recovered after an unclean stop: %d entries written again", report.entries
            )
            for finding in report.findings:
                _logger.warning("%s", finding)

    server.serve(path, config, ready)
    leave_closed_terminal()
    _logger.info("stopped")


def _introduction(running: "Running") -> Iterator[str]:
    """Yield the lines printed at start: what is served, how to connect, and the durability."""
    node = running.node
    where = "a log in memory" if node.path is None else str(node.path)
    yield f"mainstem {__version__} serves {where}, ready after {running.started_ms} ms"
    rows = list(_rows(running))
    width = max(len(label) for label, _ in rows)
    for label, text in rows:
        yield f"  {label:<{width}} {text}"


def _rows(running: "Running") -> Iterator[tuple[str, str]]:
    """Yield rows printed at start (label, text): heads, new topics, topics, commands to try."""
    node = running.node
    serving = [
        (head, running.addresses[head.name]) for head in HEADS if head.name in running.addresses
    ]
    for head, at in serving:
        yield head.title, head.connect.format(at=at)
    durability = "memory" if node.path is None else str(node.defaults.durability)
    yield "new topics", f"{durability}, 1 copy: {_PROMISES[durability]}"
    kept = Counter(str(topic.settings.durability) for topic in node.broker.topics())
    topics = ", ".join(f"{count} {name}" for name, count in sorted(kept.items()))
    yield "topics", topics + ", 1 copy" if topics else "none yet; naming one creates it"
    examples = [each.format(at=at) for head, at in serving for each in head.examples]
    yield from zip(["try", *[""] * len(examples)], examples, strict=False)
    yield "stop", "Ctrl-C"


def _fields(running: "Running") -> dict[str, object]:
    node = running.node
    return {
        "version": __version__,
        "directory": None if node.path is None else str(node.path),
        **{name: str(at) for name, at in running.addresses.items()},
        "durability": "memory" if node.path is None else str(node.defaults.durability),
        "copies": 1,
        "topics": len(node.broker.topics()),
        "started_ms": running.started_ms,
    }


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"--set {text!r} lacks '='; write --set NAME=VALUE")
    return name.strip(), value.strip()


def _path(directory: str | None) -> Path | None:
    """Return the data directory to serve; None for a log in memory."""
    target = directory or target_of(None)
    if directory is None and is_address(target):
        raise Refused(f"--at or $MAINSTEM_AT says {target}; name the data directory to serve")
    return None if target == IN_MEMORY else Path(target)


def _check_address(text: str, option: str) -> None:
    try:
        address = None if text == "auto" else parse_address(text, option)
    except InvalidSetting as error:
        raise click.BadParameter(str(error), param_hint=option) from None
    if address is not None and address.host not in LOOPBACK:
        raise Refused(
            f"{address.host} can be reached from other machines, and there is no authentication "
            "yet: listen on 127.0.0.1"
        )
