"""A share group as a queue: nothing is lost, unexpected or done twice, whatever fails."""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from tests.faults.kafka.share_consumers import PATIENCE_S, Sharer
from tests.faults.killable_server import QUICK, Mortal, create
from tests.faults.queue_checker import NOTHING_WRONG, TotalQueue, Verdict
from tests.faults.queue_flaws import FORGETS_ACKS, LOSES_SOME
from tests.long_runs import LONG

EVENTS = 20_000 if LONG else 300
KILLS = 20 if LONG else 2
TOPIC = "queue"


class Filler:
    """A producer that knows what it was acknowledged."""

    def __init__(self, address: str, queue: TotalQueue) -> None:
        self._queue = queue
        self._producer = Producer(
            {"bootstrap.servers": address, "enable.idempotence": True, **QUICK}
        )
        self._next = 0

    def put(self, count: int) -> None:
        for number in range(self._next, self._next + count):
            self._queue.note("attempted", number)
            self._producer.produce(
                TOPIC, b"%d" % number, partition=number % 2, on_delivery=self._settled
            )
        self._next += count
        self._producer.poll(0)

    def finish(self) -> None:
        assert self._producer.flush(PATIENCE_S) == 0

    def _settled(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._queue.note("acknowledged", int(message.value() or b""))


def prepare(address: str, lock_ms: int) -> None:
    create(address, TOPIC, 2)
    settings = {
        "share.auto.offset.reset": "earliest",
        "share.record.lock.duration.ms": str(lock_ms),
        "share.heartbeat.interval.ms": "500",
        "share.delivery.count.limit": "1000",
    }
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, TOPIC, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": address, **QUICK})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(PATIENCE_S)


def drain(queue: TotalQueue, filler: Filler) -> Verdict:
    filler.finish()
    queue.wait_until_drained(PATIENCE_S)
    return queue.verdict()


@contextmanager
def filled(path: Path, flaw: str, *, lock_ms: int) -> Iterator[tuple[Mortal, TotalQueue]]:
    """Give a server that has all events, and the queue that keeps account of them."""
    queue = TotalQueue()
    with Mortal(path, flaw=flaw) as server:
        prepare(server.address, lock_ms=lock_ms)
        filler = Filler(server.address, queue)
        filler.put(EVENTS)
        filler.finish()
        yield server, queue


def work_without_faults(path: Path, flaw: str = "", lost: int = 0) -> Verdict:
    with (
        filled(path, flaw, lock_ms=600_000) as (server, queue),
        Sharer(server.address, TOPIC, queue, patience_s=PATIENCE_S),
        Sharer(server.address, TOPIC, queue, patience_s=PATIENCE_S),
    ):
        queue.wait_until_done(EVENTS - lost, PATIENCE_S)
        return queue.verdict()


def work_through_kills_of_the_server(path: Path) -> Verdict:
    rng, queue = random.Random(5), TotalQueue()
    with Mortal(path) as server:
        prepare(server.address, lock_ms=2_000)
        filler = Filler(server.address, queue)
        with Sharer(server.address, TOPIC, queue), Sharer(server.address, TOPIC, queue):
            for _ in range(KILLS):
                filler.put(EVENTS // KILLS)
                enough = len(queue.done) + rng.randint(1, EVENTS // KILLS // 2)
                assert queue.wait_until_done(enough, PATIENCE_S), "nothing is done any more"
                server.restart()
            return drain(queue, filler)


def test_without_faults_every_event_is_taken_once(tmp_path: Path) -> None:
    verdict = work_without_faults(tmp_path)

    assert verdict == Verdict()


@pytest.mark.timeout(0 if LONG else 240)
def test_kills_of_the_server_lose_nothing(tmp_path: Path) -> None:
    verdict = work_through_kills_of_the_server(tmp_path)

    assert verdict.wrong == NOTHING_WRONG


@pytest.mark.timeout(0 if LONG else 240)
def test_consumers_that_crash_pause_and_are_slow_lose_nothing(tmp_path: Path) -> None:
    queue = TotalQueue()
    with Mortal(tmp_path) as server:
        prepare(server.address, lock_ms=1_000)
        filler = Filler(server.address, queue)
        with (
            Sharer(server.address, TOPIC, queue) as crashing,
            Sharer(server.address, TOPIC, queue) as pausing,
            Sharer(server.address, TOPIC, queue, "slow") as slow,
        ):
            until = time.monotonic() + PATIENCE_S
            while not all(each.took.wait(0.05) for each in (crashing, pausing, slow)):
                assert time.monotonic() < until, "somebody gets nothing"
                filler.put(20)
            crashing.kill()
            pausing.pause()
            with Sharer(server.address, TOPIC, queue):
                # What the others held goes to this one when its time is up.
                filler.put(EVENTS)
                assert queue.wait_until_all_done(slow.held(), PATIENCE_S)
                pausing.resume()
                slow.go_on()
                verdict = drain(queue, filler)

    assert verdict.wrong == NOTHING_WRONG
    assert verdict.redelivered


def test_it_would_be_noticed_if_events_were_lost(tmp_path: Path) -> None:
    lost = {at for at in range(EVENTS) if at // 2 % 100 == 50}

    assert set(work_without_faults(tmp_path, LOSES_SOME, len(lost)).lost) == lost


def test_it_would_be_noticed_if_acks_were_forgotten(tmp_path: Path) -> None:
    with (
        filled(tmp_path, FORGETS_ACKS, lock_ms=2_000) as (server, queue),
        Sharer(server.address, TOPIC, queue),
    ):
        assert queue.wait_until_done(1, PATIENCE_S)
        server.restart()

        assert queue.wait_until_duplicated(PATIENCE_S)
