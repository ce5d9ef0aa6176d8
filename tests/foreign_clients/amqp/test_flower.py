"""flower, unmodified: it shows the queues of a Celery app by RabbitMQ's management API."""

import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from celery import Celery  # type: ignore[import-untyped]
from tests.foreign_clients.compatibility import MANAGEMENT
from tests.heads.amqp_management.serving import amqp_url, managed
from tests.processes import in_own_session, wait_until

from mainstem.node.server import Running

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("flower") is None, reason="flower is missing: pip install flower"
    ),
    pytest.mark.client("flower", "2.2", MANAGEMENT),
    pytest.mark.lacks("declare", "flower only reads"),
    pytest.mark.lacks("messages", "flower only reads"),
    pytest.mark.lacks("definitions", "flower only reads"),
]
APP = """
from celery import Celery
from kombu import Queue

app = Celery("shop")
app.conf.task_queues = (Queue("celery"), Queue("urgent"))
"""


@contextmanager
def flower(running: Running, directory: Path) -> Iterator[httpx.Client]:
    """Run flower on a socket of its own; yields a client of it."""
    (directory / "shop.py").write_text(APP)
    management = running.addresses["amqp_management"]
    at, log = directory / "flower.sock", directory / "flower.log"
    command = [
        *(sys.executable, "-m", "celery", "-A", "shop", "-b", amqp_url(running), "flower"),
        *(f"--unix_socket={at}", f"--broker-api=http://guest:guest@{management}/api/"),
    ]
    environment = os.environ | {"FLOWER_UNAUTHENTICATED_API": "true"}
    transport = httpx.HTTPTransport(uds=str(at))
    with (
        in_own_session(command, log, directory, environment),
        httpx.Client(transport=transport, base_url="http://flower", timeout=30) as client,
    ):
        wait_until(at.exists, log.read_text)
        yield client


@pytest.mark.shows("lists", "waiting tasks of each queue")
def test_it_shows_how_many_tasks_wait_in_each_queue(tmp_path: Path) -> None:
    with managed(tmp_path / "data") as running:
        app = Celery("shop", broker=amqp_url(running))
        for queue in ("celery", "celery", "celery", "urgent"):
            app.send_task("shop.work", queue=queue)
        app.close()

        with flower(running, tmp_path) as client:
            lengths = client.get("/api/queues/length").raise_for_status().json()
            page = client.get("/broker").raise_for_status().text

    found = {each["name"]: each["messages"] for each in lengths["active_queues"]}
    assert found == {"celery": 3, "urgent": 1}
    assert "urgent" in page
