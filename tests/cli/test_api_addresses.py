"""Everything that the command line does at a server has an address of the admin port's JSON API."""

from collections.abc import Iterator

import click
import httpx
import pytest
from tests.cli.test_help import every_context
from tests.in_process_server import server

from mainstem.heads import HEADS
from mainstem.node.config import Config

LOCAL = "works in this process, without a server's help"
FILES = "works on a data directory that no server has open"
PIPELINE = "runs or looks at Spark's pipelines, which are processes of their own"
OUTSIDE: dict[str, str] = {
    "pub": "POST /topics/{topic}/events of the HTTP head",
    "sub": "GET /topics/{topic}/events of the HTTP head",
    "stats": "reads a topic, as sub does",
    "connector run": "is a worker: it takes part by the addresses of a connector's lease",
    "feed listen": "receives multicast",
    "feed replay": "asks the feed itself, by UDP, as its receivers do",
    "index ls": "asks the search index of a pipeline",
    "index search": "asks the search index of a pipeline",
    "pipeline check": PIPELINE,
    "pipeline diff": PIPELINE,
    "pipeline metrics": PIPELINE,
    "pipeline run": PIPELINE,
    "pipeline swap": PIPELINE,
    "serve": "is the server",
    "verify": FILES,
    "repair": FILES,
    "bench log": LOCAL,
    "doctor": LOCAL,
    "completion": LOCAL,
}
"""Commands without an address in /api/v1, and why."""
ADDRESSES = {
    "topic alter": "PATCH topics/{topic}",
    "topic create": "POST topics",
    "topic ls": "GET topics",
    "topic rm": "DELETE topics/{topic}",
    "topic show": "GET topics/{topic}",
    "topic trim": "POST topics/{topic}/trim",
    "group lag": "GET groups/{group}",
    "group ls": "GET groups",
    "group rm": "DELETE groups/{group}",
    "group seek": "POST groups/{group}/seek",
    "group show": "GET groups/{group}",
    "queue ls": "GET queues",
    "queue move": "POST queues/{topic}/{queue}/move",
    "queue peek": "GET queues/{topic}/{queue}/events",
    "queue purge": "POST queues/{topic}/{queue}/purge",
    "queue rm": "DELETE queues/{topic}/{queue}",
    "queue show": "GET queues/{topic}/{queue}",
    "exchange bind": "POST amqp/bindings",
    "exchange ls": "GET amqp/exchanges",
    "exchange show": "GET amqp/exchanges/{vhost}/{exchange}",
    "exchange unbind": "POST amqp/bindings/remove",
    "connector add": "POST connectors",
    "connector ls": "GET connectors",
    "connector pause": "POST connectors/{name}/pause",
    "connector restart": "POST connectors/{name}/restart",
    "connector resume": "POST connectors/{name}/resume",
    "connector rm": "DELETE connectors/{name}",
    "connector show": "GET connectors/{name}",
    "connector snapshot": "POST connectors/{name}/snapshot",
    "webhook add": "POST webhooks",
    "webhook attempts": "GET webhooks/{name}/attempts",
    "webhook ls": "GET webhooks",
    "webhook pause": "POST webhooks/{name}/pause",
    "webhook replay": "POST webhooks/{name}/replay",
    "webhook resume": "POST webhooks/{name}/resume",
    "webhook rm": "DELETE webhooks/{name}",
    "webhook rotate": "POST webhooks/{name}/rotate",
    "webhook show": "GET webhooks/{name}",
    "webhook source add": "POST webhook-sources",
    "webhook source ls": "GET webhook-sources",
    "webhook source rm": "DELETE webhook-sources/{name}",
    "webhook source show": "GET webhook-sources/{name}",
    "webhook test": "POST webhooks/{name}/test",
    "feed end": "POST feeds/{session}/end",
    "feed ls": "GET feeds",
    "feed rm": "DELETE feeds/{session}",
    "feed sequence": "GET feeds/{session}/sequence",
    "feed serve": "POST feeds",
    "dead drop": "DELETE dead-letters/{topic}",
    "dead ls": "GET dead-letters",
    "dead redrive": "POST dead-letters/{topic}/redrive",
    "dead show": "GET dead-letters/{topic}",
    "sql": "POST sql",
    "pipeline ls": "GET pipelines",
    "pipeline show": "GET pipelines/{pipeline}",
}


def commands() -> Iterator[str]:
    """Yield the names of all commands, without that of the program."""
    for context in every_context():
        if not isinstance(context.command, click.Group):
            yield context.command_path.partition(" ")[2]


@pytest.fixture(scope="module")
def offered() -> set[str]:
    """All methods and addresses of the document."""
    config = Config().listening(**{each.name: "127.0.0.1:0" for each in HEADS})
    with server(None, config=config) as running:
        document = httpx.get(f"http://{running.admin}/api/v1/openapi.json").json()
    return {
        f"{method.upper()} {path.removeprefix('/api/v1/')}"
        for path, methods in document["paths"].items()
        for method in methods
    }


def test_every_command_has_an_address_or_a_reason_why_not(offered: set[str]) -> None:
    assert not ADDRESSES.keys() & OUTSIDE.keys()
    assert set(commands()) == ADDRESSES.keys() | OUTSIDE.keys()
    assert [each for each in ADDRESSES.items() if each[1] not in offered] == []
