"""Producer ids and epochs of a transactional id, and their next values.

How this works: InitProducerId increments the epoch, which fences the previous producer. Older
clients keep their epoch over all transactions; with KIP-890 each EndTxn increments it, so that no
late batch of one transaction can end up in the next. When the epochs (up to 2^15 - 1) are used up,
a new producer id is allocated. If a response was lost and the producer retries, it gets the same
response again. Batches of an older epoch are refused on arrival: ``transactions.py`` (``enter``)
and ``producers/sequences.py`` (``decide``).

All functions here are pure: they take the old state and return the new one.
"""

from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from mainstem.broker.transactions.records import Transaction, TransactionPhase
from mainstem.core.errors import (
    InvalidName,
    InvalidTransactionState,
    ProducerFenced,
    UnknownProducer,
)

MAX_EPOCH = 2**15 - 1
"""The last epoch is only used to fence a producer whose epochs are used up."""


class ProducerIdAndEpoch(NamedTuple):
    """The producer id and epoch in a producer's request."""

    producer_id: int
    epoch: int


def begin(
    transactional_id: str,
    was: Transaction | None,
    expected: ProducerIdAndEpoch | None,
    timeout_ms: int,
    now_ms: int,
    new_id: Callable[[], int],
) -> Transaction:
    """Return the state for a producer that starts, or recovers from an error (InitProducerId).

    A recovering producer sends its id and epoch (``expected``); it is refused if another producer
    has taken over.
    """
    empty = TransactionPhase.EMPTY
    if was is None:
        return Transaction(new_id(), 0, empty, timeout_ms, now_ms)
    if expected is not None and expected != (was.producer_id, was.epoch):
        if not _asks_again(was, expected):
            raise ProducerFenced(transactional_id, expected.epoch, was.epoch)
        return replace(was, timeout_ms=timeout_ms, changed_ms=now_ms)
    last_epoch = -1 if expected is None else was.epoch
    if _is_used_up(was):
        return Transaction(
            new_id(),
            0,
            empty,
            timeout_ms,
            now_ms,
            last_epoch=last_epoch,
            previous_id=was.producer_id,
        )
    return Transaction(
        was.producer_id, was.epoch + 1, empty, timeout_ms, now_ms, last_epoch=last_epoch
    )


def check(
    transactional_id: str, was: Transaction | None, producer: ProducerIdAndEpoch
) -> Transaction:
    """Return the transaction of a producer; raises UnknownProducer or ProducerFenced."""
    if not transactional_id:
        raise InvalidName("producer", transactional_id, "it is empty")
    if was is None or was.producer_id != producer.producer_id:
        raise UnknownProducer(transactional_id, producer.producer_id)
    if was.epoch != producer.epoch:
        raise ProducerFenced(transactional_id, producer.epoch, was.epoch)
    return was


def end(
    transactional_id: str,
    was: Transaction | None,
    producer: ProducerIdAndEpoch,
    committed: bool,
    bumps_epoch: bool,
    now_ms: int,
    new_id: Callable[[], int],
) -> Transaction:
    """Return the state after a transaction's end; the same object if this is a retry.

    ``bumps_epoch``: the producer gets a new epoch (KIP-890).
    """
    done = TransactionPhase.COMMITTED if committed else TransactionPhase.ABORTED
    if bumps_epoch and was is not None and _ended_before(was, producer):
        if was.phase is done:
            return was
        raise InvalidTransactionState(transactional_id, was.phase, _deed(committed))
    was = check(transactional_id, was, producer)
    if was.phase is done and not bumps_epoch:
        return was
    # With KIP-890 a producer may abort an empty transaction to get a new epoch.
    if was.phase is not TransactionPhase.ONGOING and (committed or not bumps_epoch):
        raise InvalidTransactionState(transactional_id, was.phase, _deed(committed))
    ended = replace(was, phase=done, changed_ms=now_ms, started_ms=-1, is_bumped=bumps_epoch)
    if not bumps_epoch:
        return ended
    if _is_used_up(was):
        return replace(
            ended,
            producer_id=new_id(),
            epoch=0,
            last_epoch=was.epoch,
            previous_id=was.producer_id,
        )
    return replace(ended, epoch=was.epoch + 1, last_epoch=was.epoch)


def abort_timed_out(was: Transaction, now_ms: int) -> Transaction:
    """Return the state that aborts a timed-out transaction, and fences its producer."""
    return replace(
        was,
        phase=TransactionPhase.ABORTED,
        epoch=min(was.epoch + 1, MAX_EPOCH),
        changed_ms=now_ms,
        started_ms=-1,
        last_epoch=-1,
        is_bumped=False,
    )


def _is_used_up(was: Transaction) -> bool:
    return was.epoch >= MAX_EPOCH - 1


def _asks_again(was: Transaction, expected: ProducerIdAndEpoch) -> bool:
    """Tell whether this InitProducerId is a retry of one that was already answered."""
    if was.phase is TransactionPhase.ONGOING or not 0 <= expected.epoch == was.last_epoch:
        return False
    return expected.producer_id in (was.producer_id, was.previous_id)


def _ended_before(was: Transaction, producer: ProducerIdAndEpoch) -> bool:
    """Tell whether an EndTxn is a retry: it has the epoch from before the end."""
    if not was.is_bumped or producer.epoch != was.last_epoch:
        return False
    return producer.producer_id == (was.previous_id if was.epoch == 0 else was.producer_id)


def _deed(committed: bool) -> str:
    return "committed" if committed else "aborted"
