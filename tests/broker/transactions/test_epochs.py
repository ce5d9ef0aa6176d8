"""Producer epochs of transactional ids: fencing, and which requests are accepted."""

import pytest
from tests.broker.brokers import append, transactional_batch
from tests.broker.transactions.transactional_producers import IN_BOTH, TIMEOUT_MS, Bank

from mainstem.broker.transactions.completion import TransactionLimits
from mainstem.broker.transactions.epochs import ProducerIdAndEpoch
from mainstem.broker.transactions.records import TransactionPhase
from mainstem.broker.transactions.transactions import Transactions
from mainstem.core.errors import (
    InvalidName,
    InvalidProducerEpoch,
    InvalidSetting,
    InvalidTransactionState,
    InvalidTransactionTimeout,
    ProducerFenced,
    UnknownPartition,
    UnknownProducer,
    UnknownTopic,
)

# Who may speak


def test_whoever_begins_fences_the_one_before_and_aborts_its_transaction() -> None:
    bank = Bank()
    old = bank.begin().add(0)
    old.write(b"old")

    new = bank.begin()

    assert new.who == (old.who.producer_id, old.who.epoch + 1)
    assert bank.committed() == []
    assert bank.transactions.stable("t", 0) == 2
    with pytest.raises(InvalidProducerEpoch):
        old.write(b"more")
    with pytest.raises(ProducerFenced):
        old.add(1)
    with pytest.raises(ProducerFenced):
        old.end(committed=True)

    new.add(0).write(b"new")
    new.end(committed=True)

    assert bank.committed() == [b"new"]


def test_a_producer_that_goes_on_after_an_error_gets_another_epoch() -> None:
    bank = Bank()
    teller = bank.begin().add(0)
    teller.write(b"a")

    again = bank.begin(expected=teller.who)
    asked_twice = bank.begin(expected=teller.who)

    assert again.who == asked_twice.who == (teller.who.producer_id, teller.who.epoch + 1)
    bank.begin()
    with pytest.raises(ProducerFenced):
        bank.begin(expected=again.who)
    with pytest.raises(ProducerFenced):
        bank.begin(expected=ProducerIdAndEpoch(again.who.producer_id + 1, 0))


def test_a_producer_that_goes_on_must_not_abort_the_transaction_of_its_successor() -> None:
    bank = Bank()
    old = bank.begin()
    new = bank.begin().add(0)
    new.write(b"new")

    with pytest.raises(ProducerFenced):
        bank.begin(expected=old.who)
    new.end(committed=True)

    assert bank.committed() == [b"new"]


def test_a_producer_whose_epochs_are_used_up_gets_another_id() -> None:
    bank = Bank()
    teller = bank.begin()
    bank.use_up_epochs()
    last = bank.begin(expected=ProducerIdAndEpoch(teller.who.producer_id, 2**15 - 3))
    assert last.who.epoch == 2**15 - 2
    last.add(0).write(b"a")

    fresh = bank.begin(expected=last.who)
    asked_twice = bank.begin(expected=last.who)

    assert fresh.who == asked_twice.who
    assert fresh.who.producer_id != last.who.producer_id
    assert fresh.who.epoch == 0
    assert bank.markers() == [(last.who.producer_id, 2**15 - 1, False)]
    with pytest.raises(InvalidProducerEpoch):
        last.write(b"b")


def test_a_stranger_is_refused() -> None:
    bank = Bank()
    teller = bank.begin()
    stranger = ProducerIdAndEpoch(teller.who.producer_id + 1, 0)

    with pytest.raises(UnknownProducer):
        bank.transactions.add_partitions("tx", stranger, IN_BOTH)
    with pytest.raises(UnknownProducer):
        bank.transactions.add_partitions("never", teller.who, IN_BOTH)
    with pytest.raises(UnknownProducer):
        bank.transactions.end("never", teller.who, committed=True)
    with pytest.raises(UnknownProducer):
        bank.write(stranger.producer_id, 0, transactional=True)


def test_senseless_beginnings_are_refused() -> None:
    bank = Bank()

    with pytest.raises(InvalidName):
        bank.transactions.begin("", TIMEOUT_MS)
    with pytest.raises(InvalidTransactionTimeout):
        bank.transactions.begin("tx", 0)
    with pytest.raises(InvalidTransactionTimeout):
        bank.transactions.begin("tx", 900_001)


def test_transactional_ids_are_limited() -> None:
    bank = Bank()
    state, limits = bank.broker._state, TransactionLimits(max_ids=1)
    transactions = Transactions(state, bank.broker.producers, bank.broker.classic, limits=limits)
    transactions.begin("one", TIMEOUT_MS)

    with pytest.raises(InvalidSetting):
        transactions.begin("two", TIMEOUT_MS)
    assert transactions.begin("one", TIMEOUT_MS).epoch == 1


# What may be written


def test_partitions_that_do_not_exist_cannot_be_added_and_then_none_is() -> None:
    bank = Bank()
    teller = bank.begin()

    moved = bank.transactions.add_partitions("tx", teller.who, [("t", 0), ("t", 2), ("x", 0)])

    assert {place: type(error) for place, error in moved.refused.items()} == {
        ("t", 2): UnknownPartition,
        ("x", 0): UnknownTopic,
    }
    assert bank.transactions.describe("tx").phase is TransactionPhase.EMPTY


def test_under_the_older_rules_a_partition_must_be_added_before_it_is_written_to() -> None:
    bank = Bank()
    teller = bank.begin().add(0)

    with pytest.raises(InvalidTransactionState):
        teller.write(b"x", partition=1)
    teller.write(b"a")
    teller.end(committed=True)
    with pytest.raises(InvalidTransactionState):
        teller.write(b"x")

    assert bank.committed() == [b"a"]


def test_under_the_newer_rules_writing_adds_the_partition() -> None:
    bank = Bank()
    teller = bank.begin()

    teller.write(b"a", adds_partition=True)
    teller.write(b"b", partition=1, adds_partition=True)

    assert bank.transactions.describe("tx").partitions == (("t", 0), ("t", 1))
    ended = teller.end(committed=True, bumps_epoch=True)
    assert ended.epoch == 1
    assert bank.committed(0) == [b"a"]
    assert bank.committed(1) == [b"b"]


def test_under_the_newer_rules_what_comes_late_cannot_get_into_the_next_transaction() -> None:
    bank = Bank()
    teller = bank.begin()
    before = teller.who
    teller.write(b"a", adds_partition=True)
    teller.end(committed=False, bumps_epoch=True)
    late = transactional_batch(before, b"late", sequence=1)
    teller.write(b"b", adds_partition=True)

    with pytest.raises(InvalidProducerEpoch):
        append(bank.broker, "t", 0, late, adds_partition=True)
    teller.end(committed=True, bumps_epoch=True)

    assert bank.committed() == [b"b"]


def test_a_producer_cannot_write_outside_of_its_open_transaction() -> None:
    bank = Bank()
    teller = bank.begin().add(0)
    teller.write(b"a")

    with pytest.raises(InvalidTransactionState):
        bank.write(teller.who.producer_id, 1)
    bank.write(teller.who.producer_id, 0, partition=1)


def test_batches_that_come_twice_are_written_once_in_transactions_too() -> None:
    bank = Bank()
    teller = bank.begin()
    teller.write(b"a", adds_partition=True)
    teller.sequences = [0, 0]

    assert teller.write(b"a", adds_partition=True) == 0
    teller.end(committed=True)
    teller.sequences = [1, 0]
    teller.add(0).write(b"b")
    teller.end(committed=True)

    assert bank.committed() == [b"a", b"b"]
