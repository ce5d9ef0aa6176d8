"""AMQP peers that break the rules or ask for too much, over real sockets.

The server is a process of its own, so that its memory is not the attacker's: it grows by less than
64 MiB, a healthy client beside is served, and what was confirmed is there at the end.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.heads.amqp091.abuse.attacks import HANDSHAKE_MS, confirmed
from tests.heads.amqp091.raw_peers import (
    PERSISTENT,
    Healthy,
    Peer,
    publish,
)
from tests.heads.server_process import Process, beside, until

from mainstem.heads.amqp091 import methods

KEPT = [b"kept %d" % number for number in range(100)]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    path: Path = tmp_path_factory.mktemp("abused")
    settings: dict[str, object] = {
        "amqp__listen": "127.0.0.1:0",
        "amqp__handshake_ms": HANDSHAKE_MS,
        "amqp__max_consumers": 1_000,
        "durability": "disk",
    }
    with Process(path / "data", log=path / "log", **settings) as process:
        address = process.addresses["amqp"]
        # What it loads when it is first used is not the attacker's.
        healthy = Healthy(address)
        for _ in range(100):
            healthy.check()
        healthy.close()
        with Peer(address).connect(1) as keeper:
            keeper.ask(methods.QueueDeclare(queue="kept", durable=True))
            keeper.ask(methods.ConfirmSelect())
            keeper.send(b"".join(publish("kept", body, PERSISTENT) for body in KEPT))
            confirmed(keeper, len(KEPT))
        yield process
        with Peer(address).connect(1) as reader:
            assert [reader.get("kept") for _ in KEPT] == KEPT
        assert "Traceback" not in process.logged()


@pytest.fixture
def address(server: Process) -> Iterator[str]:
    """Where to attack; a healthy client is served meanwhile, and after that."""
    healthy = Healthy(server.addresses["amqp"])
    with beside(healthy, server):
        yield server.addresses["amqp"]
    # Nothing is left of the attackers.
    until(lambda: server.metric("mainstem_amqp_channels") == 1, healthy.check)
    healthy.close()


@pytest.fixture
def peer(address: str) -> Iterator[Peer]:
    with Peer(address) as found:
        yield found.connect(1)
