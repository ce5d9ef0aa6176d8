"""How long a test waits for the broker of the pytest fixture: python -m bench.fixture."""

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from mainstem.client.testing.local_broker import LocalBroker, LocalServer

ROUNDS = 15


def first_event(broker: LocalBroker, name: str) -> None:
    """Connect, publish to a topic that does not exist, and read that event."""
    topic = broker.topic(name)
    _publish(broker, topic)
    consumer = _consumer(broker, name)
    consumer.assign([TopicPartition(topic, number, 0) for number in range(4)])
    assert consumer.poll(10) is not None
    consumer.close()


def group_join(broker: LocalBroker, name: str) -> None:
    """Join a group, and read an event through it."""
    consumer = _consumer(broker, name)
    consumer.subscribe([broker.topic("known")])
    assert consumer.poll(10) is not None
    consumer.close()


def crash(broker: LocalBroker, name: str) -> None:
    """Kill the broker, and have it back."""
    broker.crash_and_restart()


def advance(broker: LocalBroker, name: str) -> None:
    """Move the clock, with everything that becomes due."""
    broker.advance(60)


def _publish(broker: LocalBroker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.kafka})
    producer.produce(topic, b"event")
    assert producer.flush(10) == 0


def _consumer(broker: LocalBroker, name: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": broker.kafka,
            "group.id": broker.group(name),
            "auto.offset.reset": "earliest",
        }
    )


STEPS: dict[str, Callable[[LocalBroker, str], None]] = {
    "first event": first_event,
    "group join and first event": group_join,
    "crash_and_restart": crash,
    "advance": advance,
}


def main() -> None:
    """Measure every step, and print a table."""
    print("| step | median ms | slowest ms |")
    print("|---|---|---|")
    with tempfile.TemporaryDirectory() as directory:
        began = time.perf_counter()
        server = LocalServer(Path(directory) / "broker")
        started_ms = (time.perf_counter() - began) * 1000
        print(f"| start of the broker, once per run | {started_ms:.0f} | |")
        broker = LocalBroker(server, "bench")
        _publish(broker, broker.topic("known"))
        for label, step in STEPS.items():
            took_ms = []
            for number in range(ROUNDS):
                began = time.perf_counter()
                step(broker, f"{label.replace(' ', '-')}-{number}")
                took_ms.append((time.perf_counter() - began) * 1000)
            print(f"| {label} | {statistics.median(took_ms):.0f} | {max(took_ms):.0f} |")
        server.kill()


if __name__ == "__main__":
    main()
