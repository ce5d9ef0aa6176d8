"""Cursors in transactions: they move when it commits, together with its events."""

import pytest
from tests.broker.brokers import NOW_MS
from tests.broker.groups.classic.consumers import Room
from tests.broker.transactions.transactional_producers import Bank, LaggingLog, Teller

from mainstem.broker.groups.classic.coordinator import Membership, PartitionResults
from mainstem.broker.groups.cursors import MAX_METADATA_BYTES, Cursor
from mainstem.broker.topics.catalog import TopicPartition
from mainstem.core.errors import (
    IllegalGeneration,
    InvalidSetting,
    InvalidTransactionState,
    ProducerFenced,
    UnknownMember,
    UnknownTopic,
)

NOBODY = Membership()


def move(
    teller: Teller,
    cursors: dict[TopicPartition, int],
    *,
    member: Membership = NOBODY,
    adds_group: bool = False,
    metadata: str = "",
) -> PartitionResults:
    found = {place: Cursor(offset, NOW_MS, metadata) for place, offset in cursors.items()}
    transactions = teller.bank.transactions
    return transactions.commit_cursors(
        teller.name, teller.who, "g", member, found, adds_group=adds_group
    )


def offsets(bank: Bank) -> dict[TopicPartition, int]:
    return {place: cursor.offset for place, cursor in bank.broker.committed("g").items()}


def test_cursors_move_when_the_transaction_commits() -> None:
    log = LaggingLog()
    bank = Bank(log)
    teller = bank.begin()
    bank.transactions.add_group("tx", teller.who, "g")
    move(teller, {("t", 0): 5, ("t", 1): 6})
    move(teller, {("t", 0): 7}, metadata="note")

    assert offsets(bank) == {}
    assert bank.transactions.is_pending("g", "t", 0)

    log.appends = 0
    bank.clock.now_ms += 1
    teller.end(committed=True)

    assert log.appends == 1
    assert offsets(bank) == {("t", 0): 7, ("t", 1): 6}
    assert bank.broker.committed("g")[("t", 0)] == Cursor(7, NOW_MS + 1, "note")
    assert not bank.transactions.is_pending("g", "t", 0)
    assert offsets(bank.restarted()) == offsets(bank)


def test_cursors_stay_where_they_are_when_it_aborts() -> None:
    bank = Bank()
    bank.broker.commit("g", {("t", 0): 1})
    teller = bank.begin()
    move(teller, {("t", 0): 5}, adds_group=True)

    teller.end(committed=False, bumps_epoch=True)

    assert offsets(bank) == {("t", 0): 1}
    assert not bank.transactions.is_pending("g", "t", 0)


def test_pending_cursors_survive_a_restart() -> None:
    bank = Bank()
    teller = bank.begin()
    move(teller, {("t", 0): 5}, adds_group=True)

    teller.bank = bank = bank.restarted()

    assert bank.transactions.is_pending("g", "t", 0)
    teller.end(committed=True)
    assert offsets(bank) == {("t", 0): 5}


def test_under_the_older_rules_the_group_must_be_added_before() -> None:
    bank = Bank()
    teller = bank.begin()

    with pytest.raises(InvalidTransactionState):
        move(teller, {("t", 0): 5})
    bank.transactions.add_group("tx", teller.who, "g")
    move(teller, {("t", 0): 5})
    teller.end(committed=True)
    with pytest.raises(InvalidTransactionState):
        move(teller, {("t", 0): 6})


def test_a_fenced_producer_moves_nothing() -> None:
    bank = Bank()
    teller = bank.begin()
    bank.begin()

    with pytest.raises(ProducerFenced):
        move(teller, {("t", 0): 5}, adds_group=True)
    with pytest.raises(ProducerFenced):
        bank.transactions.add_group("tx", teller.who, "g")


def test_what_cannot_be_moved_does_not_hinder_the_rest() -> None:
    bank = Bank()
    teller = bank.begin()

    refused = move(teller, {("x", 0): 1, ("t", 0): 1}, adds_group=True).refused
    too_long = "x" * (MAX_METADATA_BYTES + 1)
    refused |= move(teller, {("t", 1): 1}, adds_group=True, metadata=too_long).refused

    assert {place: type(error) for place, error in refused.items()} == {
        ("x", 0): UnknownTopic,
        ("t", 1): InvalidSetting,
    }
    teller.end(committed=True)
    assert offsets(bank) == {("t", 0): 1}


def test_a_member_that_is_no_longer_one_moves_nothing() -> None:
    bank = Bank()
    room = Room(bank.broker, bank.clock)
    first, second = room.stable(2)
    teller = bank.begin()
    member = Membership(first.member_id, first.generation)
    move(teller, {("t", 0): 1}, member=member, adds_group=True)

    past = Membership(first.member_id, first.generation - 1)
    with pytest.raises(IllegalGeneration):
        move(teller, {("t", 0): 2}, member=past, adds_group=True)
    room.leave(second)
    move(teller, {("t", 0): 2}, member=member, adds_group=True)
    room.leave(first)
    with pytest.raises(UnknownMember):
        move(teller, {("t", 0): 3}, member=member, adds_group=True)

    teller.end(committed=True)
    assert offsets(bank) == {("t", 0): 2}


def test_older_producers_cannot_say_for_which_member_they_speak() -> None:
    bank = Bank()
    Room(bank.broker, bank.clock).stable(1)
    teller = bank.begin()

    move(teller, {("t", 0): 1}, adds_group=True)
    teller.end(committed=True)

    assert offsets(bank) == {("t", 0): 1}


def test_a_topic_deleted_meanwhile_gets_no_cursor() -> None:
    bank = Bank()
    bank.broker.create_topic("u")
    teller = bank.begin()
    move(teller, {("t", 0): 1, ("u", 0): 2}, adds_group=True)

    bank.broker.delete_topic("u")
    teller.end(committed=True)

    assert offsets(bank) == {("t", 0): 1}
    assert bank.restarted().transactions.fold == bank.transactions.fold
