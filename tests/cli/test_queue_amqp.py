"""Queues that AMQP clients have declared, from the command line; pika sees the changes at once."""

from pathlib import Path

import pytest
from pika.exceptions import ChannelClosedByBroker  # type: ignore[import-untyped]
from tests.cli.conftest import Run
from tests.foreign_clients.pika_client import (
    CONFIG,
    PERSISTENT,
    Inbox,
    channel_of,
    connected,
    drained,
    waiting,
)
from tests.in_process_server import server


def test_a_queue_that_is_removed_is_gone_for_amqp_at_once_and_can_be_declared_anew(
    own_directory: Path, run: Run
) -> None:
    path = own_directory / "mainstem-data"
    with server(path, config=CONFIG) as running, connected(running) as connection:
        channel = connection.channel()
        channel.queue_declare("orders", durable=True)
        channel.queue_bind("orders", "amq.fanout")
        inbox = Inbox(channel, "orders")
        channel.basic_publish("", "orders", b"one", PERSISTENT)
        assert inbox.next().body == b"one"

        done = run("queue", "rm", "orders", "orders", "--yes", "--at", str(running.kafka))

        assert (done.code, done.err) == (0, "")
        assert inbox.wait_until_cancelled() == inbox.tag
        with pytest.raises(ChannelClosedByBroker, match="NOT_FOUND"):
            connection.channel().queue_declare("orders", passive=True)
        channel = connection.channel()
        channel.confirm_delivery()
        assert channel.queue_declare("orders", durable=True).method.message_count == 0
        channel.basic_publish("amq.fanout", "", b"to nobody")
        channel.basic_publish("", "orders", b"two", PERSISTENT)
        assert drained(channel, "orders") == [b"two"]


@pytest.mark.parametrize("topic_first", [False, True], ids=["queue rm", "topic rm"])
def test_a_queue_that_is_removed_does_not_come_back_with_a_restart(
    own_directory: Path, run: Run, topic_first: bool
) -> None:
    path = own_directory / "mainstem-data"
    with server(path, config=CONFIG) as running:
        with channel_of(running) as channel:
            channel.queue_declare("orders", durable=True)
            channel.basic_publish("", "orders", b"one", PERSISTENT)
        deed = ("topic", "rm", "orders") if topic_first else ("queue", "rm", "orders", "orders")
        assert run(*deed, "--yes", "--at", str(running.kafka)).code == 0

    with (
        server(path, config=CONFIG) as running,
        channel_of(running) as channel,
        pytest.raises(ChannelClosedByBroker, match="NOT_FOUND"),
    ):
        channel.queue_declare("orders", passive=True)


def test_a_queue_that_is_removed_without_a_server_is_gone_when_it_starts(
    own_directory: Path, run: Run
) -> None:
    path = own_directory / "mainstem-data"
    with server(path, config=CONFIG) as running, channel_of(running) as channel:
        for name in ("orders", "bills"):
            channel.queue_declare(name, durable=True)
            channel.basic_publish("", name, name.encode(), PERSISTENT)

    assert run("queue", "rm", "orders", "orders", "--yes").code == 0

    with server(path, config=CONFIG) as running, channel_of(running) as channel:
        assert waiting(channel, "bills") == 1
        assert channel.queue_declare("orders", durable=True).method.message_count == 0
