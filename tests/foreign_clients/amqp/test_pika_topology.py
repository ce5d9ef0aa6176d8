"""pika, unmodified: exchanges, queues and bindings, how long they live, and what is refused."""

import socket
import time
from collections.abc import Sequence
from contextlib import suppress

import pika  # type: ignore[import-untyped]
import pytest
from pika.adapters.blocking_connection import BlockingChannel  # type: ignore[import-untyped]
from pika.exceptions import (  # type: ignore[import-untyped]
    AMQPError,
    ChannelClosedByBroker,
)
from tests.foreign_clients.amqp import pika_client
from tests.foreign_clients.compatibility import AMQP
from tests.loop_thread import PATIENCE_S

from mainstem.node.server import Running

pytestmark = pytest.mark.client("pika", "1.4", AMQP)


def bound(
    channel: BlockingChannel,
    exchange: str,
    *keys: str,
    arguments: dict[str, object] | None = None,
) -> str:
    """Bind a new queue to an exchange."""
    queue = str(channel.queue_declare("", exclusive=True).method.queue)
    for key in keys:
        channel.queue_bind(queue, exchange, key, arguments)
    return queue


def refused(channel: BlockingChannel, method: str, *arguments: object, **named: object) -> str:
    """Return what is said on a request that closes its channel, and nothing else."""
    tried = channel.connection.channel()
    with pytest.raises(ChannelClosedByBroker) as error:
        getattr(tried, method)(*arguments, **named)
    assert channel.is_open
    assert channel.connection.is_open
    return f"{error.value.reply_code} {error.value.reply_text}"


# Exchanges


def test_a_direct_exchange_routes_by_the_whole_key(channel: BlockingChannel, name: str) -> None:
    channel.exchange_declare(name, "direct")
    both, one = bound(channel, name, "red", "blue"), bound(channel, name, "red")
    for key in ("red", "blue", "red.dark", ""):
        channel.basic_publish(name, key, key.encode())

    assert pika_client.drained(channel, both) == [b"red", b"blue"]
    assert pika_client.drained(channel, one) == [b"red"]


def test_a_fanout_exchange_routes_to_all(channel: BlockingChannel, name: str) -> None:
    channel.exchange_declare(name, "fanout")
    queues = [bound(channel, name, "") for _ in range(3)]
    channel.basic_publish(name, "whatever", b"1")

    assert [pika_client.drained(channel, queue) for queue in queues] == [[b"1"]] * 3


@pytest.mark.shows("declare", "direct, fanout, topic and headers exchanges")
@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        ("#", ["", "kern", "kern.disk", "kern.disk.full", "lazy.disk.full"]),
        ("kern.*", ["kern.disk"]),
        ("kern.#", ["kern", "kern.disk", "kern.disk.full"]),
        ("*.disk.*", ["kern.disk.full", "lazy.disk.full"]),
        ("#.full", ["kern.disk.full", "lazy.disk.full"]),
        ("*", ["kern"]),
        ("kern", ["kern"]),
        ("", [""]),
    ],
)
def test_a_topic_exchange_routes_by_words(
    channel: BlockingChannel, name: str, pattern: str, matched: Sequence[str]
) -> None:
    channel.exchange_declare(name, "topic")
    # Several bindings that match give one copy.
    queue = bound(channel, name, pattern, f"no.{pattern}", pattern)
    for key in ("", "kern", "kern.disk", "kern.disk.full", "lazy.disk.full"):
        channel.basic_publish(name, key, key.encode())

    assert [body.decode() for body in pika_client.drained(channel, queue)] == matched


@pytest.mark.parametrize(
    ("match", "taken"),
    [("all", [b"both"]), ("any", [b"both", b"one"]), ("any-with-x", [b"both", b"one", b"x"])],
)
def test_a_headers_exchange_routes_by_headers(
    channel: BlockingChannel, name: str, match: str, taken: list[bytes]
) -> None:
    channel.exchange_declare(name, "headers")
    wanted = {"x-match": match, "colour": "red", "size": 5}
    if match == "any-with-x":
        wanted["x-kind"] = "odd"
    queue = bound(channel, name, "", arguments=wanted)
    sent: dict[bytes, dict[str, object]] = {
        b"both": {"colour": "red", "size": 5, "more": True},
        b"one": {"colour": "red", "size": 6},
        b"x": {"x-kind": "odd"},
        b"other type": {"size": "5"},
        b"none": {},
    }
    for body, headers in sent.items():
        channel.basic_publish(name, "", body, pika.BasicProperties(headers=headers))

    assert pika_client.drained(channel, queue) == taken


@pytest.mark.shows("declare", "bindings of exchanges to exchanges")
def test_exchanges_are_bound_to_exchanges(channel: BlockingChannel, name: str) -> None:
    source, target = f"{name}.source", f"{name}.target"
    channel.exchange_declare(source, "topic")
    channel.exchange_declare(target, "fanout")
    queue = bound(channel, target, "")
    channel.exchange_bind(target, source, "a.*")
    # A circle gives each queue one copy.
    channel.exchange_bind(source, target)
    for key in ("a.b", "b.a"):
        channel.basic_publish(source, key, key.encode())
    channel.exchange_unbind(target, source, "a.*")
    channel.basic_publish(source, "a.c", b"unbound")

    assert pika_client.drained(channel, queue) == [b"a.b"]


@pytest.mark.shows("declare", "alternate exchanges")
def test_the_alternate_exchange_takes_what_has_no_binding(
    channel: BlockingChannel, name: str
) -> None:
    spare = f"{name}.spare"
    channel.exchange_declare(spare, "fanout")
    channel.exchange_declare(name, "direct", arguments={"alternate-exchange": spare})
    queue, rest = bound(channel, name, "known"), bound(channel, spare, "")
    for key in ("known", "unknown"):
        channel.basic_publish(name, key, key.encode(), mandatory=True)

    assert pika_client.drained(channel, queue) == [b"known"]
    assert pika_client.drained(channel, rest) == [b"unknown"]


@pytest.mark.shows("publish", "CC, BCC")
def test_cc_and_bcc_are_further_keys(channel: BlockingChannel, name: str) -> None:
    queues = [bound(channel, "amq.direct", f"{name}.{number}") for number in range(3)]
    headers = {"CC": [f"{name}.1"], "BCC": [f"{name}.2"]}
    said = pika.BasicProperties(headers=headers)
    channel.basic_publish("amq.direct", f"{name}.0", b"1", said)

    found = [channel.basic_get(queue) for queue in queues]

    assert [body for _, _, body in found] == [b"1"] * 3
    assert {str(properties.headers) for _, properties, _ in found} == {str({"CC": [f"{name}.1"]})}


def test_the_exchanges_that_are_always_there(channel: BlockingChannel) -> None:
    for kind in ("direct", "fanout", "headers", "topic"):
        channel.exchange_declare(f"amq.{kind}", kind, durable=True)
        channel.queue_bind(bound(channel, "amq.fanout"), f"amq.{kind}")
    channel.exchange_declare("amq.match", "headers", durable=True)


def test_a_binding_that_is_gone_routes_nothing(channel: BlockingChannel, name: str) -> None:
    channel.exchange_declare(name, "direct")
    queue = bound(channel, name, "a", "b")
    channel.queue_unbind(queue, name, "a")
    for key in ("a", "b"):
        channel.basic_publish(name, key, key.encode())

    assert pika_client.drained(channel, queue) == [b"b"]


# Queues


@pytest.mark.shows("declare", "priorities")
def test_priorities_come_first(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, arguments={"x-max-priority": 5})
    for number, priority in enumerate([None, 5, 1, 3, 5, 9, 0]):
        said = pika.BasicProperties(priority=priority)
        channel.basic_publish("", name, b"%d" % number, said)

    # Above the limit is the limit.
    assert pika_client.bodies(pika_client.Inbox(channel, name).take(7)) == [
        b"1",
        b"4",
        b"5",
        b"3",
        b"2",
        b"0",
        b"6",
    ]


@pytest.mark.shows("declare", "exclusive and server-named queues")
def test_a_queue_named_by_the_server_goes_with_its_connection(
    running: Running, channel: BlockingChannel
) -> None:
    with pika_client.channel_of(running) as other:
        queue = other.queue_declare("", exclusive=True).method.queue
        assert queue.startswith("amq.gen-")
        said = refused(channel, "queue_declare", queue, passive=True)
        assert said.startswith("405 RESOURCE_LOCKED - cannot obtain exclusive access")

    said = refused(channel, "queue_declare", queue, passive=True)

    assert said == f"404 NOT_FOUND - no queue '{queue}' in vhost '/'"
    assert queue not in [each.name for each in running.node.broker.topics()]


def test_a_queue_without_a_name_is_the_one_declared_last(channel: BlockingChannel) -> None:
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind("", "amq.fanout")
    channel.basic_publish("amq.fanout", "", b"1")

    assert channel.basic_get("")[2] == b"1"
    assert pika_client.waiting(channel, queue) == 0


@pytest.mark.shows("declare", "auto-delete")
def test_auto_delete_goes_with_the_last_consumer(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, auto_delete=True)
    inboxes = [pika_client.Inbox(channel, name) for _ in range(2)]
    channel.basic_cancel(inboxes[0].tag)
    assert pika_client.waiting(channel, name) == 0
    channel.basic_cancel(inboxes[1].tag)

    assert refused(channel, "queue_declare", name, passive=True).startswith("404 ")


def backlog(channel: BlockingChannel, queue: str) -> None:
    """Publish fifty messages, of which a consumer of the channel takes ten and keeps them."""
    for number in range(50):
        channel.basic_publish("", queue, b"%d" % number, pika_client.PERSISTENT)
    pika_client.Inbox(channel, queue).take(10)


def test_auto_delete_takes_along_what_waits_and_what_is_out(
    channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name, durable=True, auto_delete=True)
    backlog(channel, name)
    (tag,) = channel.consumer_tags
    channel.basic_cancel(tag)

    again = channel.queue_declare(name, durable=True, auto_delete=True)
    channel.basic_publish("", name, b"new", pika_client.PERSISTENT)

    assert again.method.message_count == 0
    assert pika_client.drained(channel, name) == [b"new"]


def test_an_exclusive_queue_goes_with_a_connection_that_is_lost_whatever_waits_in_it(
    running: Running, channel: BlockingChannel
) -> None:
    with pika_client.connected(running) as lost:
        owner = lost.channel()
        queue = owner.queue_declare("", exclusive=True).method.queue
        backlog(owner, queue)
        lost._impl._transport._sock.shutdown(socket.SHUT_RDWR)
        until = time.monotonic() + PATIENCE_S
        # Before the server has noticed, others are told 405.
        while refused(channel, "queue_declare", queue, passive=True).startswith("405 "):
            assert time.monotonic() < until
        with suppress(AMQPError):
            lost.close()

    assert queue not in [each.name for each in running.node.broker.topics()]


def test_an_auto_delete_exchange_goes_with_its_last_binding(
    channel: BlockingChannel, name: str
) -> None:
    channel.exchange_declare(name, "direct", auto_delete=True)
    queue = bound(channel, name, "a")
    channel.queue_delete(queue)

    assert refused(channel, "exchange_declare", name, passive=True).startswith("404 ")


@pytest.mark.shows("consume", "cancel notifications")
def test_consumers_are_told_that_their_queue_is_deleted(
    running: Running, channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name)
    inbox = pika_client.Inbox(channel, name)
    with pika_client.channel_of(running) as other:
        other.queue_delete(name)

    assert inbox.wait_until_cancelled() == inbox.tag
    assert channel.is_open


def test_a_queue_is_deleted_with_its_messages(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, durable=True)
    for _ in range(3):
        channel.basic_publish("", name, b"1")
    assert "not empty" in refused(channel, "queue_delete", name, if_empty=True)
    inbox = pika_client.Inbox(channel, name)
    assert "in use" in refused(channel, "queue_delete", name, if_unused=True)
    inbox.take(2)
    channel.basic_ack(0, multiple=True)

    channel.basic_cancel(inbox.tag)
    deleted = channel.queue_delete(name).method.message_count
    again = channel.queue_declare(name, durable=True).method.message_count

    assert (deleted, again) == (0, 0)
    # One that is not there is deleted, too.
    assert channel.queue_delete("never declared").method.message_count == 0


def test_a_declaration_tells_of_messages_and_consumers(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name)
    for _ in range(3):
        channel.basic_publish("", name, b"1")
    channel.basic_qos(prefetch_count=1)
    pika_client.Inbox(channel, name).next()

    found = channel.queue_declare(name).method

    assert (found.queue, found.message_count, found.consumer_count) == (name, 2, 1)


@pytest.mark.shows("declare", "virtual hosts")
def test_virtual_hosts_keep_names_apart(running: Running, name: str) -> None:
    with (
        pika_client.channel_of(running, virtual_host="one") as one,
        pika_client.channel_of(running, virtual_host="other") as other,
    ):
        for each in (one, other):
            each.confirm_delivery()
            each.queue_declare(name)
            each.basic_publish("", name, each.connection._impl.params.virtual_host.encode())

        assert pika_client.drained(one, name) == [b"one"]
        assert pika_client.drained(other, name) == [b"other"]


@pytest.mark.parametrize("odd", ["grüße", "celery@host", "a b/c", "x" * 255, "..", "-"])
def test_names_may_be_anything(channel: BlockingChannel, odd: str) -> None:
    channel.exchange_declare(odd, "topic")
    channel.queue_declare(odd)
    channel.queue_bind(odd, odd, odd)
    channel.basic_publish(odd, odd, b"1")

    assert pika_client.drained(channel, odd) == [b"1"]


# Refused, and the connection goes on


def test_what_is_not_there_is_404(channel: BlockingChannel) -> None:
    for method, *arguments in (
        ("basic_get", "missing"),
        ("basic_consume", "missing", print),
        ("queue_purge", "missing"),
        ("queue_bind", "missing", "amq.direct", "key"),
    ):
        said = refused(channel, method, *arguments)
        assert said == "404 NOT_FOUND - no queue 'missing' in vhost '/'"
    queue = bound(channel, "amq.direct")
    said = refused(channel, "queue_bind", queue, "missing", "key")
    assert said == "404 NOT_FOUND - no exchange 'missing' in vhost '/'"


def test_publishing_to_no_exchange_closes_the_channel(channel: BlockingChannel) -> None:
    tried = channel.connection.channel()
    tried.basic_publish("missing", "key", b"1")
    with pytest.raises(ChannelClosedByBroker) as error:
        tried.queue_declare("", exclusive=True)

    assert error.value.reply_text == "NOT_FOUND - no exchange 'missing' in vhost '/'"
    assert channel.is_open


def test_another_declaration_of_the_same_name_is_406(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, durable=True, arguments={"x-max-priority": 5})
    channel.exchange_declare(name, "direct", durable=True)

    assert refused(channel, "queue_declare", name, durable=True) == (
        "406 PRECONDITION_FAILED - inequivalent arg 'x-max-priority' for queue "
        f"'{name}' in vhost '/': received none but current is the value '5' of type 'signedint'"
    )
    assert refused(channel, "queue_declare", name, arguments={"x-max-priority": 5}) == (
        f"406 PRECONDITION_FAILED - inequivalent arg 'durable' for queue '{name}' in vhost '/': "
        "received 'false' but current is 'true'"
    )
    assert refused(channel, "exchange_declare", name, "topic", durable=True) == (
        f"406 PRECONDITION_FAILED - inequivalent arg 'type' for exchange '{name}' in vhost '/': "
        "received 'topic' but current is 'direct'"
    )


def test_names_of_the_server_are_403(channel: BlockingChannel) -> None:
    for method, *arguments in (
        ("queue_declare", "amq.mine"),
        ("exchange_declare", "amq.mine", "direct"),
        ("exchange_declare", "", "direct"),
        ("exchange_delete", "amq.direct"),
        ("queue_bind", bound(channel, "amq.direct"), "", "key"),
    ):
        assert refused(channel, method, *arguments).startswith("403 ACCESS_REFUSED - ")


def test_an_internal_exchange_is_not_published_to(channel: BlockingChannel, name: str) -> None:
    channel.exchange_declare(name, "direct", internal=True)
    tried = channel.connection.channel()
    tried.confirm_delivery()
    with pytest.raises(ChannelClosedByBroker) as error:
        tried.basic_publish(name, "key", b"1")

    assert error.value.reply_code == 403


def test_an_unknown_type_of_exchange_is_406(channel: BlockingChannel, name: str) -> None:
    said = refused(channel, "exchange_declare", name, "no-such-type")

    assert said == "406 PRECONDITION_FAILED - unknown exchange type 'no-such-type'"


@pytest.mark.refused("a `user-id` that is not the login's", "as in RabbitMQ")
def test_a_message_of_another_user_is_refused(channel: BlockingChannel, name: str) -> None:
    tried = channel.connection.channel()
    tried.confirm_delivery()
    tried.queue_declare(name)
    with pytest.raises(ChannelClosedByBroker) as error:
        tried.basic_publish("", name, b"1", pika.BasicProperties(user_id="somebody else"))

    assert error.value.reply_code == 406
    assert pika_client.waiting(channel, name) == 0
