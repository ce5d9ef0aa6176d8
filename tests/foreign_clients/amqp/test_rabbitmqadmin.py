"""rabbitmqadmin, unmodified, from Debian's package of RabbitMQ; .ci/run brings it."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.foreign_clients.compatibility import MANAGEMENT
from tests.heads.amqp_management.serving import LISTENING, managed

from mainstem.node.config import Config
from mainstem.node.server import Running

CACHED = Path(__file__).parents[3] / ".cache" / "rabbitmqadmin"
SCRIPT = shutil.which("rabbitmqadmin") or (str(CACHED) if CACHED.exists() else None)
pytestmark = [
    pytest.mark.skipif(
        SCRIPT is None, reason="rabbitmqadmin is missing: run .ci/run (Debian: rabbitmq-server)"
    ),
    pytest.mark.client("rabbitmqadmin", "3.10", MANAGEMENT),
]
PATIENCE_S = 60
Run = Callable[..., str]


@pytest.fixture(scope="module")
def config() -> Config:
    return LISTENING


@pytest.fixture
def admin(running: Running) -> Run:
    return at(running)


def at(running: Running) -> Run:
    """Return a function that runs rabbitmqadmin on a server, and returns what it prints."""
    port = str(running.addresses["amqp_management"].port)

    def run(*arguments: str, fails: bool = False) -> str:
        command = [sys.executable, str(SCRIPT), "-H", "127.0.0.1", "-P", port, *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert bool(done.returncode) == fails, done.stderr
        return done.stderr if fails else done.stdout

    return run


def listed(run: Run, *arguments: str) -> Any:
    """Return what a command lists."""
    return json.loads(run("-f", "raw_json", *arguments))


@pytest.mark.shows("declare", "queues, exchanges, bindings; delete")
@pytest.mark.shows("lists", "queues, exchanges, bindings")
def test_queues_exchanges_and_bindings_are_declared_listed_and_deleted(admin: Run) -> None:
    admin("declare", "queue", "name=orders", 'arguments={"x-max-length": 5}')
    admin("declare", "exchange", "name=shop", "type=topic")
    admin("declare", "binding", "source=shop", "destination=orders", "routing_key=eu.*")

    (queue,) = listed(admin, "list", "queues", "name", "arguments", "messages")
    assert queue == {"name": "orders", "arguments": {"x-max-length": 5}, "messages": 0}
    assert "shop" in [each["name"] for each in listed(admin, "list", "exchanges")]
    bindings = listed(admin, "list", "bindings", "source", "routing_key")
    assert {"source": "shop", "routing_key": "eu.*"} in bindings
    assert "orders" in admin("list", "queues")
    other = admin("declare", "queue", "name=orders", "durable=false", fails=True)
    assert "inequivalent arg 'durable'" in other

    admin(
        *("delete", "binding", "source=shop", "destination_type=queue", "destination=orders"),
        "properties_key=eu.*",
    )
    admin("delete", "exchange", "name=shop")
    admin("delete", "queue", "name=orders")
    assert listed(admin, "list", "queues") == []
    assert "Not found" in admin("delete", "queue", "name=orders", fails=True)


@pytest.mark.shows("messages", "publish, get, purge")
def test_messages_are_published_got_and_purged(admin: Run, tmp_path: Path) -> None:
    admin("declare", "queue", "name=mail")
    for payload in ("first", "second"):
        admin("publish", "routing_key=mail", f"payload={payload}")

    (first,) = listed(admin, "get", "queue=mail", "ackmode=ack_requeue_true")
    assert (first["payload"], first["redelivered"], first["message_count"]) == ("first", False, 1)
    file = tmp_path / "payload"
    admin("get", "queue=mail", "ackmode=ack_requeue_false", f"payload_file={file}")
    assert file.read_text() == "first"
    assert listed(admin, "list", "queues", "messages") == [{"messages": 1}]
    admin("purge", "queue", "name=mail")
    assert listed(admin, "get", "queue=mail") == []
    admin("delete", "queue", "name=mail")


@pytest.mark.shows("definitions", "export, import")
def test_definitions_are_exported_and_imported(admin: Run, tmp_path: Path) -> None:
    admin("declare", "queue", "name=kept")
    admin("declare", "binding", "source=amq.topic", "destination=kept", "routing_key=#")
    file = tmp_path / "definitions.json"
    admin("export", str(file))

    with managed(tmp_path / "other") as other:
        elsewhere = at(other)
        elsewhere("import", str(file))
        assert listed(elsewhere, "list", "bindings") == listed(admin, "list", "bindings")
    admin("delete", "queue", "name=kept")


@pytest.mark.shows("lists", "overview, nodes, users, virtual hosts")
def test_the_server_is_shown_and_what_it_has_not_is_refused(admin: Run) -> None:
    (overview,) = listed(admin, "show", "overview")
    assert overview["product_name"] == "mainstem"
    for kind in (
        *("nodes", "vhosts", "users", "permissions", "connections", "channels", "consumers"),
        *("policies", "operator_policies", "parameters", "vhost_limits"),
    ):
        admin("list", kind)
    refusal = admin("declare", "user", "name=eve", "password=x", "tags=administrator", fails=True)
    assert "users cannot be managed here" in refusal
