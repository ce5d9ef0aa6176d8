"""An AMQP server without free file descriptors."""

import contextlib
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.heads.amqp091.abuse.attacks import confirmed
from tests.heads.amqp091.raw_peers import PERSISTENT, Healthy, Peer, publish
from tests.heads.server_process import Process, beside, connected, until

from mainstem.heads.amqp091 import methods

SPARE, QUEUES = 3, 50


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Process]:
    settings: dict[str, object] = {"amqp__listen": "127.0.0.1:0", "durability": "disk"}
    with Process(tmp_path / "data", log=tmp_path / "log", **settings) as process:
        yield process
    assert "Traceback" not in process.logged()


def descriptors(server: Process) -> list[int]:
    return [int(each.name) for each in Path(f"/proc/{server.pid}/fd").iterdir()]


@contextlib.contextmanager
def none_left(server: Process) -> Iterator[None]:
    """Take all descriptors of the server by connections, until the block ends."""
    before = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
    limit = max(descriptors(server)) + 1 + SPARE
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (limit, before[1]))
    try:
        with contextlib.ExitStack() as stack:
            for _ in range(limit):
                # The kernel takes those for which the server has no descriptor.
                stack.enter_context(connected(server.addresses["amqp"]))
            until(lambda: len(descriptors(server)) >= limit - 1, lambda: time.sleep(0.01))
            yield
    finally:
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, before)


def test_who_is_there_is_served_and_others_come_in_when_there_are_some_again(
    own: Process,
) -> None:
    address = own.addresses["amqp"]
    healthy = Healthy(address)
    with beside(healthy, own):
        with none_left(own), connected(address) as waiting:
            waiting.settimeout(0.2)
            waiting.sendall(b"AMQP\0\0\x09\1")
            with pytest.raises(TimeoutError):
                waiting.recv(1)
        with Peer(address).connect(1) as late:
            late.declare("late")
    healthy.close()


def test_queues_that_find_no_file_lose_nothing_that_was_confirmed(own: Process) -> None:
    address = own.addresses["amqp"]
    healthy = Healthy(address)
    names = [f"q{number}" for number in range(QUEUES)]
    with Peer(address).connect(1, 2) as peer, beside(healthy, own):
        for name in names:
            peer.ask(methods.QueueDeclare(queue=name, durable=True))
        peer.ask(methods.ConfirmSelect())
        kept: list[str] = []
        with none_left(own):
            for number, name in enumerate(names, 1):
                # A first message needs a new file.
                peer.send(publish(name, name.encode(), PERSISTENT))
                _, told = peer.next()
                assert isinstance(told, methods.BasicAck | methods.BasicNack), told
                assert told.delivery_tag == number
                kept += [name] if isinstance(told, methods.BasicAck) else []
            print(f"{len(kept)} of {QUEUES} messages found a file")  # noqa: T201
        peer.send(publish(names[-1], b"last", PERSISTENT))
        confirmed(peer, len(names) + 1)

        assert [peer.get(name).decode() for name in kept] == kept
    healthy.close()
