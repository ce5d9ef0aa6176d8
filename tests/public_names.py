"""The names that users type: commands, options, settings, metrics, Python names.

``python -m tests.public_names`` adds new ones to ``public_names.txt``. It removes none: a name that
users have typed stays accepted, if need be as an alias that warns, until a version says otherwise.
"""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
from tests.cli.test_help import every_context

from mainstem.client import stem
from mainstem.core.topic_settings import TopicSettings
from mainstem.kafka_protocol.topic_configs import TOPIC_CONFIGS
from mainstem.node.config import settings
from mainstem.node.metrics import METRICS

FILE = Path(__file__).with_suffix(".txt")
MODULES = ("mainstem", "mainstem.aio", "mainstem.feeds", "mainstem.pipelines")
PROTOCOLS = ("Stem", "Queue", "Delivery", "Subscription", "Writer")


def names() -> set[str]:
    """Return the names of today, each with its kind before it."""
    return {
        *commands(),
        *(f"setting {each.name}" for each in settings()),
        *(f"metric {each.name}" for each in METRICS),
        *(f"topic setting {each}" for each in TopicSettings.__struct_fields__),
        *(f"topic config {each}" for each in TOPIC_CONFIGS),
        *python_names(),
    }


def kept_names() -> set[str]:
    """Return the names of the file."""
    return set(FILE.read_text().splitlines())


def commands() -> Iterator[str]:
    """Return every command, with its options and arguments."""
    for context in every_context():
        path = context.command_path
        yield f"command {path}"
        for parameter in context.command.params:
            if isinstance(parameter, click.Option):
                yield from (f"option {path} {each}" for each in parameter.opts)
                yield from (f"option {path} {each}" for each in parameter.secondary_opts)


def python_names() -> Iterator[str]:
    """Return what modules for users export, and the methods of their protocols."""
    for module in MODULES:
        yield from (f"python {module}.{each}" for each in import_module(module).__all__)
    for protocol in PROTOCOLS:
        yield from (
            f"python {protocol}.{each}"
            for each in vars(getattr(stem, protocol))
            if not each.startswith("_")
        )


if __name__ == "__main__":
    FILE.write_text("\n".join(sorted(names() | kept_names())) + "\n")
