"""pika, unmodified, over restarts of the server: what is durable is there again."""

from pathlib import Path

import msgspec
import pytest
from pika.adapters.blocking_connection import BlockingChannel  # type: ignore[import-untyped]
from pika.exceptions import (  # type: ignore[import-untyped]
    AMQPConnectionError,
    ChannelClosedByBroker,
)
from tests.faults.killable_server import Mortal
from tests.foreign_clients.amqp.pika_client import (
    CONFIG,
    PERSISTENT,
    Inbox,
    channel_of,
    drained,
    waiting,
)
from tests.foreign_clients.compatibility import AMQP
from tests.in_process_server import server

from mainstem.core.topic_settings import Durability

pytestmark = pytest.mark.client("pika", "1.4", AMQP)
SENT = 200


def declare(channel: BlockingChannel) -> None:
    """Declare some of everything that is durable."""
    channel.exchange_declare("orders", "topic", durable=True)
    channel.exchange_declare("spare", "fanout", durable=True)
    channel.exchange_declare(
        "known", "direct", durable=True, arguments={"alternate-exchange": "spare"}
    )
    channel.queue_declare("bills", durable=True)
    channel.queue_declare("urgent", durable=True, arguments={"x-max-priority": 3})
    channel.queue_bind("bills", "orders", "*.paid")
    channel.queue_bind("urgent", "spare")
    channel.exchange_bind("known", "orders", "#.known")


def route(channel: BlockingChannel) -> None:
    """Publish by each of those."""
    channel.basic_publish("orders", "book.paid", b"a bill", PERSISTENT)
    channel.basic_publish("orders", "book.known", b"nobody's", PERSISTENT)


@pytest.mark.shows("declare", "durable queues survive a restart of the server")
def test_what_is_durable_is_there_after_a_restart(tmp_path: Path) -> None:
    with server(tmp_path, config=CONFIG) as running, channel_of(running) as channel:
        channel.confirm_delivery()
        declare(channel)
        route(channel)
        channel.queue_declare("transient")
        channel.exchange_declare("passing", "direct")
        channel.queue_bind("bills", "passing", "x")
        channel.queue_declare("leaving", durable=True)
        channel.queue_delete("leaving")
        mine = channel.queue_declare("", exclusive=True).method.queue

    with server(tmp_path, config=CONFIG) as running, channel_of(running) as channel:
        channel.confirm_delivery()
        # As they were: whatever differed would be refused.
        declare(channel)
        assert (waiting(channel, "bills"), waiting(channel, "urgent")) == (1, 1)
        route(channel)
        assert drained(channel, "bills") == [b"a bill", b"a bill"]
        assert drained(channel, "urgent") == [b"nobody's", b"nobody's"]
        for queue in ("transient", "leaving", mine):
            tried = channel.connection.channel()
            with pytest.raises(ChannelClosedByBroker) as refused:
                tried.queue_declare(queue, passive=True)
            assert refused.value.reply_code == 404
        tried = channel.connection.channel()
        with pytest.raises(ChannelClosedByBroker):
            tried.exchange_declare("passing", passive=True)
        topics = {each.name for each in running.node.broker.topics()}

    assert topics == {"bills", "urgent"}


@pytest.mark.parametrize(
    ("default", "durable"),
    [
        (Durability.FSYNC, Durability.FSYNC),
        (Durability.DISK, Durability.DISK),
        (Durability.MEMORY, Durability.DISK),
    ],
)
def test_durable_queues_are_as_durable_as_new_topics_and_survive_a_restart(
    tmp_path: Path, default: Durability, durable: Durability
) -> None:
    config = msgspec.structs.replace(CONFIG, durability=default)
    with server(tmp_path, config=config) as running, channel_of(running) as channel:
        channel.confirm_delivery()
        channel.queue_declare("kept", durable=True)
        channel.queue_declare("passing")
        channel.basic_publish("", "kept", b"1", PERSISTENT)
        found = {each.name: each.settings.durability for each in running.node.broker.topics()}
    with server(tmp_path, config=config) as running, channel_of(running) as channel:
        left = drained(channel, "kept")

    assert found == {"kept": durable, "passing": Durability.DISK}
    assert left == [b"1"]


@pytest.mark.shows("publish", "confirmed messages survive kill -9")
def test_kill_9_loses_nothing_that_was_confirmed(tmp_path: Path) -> None:
    with Mortal(tmp_path, amqp=True) as mortal:
        with channel_of(mortal.amqp) as channel:
            channel.confirm_delivery()
            declare(channel)
            route(channel)
            for number in range(SENT):
                channel.basic_publish("", "bills", b"%d" % number, PERSISTENT)
            channel.basic_qos(prefetch_count=10)
            taken = Inbox(channel, "bills").take(10)
            for message in taken[:5]:
                channel.basic_ack(message.tag)
            # Its answer says that the acknowledgements before it are durable.
            assert channel.queue_purge("urgent").method.message_count == 1
            mortal.kill()
            with pytest.raises(AMQPConnectionError):
                channel.queue_purge("urgent")
        mortal.start()

        with channel_of(mortal.amqp) as channel:
            channel.confirm_delivery()
            declare(channel)
            found = Inbox(channel, "bills").take(SENT + 1 - 5)
            left = waiting(channel, "urgent")
            route(channel)
            routed = drained(channel, "urgent")

    wanted = [b"a bill", *(b"%d" % number for number in range(SENT))]
    assert [each.body for each in found] == wanted[5:]
    assert [each.redelivered for each in found[:5]] == [True] * 5
    assert (left, routed) == (0, [b"nobody's"])
