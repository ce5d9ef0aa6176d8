"""A full disk for AMQP clients: publishers are blocked, consumers continue, nothing is lost."""

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import pika  # type: ignore[import-untyped]
import pytest
from pika.adapters.blocking_connection import BlockingChannel  # type: ignore[import-untyped]
from pika.exceptions import AMQPError  # type: ignore[import-untyped]
from tests.faults.amqp.amqp_clients import PERSISTENT
from tests.faults.disk.test_full_disk import SmallDisk
from tests.faults.killable_server import PATIENCE_S, Mortal, until
from tests.foreign_clients.amqp import pika_client
from tests.heads.admin.web import get
from tests.heads.amqp091.talking import HANDSHAKE, publish_frames
from tests.in_process_server import server
from tests.tmpfs import mounted_tmpfs

from mainstem.heads.amqp091.codec import method_frame
from mainstem.heads.amqp091.methods import ChannelOpen
from mainstem.node.data_directory import holder_of

QUEUE = "orders"
FULL = """
import errno, os
from mainstem.log.commit.wal import WriteAheadLog
from mainstem.log.segments.segment import Segment
for owner in (WriteAheadLog, Segment):
    def refuse(self, length, real=owner.reserve):
        if os.path.exists({sign!r}):
            with open({sign!r}, "a") as tries:
                tries.write("x")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(self, length)
    owner.reserve = refuse
"""
"""No append finds space while a file is there, which grows with every try."""
_MANY = 5000
_MEMORY_BYTES = 1024 * 1024


class Blocked:
    """What a publisher is told of its connection."""

    def __init__(self, connection: pika.BlockingConnection) -> None:
        self.reasons: list[str] = []
        self.ends = 0
        connection.add_on_connection_blocked_callback(self._blocked)
        connection.add_on_connection_unblocked_callback(self._unblocked)

    def _blocked(self, _: pika.BlockingConnection, frame: pika.frame.Method) -> None:
        self.reasons.append(frame.method.reason)

    def _unblocked(self, _: pika.BlockingConnection, frame: pika.frame.Method) -> None:
        self.ends += 1


class FullDisk:
    """A server whose disk is full while ``sign`` is there, and a publisher in a thread."""

    def __init__(self, path: Path, mortal: Mortal, pool: ThreadPoolExecutor) -> None:
        self._sign = path / "full"
        self.mortal = mortal
        self._pool = pool

    def fill(self) -> None:
        """Refuse every write from now on."""
        self._sign.touch()

    def free(self) -> None:
        """Have space again."""
        self._sign.unlink()

    def wait_for_tries(self) -> None:
        """Wait until some more writes were refused."""
        size = self._sign.stat().st_size
        until(lambda: self._sign.stat().st_size > size + 1)

    def meanwhile(self, call: Callable[[], object]) -> Future[object]:
        """Call a function in another thread."""
        return self._pool.submit(call)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[FullDisk]:
    """Serve a queue with one message."""
    flaw = FULL.format(sign=str(tmp_path / "full"))
    with (
        Mortal(tmp_path / "data", flaw=flaw, amqp=True) as mortal,
        ThreadPoolExecutor(1) as pool,
    ):
        with confirming(mortal) as channel:
            channel.queue_declare(QUEUE, durable=True)
            publish(channel, b"before")
        yield FullDisk(tmp_path, mortal, pool)


@contextmanager
def confirming(mortal: Mortal) -> Iterator[BlockingChannel]:
    """Open a channel that waits for a confirm of each message."""
    with pika_client.channel_of(mortal.amqp) as channel:
        channel.confirm_delivery()
        yield channel


def publish(channel: BlockingChannel, body: bytes) -> None:
    channel.basic_publish("", QUEUE, body, PERSISTENT)


def test_a_confirm_waits_for_space(disk: FullDisk) -> None:
    with confirming(disk.mortal) as channel:
        disk.fill()
        confirmed = disk.meanwhile(lambda: publish(channel, b"after"))
        disk.wait_for_tries()
        assert not confirmed.done()
        disk.free()

        # Without a nack, which pika would raise.
        confirmed.result(PATIENCE_S)
        assert pika_client.drained(channel, QUEUE) == [b"before", b"after"]


def test_a_transaction_waits_for_space(disk: FullDisk) -> None:
    with pika_client.channel_of(disk.mortal.amqp) as channel:
        channel.tx_select()
        ((method, _, _),) = [channel.basic_get(QUEUE)]
        channel.basic_ack(method.delivery_tag)
        publish(channel, b"moved")
        disk.fill()
        committed = disk.meanwhile(channel.tx_commit)
        disk.wait_for_tries()
        assert not committed.done()
        disk.free()
        committed.result(PATIENCE_S)

    with pika_client.channel_of(disk.mortal.amqp) as channel:
        assert pika_client.drained(channel, QUEUE) == [b"moved"]


def test_acknowledgements_wait_for_space_and_consumers_go_on(disk: FullDisk) -> None:
    with confirming(disk.mortal) as channel:
        publish(channel, b"second")
        channel.basic_qos(prefetch_count=1)
        inbox = pika_client.Inbox(channel, QUEUE)
        disk.fill()
        first = inbox.next()
        channel.basic_ack(first.tag)
        second = inbox.next()
        channel.basic_ack(second.tag)
        disk.wait_for_tries()
        disk.free()

        # Its answer comes after the acknowledgements.
        until(lambda: channel.queue_declare(QUEUE, passive=True).method.message_count == 0)
        channel.queue_declare("later")

    with pika_client.channel_of(disk.mortal.amqp) as channel:
        assert pika_client.bodies([first, second]) == [b"before", b"second"]
        assert pika_client.drained(channel, QUEUE) == []


def test_who_leaves_while_blocked_is_gone_at_once_with_what_was_not_confirmed(
    disk: FullDisk, tmp_path: Path
) -> None:
    holder = holder_of(tmp_path / "data")
    assert holder is not None
    frames = [method_frame(1, ChannelOpen()), *publish_frames(1, QUEUE, b"unconfirmed")]
    with socket.create_connection(disk.mortal.amqp) as peer:
        disk.fill()
        peer.sendall(HANDSHAKE + b"".join(frames))
        disk.wait_for_tries()
        assert "amqp" in get(str(holder.admin), "/connections").text
    until(lambda: "amqp" not in get(str(holder.admin), "/connections").text)
    disk.free()

    with pika_client.channel_of(disk.mortal.amqp) as channel:
        assert pika_client.drained(channel, QUEUE) == [b"before"]


def test_a_server_stops_in_time_while_publishers_are_blocked(disk: FullDisk) -> None:
    # The server has closed the connection when it is to be closed.
    with suppress(AMQPError), confirming(disk.mortal) as channel:
        disk.fill()
        refused = disk.meanwhile(lambda: publish(channel, b"refused"))
        disk.wait_for_tries()
        disk.mortal.tell()
        assert isinstance(refused.exception(PATIENCE_S), AMQPError)
        disk.mortal.wait()
    disk.free()
    disk.mortal.start()

    with pika_client.channel_of(disk.mortal.amqp) as channel:
        assert pika_client.drained(channel, QUEUE) == [b"before"]


def test_publishers_of_a_disk_that_is_really_full_are_blocked_until_there_is_space(
    tmp_path: Path,
) -> None:
    sent = [b"before"]
    with mounted_tmpfs(tmp_path / "disk", "48m", "AMQP on a disk that is really full") as path:
        small = SmallDisk(path)
        with (
            server(small.data, config=pika_client.CONFIG) as running,
            pika_client.connected(running) as connection,
        ):
            channel = connection.channel()
            channel.queue_declare(QUEUE, durable=True)
            publish(channel, sent[0])
            assert pika_client.waiting(channel, QUEUE) == 1
            blocked = Blocked(connection)
            small.fill()
            while not blocked.reasons and len(sent) < _MANY:
                sent.append(b"%06d " % len(sent) * 1000)
                publish(channel, sent[-1])
                connection.process_data_events(0.001)
            with pika_client.channel_of(running) as other:
                first = pika_client.Inbox(other, QUEUE).next()
                other.basic_ack(first.tag)
                kept = pika_client.waiting(other, QUEUE)
            small.free()
            until(lambda: connection.process_data_events(0.05) or blocked.ends > 0)
            found = [first.body, *pika_client.drained(channel, QUEUE)]

        assert len(blocked.reasons) == blocked.ends == 1
        assert "no space left" in blocked.reasons[0]
        assert kept < len(sent) - 1
        assert found == sent


def test_publishers_are_blocked_at_the_memory_limit_until_consumers_have_made_room(
    tmp_path: Path,
) -> None:
    config = msgspec.structs.replace(pika_client.CONFIG, max_memory_bytes=_MEMORY_BYTES)
    body = bytes(_MEMORY_BYTES // 10)
    with (
        server(tmp_path, config=config) as running,
        pika_client.connected(running) as connection,
        pika_client.channel_of(running) as consumer,
    ):
        channel = connection.channel()
        channel.queue_declare(QUEUE, durable=True, arguments={"x-mainstem-durability": "memory"})
        blocked = Blocked(connection)
        sent = 0
        while not blocked.reasons and sent < 100:
            channel.basic_publish("", QUEUE, body)
            sent += 1
            connection.process_data_events(0.001)
        kept = pika_client.waiting(consumer, QUEUE)
        inbox = pika_client.Inbox(consumer, QUEUE)
        for message in inbox.take(kept):
            consumer.basic_ack(message.tag)
        until(lambda: connection.process_data_events(0.05) or blocked.ends > 0)
        left = len(inbox.take(sent - kept))

    assert len(blocked.reasons) == blocked.ends == 1
    assert "durability memory may hold" in blocked.reasons[0]
    assert 0 < kept < 10
    assert (kept + left, left > 0) == (sent, True)
