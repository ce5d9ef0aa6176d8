"""A process with Kafka clients, which does the jobs of ``jobs.py``."""

import time
from collections.abc import Sequence

from bench.kafka.jobs import (
    PATIENCE_S,
    STAMP,
    Clock,
    Job,
    report,
    report_ages,
    serve,
    stamped,
    touched,
)
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

CHUNK = 1000
MOST_QUEUED = 80_000
"""Less than the 100,000 that librdkafka takes; what was answered counts until it is polled."""
QUIET = {"log_level": 2}


def produce(job: Job) -> None:
    """Produce events as fast as the client can, and wait for the last answer."""
    refused: list[str] = []
    producer = _producer(job, refused)
    chunk = [{"value": bytes(job["size"])} for _ in range(CHUNK)]
    topic, left = job["topic"], job["events"]
    report(ready=1)
    with Clock() as clock:
        while left:
            if len(producer) > MOST_QUEUED:
                producer.poll(0.01)
            left -= producer.produce_batch(topic, chunk[: min(CHUNK, left)])
        unsent = producer.flush(PATIENCE_S)
    if refused or unsent:
        raise SystemExit(f"{unsent} events of {job} were not sent; {refused[:3]}")
    report(seconds=clock.seconds, cpu_s=clock.cpu_s)


def consume(job: Job) -> None:
    """Read all events of a topic, with as many consumers as asked for."""
    consumers = [_consumer(job) for _ in range(job.get("readers", 1))]
    left = [job["events"] + touched(job)] * len(consumers)
    wait_s = 1.0 if len(consumers) == 1 else 0.001
    report(ready=1)
    with Clock() as clock:
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
    report(seconds=clock.seconds, cpu_s=clock.cpu_s)
    for consumer in consumers:
        consumer.close()


def tail(job: Job) -> None:
    """Wait at the tail of a topic, and take how old each event is when it comes."""
    consumer = _consumer(job)
    consumer.assign([TopicPartition(job["topic"], 0, 0)])
    while _counted(consumer.consume(1, PATIENCE_S)) == 0:
        pass
    report(ready=1)
    ages: list[int] = []
    while len(ages) < job["events"]:
        message = consumer.poll(PATIENCE_S)
        now = time.time_ns()
        if message is None:
            raise SystemExit(f"{job['events'] - len(ages)} events of {job} did not come")
        if _counted([message]):
            ages.append(now - STAMP.unpack_from(message.value() or b"")[0])
    report_ages(ages)
    consumer.close()


def pace(job: Job) -> None:
    """Produce events at a steady rate, each with the time at which it was made."""
    refused: list[str] = []
    producer = _producer(job, refused)
    for value in stamped(job):
        producer.produce(job["topic"], value)
        producer.poll(0)
    if producer.flush(PATIENCE_S) or refused:
        raise SystemExit(f"events of {job} were not sent; {refused[:3]}")
    report(done=1)


def _producer(job: Job, refused: list[str]) -> Producer:
    """Return a producer that is connected: events are sent first."""

    def heard(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            refused.append(str(error))

    settings = {"bootstrap.servers": job["address"], "acks": "all"} | QUIET
    producer = Producer(settings | job.get("settings", {}))
    for partition in range(touched(job)):
        producer.produce(job["topic"], bytes(STAMP.size), partition=partition, on_delivery=heard)
    if producer.flush(PATIENCE_S) or refused:
        raise SystemExit(f"nothing can be produced: {job}; {refused}")
    return producer


def _consumer(job: Job) -> Consumer:
    settings = {
        "bootstrap.servers": job["address"],
        "group.id": "bench",
        "enable.auto.commit": False,
        # With 100,000 events it rests for a second otherwise: a faster server looks slower.
        "fetch.queue.backoff.ms": 10,
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


if __name__ == "__main__":
    serve({"produce": produce, "consume": consume, "tail": tail, "pace": pace})
