"""Transactions: events in several partitions become visible together, or not at all."""

import pytest
from tests.broker.brokers import NOW_MS, append, publish, transactional_batch
from tests.broker.producers.idempotent_producers import Works
from tests.broker.transactions.transactional_producers import TIMEOUT_MS, Bank, LaggingLog, Teller

from mainstem.broker.transactions.completion import LOOK_MS, TransactionLimits
from mainstem.broker.transactions.records import TransactionPhase
from mainstem.broker.transactions.transactions import ProducerSession
from mainstem.core.errors import (
    InvalidProducerEpoch,
    InvalidSetting,
    InvalidTransactionState,
    ProducerFenced,
    StorageFull,
    UnknownTransaction,
)
from mainstem.core.topic_settings import Durability, TopicSettings


def test_events_are_seen_when_their_transaction_commits() -> None:
    bank = Bank()
    teller = bank.begin().add(0, 1)
    teller.write(b"a")
    teller.write(b"b", partition=1)

    assert bank.committed(0) == []
    assert bank.transactions.stable("t", 0) == 0

    teller.end(committed=True)

    assert bank.committed(0) == [b"a"]
    assert bank.committed(1) == [b"b"]
    assert bank.transactions.stable("t", 0) == 2
    assert bank.markers(0) == bank.markers(1) == [(*teller.who, True)]


def test_events_are_never_seen_when_their_transaction_aborts() -> None:
    bank = Bank()
    teller = bank.begin().add(0)
    publish(bank.broker, "t", b"before", partition=0)
    teller.write(b"a", b"b")
    publish(bank.broker, "t", b"between", partition=0)
    teller.write(b"c")
    teller.end(committed=False)
    publish(bank.broker, "t", b"after", partition=0)

    for offset in range(7):
        read = bank.transactions.read_committed("t", 0, offset, 10_000)
        assert len(read.aborted) == (offset < 5)

    assert bank.committed() == [b"before", b"between", b"after"]
    assert bank.committed(offset=2) == [b"between", b"after"]
    assert bank.markers() == [(*teller.who, False)]


def test_readers_of_committed_events_stop_at_the_first_open_transaction() -> None:
    bank = Bank()
    publish(bank.broker, "t", b"plain", partition=0)
    first = bank.begin("one").add(0)
    second = bank.begin("two").add(0)
    first.write(b"1")
    second.write(b"2")
    second.end(committed=True)
    publish(bank.broker, "t", b"later", partition=0)

    assert bank.transactions.stable("t", 0) == 1
    assert bank.committed() == [b"plain"]
    assert bank.transactions.read_committed("t", 0, 1, 10_000).data.length == 0

    first.end(committed=True)

    assert bank.committed() == [b"plain", b"1", b"2", b"later"]


def test_a_long_transaction_is_passed_over_though_a_short_one_ended_before_it() -> None:
    bank = Bank()
    long = bank.begin("long").add(0)
    short = bank.begin("short").add(0)
    long.write(b"a")
    short.write(b"b")
    short.end(committed=False)
    long.end(committed=False)

    only_the_first = bank.transactions.read_committed("t", 0, 0, 1)

    assert [span.producer_id for span in only_the_first.aborted] == [long.who.producer_id]
    assert bank.committed() == []


def test_one_producer_aborts_and_commits_in_turn() -> None:
    bank = Bank()
    teller = bank.begin()
    for number in range(6):
        teller.add(0).write(b"%d" % number)
        teller.end(committed=number % 2 == 0)

    assert bank.committed() == [b"0", b"2", b"4"]
    for offset in range(12):
        assert bank.committed(offset=offset) == [
            b"%d" % number for number in (0, 2, 4) if 2 * number >= offset
        ]


def test_the_end_of_a_transaction_is_one_append() -> None:
    log = LaggingLog()
    bank = Bank(log)
    teller = bank.begin().add(0, 1)
    teller.write(b"a")
    teller.write(b"b", partition=1)
    log.appends = 0

    teller.end(committed=True)

    assert log.appends == 1


def test_a_commit_is_seen_when_it_is_durable_and_not_before() -> None:
    log = LaggingLog()
    bank = Bank(log)
    teller = bank.begin().add(0)
    teller.write(b"a")
    log.late = True

    ended = teller.end(committed=True)

    assert not ended.durable.done
    assert bank.transactions.stable("t", 0) == 0
    assert bank.committed() == []

    log.catch_up()

    assert ended.durable.done
    assert bank.committed() == [b"a"]


def test_transactions_that_have_ended_are_forgotten_though_nobody_reads_committed_events() -> None:
    bank = Bank()
    teller = bank.begin()

    for number in range(10):
        teller.add(0)
        teller.write(b"%d" % number)
        teller.end(committed=True)

    (kept,) = bank.transactions.completion.view.ending.values()
    assert len(kept) == 1
    assert len(bank.committed()) == 10


def test_a_transaction_survives_a_restart_and_can_be_ended_after_it() -> None:
    bank = Bank()
    teller = bank.begin().add(0, 1)
    teller.write(b"a")
    publish(bank.broker, "t", b"plain", partition=0)

    teller.bank = bank = bank.restarted()

    assert bank.transactions.stable("t", 0) == 0
    assert bank.committed() == []

    teller.write(b"b", partition=1)
    teller.end(committed=True)

    for each in (bank, bank.restarted()):
        assert each.committed() == [b"a", b"plain"]
        assert each.committed(1) == [b"b"]


def test_what_was_aborted_stays_so_after_a_restart() -> None:
    bank = Bank()
    teller = bank.begin().add(0)
    teller.write(b"a")
    teller.end(committed=False)

    bank = bank.restarted()

    assert bank.committed() == []
    assert bank.transactions.read_committed("t", 0, 0, 10_000).aborted[0].producer_id == (
        teller.who.producer_id
    )


# How it ends


def test_ending_twice_the_same_way_is_no_harm_under_the_older_rules() -> None:
    bank = Bank()
    teller = bank.begin().add(0)
    teller.write(b"a")
    teller.end(committed=True)

    teller.end(committed=True)

    with pytest.raises(InvalidTransactionState):
        teller.end(committed=False)
    assert len(bank.markers()) == 1


def committed_twice(teller: Teller) -> ProducerSession:
    """Commit under the newer rules, and once more as a client that had no answer."""
    before = teller.who
    teller.write(b"a", adds_partition=True)
    ended = teller.end(committed=True, bumps_epoch=True)
    again = teller.bank.transactions.end("tx", before, committed=True, bumps_epoch=True)
    assert again[:2] == ended[:2]
    return ended


def test_ending_twice_the_same_way_is_no_harm_under_the_newer_rules() -> None:
    bank = Bank()
    teller = bank.begin()
    before = teller.who

    committed_twice(teller)

    with pytest.raises(InvalidTransactionState):
        bank.transactions.end("tx", before, committed=False, bumps_epoch=True)
    assert len(bank.markers()) == 1

    teller.write(b"b", adds_partition=True)
    with pytest.raises(ProducerFenced):
        bank.transactions.end("tx", before, committed=True, bumps_epoch=True)


def test_nothing_can_be_ended_before_it_has_begun() -> None:
    bank = Bank()
    teller = bank.begin()

    for committed in (True, False):
        with pytest.raises(InvalidTransactionState):
            teller.end(committed=committed)
    with pytest.raises(InvalidTransactionState):
        teller.end(committed=True, bumps_epoch=True)

    assert teller.end(committed=False, bumps_epoch=True).epoch == 1


def test_under_the_newer_rules_used_up_epochs_lead_to_another_id() -> None:
    bank = Bank()
    bank.begin()
    bank.use_up_epochs()
    teller = bank.begin()
    before = teller.who

    ended = committed_twice(teller)

    assert ended.producer_id != before.producer_id
    assert ended.epoch == 0
    assert bank.markers() == [(before.producer_id, 2**15 - 1, True)]
    teller.write(b"b", adds_partition=True)
    teller.end(committed=True, bumps_epoch=True)
    assert bank.committed() == [b"a", b"b"]


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced() -> None:
    bank = Bank()
    teller = bank.begin().add(0)
    teller.write(b"a")
    bank.clock.now_ms += TIMEOUT_MS - 1
    bank.broker.tick()
    assert bank.transactions.describe("tx").phase is TransactionPhase.ONGOING
    assert bank.broker.wait_ms() == 1

    bank.clock.now_ms += 1
    bank.restarted().broker.tick()
    bank = bank.restarted()

    assert bank.transactions.describe("tx").phase is TransactionPhase.ABORTED
    assert bank.transactions.stable("t", 0) == 2
    assert bank.committed() == []
    teller.bank = bank
    with pytest.raises(ProducerFenced):
        teller.end(committed=True)
    with pytest.raises(InvalidProducerEpoch):
        teller.write(b"b")
    with pytest.raises(ProducerFenced):
        bank.begin(expected=teller.who)


def test_a_transactional_id_is_forgotten_when_it_is_not_used() -> None:
    bank = Bank()
    bank.begin()
    bank.clock.now_ms += TransactionLimits().expire_ms

    bank.broker.tick()

    assert bank.transactions.every() == []
    with pytest.raises(UnknownTransaction):
        bank.transactions.describe("tx")


def test_transactions_are_described_as_they_are() -> None:
    bank = Bank()
    teller = bank.begin().add(1)
    teller.write(b"a", partition=1)

    found = bank.transactions.describe("tx")

    assert [each.id for each in bank.transactions.every()] == ["tx"]
    assert (found.producer_id, found.epoch) == teller.who
    assert (found.phase, found.started_ms) == (TransactionPhase.ONGOING, NOW_MS)
    assert (found.timeout_ms, found.partitions) == (TIMEOUT_MS, (("t", 1),))
    assert bank.transactions.started_at("t", 1) == {teller.who.producer_id: 0}
    assert bank.broker.producers.describe("t", 1)[0].last_sequence == 0


# What happens to topics


def test_what_is_no_longer_in_the_log_needs_not_be_passed_over() -> None:
    bank = Bank()
    teller = bank.begin().add(0)
    teller.write(b"a")
    teller.end(committed=False)
    bank.broker.trim("t", 0, 1)
    bank.clock.now_ms += LOOK_MS

    bank.broker.tick()

    for each in (bank, bank.restarted()):
        assert each.transactions.fold.with_aborted() == []


def test_a_topic_deleted_in_the_middle_of_a_transaction_is_left_out_of_it() -> None:
    bank = Bank()
    bank.broker.create_topic("u")
    teller = bank.begin().add(0)
    teller.write(b"a")
    bank.transactions.add_partitions("tx", teller.who, [("u", 0)])
    append(bank.broker, "u", 0, transactional_batch(teller.who, b"x"))

    bank.broker.delete_topic("u")
    teller.end(committed=True)

    assert bank.committed() == [b"a"]
    assert bank.restarted().transactions.fold == bank.transactions.fold


def test_a_transaction_that_lost_events_in_memory_is_aborted() -> None:
    log = LaggingLog()
    bank = Bank(log, settings=TopicSettings(partitions=2, durability=Durability.MEMORY))
    teller = bank.begin().add(0)
    teller.write(b"a")
    # As a restart does to topics in memory.
    log._log._partitions[bank.broker.topic("t").partitions[0]].cut(end=0)

    bank = bank.restarted()

    assert bank.transactions.describe("tx").phase is TransactionPhase.ABORTED
    teller.bank = bank
    with pytest.raises(ProducerFenced):
        teller.end(committed=True)


def test_the_end_of_a_partition_is_not_taken_back_to_within_a_transaction() -> None:
    bank = Bank()
    aborted = bank.begin("one").add(0)
    aborted.write(b"a", b"b")
    aborted.end(committed=False)

    with pytest.raises(InvalidSetting):
        bank.broker.truncate("t", 0, 1)

    bank.broker.truncate("t", 0, 0)
    assert bank.transactions.fold.with_aborted() == []

    bank.begin("two").add(0).write(b"c")
    with pytest.raises(InvalidSetting):
        bank.broker.truncate("t", 0, 1)


def test_works_without_transactions_wait_for_nothing() -> None:
    works = Works()

    assert works.broker.wait_ms() is None

    works.write(7, 0)

    assert works.broker.wait_ms() == 2_000


def test_a_full_disk_changes_nothing_and_the_end_can_be_tried_again() -> None:
    log = LaggingLog()
    bank = Bank(log)
    teller = bank.begin().add(0)
    teller.write(b"a")
    bank.write(7, 0, b"plain", partition=1)
    log.is_full = True

    with pytest.raises(StorageFull):
        teller.end(committed=True)
    with pytest.raises(StorageFull):
        bank.write(7, 1, partition=1)
    bank.clock.now_ms += TIMEOUT_MS
    bank.broker.tick()
    assert bank.transactions.describe("tx").phase is TransactionPhase.ONGOING

    log.is_full = False
    bank.write(7, 1, b"more", partition=1)
    teller.end(committed=True)

    assert bank.committed(0) == [b"a"]
    assert bank.committed(1) == [b"plain", b"more"]


def test_a_full_disk_does_not_keep_the_log_from_being_opened() -> None:
    log = LaggingLog()
    bank = Bank(log)
    aborted = bank.begin("aborted").add(0)
    aborted.write(b"a")
    aborted.end(committed=False)
    bank.write(7, 0)
    bank.broker.producers.keep("t", 0)
    bank.begin("ongoing").add(0).write(b"b")
    # As a power cut does to a topic with durability disk.
    log.cut(bank.broker.topic("t").partitions[0], end=0)
    log.is_full = True

    bank = bank.restarted()

    assert bank.transactions.fold.with_aborted() == []
    assert bank.broker.producers.describe("t", 0) == []

    log.is_full = False
    assert bank.restarted().transactions.describe("ongoing").phase is TransactionPhase.ABORTED
