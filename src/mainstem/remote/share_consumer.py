"""One member of a share group, over librdkafka's share consumer, which is a preview.

How this works: a member polls a few events, says of each what becomes of it, and may poll again
when it has said so of all. The lock of an event begins at the server, when it is given out: a poll
that comes back empty may have left a fetch on its way, and what that takes waits in librdkafka.

What is said without waiting travels together with what was said after it, in the order in which it
was said, and Kafka refuses all of a partition unless its offsets ascend. So what is said behind
another that the server has not answered yet is waited for, as that travels by itself.
"""

from collections.abc import Collection, Iterable, Sequence
from enum import Enum

import msgspec
from confluent_kafka import (
    AcknowledgeType,
    IllegalStateException,
    KafkaError,
    KafkaException,
    ShareConsumer,
    TopicPartition,
)

from mainstem.core.errors import Fenced, InvalidSetting, MainstemError
from mainstem.core.event import Event, Position
from mainstem.remote.cluster import Cluster
from mainstem.remote.errors import GONE, explained, kafka_error
from mainstem.remote.events import event_of

_FETCH_WAIT_MS = 200
"""How long a fetch waits at the server at most: so long one may be under way after a poll."""
_LONGEST_MS = 86_400_000
_STALE = {
    KafkaError.INVALID_RECORD_STATE,
    KafkaError.SHARE_SESSION_NOT_FOUND,
    KafkaError.INVALID_SHARE_SESSION_EPOCH,
    KafkaError.GROUP_ID_NOT_FOUND,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.INVALID_REQUEST,
}
"""The event is not out with this member any more."""


class Verdict(Enum):
    """What becomes of an event."""

    ACCEPT = AcknowledgeType.ACCEPT
    RELEASE = AcknowledgeType.RELEASE
    REJECT = AcknowledgeType.REJECT


class Shared(msgspec.Struct, frozen=True):
    """An event that was given out, and how often, this time included."""

    event: Event
    count: int


class NotOut(Fenced):
    """The events went back, and perhaps to another member."""


class Unanswered:
    """What was said without waiting, and the server has not answered: the last of each partition.

    They were said in ascending order, so all are answered when the last one is.
    """

    def __init__(self) -> None:
        self._last: dict[int, int] = {}

    def said(self, events: Iterable[Event]) -> None:
        """Note that this was said of events."""
        for each in events:
            self._last[each.partition] = max(each.offset, self._last.get(each.partition, -1))

    def answered(self, partition: int, offsets: Collection[int]) -> None:
        """Note that the server has answered, whatever it was."""
        if self._last.get(partition) in offsets:
            del self._last[partition]

    def is_ahead_of(self, events: Iterable[Event]) -> bool:
        """Tell whether one of these must not travel together with what was said before."""
        return any(each.offset < self._last.get(each.partition, -1) for each in events)


class RemoteShareConsumer:
    """A member; not thread-safe: its owner sees to that."""

    def __init__(self, cluster: Cluster, group: str, topic: str, most: int) -> None:
        self._cluster = cluster
        self._group, self._topic = group, topic
        self.most = most
        self.gone = False
        """Whether nobody answers."""
        self._late: dict[Position, MainstemError] = {}
        self._given_back: set[Position] = set()
        self._unanswered = Unanswered()
        try:
            self._consumer = ShareConsumer(
                cluster.config(
                    group_id=group,
                    share_acknowledgement_mode="explicit",
                    max_poll_records=most,
                    fetch_wait_max_ms=_FETCH_WAIT_MS,
                    # Events are held for as long as their locks last, which the server looks after.
                    max_poll_interval_ms=_LONGEST_MS,
                )
                | {"error_cb": self._on_error}
            )
        except KafkaException as error:
            raise self._refusal(kafka_error(error)) from None
        except ValueError as error:
            raise InvalidSetting(f"a queue cannot be read like this: {error}") from None
        self._consumer.set_acknowledgement_commit_callback(self._on_commit)
        self._consumer.subscribe([topic])

    def poll(self, timeout_s: float) -> list[Shared]:
        """Return what is given out, waiting a while for the first; all before must be settled."""
        try:
            messages = self._consumer.poll(timeout_s)
        except KafkaException as error:
            raise self._refusal(kafka_error(error)) from None
        found, trouble = [], None
        for message in messages:
            found_wrong = message.error()
            if found_wrong is not None:
                # librdkafka has given it back, or rejected it, by itself.
                trouble = found_wrong
                continue
            place = message.topic() or "", message.partition() or 0, message.offset() or 0
            found.append(Shared(event_of(message, *place), message.delivery_count() or 1))
        if found:
            self.gone = False
        elif trouble is not None:
            raise self._refusal(trouble)
        return found

    def settle(self, events: Sequence[Event], verdict: Verdict) -> dict[Position, MainstemError]:
        """Say what becomes of events, and wait until it is durable; return what did not count."""
        refused = self._say(events, verdict)
        said = {each.position for each in events} - refused.keys()
        if not said:
            return refused
        try:
            answers = self._consumer.commit_sync(self._cluster.timeout_s)
        except KafkaException as error:
            raise self._refusal(kafka_error(error)) from None
        failed = {at.partition: error for at, error in answers.items() if error is not None}
        refused |= {
            each: self._explained(failed[each.partition])
            for each in said
            if each.partition in failed
        }
        # These are told here, and not once more to whoever comes next.
        for each in refused:
            self._late.pop(each, None)
        return refused

    def settle_soon(
        self, events: Sequence[Event], verdict: Verdict
    ) -> dict[Position, MainstemError]:
        """Say what becomes of events, without waiting if it can travel with what was said before.

        What does not count is told later.
        """
        if self._unanswered.is_ahead_of(events):
            return self.settle(events, verdict)
        return self._send(events, verdict)

    def _send(self, events: Sequence[Event], verdict: Verdict) -> dict[Position, MainstemError]:
        refused = self._say(events, verdict)
        self._unanswered.said(each for each in events if each.position not in refused)
        try:
            self._consumer.commit_async()
        except KafkaException as error:
            raise self._refusal(kafka_error(error)) from None
        return refused

    def give_back(self, events: Sequence[Event]) -> None:
        """Release events that may be out no more; it is no news if that does not count."""
        self._given_back |= {each.position for each in events}
        # In any order: they are the last of what was given, or all of it is out no more.
        self._send(events, Verdict.RELEASE)

    def _say(self, events: Sequence[Event], verdict: Verdict) -> dict[Position, MainstemError]:
        refused: dict[Position, MainstemError] = {}
        for each in sorted(events, key=lambda it: it.position):
            place = (each.topic, each.partition, each.offset)
            try:
                self._consumer.acknowledge_offset(*place, verdict.value)
            except IllegalStateException as error:
                refused[each.position] = NotOut(str(error))
        return refused

    def take_late(self) -> dict[Position, MainstemError]:
        """Return what did not count of what was said without waiting, once."""
        found, self._late = self._late, {}
        return found

    def close(self) -> None:
        """Leave the group; what was not settled goes back."""
        try:
            self._consumer.close()
        except KafkaException as error:
            raise self._refusal(kafka_error(error)) from None

    def _explained(self, error: KafkaException) -> MainstemError:
        found = kafka_error(error)
        if found.code() in _STALE:
            return NotOut(f"{self._cluster.address} says {found.name()}: {found.str()}")
        return self._refusal(found)

    def _refusal(self, error: KafkaError) -> MainstemError:
        return explained(error, self._cluster.address, topic=self._topic, group=self._group)

    def _on_commit(
        self, offsets: dict[TopicPartition, set[int]], error: KafkaException | None
    ) -> None:
        for at, numbers in offsets.items():
            self._unanswered.answered(at.partition, numbers)
            places = {Position(at.partition, each) for each in numbers}
            if error is not None:
                late = places - self._given_back
                self._late |= dict.fromkeys(late, self._explained(error))
            self._given_back -= places

    def _on_error(self, error: KafkaError) -> None:
        if error.code() in GONE:
            self.gone = True
