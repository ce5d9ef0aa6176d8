"""pika, unmodified: messages published, confirmed, returned, consumed, settled, answered."""

import contextlib
from collections.abc import Iterator
from decimal import Decimal
from itertools import count

import pika  # type: ignore[import-untyped]
import pytest
from pika.adapters.blocking_connection import BlockingChannel  # type: ignore[import-untyped]
from pika.exceptions import (  # type: ignore[import-untyped]
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    UnroutableError,
)
from tests.foreign_clients.amqp.pika_client import (
    CONFIG,
    PERSISTENT,
    Inbox,
    bodies,
    channel_of,
    connected,
    drained,
    waiting,
)
from tests.foreign_clients.compatibility import AMQP
from tests.in_process_server import server
from tests.loop_thread import PATIENCE_S

from mainstem.node.server import Running

pytestmark = pytest.mark.client("pika", "1.4", AMQP)
_numbers = count(1)


@pytest.fixture
def channel(running: Running) -> Iterator[BlockingChannel]:
    """Open a channel without confirms: tests select them where they matter."""
    with channel_of(running) as found:
        yield found


@pytest.fixture
def queue(channel: BlockingChannel) -> str:
    """Declare a durable queue of this test's own; what the channel publishes is confirmed."""
    channel.confirm_delivery()
    return str(channel.queue_declare(f"work-{next(_numbers)}", durable=True).method.queue)


def publish(channel: BlockingChannel, queue: str, *messages: bytes) -> None:
    for body in messages:
        channel.basic_publish("", queue, body, PERSISTENT)


# Published


@pytest.mark.shows("publish", "all properties")
def test_a_message_comes_back_with_all_its_properties(channel: BlockingChannel, queue: str) -> None:
    said = pika.BasicProperties(
        content_type="text/plain",
        content_encoding="utf-8",
        headers={
            "text": "grüße",
            "number": -5,
            "large": 2**40,
            "truth": True,
            "nothing": None,
            "bytes": b"\xff\x00",
            "list": [1, "two", {"three": 3}],
            "table": {"deep": {"deeper": Decimal("1.5")}},
        },
        delivery_mode=2,
        priority=7,
        correlation_id="c",
        reply_to="r",
        expiration="60000",
        message_id="m",
        timestamp=1_700_000_000,
        type="t",
        user_id="guest",
        app_id="a",
    )
    channel.basic_publish("", queue, "grüße".encode(), said)

    method, properties, body = channel.basic_get(queue)

    assert (body.decode(), properties) == ("grüße", said)
    assert (method.exchange, method.routing_key, method.redelivered) == ("", queue, False)
    assert method.message_count == 0


@pytest.mark.parametrize("size", [0, 1, 131_064, 131_065, 1024 * 1024], ids=str)
def test_bodies_of_every_size_come_back(channel: BlockingChannel, queue: str, size: int) -> None:
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    publish(channel, queue, body)

    assert Inbox(channel, queue).next().body == body
    assert len(body) == size


@pytest.mark.refused("a message over amqp.max_message_bytes", "the server's size limit")
def test_a_message_over_the_limit_closes_the_channel_only(running: Running) -> None:
    with connected(running) as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.confirm_delivery()
        with pytest.raises(ChannelClosedByBroker) as refused:
            publish(channel, queue, bytes(16 * 1024 * 1024 + 1))

        assert refused.value.reply_code == 406
        assert waiting(connection.channel(), queue) == 0


@pytest.mark.shows("publish", "confirms", "returns")
def test_confirms_come_once_it_is_durable_and_what_goes_nowhere_is_returned(
    channel: BlockingChannel, queue: str
) -> None:
    channel.basic_publish("", queue, b"here", PERSISTENT, mandatory=True)
    channel.basic_publish("", "no such queue", b"lost", PERSISTENT)
    with pytest.raises(UnroutableError) as returned:
        channel.basic_publish("", "no such queue", b"back", PERSISTENT, mandatory=True)

    (message,) = returned.value.messages
    assert (message.body, message.properties) == (b"back", PERSISTENT)
    assert (message.method.reply_code, message.method.reply_text) == (312, "NO_ROUTE")
    assert drained(channel, queue) == [b"here"]


def test_without_confirms_what_goes_nowhere_is_returned(channel: BlockingChannel) -> None:
    returned: list[bytes] = []
    channel.add_on_return_callback(lambda channel, method, properties, body: returned.append(body))
    channel.basic_publish("amq.direct", "nobody", b"back", mandatory=True)
    channel.basic_publish("amq.direct", "nobody", b"dropped")
    channel.queue_declare("", exclusive=True)
    channel.connection.process_data_events(0)

    assert returned == [b"back"]


# Consumed


@pytest.mark.shows("consume", "prefetch")
def test_a_consumer_has_no_more_than_its_prefetch(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, *(b"%d" % number for number in range(10)))
    channel.basic_qos(prefetch_count=3)
    inbox = Inbox(channel, queue)
    first = inbox.take(3)
    assert waiting(channel, queue) == 7
    assert not inbox.received

    channel.basic_ack(first[1].tag, multiple=True)
    more = inbox.take(2)

    assert waiting(channel, queue) == 5
    assert not inbox.received
    assert bodies([*first, *more]) == [b"0", b"1", b"2", b"3", b"4"]
    assert not any(each.redelivered for each in more)


@pytest.mark.shows("consume", "prefetch of a channel")
def test_prefetch_of_a_channel_counts_all_its_consumers(channel: BlockingChannel) -> None:
    queues = [channel.queue_declare("", exclusive=True).method.queue for _ in range(2)]
    for queue in queues:
        publish(channel, queue, b"1", b"2", b"3")
    channel.basic_qos(prefetch_count=4, global_qos=True)
    inboxes = [Inbox(channel, queue) for queue in queues]

    # What is with consumers does not wait.
    assert sum(waiting(channel, queue) for queue in queues) == 2
    channel.basic_ack(0, multiple=True)
    assert sum(waiting(channel, queue) for queue in queues) == 0
    for inbox in inboxes:
        assert bodies(inbox.take(3)) == [b"1", b"2", b"3"]


def test_a_consumer_without_acknowledgements_settles_by_receiving(
    channel: BlockingChannel, queue: str, running: Running
) -> None:
    publish(channel, queue, b"1", b"2")
    channel.basic_qos(prefetch_count=1)
    assert bodies(Inbox(channel, queue, auto_ack=True).take(2)) == [b"1", b"2"]
    channel.close()

    with channel_of(running) as other:
        assert waiting(other, queue) == 0


def test_the_generator_consumes_and_gives_back_what_it_had_ahead(
    channel: BlockingChannel, queue: str
) -> None:
    publish(channel, queue, b"1", b"2", b"3")
    for method, _, body in channel.consume(queue):
        channel.basic_ack(method.delivery_tag)
        if body == b"2":
            break
    channel.cancel()

    method, _, body = channel.basic_get(queue)

    assert (body, method.redelivered) == (b"3", True)


def test_a_consumer_that_is_cancelled_keeps_what_it_has(
    channel: BlockingChannel, queue: str
) -> None:
    publish(channel, queue, b"1")
    inbox = Inbox(channel, queue)
    message = inbox.next()
    channel.basic_cancel(inbox.tag)
    publish(channel, queue, b"2")
    assert waiting(channel, queue) == 1

    channel.basic_ack(message.tag)

    assert drained(channel, queue) == [b"2"]


@pytest.mark.shows("consume", "consumer priorities")
def test_the_consumer_of_higher_priority_is_served_first(
    channel: BlockingChannel, queue: str
) -> None:
    channel.basic_qos(prefetch_count=2)
    low = Inbox(channel, queue)
    high = Inbox(channel, queue, arguments={"x-priority": 10})
    publish(channel, queue, b"1", b"2", b"3")

    assert bodies(high.take(2)) == [b"1", b"2"]
    assert low.next().body == b"3"


@pytest.mark.shows("consume", "exclusive")
def test_an_exclusive_consumer_is_alone(channel: BlockingChannel, queue: str) -> None:
    inbox = Inbox(channel, queue, exclusive=True)
    with pytest.raises(ChannelClosedByBroker) as refused:
        channel.connection.channel().basic_consume(queue, print)
    channel.basic_cancel(inbox.tag)

    assert refused.value.reply_code == 403
    assert Inbox(channel, queue, exclusive=True).tag


def test_two_connections_compete_for_a_queue(running: Running, queue: str) -> None:
    with channel_of(running) as one, channel_of(running) as other, channel_of(running) as sender:
        inboxes = []
        for each in (one, other):
            each.basic_qos(prefetch_count=1)
            inboxes.append((each, Inbox(each, queue)))
        publish(sender, queue, *(b"%d" % number for number in range(50)))
        taken: list[list[int]] = [[], []]
        while sum(map(len, taken)) < 50:
            for (channel, inbox), mine in zip(inboxes, taken, strict=True):
                channel.connection.process_data_events(0.01)
                while inbox.received:
                    message = inbox.received.popleft()
                    mine.append(int(message.body))
                    channel.basic_ack(message.tag)

        assert sorted(taken[0] + taken[1]) == list(range(50))
        assert all(mine == sorted(mine) and mine for mine in taken)


# Settled


@pytest.mark.shows("consume", "requeue")
def test_what_is_given_back_comes_first_and_says_so(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, b"1", b"2", b"3", b"4")
    tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(3)]
    channel.basic_nack(tags[2], requeue=True)
    channel.basic_reject(tags[0], requeue=True)
    channel.basic_ack(tags[1])

    found = [channel.basic_get(queue) for _ in range(3)]

    assert [(body, method.redelivered) for method, _, body in found] == [
        (b"1", True),
        (b"3", True),
        (b"4", False),
    ]


@pytest.mark.shows("consume", "nack and reject")
@pytest.mark.parametrize("way", ["nack", "nack of many", "reject"])
def test_what_is_refused_for_good_is_gone(channel: BlockingChannel, queue: str, way: str) -> None:
    publish(channel, queue, b"1", b"2")
    tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(2)]
    if way == "nack of many":
        channel.basic_nack(tags[1], multiple=True, requeue=False)
    else:
        for tag in tags:
            (channel.basic_nack if way == "nack" else channel.basic_reject)(tag, requeue=False)

    assert drained(channel, queue) == []


@pytest.mark.shows("consume", "recover")
def test_recover_gives_everything_back(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, b"1", b"2")
    inbox = Inbox(channel, queue)
    inbox.take(2)

    channel.basic_recover(requeue=True)

    assert [(each.body, each.redelivered) for each in inbox.take(2)] == [(b"1", True), (b"2", True)]


@pytest.mark.parametrize("end", ["channel", "connection"])
def test_who_goes_without_ack_gives_its_messages_back_in_order(
    running: Running, channel: BlockingChannel, queue: str, end: str
) -> None:
    publish(channel, queue, b"1", b"2", b"3")
    with channel_of(running) as other:
        taken = Inbox(other, queue).take(3)
        other.basic_ack(taken[1].tag)
        (other if end == "channel" else other.connection).close()

    again = Inbox(channel, queue).take(2)

    assert [(each.body, each.redelivered) for each in again] == [(b"1", True), (b"3", True)]


def test_an_unknown_delivery_tag_closes_the_channel(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, b"1")
    tag = channel.basic_get(queue)[0].delivery_tag
    channel.basic_ack(tag)
    channel.basic_ack(tag)
    with pytest.raises(ChannelClosedByBroker) as refused:
        channel.queue_declare(queue, passive=True)

    assert refused.value.reply_code == 406
    assert "unknown delivery tag 1" in refused.value.reply_text


@pytest.mark.shows("consume", "get")
def test_get_of_an_empty_queue_says_so(channel: BlockingChannel, queue: str) -> None:
    assert channel.basic_get(queue) == (None, None, None)


def test_purge_leaves_what_is_out(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, b"1", b"2", b"3")
    tag = channel.basic_get(queue)[0].delivery_tag

    assert channel.queue_purge(queue).method.message_count == 2
    channel.basic_nack(tag, requeue=True)
    assert drained(channel, queue) == [b"1"]


# Transactions


@contextlib.contextmanager
def transaction_of(running: Running) -> Iterator[BlockingChannel]:
    """Open a channel with transactions."""
    with channel_of(running) as channel:
        channel.tx_select()
        yield channel


@pytest.mark.shows("transactions", "commit, rollback")
def test_a_transaction_is_seen_when_it_commits(
    running: Running, channel: BlockingChannel, queue: str
) -> None:
    publish(channel, queue, b"before")
    with transaction_of(running) as other:
        tag = other.basic_get(queue)[0].delivery_tag
        publish(other, queue, b"rolled back")
        other.basic_ack(tag)
        other.tx_rollback()
        publish(other, queue, b"1", b"2")
        other.basic_ack(tag)
        assert waiting(channel, queue) == 0
        other.tx_commit()

        assert waiting(channel, queue) == 2
        # Of the next transaction, which never commits.
        publish(other, queue, b"unfinished")

    assert drained(channel, queue) == [b"1", b"2"]


@pytest.mark.shows("transactions", "acknowledgements")
def test_what_a_transaction_acknowledged_without_commit_comes_again(
    running: Running, channel: BlockingChannel, queue: str
) -> None:
    publish(channel, queue, b"1")
    with transaction_of(running) as other:
        other.basic_ack(other.basic_get(queue)[0].delivery_tag)

    method, _, body = channel.basic_get(queue)

    assert (body, method.redelivered) == (b"1", True)


def test_a_channel_has_transactions_or_confirms(running: Running) -> None:
    with channel_of(running) as channel:
        channel.tx_select()
        with pytest.raises(ChannelClosedByBroker) as refused:
            channel.confirm_delivery()

    assert refused.value.reply_code == 406


# Requests and answers


@pytest.mark.shows("consume", "direct reply-to")
def test_answers_come_straight_to_who_asked(running: Running, queue: str) -> None:
    with channel_of(running) as asking, channel_of(running) as answering:
        asking.queue_declare("amq.rabbitmq.reply-to", passive=True)
        answers = Inbox(asking, "amq.rabbitmq.reply-to", auto_ack=True)
        questions = Inbox(answering, queue, auto_ack=True)
        for number in range(3):
            said = pika.BasicProperties(
                reply_to="amq.rabbitmq.reply-to", correlation_id=str(number)
            )
            asking.basic_publish("", queue, b"%d" % number, said)
        for question in questions.take(3):
            reply_to = question.properties.reply_to
            assert reply_to.startswith("amq.rabbitmq.reply-to.")
            correlated = pika.BasicProperties(correlation_id=question.properties.correlation_id)
            answering.basic_publish("", reply_to, b"re " + question.body, correlated)

        found = answers.take(3)

    assert [(each.properties.correlation_id, each.body) for each in found] == [
        ("0", b"re 0"),
        ("1", b"re 1"),
        ("2", b"re 2"),
    ]


def test_an_answer_to_who_has_gone_is_returned(running: Running, queue: str) -> None:
    with channel_of(running) as answering:
        answering.confirm_delivery()
        with channel_of(running) as asking:
            Inbox(asking, "amq.rabbitmq.reply-to", auto_ack=True)
            said = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to")
            asking.basic_publish("", queue, b"?", said)
            asked = Inbox(answering, queue, auto_ack=True).next()
        with pytest.raises(UnroutableError):
            answering.basic_publish("", asked.properties.reply_to, b"!", mandatory=True)


def test_answers_come_to_an_exclusive_queue_as_in_the_tutorial(
    running: Running, queue: str
) -> None:
    with channel_of(running) as asking, channel_of(running) as answering:
        mine = asking.queue_declare("", exclusive=True).method.queue
        answers = Inbox(asking, mine, auto_ack=True)
        asking.basic_publish("", queue, b"30", pika.BasicProperties(reply_to=mine))
        question = Inbox(answering, queue).next()
        answering.basic_publish("", question.properties.reply_to, b"832040")
        answering.basic_ack(question.tag)

        assert answers.next().body == b"832040"


# Connections


def test_heartbeats_keep_a_quiet_connection(running: Running) -> None:
    with channel_of(running, heartbeat=1) as channel:
        queue = channel.queue_declare("", exclusive=True).method.queue
        # Longer than the two heartbeats after which a peer that says nothing is given up.
        channel.connection.process_data_events(2.5)
        channel.connection.process_data_events(0)

        assert waiting(channel, queue) == 0


def test_a_client_that_misses_its_heartbeats_is_cut_off(running: Running) -> None:
    with connected(running, heartbeat=1) as connection:
        connection._impl._heartbeat_checker.stop()
        with pytest.raises(pika.exceptions.AMQPConnectionError):
            connection.process_data_events(PATIENCE_S)


def test_channels_are_many_and_numbers_are_used_again(running: Running) -> None:
    with connected(running) as connection:
        channels = [connection.channel() for _ in range(100)]
        channels[50].close()
        again = connection.channel()
        queue = again.queue_declare("", exclusive=True).method.queue
        for each in channels[:50]:
            publish(each, queue, b"%d" % each.channel_number)

        assert sorted(map(int, drained(again, queue))) == list(range(1, 51))


def test_a_server_that_stops_says_so(tmp_path_factory: pytest.TempPathFactory) -> None:
    with server(tmp_path_factory.mktemp("data"), config=CONFIG) as stopping:
        connection = pika.BlockingConnection(
            pika.ConnectionParameters(*stopping.addresses["amqp"].pair)
        )
        connection.channel()
    with pytest.raises(ConnectionClosedByBroker) as closed:
        connection.process_data_events(10)

    assert closed.value.reply_code == 320
