"""Queues that AMQP clients have declared, from the command line; pika sees the changes at once."""

import json
from contextlib import nullcontext
from pathlib import Path

import pika  # type: ignore[import-untyped]
import pytest
from pika.exceptions import ChannelClosedByBroker  # type: ignore[import-untyped]
from tests.cli.conftest import Run
from tests.foreign_clients.amqp.pika_client import (
    CONFIG,
    PERSISTENT,
    Inbox,
    channel_of,
    connected,
    drained,
    waiting,
)
from tests.in_process_server import server, serving

from mainstem.cli.exit_codes import Exit
from mainstem.core.event import Event


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


@pytest.mark.parametrize("deed", ["queue rm", "topic rm"])
@pytest.mark.parametrize("served", [False, True], ids=["without a server", "without AMQP"])
def test_a_queue_that_is_removed_while_nobody_serves_amqp_is_gone_when_somebody_does(
    own_directory: Path, run: Run, deed: str, *, served: bool
) -> None:
    path = own_directory / "mainstem-data"
    with server(path, config=CONFIG) as running, channel_of(running) as channel:
        for name in ("orders", "bills"):
            channel.queue_declare(name, durable=True)
            channel.basic_publish("", name, name.encode(), PERSISTENT)

    with serving(path) if served else nullcontext():
        assert run(*deed.split(), "orders", "--yes").code == 0

    with server(path, config=CONFIG) as running, connected(running) as connection:
        with pytest.raises(ChannelClosedByBroker, match="NOT_FOUND"):
            connection.channel().queue_declare("orders", passive=True)
        channel = connection.channel()
        assert waiting(channel, "bills") == 1
        assert channel.queue_declare("orders", durable=True).method.message_count == 0


def test_amqp_queues_are_found_by_the_names_that_their_clients_use(
    own_directory: Path, run: Run
) -> None:
    path = own_directory / "mainstem-data"
    with server(path, config=CONFIG) as running:
        at = ("--at", str(running.kafka))
        with channel_of(running) as channel, channel_of(running, virtual_host="shop") as shop:
            channel.queue_declare("celery@host", durable=True)
            channel.queue_declare("orders", durable=True)
            channel.queue_declare("watch", durable=True, arguments={"x-mainstem-topic": "orders"})
            shop.queue_declare("orders", durable=True)

        def shown(*names: str) -> tuple[str, str]:
            found = json.loads(run("queue", "show", *names, *at).out)
            return found["topic"], found["queue"]

        assert shown("celery@host") == ("celery._40host", "celery._40host")
        assert shown("celery._40host") == ("celery._40host", "celery._40host")
        assert shown("orders") == ("orders", "orders")
        assert shown("orders", "--vhost", "/") == ("orders", "orders")
        assert shown("orders", "--vhost", "shop") == ("shop._.orders", "shop._.orders")
        assert shown("watch") == ("orders", "watch")
        assert run("queue", "show", "celery@host", "--vhost", "shop", *at).code == Exit.NOT_FOUND
        assert run("queue", "show", "a", "b", "c", *at).code == Exit.USAGE
        assert run("queue", "show", "orders", "watch", "--vhost", "/", *at).code == Exit.USAGE


def test_pika_sees_at_once_what_is_moved_and_purged(own_directory: Path, run: Run) -> None:
    path = own_directory / "mainstem-data"
    properties = pika.BasicProperties(
        delivery_mode=2, message_id="m-1", headers={"n": 1, "deep": {"a": [1, 2]}}, priority=2
    )
    with server(path, config=CONFIG) as running, channel_of(running) as channel:
        at = ("--at", str(running.kafka))
        channel.confirm_delivery()
        channel.queue_declare("failed@night", durable=True)
        channel.queue_declare("orders", durable=True, arguments={"x-max-priority": 5})
        for number in range(1, 8):
            channel.basic_publish("", "failed@night", b"%d" % number, properties)
        held = channel.basic_get("failed@night")
        inbox = Inbox(channel, "orders")

        looked = [json.loads(line) for line in run("queue", "peek", "failed@night", *at).lines]
        table = run("queue", "peek", "failed@night", *at, terminal=True).lines
        asked = run("queue", "move", "failed@night", "orders", *at)
        moved = run("queue", "move", "failed@night", "orders", "--max", "4", "--yes", *at)
        took = inbox.take(4)
        purged = run("queue", "purge", "failed@night", "--yes", *at)

        assert [each["payload"] for each in looked] == list("1234567")
        assert "message-id=m-1 delivery-mode=2 priority=2" in table[1]
        assert looked[0]["deliveries"] == 1
        assert asked.code == Exit.REFUSED
        assert json.loads(moved.out) == {
            "topic": "failed._40night",
            "queue": "failed._40night",
            "to": "orders",
            "moved": 4,
        }
        assert [each.body for each in took] == [b"2", b"3", b"4", b"5"]
        assert took[0].properties.headers == properties.headers
        assert (took[0].properties.message_id, took[0].properties.priority) == ("m-1", 2)
        assert json.loads(purged.out)["purged"] == 2
        assert waiting(channel, "failed@night") == 0
        channel.basic_nack(held[0].delivery_tag)
        assert drained(channel, "failed@night") == [b"1"]


def test_messages_that_are_moved_live_as_long_as_new_ones(own_directory: Path, run: Run) -> None:
    path = own_directory / "mainstem-data"
    with server(path, config=CONFIG) as running, channel_of(running) as channel:
        channel.queue_declare("failed", durable=True)
        channel.queue_declare("orders", durable=True, arguments={"x-message-ttl": 3_600_000})
        old = pika.BasicProperties(delivery_mode=2, timestamp=1)
        running.node.broker.publish("failed", [Event(b"old", timestamp_ms=1)]).durable.wait()
        channel.basic_publish("", "failed", b"older", old)

        assert (
            run("queue", "move", "failed", "orders", "--yes", "--at", str(running.kafka)).code == 0
        )

        assert drained(channel, "orders") == [b"old", b"older"]
