"""Who may speak for a transactional id: which producer id and epoch, now and after the next step.

How this works: every producer that begins under a transactional id gets a later epoch than the one
before, which is fenced by that. Producers under the older rules keep their epoch from transaction
to transaction; under the newer ones (KIP-890) the end of each gives them another, so that nothing
of an earlier transaction can arrive in a later one. An epoch is at most 2^15 - 1; when they are
used up, there is a new producer id. Answers get lost and producers ask again: what was decided is
then answered once more, and not decided anew.

Everything here is a plain function from what is to what shall be.
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
"""Only ever used to fence a producer whose epochs are used up."""


class ProducerIdAndEpoch(NamedTuple):
    """Who speaks: a producer id and an epoch."""

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
    """Give a transactional id to a producer that begins, or to one that goes on after an error.

    The latter says who it was (``expected``), and is refused if somebody came in between.
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


def check(transactional_id: str, was: Transaction | None, who: ProducerIdAndEpoch) -> Transaction:
    """Return the transaction of a speaker, unless it is not its own."""
    if not transactional_id:
        raise InvalidName("producer", transactional_id, "it is empty, transactions have names")
    if was is None or was.producer_id != who.producer_id:
        raise UnknownProducer(transactional_id, who.producer_id)
    if was.epoch != who.epoch:
        raise ProducerFenced(transactional_id, who.epoch, was.epoch)
    return was


def end(
    transactional_id: str,
    was: Transaction | None,
    who: ProducerIdAndEpoch,
    committed: bool,
    bumps: bool,
    now_ms: int,
    new_id: Callable[[], int],
) -> Transaction:
    """End a transaction; the same object comes back if it had been ended this way already.

    ``bumps``: the producer follows the newer rules, and gets another epoch.
    """
    done = TransactionPhase.COMMITTED if committed else TransactionPhase.ABORTED
    if bumps and was is not None and _ended_before(was, who):
        if was.phase is done:
            return was
        raise InvalidTransactionState(transactional_id, was.phase, _deed(committed))
    was = check(transactional_id, was, who)
    if was.phase is done and not bumps:
        return was
    # Under the newer rules a producer may abort what it has not begun, to get another epoch.
    if was.phase is not TransactionPhase.ONGOING and (committed or not bumps):
        raise InvalidTransactionState(transactional_id, was.phase, _deed(committed))
    ended = replace(was, phase=done, changed_ms=now_ms, started_ms=-1, is_bumped=bumps)
    if not bumps:
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


def fence(was: Transaction, now_ms: int) -> Transaction:
    """Abort a transaction that its producer did not end, and let nobody go on with it."""
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
    """Tell whether this was answered already, and the answer got lost."""
    if was.phase is TransactionPhase.ONGOING or not 0 <= expected.epoch == was.last_epoch:
        return False
    return expected.producer_id in (was.producer_id, was.previous_id)


def _ended_before(was: Transaction, who: ProducerIdAndEpoch) -> bool:
    """Tell whether the speaker is who it was before its transaction ended."""
    if not was.is_bumped or who.epoch != was.last_epoch:
        return False
    return who.producer_id == (was.previous_id if was.epoch == 0 else was.producer_id)


def _deed(committed: bool) -> str:
    return "committed" if committed else "aborted"
