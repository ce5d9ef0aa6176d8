"""``mainstem serve``: let Kafka clients connect to a data directory."""

import os
from pathlib import Path

import click

from mainstem.cli.exits import Refused, say
from mainstem.cli.help import Command
from mainstem.cli.target import DEFAULT_DIRECTORY, IN_MEMORY

_EXAMPLES = """\b
mainstem serve                       serve ./mainstem-data at 127.0.0.1:9092
mainstem serve data --kafka :19092   another directory, another port
mainstem serve :memory:              nothing is kept
"""


@click.command(cls=Command, epilog=_EXAMPLES)
@click.argument("directory", default=DEFAULT_DIRECTORY)
@click.option(
    "--kafka",
    metavar="HOST:PORT",
    default="127.0.0.1:9092",
    show_default=True,
    help="Where Kafka clients connect; port 0 takes a free one.",
)
@click.option(
    "--admin",
    metavar="HOST:PORT",
    default="127.0.0.1:9644",
    show_default=True,
    help="Where /livez, /readyz and /metrics are; port 0 takes a free one.",
)
def serve(directory: str, kafka: str, admin: str) -> None:
    """Serve a log to Kafka clients until stopped."""
    # The server is only loaded when it is started.
    from mainstem.node import server  # noqa: PLC0415
    from mainstem.node.config import load_config  # noqa: PLC0415

    addresses = {name: _address(text, name) for name, text in (("kafka", kafka), ("admin", admin))}
    for host, _ in addresses.values():
        if host not in server.LOOPBACK:
            raise Refused(
                f"{host} can be reached from other machines, and there is no authentication yet: "
                "listen on 127.0.0.1"
            )
    path = None if directory == IN_MEMORY else Path(directory)
    config = load_config(path, os.environ, {})

    def ready(running: server.Running) -> None:
        where = "in memory" if path is None else str(path)
        say(f"serving {where} to Kafka clients at {running.kafka} ({running.started_ms} ms)")
        say(f"connect with bootstrap.servers={running.kafka}; stop with Ctrl-C")
        say(f"look after it at http://{running.admin}: /livez, /readyz, /metrics")
        topics = running.node.broker.topics()
        durability = "memory" if path is None else str(config.durability)
        say(f"{len(topics)} topics; new topics: {durability}, 1 copy")
        report = running.node.recovery
        if report is not None and not report.clean:
            say(f"recovered after an unclean stop: {report.entries} entries written again")
            for finding in report.findings:
                say(finding)

    kafka_address, admin_address = (server.Address(*each) for each in addresses.values())
    server.serve(path, config, kafka_address, ready, admin=admin_address)


def _address(text: str, option: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise click.BadParameter(f"{text!r} is not HOST:PORT", param_hint=f"--{option}")
    return host or "127.0.0.1", int(port)
