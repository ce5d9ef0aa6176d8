"""Topics for tests of the source and the sink: made, filled, and read without Spark."""

from collections.abc import Iterable, Sequence

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from mainstem.pipelines.format.batch_reader import BatchReader
from mainstem.pipelines.format.options import source_options
from mainstem.pipelines.format.stream_reader import StreamReader

PATIENCE_S = 30
FIRST_MS = 1_700_000_000_000
Rows = list[tuple[int, int, bytes | None]]
"""Partition, offset and value of events."""


class Topic:
    """A topic of a server."""

    def __init__(self, address: str, name: str, partitions: int = 1, **config: str) -> None:
        self.address, self.name = address, name
        self.admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
        self.make(partitions, **config)

    def make(self, partitions: int = 1, **config: str) -> None:
        """Create it."""
        settings = {name.replace("_", "."): value for name, value in config.items()}
        new = NewTopic(self.name, partitions, 1, config=settings)
        self.admin.create_topics([new])[self.name].result(PATIENCE_S)

    def delete(self) -> None:
        """Delete it."""
        self.admin.delete_topics([self.name])[self.name].result(PATIENCE_S)

    def grow(self, partitions: int) -> None:
        """Let it have more partitions."""
        self.admin.create_partitions([NewPartitions(self.name, partitions)])[self.name].result(
            PATIENCE_S
        )

    def trim(self, offset: int, partition: int = 0) -> None:
        """Delete what is before an offset, as retention would."""
        asked = [TopicPartition(self.name, partition, offset)]
        for future in self.admin.delete_records(asked).values():
            future.result(PATIENCE_S)

    def fill(
        self, values: Iterable[str], partition: int = 0, at_ms: int | None = None, **config: str
    ) -> None:
        """Write events; those with a time are a millisecond apart."""
        settings = {name.replace("_", "."): value for name, value in config.items()}
        producer = Producer({"bootstrap.servers": self.address, "log_level": 0, **settings})
        for number, value in enumerate(values):
            producer.produce(
                self.name,
                value,
                key=value,
                partition=partition,
                timestamp=0 if at_ms is None else at_ms + number,
            )
        assert producer.flush(PATIENCE_S) == 0

    def transaction(self, values: Sequence[str], *, commit: bool, partition: int = 0) -> None:
        """Write events in a transaction and end it."""
        producer = self.begin(values, partition)
        (producer.commit_transaction if commit else producer.abort_transaction)(PATIENCE_S)

    def begin(self, values: Sequence[str], partition: int = 0) -> Producer:
        """Write events in a transaction and leave it open."""
        producer = Producer(
            {
                "bootstrap.servers": self.address,
                "log_level": 0,
                "transactional.id": f"{self.name}-writer",
            }
        )
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        for value in values:
            producer.produce(self.name, value, key=value, partition=partition)
        producer.flush(PATIENCE_S)
        return producer

    def events(self, partition: int = 0) -> list[tuple[int, str]]:
        """Return offset and value of the committed events, as any consumer would see them."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.address,
                "group.id": "looking",
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )
        consumer.assign([TopicPartition(self.name, partition, 0)])
        found: list[tuple[int, str]] = []
        while True:
            message = consumer.poll(PATIENCE_S)
            assert message is not None
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                consumer.close()
                return found
            found.append((message.offset() or 0, (message.value() or b"").decode()))

    def values(self) -> list[str]:
        """Return the values of the first partition's committed events."""
        return [value for _, value in self.events()]


def stream(topic: Topic, **options: str) -> StreamReader:
    """Return what Spark would ask about the topic."""
    return StreamReader(source_options(named(topic, options)))


def batch(topic: Topic, **options: str) -> BatchReader:
    """Return what Spark would ask about the topic once."""
    return BatchReader(source_options(named(topic, options)))


def named(topic: Topic, options: dict[str, str]) -> dict[str, str]:
    """Return options with the topic and its address."""
    which = {} if "subscribePattern" in options else {"subscribe": topic.name}
    return {"address": topic.address, **which, **options}


def rows(reader: BatchReader | StreamReader, tasks: Iterable[object]) -> Rows:
    """Return what tasks read."""
    return [
        (row["partition"], row["offset"], row["value"])
        for task in tasks
        for found in reader.read(task)  # type: ignore[arg-type]
        for row in found.select(["partition", "offset", "value"]).to_pylist()
    ]


def values(reader: BatchReader | StreamReader, tasks: Iterable[object]) -> list[str]:
    """Return the values that tasks read."""
    return [(value or b"").decode() for _, _, value in rows(reader, tasks)]
