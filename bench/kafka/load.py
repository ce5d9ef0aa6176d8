"""A process with Kafka clients: reads a job per line of stdin, and reports it as a line of JSON.

Every job has an ``address`` and a ``topic``. ``produce`` and ``consume`` report seconds and the
processor time of this process; ``tail`` reports once it is at the tail, and then the latencies of
the events that ``pace`` sends meanwhile from another process.
"""

import json
import resource
import sys
import time
from collections.abc import Callable, Sequence
from struct import Struct
from typing import TypedDict

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

CHUNK = 1000
PATIENCE_S = 60
MOST_QUEUED = 80_000
"""Less than the 100,000 that librdkafka takes; what was answered counts until it is polled."""
QUIET = {"log_level": 2}
_STAMP = Struct(">q")


class Job(TypedDict, total=False):
    """What can be asked for."""

    do: str
    address: str
    topic: str
    partitions: int
    size: int
    events: int
    readers: int
    rate: int
    settings: dict[str, object]


def produce(job: Job) -> None:
    """Produce events as fast as the client can, and wait for the last answer."""
    refused: list[str] = []
    producer = _producer(job, refused)
    chunk = [{"value": bytes(job["size"])} for _ in range(CHUNK)]
    topic, left = job["topic"], job["events"]
    with _Clock() as clock:
        while left:
            if len(producer) > MOST_QUEUED:
                producer.poll(0.01)
            left -= producer.produce_batch(topic, chunk[: min(CHUNK, left)])
        unsent = producer.flush(PATIENCE_S)
    if refused or unsent:
        raise SystemExit(f"{unsent} events of {job} were not sent; {refused[:3]}")
    _report(seconds=clock.seconds, cpu_s=clock.cpu_s)


def consume(job: Job) -> None:
    """Read all events of a topic, with as many consumers as asked for."""
    consumers = [_consumer(job) for _ in range(job.get("readers", 1))]
    # One more was sent to connect.
    left = [job["events"] + 1] * len(consumers)
    wait_s = 1.0 if len(consumers) == 1 else 0.001
    with _Clock() as clock:
        for consumer in consumers:
            consumer.assign(
                [TopicPartition(job["topic"], each, 0) for each in range(job["partitions"])]
            )
        while max(left) > 0:
            for number, consumer in enumerate(consumers):
                if left[number] > 0:
                    left[number] -= _counted(consumer.consume(min(CHUNK, left[number]), wait_s))
            if time.perf_counter() - clock.began > PATIENCE_S:
                raise SystemExit(f"{sum(left)} events of {job} did not come")
    _report(seconds=clock.seconds, cpu_s=clock.cpu_s)
    for consumer in consumers:
        consumer.close()


def tail(job: Job) -> None:
    """Wait at the tail of a topic, and take how old each event is when it comes."""
    consumer = _consumer(job)
    consumer.assign([TopicPartition(job["topic"], 0, 0)])
    while _counted(consumer.consume(1, PATIENCE_S)) == 0:
        pass
    _report(ready=1)
    ages: list[int] = []
    while len(ages) < job["events"]:
        message = consumer.poll(PATIENCE_S)
        now = time.time_ns()
        if message is None:
            raise SystemExit(f"{job['events'] - len(ages)} events of {job} did not come")
        if _counted([message]):
            ages.append(now - _STAMP.unpack_from(message.value() or b"")[0])
    # The first second warms up.
    ages = sorted(ages[job["rate"] :])
    _report(
        p50_ms=ages[len(ages) // 2] / 1e6,
        p99_ms=ages[len(ages) * 99 // 100] / 1e6,
        highest_ms=ages[-1] / 1e6,
    )
    consumer.close()


def pace(job: Job) -> None:
    """Produce events at a steady rate, each with the time at which it was made."""
    refused: list[str] = []
    producer = _producer(job, refused)
    padding = bytes(job["size"] - _STAMP.size)
    began = time.perf_counter()
    for number in range(job["events"]):
        early_s = began + number / job["rate"] - time.perf_counter()
        if early_s > 0:
            time.sleep(early_s)
        producer.produce(job["topic"], _STAMP.pack(time.time_ns()) + padding)
        producer.poll(0)
    if producer.flush(PATIENCE_S) or refused:
        raise SystemExit(f"events of {job} were not sent; {refused[:3]}")
    _report(done=1)


def _producer(job: Job, refused: list[str]) -> Producer:
    """Return a producer that is connected: one event is sent first."""

    def heard(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            refused.append(str(error))

    settings = {"bootstrap.servers": job["address"], "acks": "all"} | QUIET
    producer = Producer(settings | job.get("settings", {}))
    producer.produce(job["topic"], bytes(_STAMP.size), partition=0, on_delivery=heard)
    if producer.flush(PATIENCE_S) or refused:
        raise SystemExit(f"nothing can be produced: {job}; {refused}")
    return producer


def _consumer(job: Job) -> Consumer:
    settings = {
        "bootstrap.servers": job["address"],
        "group.id": "bench",
        "enable.auto.commit": False,
    }
    consumer = Consumer(settings | QUIET | job.get("settings", {}))
    consumer.list_topics(job["topic"], timeout=PATIENCE_S)
    return consumer


def _counted(messages: Sequence[Message]) -> int:
    for message in messages:
        error = message.error()
        if error is not None:
            raise SystemExit(f"reading failed: {error}")
    return len(messages)


class _Clock:
    """Times a block, and what processor time it takes here."""

    def __enter__(self) -> "_Clock":
        self._cpu_s = _cpu_s()
        self.seconds = self.cpu_s = 0.0
        self.began = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self.began
        self.cpu_s = _cpu_s() - self._cpu_s


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _report(**figures: float) -> None:
    print(json.dumps(figures), flush=True)


JOBS: dict[str, Callable[[Job], None]] = {
    "produce": produce,
    "consume": consume,
    "tail": tail,
    "pace": pace,
}


if __name__ == "__main__":
    for line in sys.stdin:
        asked: Job = json.loads(line)
        JOBS[asked["do"]](asked)
