"""Delayed messages over kill -9: every confirmed one is delivered exactly once."""

import random
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pika  # type: ignore[import-untyped]
import pytest
from pika.adapters.blocking_connection import BlockingChannel  # type: ignore[import-untyped]
from pika.exceptions import AMQPError  # type: ignore[import-untyped]
from tests.faults.killable_server import DIES_IN_WRITE, Mortal, until
from tests.foreign_clients.amqp.pika_client import channel_of, drained, waiting
from tests.long_runs import LONG, seeds

FORGETS = """
from mainstem.broker.delays import delays
whole = delays.moved_record
delays.moved_record = lambda moved: whole(delays.Moved(((1, 5),)))
"""
"""A server that does not write down for all events that they were moved."""
SLICES = 3
FAR_MS = 2**32 - 1


def declare(channel: BlockingChannel) -> None:
    kind = {"x-delayed-type": "fanout"}
    channel.exchange_declare("later", "x-delayed-message", durable=True, arguments=kind)
    channel.queue_declare("q", durable=True)
    channel.queue_bind("q", "later")


def publish(channel: BlockingChannel, number: int, delay_ms: int) -> None:
    properties = pika.BasicProperties(delivery_mode=2, headers={"x-delay": delay_ms})
    channel.basic_publish("later", "", b"%d" % number, properties)


def publish_together(channel: BlockingChannel, count: int, delay_ms: int) -> None:
    """Publish messages that are due at nearly the same time, all or nothing."""
    channel.tx_select()
    for number in range(count):
        publish(channel, number, delay_ms)
    channel.tx_commit()


def came(server: Mortal, count: int) -> list[int]:
    """Wait for so many messages; return all there are."""
    with channel_of(server.amqp) as channel:
        until(lambda: waiting(channel, "q") >= count)
        return [int(body) for body in drained(channel, "q")]


@pytest.mark.parametrize("nth", seeds(0, 2, 12))
def test_a_server_that_dies_while_many_are_due_moves_each_once(tmp_path: Path, nth: int) -> None:
    module = "mainstem.broker.delays.delays"
    crash = DIES_IN_WRITE.format(
        module=module, owner="Delays", method="_block_until", call=1, nth=nth
    )
    with Mortal(tmp_path / "data", amqp=True, crash=crash) as server:
        # On a busy machine they are due, and the server is dead, before it answers the commit.
        with suppress(AMQPError), channel_of(server.amqp) as channel:
            declare(channel)
            publish_together(channel, SLICES * 500, 1_000)
        server.wait()
        server.start()

        assert came(server, SLICES * 500) == list(range(SLICES * 500))
        with server.corpse() as broker:
            assert broker.delays.waiting().events == 0


@pytest.mark.parametrize("seed", seeds(1, 1, 20))
def test_what_was_confirmed_comes_once_whenever_the_server_is_killed(
    tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    confirmed: set[int] = set()
    number = 0
    with Mortal(tmp_path / "data", amqp=True) as server:
        for _ in range(20 if LONG else 4):
            try:
                with channel_of(server.amqp) as channel:
                    declare(channel)
                    channel.confirm_delivery()
                    last = number + rng.randint(20, 100)
                    while number < last:
                        publish(channel, number, rng.randint(1, 500))
                        confirmed.add(number)
                        number += 1
                    server.kill()
            except AMQPError:
                # It was killed with the connection open.
                server.start()
            number += 1
        found = came(server, len(confirmed))

    assert max(Counter(found).values()) == 1
    assert set(found) == confirmed


def test_a_server_that_moves_some_twice_is_noticed(tmp_path: Path) -> None:
    with Mortal(tmp_path / "data", amqp=True, flaw=FORGETS) as server:
        with channel_of(server.amqp) as channel:
            declare(channel)
            # It keeps the records of those behind it.
            publish(channel, 50, FAR_MS)
            publish_together(channel, 50, 1)
            until(lambda: waiting(channel, "q") >= 50)
        server.restart()

        assert len(came(server, 51)) > 50
