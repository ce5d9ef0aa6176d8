"""Acknowledgements of share groups, mapped to settlements.

| Kafka's word | the broker's word |
|---|---|
| acquire, acquisition lock | acquire, lock |
| 0 gap (no record at this offset) | absent |
| 1 accept | ack |
| 2 release | nack: redelivery; this delivery counts towards the delivery limit |
| 3 reject | reject: dead letter |
| 4 renew | renew |
| archived (rejected, or too many deliveries) | settled, as a dead letter |
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mainstem.auth import Action, Resource, ResourceKind
from mainstem.broker.door import Outcome, Settled, Settlement
from mainstem.core.errors import MainstemError, OffsetOutOfRange
from mainstem.heads.kafka.adapter.errors import code_of
from mainstem.heads.kafka.adapter.service import Asked
from mainstem.heads.kafka.adapter.share.share_sessions import SessionPartition, ShareSession
from mainstem.heads.kafka.adapter.topics import name_of
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages.share_fetch import (
    Acknowledgement,
    AcknowledgeTopic,
    ShareFetchTopic,
)

_OUTCOMES = (Outcome.ABSENT, Outcome.ACK, Outcome.NACK, Outcome.REJECT, Outcome.RENEW)
_RENEW = 4
_MOST = 200_000
"""Maximum offsets that one request may acknowledge: twice what a fetch returns, as batches are
rounded up.
"""
Wanted = dict[int, list[Acknowledgement]]
"""Acknowledged ranges of offsets by partition; expanded only after they are checked."""


class Refusal(NamedTuple):
    """An error code and text: why no record of a partition was settled."""

    code: Code
    message: str | None = None


class Acked(NamedTuple):
    """The result per partition (None on success, else the error), and the settlements made."""

    results: dict[SessionPartition, Refusal | None]
    settled: list[Settled]


def acknowledge(
    asked: Asked,
    session: ShareSession,
    topics: Sequence[ShareFetchTopic] | Sequence[AcknowledgeTopic],
    *,
    renews: bool,
) -> Acked:
    """Settle acknowledged records: of each partition either all or none.

    Kafka silently ignores acknowledgements before the first unsettled record. Here they are
    refused, so that a late member learns that another may have processed its records. ``renews``:
    whether this request may renew locks, if the group allows that.
    """
    known = _RENEW if renews else _RENEW - 1
    is_allowed = asked.service.broker.share.settings(session.group).renews
    results: dict[SessionPartition, Refusal | None] = {}
    by_topic: dict[bytes, Wanted] = {}
    room = _MOST
    for topic in topics:
        wanted = by_topic.setdefault(topic.topic_id, {})
        for each in topic.partitions:
            if not each.acknowledgement_batches:
                continue
            # If a partition is named twice, the second entry counts.
            wanted.pop(each.partition_index, None)
            found = _understood(each.acknowledgement_batches, known, room)
            if not is_allowed and not isinstance(found, Refusal):
                found = _without_renewals(found)
            if isinstance(found, Refusal):
                results[topic.topic_id, each.partition_index] = found
            else:
                wanted[each.partition_index] = found
                room -= sum(map(_count, found))
    settled: list[Settled] = []
    for topic_id, wanted in by_topic.items():
        if wanted:
            refused = _settle(asked, session, topic_id, wanted, settled)
            results |= {(topic_id, number): refused.get(number) for number in wanted}
    return Acked(results, settled)


def _settle(
    asked: Asked, session: ShareSession, topic_id: bytes, wanted: Wanted, done: list[Settled]
) -> dict[int, Refusal]:
    name = name_of(asked.service, topic_id)
    if name is None:
        return dict.fromkeys(wanted, Refusal(Code.UNKNOWN_TOPIC_ID))
    queues = asked.service.broker.queues
    try:
        refused = queues.undelivered(
            name, session.group, {number: acks[-1].last_offset for number, acks in wanted.items()}
        )
        settled = queues.settle_by_partition(
            name,
            session.group,
            session.member,
            {
                number: [each for ack in acks for each in _of(number, ack)]
                for number, acks in wanted.items()
                if number not in refused
            },
        )
    except MainstemError as error:
        return dict.fromkeys(wanted, Refusal(code_of(error), str(error)))
    done.append(settled)
    refused |= settled.refused
    return {at: Refusal(_code(error), str(error)) for at, error in refused.items()}


def _code(error: MainstemError) -> Code:
    # The offset was never delivered, so the error is not about a record's state.
    return Code.INVALID_REQUEST if isinstance(error, OffsetOutOfRange) else code_of(error)


def _without_renewals(found: list[Acknowledgement]) -> list[Acknowledgement] | Refusal:
    if any(_RENEW in each.acknowledge_types for each in found):
        return Refusal(Code.INVALID_RECORD_STATE, "renewal of locks is disabled for this group")
    return found


def _understood(
    acks: Sequence[Acknowledgement], known: int, room: int
) -> list[Acknowledgement] | Refusal:
    """Return a partition's acknowledgements sorted by offset, or the error if they are invalid.

    Kafka requires them in the order of offsets. Here any order is allowed: librdkafka sends them in
    the order of its application's calls, and a refusal would have all of them redelivered.
    """
    found = sorted(acks, key=lambda ack: ack.first_offset)
    last = -1
    for ack in found:
        count, types = _count(ack), ack.acknowledge_types
        if count < 1 or ack.first_offset < max(last, 0):
            return Refusal(Code.INVALID_REQUEST, "acknowledged offsets must not overlap")
        if ack.first_offset == last:
            # Kafka accepts such an order, but then finds the offset already settled.
            return Refusal(Code.INVALID_RECORD_STATE, f"offset {last} is acknowledged twice")
        if len(types) not in (1, count):
            return Refusal(
                Code.INVALID_REQUEST, f"{len(types)} acknowledge types for {count} offsets"
            )
        if not all(0 <= each <= known for each in types):
            return Refusal(
                Code.INVALID_REQUEST, f"acknowledge types are 0 to {known} in this request"
            )
        room -= count
        if room < 0:
            return Refusal(
                Code.INVALID_REQUEST, f"a request may acknowledge {_MOST} records, not more"
            )
        last = ack.last_offset
    return found


def _count(ack: Acknowledgement) -> int:
    return ack.last_offset - ack.first_offset + 1


def _of(partition: int, ack: Acknowledgement) -> Iterator[Settlement]:
    types = ack.acknowledge_types
    for place, offset in enumerate(range(ack.first_offset, ack.last_offset + 1)):
        yield Settlement(partition, offset, _OUTCOMES[types[place if len(types) > 1 else 0]])


def results_by_topic(acked: Acked, error: MainstemError | None) -> dict[bytes, dict[int, Refusal]]:
    """Return the result of each partition, by topic.

    ``error``: why the settlements could not be stored, None if they were.
    """
    done = Refusal(Code.NONE) if error is None else Refusal(code_of(error), str(error))
    found: dict[bytes, dict[int, Refusal]] = {}
    for (topic_id, number), refusal in acked.results.items():
        found.setdefault(topic_id, {})[number] = refusal or done
    return found


def denied(asked: Asked, group: str | None) -> Refusal | None:
    """Return the error if the peer lacks the permission to READ the group, else None.

    The broker checks the permissions on topics.
    """
    try:
        asked.service.may(Action.READ, Resource(ResourceKind.GROUP, group or ""))
    except MainstemError as error:
        return Refusal(code_of(error), str(error))
    return None


def lock_ms_of(asked: Asked, session: ShareSession) -> int:
    """Return the lock duration of acquired records in ms: the shortest of the topics."""
    broker = asked.service.broker
    names = [name_of(asked.service, topic_id) for topic_id in session.topics()]
    known = [broker.queues.settings(name, session.group) for name in names if name]
    found = [each.lock_ms for each in known if each is not None]
    return min(found) if found else broker.share.settings(session.group).lock_ms
