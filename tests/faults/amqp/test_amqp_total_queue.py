"""A queue of AMQP clients: nothing is lost or unexpected, whatever fails, and nothing overtakes."""

import random
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.checker.proxy import Proxy
from tests.faults.amqp.amqp_clients import (
    AT_ONCE,
    PATIENCE_S,
    QUEUE,
    Consumer,
    Publisher,
    declare,
    drained,
    waiting,
)
from tests.faults.disk.test_full_disk import SmallDisk
from tests.faults.killable_server import Mortal, until
from tests.faults.queue_checker import NOTHING_WRONG, TotalQueue, Verdict
from tests.faults.queue_flaws import FORGETS_ACKS, LOSES_SOME
from tests.heads.admin.web import get
from tests.long_runs import LONG
from tests.tmpfs import mounted_tmpfs

from mainstem.node.data_directory import holder_of

EVENTS = 20_000 if LONG else 400
FAULTS = 40 if LONG else 3
CONFIRMED = EVENTS - FAULTS * 2 * AT_ONCE
"""How many messages are confirmed at least: what a fault leaves unconfirmed, which is up to
``AT_ONCE`` of each of two publishers, is not published again.
"""
SHORT_S = 2
SIZE = 16_384
"""So large that each portion needs more space than the log has set aside."""

KEEPS_WHAT_IS_OUT = """
from mainstem.heads.amqp091.adapter.queues.deliveries import Deliveries
Deliveries.give_back = lambda self: None
"""
CONFIRMS_WHAT_IT_DROPS = """
from mainstem.broker.door import AT_ONCE
from mainstem.heads.amqp091.adapter.publishing.publisher import Publisher
real = Publisher._publish
def publish(self, pending, held):
    kept = [each for each in pending if int(each.event.value) % 100 != 50]
    return real(self, kept, held) if kept else AT_ONCE
Publisher._publish = publish
"""


def ascending(numbers: list[int]) -> bool:
    return numbers == sorted(numbers)


def work_without_faults(
    path: Path, consumers: int = 1, flaw: str = "", lost: int = 0
) -> tuple[Verdict, bool]:
    """Return what was found, and whether each consumer took everything in order."""
    queue = TotalQueue()
    with Mortal(path, flaw=flaw, amqp=True) as server:
        Publisher(server.amqp[1], queue, range(EVENTS)).finish()
        with ExitStack() as taking:
            found = [
                taking.enter_context(Consumer(server.amqp[1], queue)) for _ in range(consumers)
            ]
            assert queue.wait_until_done(EVENTS - lost, PATIENCE_S)
    return queue.verdict(), all(ascending(life) for each in found for life in each.lives)


@pytest.mark.parametrize("consumers", [1, 3])
def test_without_faults_every_message_is_taken_once_and_in_order(
    tmp_path: Path, consumers: int
) -> None:
    assert work_without_faults(tmp_path, consumers) == (Verdict(), True)


def some_more(count: int, rng: random.Random) -> int:
    """Return after how many messages the next fault comes."""
    return min(count + rng.randint(1, EVENTS // FAULTS // 2), CONFIRMED)


def wait_for_some_more(queue: TotalQueue, rng: random.Random) -> None:
    """Wait until the next fault comes."""
    enough = some_more(len(queue.done), rng)
    assert queue.wait_until_done(enough, PATIENCE_S), "nothing is done any more"


@pytest.mark.timeout(0 if LONG else 240)
def test_kills_of_the_server_lose_nothing_and_one_consumer_sees_it_in_order(
    tmp_path: Path,
) -> None:
    rng, queue = random.Random(7), TotalQueue()
    with Mortal(tmp_path, amqp=True) as server, Consumer(server.amqp[1], queue) as consumer:
        publisher = Publisher(server.amqp[1], queue, range(EVENTS))
        for _ in range(FAULTS):
            wait_for_some_more(queue, rng)
            server.restart()
        publisher.finish()
        assert queue.wait_until_drained(PATIENCE_S)

    verdict = queue.verdict()
    assert (verdict.lost, verdict.unexpected) == ((), ())
    assert all(ascending(life) for life in consumer.lives)
    assert len(consumer.lives) > FAULTS


@pytest.mark.timeout(0 if LONG else 240)
def test_kills_and_cut_connections_lose_and_repeat_nothing_that_was_committed(
    tmp_path: Path,
) -> None:
    rng, queue = random.Random(11), TotalQueue()
    with Mortal(tmp_path, amqp=True) as server, Proxy() as network:
        network.target = server.amqp[1]
        with (
            Consumer(network.port, queue, commits=True),
            Consumer(network.port, queue, commits=True),
        ):
            publishers = [
                Publisher(network.port, queue, range(first, EVENTS, 2)) for first in range(2)
            ]
            for number in range(FAULTS):
                wait_for_some_more(queue, rng)
                if number % 3 == 2:
                    server.restart()
                    continue
                if number % 3 == 1:
                    network.mute()
                    network.wait_until_swallowed()
                network.heal()
            for each in publishers:
                each.finish()
            assert queue.wait_until_drained(PATIENCE_S)

    assert queue.verdict().wrong == NOTHING_WRONG


@pytest.mark.timeout(0 if LONG else 240)
def test_slow_and_crashing_consumers_lose_and_repeat_nothing(tmp_path: Path) -> None:
    queue = TotalQueue()
    with Mortal(tmp_path, amqp=True) as server, Proxy() as network:
        port = network.target = server.amqp[1]
        with (
            Consumer(port, queue, commits=True, pause_s=0.02) as slow,
            Consumer(network.port, queue, commits=True, crash=network.heal) as crashing,
        ):
            Publisher(port, queue, range(EVENTS)).finish()
            assert queue.wait_until_drained(PATIENCE_S)

    assert queue.verdict().wrong == NOTHING_WRONG
    assert len(crashing.lives) > FAULTS
    assert all(sum(map(len, each.lives)) for each in (slow, crashing))


@pytest.mark.timeout(0 if LONG else 240)
def test_a_disk_that_is_full_again_and_again_loses_and_repeats_nothing(tmp_path: Path) -> None:
    queue, portion = TotalQueue(), EVENTS // FAULTS
    with (
        mounted_tmpfs(tmp_path / "disk", "64m", "AMQP on a disk that is really full") as path,
        Mortal(path / "data", amqp=True) as server,
        Consumer(server.amqp[1], queue, commits=True) as consumer,
    ):
        disk, holder = SmallDisk(path), holder_of(path / "data")
        assert holder is not None
        for number in range(FAULTS):
            numbers = range(number * portion, (number + 1) * portion)
            disk.fill()
            publisher = Publisher(server.amqp[1], queue, numbers, size=SIZE)
            until(lambda: get(str(holder.admin), "/readyz").status == 503)
            disk.free()
            publisher.finish()
        assert queue.wait_until_drained(PATIENCE_S)

    assert queue.verdict() == Verdict()
    assert [ascending(life) for life in consumer.lives] == [True]


@pytest.mark.timeout(0 if LONG else 240)
def test_a_message_is_in_all_its_queues_or_in_none_of_them(tmp_path: Path) -> None:
    rng, queue = random.Random(13), TotalQueue()
    with Mortal(tmp_path, amqp=True) as server:
        port = server.amqp[1]
        declare(port, "left", "right", exchange="amq.fanout")
        publisher = Publisher(port, queue, range(EVENTS), exchange="amq.fanout")
        for _ in range(FAULTS):
            enough = some_more(len(queue.acknowledged), rng)
            assert queue.wait_until_acknowledged(enough, PATIENCE_S), "nothing is taken any more"
            server.restart()
        publisher.finish()
        left, right = drained(port, "left"), drained(port, "right")

    assert left == right
    assert ascending(left)
    assert queue.acknowledged <= set(left) <= queue.attempted


@pytest.mark.timeout(0 if LONG else 240)
def test_what_transactions_move_from_queue_to_queue_is_moved_once(tmp_path: Path) -> None:
    rng, queue = random.Random(17), TotalQueue()
    with Mortal(tmp_path, amqp=True) as server, Proxy() as network:
        network.target = server.amqp[1]
        Publisher(server.amqp[1], queue, range(EVENTS)).finish()
        declare(server.amqp[1], "moved")
        with Consumer(network.port, queue, commits=True, moves_to="moved"):
            for number in range(FAULTS):
                enough = len(queue.done) + rng.randint(1, EVENTS // FAULTS // 2)
                assert queue.wait_until_done(enough, PATIENCE_S), "nothing is done any more"
                if number % 2:
                    network.heal()
                else:
                    server.restart()
            until(lambda: waiting(server.amqp[1], "moved") >= EVENTS)
        moved, left = drained(server.amqp[1], "moved"), drained(server.amqp[1], QUEUE)

    assert (sorted(moved), left) == (list(range(EVENTS)), [])


# It would be noticed


@pytest.mark.parametrize("flaw", [LOSES_SOME, CONFIRMS_WHAT_IT_DROPS])
def test_it_would_be_noticed_if_messages_were_lost(tmp_path: Path, flaw: str) -> None:
    lost = tuple(range(50, EVENTS, 100))

    verdict, _ = work_without_faults(tmp_path, flaw=flaw, lost=len(lost))

    assert verdict.lost == lost


def test_it_would_be_noticed_if_a_lost_connection_kept_its_messages(tmp_path: Path) -> None:
    queue = TotalQueue()
    with Mortal(tmp_path, flaw=KEEPS_WHAT_IS_OUT, amqp=True) as server, Proxy() as network:
        network.target = server.amqp[1]
        Publisher(server.amqp[1], queue, range(EVENTS)).finish()
        with Consumer(network.port, queue, commits=True):
            assert queue.wait_until_done(1, PATIENCE_S)
            network.heal()
            queue.wait_until_drained(SHORT_S)

    assert queue.verdict().lost


def test_it_would_be_noticed_if_acks_were_forgotten(tmp_path: Path) -> None:
    queue = TotalQueue()
    with Mortal(tmp_path, flaw=FORGETS_ACKS, amqp=True) as server:
        Publisher(server.amqp[1], queue, range(EVENTS)).finish()
        with Consumer(server.amqp[1], queue):
            assert queue.wait_until_done(1, PATIENCE_S)
            server.restart()

            assert queue.wait_until_duplicated(PATIENCE_S)
