"""Makes the data directory of this version that ``test_old_directories.py`` opens from then on.

python -m tests.node.make_directory 2026-11-19
"""

import sys
import tarfile
import tempfile
from pathlib import Path

import pika  # type: ignore[import-untyped]
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.faults.killable_server import Mortal

import mainstem

HERE = Path(__file__).parent / "directories"
DELAY_MS = 2**32 - 1


def make(directory: Path) -> None:
    """Fill a data directory, and kill the server in the end."""
    with Mortal(directory, amqp=True) as server:
        fill_topics(server.address)
        with mainstem.connect(server.address) as stem:
            consume(stem, server.address)
        fill_amqp(server.amqp[1])
        notes = Producer({"bootstrap.servers": server.address, "acks": "all"})
        notes.produce("notes", b"just before a crash")
        assert notes.flush(60) == 0


def fill_topics(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    topics = [
        NewTopic("orders", 4, 1),
        NewTopic("prices", 1, 1, config={"cleanup.policy": "compact"}),
        NewTopic("notes", 1, 1, config={"mainstem.durability": "disk"}),
    ]
    for made in admin.create_topics(topics).values():
        made.result(60)
    plain = Producer({"bootstrap.servers": address, "acks": "all"})
    for number in range(50):
        plain.produce("orders", b'{"id": %d}' % number, b"k%d" % number)
        plain.produce("prices", b'{"price": %d}' % number, b"%d" % (number % 3))
    plain.produce("orders", b'{"id": "last"}', b"last")
    plain.produce("notes", b"kept on disk")
    assert plain.flush(60) == 0
    transactional = Producer({"bootstrap.servers": address, "transactional.id": "t"})
    transactional.init_transactions(60)
    for key in (b"a", b"c"):
        transactional.begin_transaction()
        transactional.produce("orders", b"committed" if key == b"c" else b"aborted", key)
        transactional.flush(60)
        if key == b"c":
            transactional.commit_transaction(60)
        else:
            transactional.abort_transaction(60)


def consume(stem: mainstem.Stem, address: str) -> None:
    """Commit ten offsets of a Kafka group and two of another, and ack an event of a queue."""
    for group, count in (("classic", 10), ("local", 2)):
        consumer = Consumer({"bootstrap.servers": address, "group.id": group})
        left = count
        offsets = []
        for partition in range(4):
            _, end = consumer.get_watermark_offsets(TopicPartition("orders", partition), 60)
            offsets.append(TopicPartition("orders", partition, min(left, end)))
            left -= min(left, end)
        consumer.commit(offsets=offsets, asynchronous=False)
        consumer.close()
    with stem.queue("orders", name="emails") as queue:
        delivery = queue.poll(60)
        assert delivery is not None
        delivery.ack()


def fill_amqp(port: int) -> None:
    """Declare an exchange and a queue with two messages, one of them acked, and delay a third."""
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.exchange_declare("shop", "topic", durable=True)
        channel.exchange_declare(
            "later", "x-delayed-message", durable=True, arguments={"x-delayed-type": "fanout"}
        )
        channel.queue_declare("mails", durable=True, arguments={"x-max-priority": 2})
        channel.queue_bind("mails", "shop", "orders.*")
        channel.queue_bind("mails", "later")
        properties = pika.BasicProperties(delivery_mode=2, message_id="m", priority=1)
        for body in (b"acked", b"waits"):
            channel.basic_publish("shop", "orders.new", body, properties)
        delayed = pika.BasicProperties(delivery_mode=2, headers={"x-delay": DELAY_MS})
        channel.basic_publish("later", "", b"delayed", delayed)
        method, _, body = channel.basic_get("mails")
        assert body == b"acked"
        channel.basic_ack(method.delivery_tag)
        channel.queue_declare("mails", passive=True)


def main(day: str) -> None:
    """Write the archive of a day."""
    with tempfile.TemporaryDirectory() as work:
        directory = Path(work) / "data"
        make(directory)
        with tarfile.open(HERE / f"{day}.tar.xz", "w:xz") as archive:
            archive.add(directory, ".")


if __name__ == "__main__":
    main(sys.argv[1])
