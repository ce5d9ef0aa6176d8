"""The fixture ``mainstem``, as users have it."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pika  # type: ignore[import-untyped]
import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from pika.exceptions import AMQPConnectionError  # type: ignore[import-untyped]

from mainstem import LocalBroker

pytest_plugins = ["pytester"]

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "testing.md"
SHOP = """
from pyspark.sql import functions as F
from mainstem import pipelines as p

@p.table(source="orders", schema="user string, amount decimal(12,2)",
         output="update", sink=p.sqlite("base.db", "revenue", key="user"))
def revenue(orders):
    return orders.groupBy("user").agg(F.sum("amount").alias("revenue"))
"""
PATIENCE_S = 30
SESSION_S = 45


def examples() -> list[str]:
    """Return the programs of the guide."""
    return re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """Run what the tester has written, as strictly as our own tests run."""
    return pytester.runpytest_subprocess("-W", "error", "-p", "no:asyncio", *arguments)


def test_the_examples_of_the_guide_run_as_they_are_written_on_two_workers(
    pytester: pytest.Pytester,
) -> None:
    kafka, amqp, _ = examples()
    pytester.makepyfile(test_kafka=kafka, test_amqp=amqp)

    run(pytester, "-n", "2").assert_outcomes(passed=4)


@pytest.mark.peers
def test_the_example_with_a_pipeline_passes_with_a_spark_session_of_its_own(
    pytester: pytest.Pytester,
) -> None:
    *_, example = examples()
    pytester.makepyfile(test_shop=example, shop=SHOP)

    pytester.runpytest_subprocess("-p", "no:asyncio").assert_outcomes(passed=1)


def test_a_run_without_the_fixture_neither_starts_nor_imports_anything() -> None:
    program = (
        "import sys, pytest; before = set(sys.modules);"
        "import mainstem.client.testing.pytest_plugin;"
        "print(*sorted(set(sys.modules) - before))"
    )

    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert loaded.stdout.split() == [
        b"mainstem",
        b"mainstem.client",
        b"mainstem.client.testing",
        b"mainstem.client.testing.pytest_plugin",
    ]


def test_names_are_the_tests_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        seen = set()

        @pytest.mark.parametrize("value", ["a/b", "a b", "\\u00fc" * 300])
        def test_names(mainstem, value):
            stem = mainstem.connect()
            names = {mainstem.topic("orders"), mainstem.topic("bills")}
            assert len(names) == 2
            assert not names & seen
            assert not [each for each in stem.topics.list() if each.name in names]
            for name in names:
                stem.publish(name, "x")
            seen.update(names)
        """
    )

    run(pytester).assert_outcomes(passed=3)


def test_what_was_acknowledged_is_there_after_a_crash(mainstem: LocalBroker) -> None:
    orders = mainstem.topic("orders")
    stem = mainstem.connect()
    stem.publish_many(orders, map(str, range(500)))
    address = mainstem.kafka

    mainstem.crash_and_restart()
    stem.publish(orders, "after")

    assert mainstem.kafka == address
    values = {event.text() for event in stem.subscribe(orders, follow=False)}
    assert values == {*map(str, range(500)), "after"}


def test_amqp_clients_have_a_virtual_host_of_their_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pika, pytest

        @pytest.mark.parametrize("number", [1, 2])
        def test_empty(mainstem, number):
            connection = pika.BlockingConnection(pika.URLParameters(mainstem.amqp_url))
            channel = connection.channel()
            channel.confirm_delivery()
            declared = channel.queue_declare("orders", durable=True)
            channel.basic_publish("", "orders", b"book")
            connection.close()
            assert declared.method.message_count == 0
        """
    )

    run(pytester).assert_outcomes(passed=2)


def test_queues_and_confirmed_messages_are_there_after_a_crash(mainstem: LocalBroker) -> None:
    url = mainstem.amqp_url
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("orders", durable=True)
    channel.basic_publish("", "orders", b"book", pika.BasicProperties(delivery_mode=2))

    mainstem.crash_and_restart()

    with pytest.raises(AMQPConnectionError):
        channel.queue_declare("orders", passive=True)
    assert mainstem.amqp_url == url
    connection = pika.BlockingConnection(pika.URLParameters(url))
    assert connection.channel().basic_get("orders", auto_ack=True)[2] == b"book"
    connection.close()


def test_delayed_messages_come_when_the_clock_is_moved(mainstem: LocalBroker) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(mainstem.amqp_url))
    channel = connection.channel()
    channel.confirm_delivery()
    kind = {"x-delayed-type": "fanout"}
    channel.exchange_declare("later", "x-delayed-message", durable=True, arguments=kind)
    channel.queue_declare("orders", durable=True)
    channel.queue_bind("orders", "later")
    channel.basic_publish(
        "later", "", b"book", pika.BasicProperties(headers={"x-delay": 3_600_000})
    )
    assert channel.basic_get("orders") == (None, None, None)

    mainstem.advance(3601)

    _, _, body = next(channel.consume("orders", inactivity_timeout=30))
    assert body == b"book"
    connection.close()


def test_a_queue_of_amqp_may_be_on_a_topic_of_the_test(mainstem: LocalBroker) -> None:
    bills = mainstem.topic("bills")
    stem = mainstem.connect()
    stem.publish(bills, "paid")
    connection = pika.BlockingConnection(pika.URLParameters(mainstem.amqp_url))
    channel = connection.channel()
    channel.queue_declare("bills", arguments={"x-mainstem-topic": bills})

    assert channel.basic_get("bills", auto_ack=True)[2] == b"paid"
    connection.close()


def test_a_member_that_is_silent_for_its_session_loses_its_partitions(
    mainstem: LocalBroker,
) -> None:
    orders = mainstem.topic("orders")
    with mainstem.connect() as stem:
        stem.topics.create(orders, partitions=2)
    group = {"group.id": mainstem.group("billing"), "bootstrap.servers": mainstem.kafka}
    silent = Consumer(
        {**group, "heartbeat.interval.ms": SESSION_S * 900, "session.timeout.ms": SESSION_S * 1000}
    )
    silent.subscribe([orders])
    _poll_until_assigned(silent, 2)

    mainstem.advance(SESSION_S + 1)

    described = mainstem.connect().groups.show(mainstem.group("billing"))
    assert described.members == {}
    silent.close()


def test_a_transaction_that_takes_too_long_is_aborted(mainstem: LocalBroker) -> None:
    orders = mainstem.topic("orders")
    sender = Producer(
        {
            "bootstrap.servers": mainstem.kafka,
            "transactional.id": mainstem.group("sender"),
            "transaction.timeout.ms": 60_000,
        }
    )
    sender.init_transactions(PATIENCE_S)
    sender.begin_transaction()
    sender.produce(orders, "late")
    assert sender.flush(PATIENCE_S) == 0

    mainstem.advance(61)

    with pytest.raises(KafkaException):
        sender.commit_transaction(PATIENCE_S)


def test_the_clock_stays_moved_over_a_crash_and_is_put_right_for_the_next_test(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
        def kept_of_one_event(mainstem):
            name = mainstem.topic("short")
            stem = mainstem.connect()
            stem.topics.create(name, durability="memory", retention_ms=600_000)
            stem.publish(name, "an hour old to a broker whose clock is moved")
            mainstem.advance(0)
            return stem.topics.show(name).events

        def test_moved(mainstem):
            mainstem.advance(3600)
            mainstem.crash_and_restart()
            assert kept_of_one_event(mainstem) == 0

        def test_right(mainstem):
            assert kept_of_one_event(mainstem) == 1
        """
    )

    run(pytester).assert_outcomes(passed=2)


def test_a_broker_that_has_ended_is_not_the_next_tests(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import os, signal

        def test_signalled(mainstem):
            os.kill(mainstem._server._process.pid, signal.SIGKILL)

        def test_ended(mainstem):
            mainstem.connect().publish(mainstem.topic("orders"), "x")
            mainstem._server.kill()

        def test_next(mainstem):
            mainstem.connect().publish(mainstem.topic("orders"), "x")
        """
    )

    run(pytester).assert_outcomes(passed=3)


def test_what_interrupts_the_test_run_does_not_reach_the_broker(mainstem: LocalBroker) -> None:
    # The terminal sends it to all processes of its session's foreground group.
    pid = mainstem._server._process.pid

    assert os.getsid(pid) == os.getpgid(pid) == pid


def _poll_until_assigned(consumer: Consumer, partitions: int) -> None:
    until = time.monotonic() + PATIENCE_S
    while len(consumer.assignment()) < partitions:
        assert time.monotonic() < until
        consumer.poll(0.05)


def test_the_former_name_of_the_plugin_still_gives_the_fixture(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(mainstem): assert mainstem.kafka")

    # "no:mainstem" leaves out what the entry point names now.
    ran = run(pytester, "-p", "no:mainstem", "-p", "mainstem.client.pytest_plugin")

    ran.assert_outcomes(passed=1)
