"""One member of a share group, through librdkafka's share consumer (a preview feature there).

How this works: a member polls a few events, acknowledges each, and may poll again after the last
one. An event's acquisition lock starts when the server sends the event: a poll that returns nothing
may leave a fetch in flight, whose events then wait in librdkafka while their locks run.

Asynchronous acknowledgements share a request with later ones, in the order of the calls, and Kafka
refuses a whole partition unless its offsets ascend. So an acknowledgement of an offset below one
that the server has not answered yet is sent synchronously, in a request of its own.
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
from mainstem.remote.errors import GONE, core_error, kafka_error
from mainstem.remote.events import event_of

_FETCH_WAIT_MS = 200
"""fetch.wait.max.ms: for so long a fetch may still be running after a poll has returned."""
_LONGEST_MS = 86_400_000
_STALE = {
    KafkaError.INVALID_RECORD_STATE,
    KafkaError.SHARE_SESSION_NOT_FOUND,
    KafkaError.INVALID_SHARE_SESSION_EPOCH,
    KafkaError.GROUP_ID_NOT_FOUND,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.INVALID_REQUEST,
}
"""Error codes that mean that this member has no longer acquired the event."""


class Verdict(Enum):
    """How an event is settled: acknowledged, released or rejected."""

    ACCEPT = AcknowledgeType.ACCEPT
    RELEASE = AcknowledgeType.RELEASE
    REJECT = AcknowledgeType.REJECT


class Shared(msgspec.Struct, frozen=True):
    """An event acquired by this member, with its delivery count."""

    event: Event
    count: int


class NotOut(Fenced):
    """Raised when events are no longer acquired by this member."""


class Unanswered:
    """Acknowledgements without a response so far: the last acknowledged offset by partition.

    Those of a partition are sent in ascending order, so all have a response when the last one has.
    """

    def __init__(self) -> None:
        self._last: dict[int, int] = {}

    def said(self, events: Iterable[Event]) -> None:
        """Record that acknowledgements of these events were sent."""
        for each in events:
            self._last[each.partition] = max(each.offset, self._last.get(each.partition, -1))

    def answered(self, partition: int, offsets: Collection[int]) -> None:
        """Record that the server has responded to acknowledgements of these offsets."""
        if self._last.get(partition) in offsets:
            del self._last[partition]

    def is_ahead_of(self, events: Iterable[Event]) -> bool:
        """Tell whether an event is below one that is unanswered: it needs a request of its own."""
        return any(each.offset < self._last.get(each.partition, -1) for each in events)


class RemoteShareConsumer:
    """A share consumer; not thread-safe."""

    def __init__(self, cluster: Cluster, group: str, topic: str, most: int) -> None:
        self._cluster = cluster
        self._group, self._topic = group, topic
        self.most = most
        self.gone = False
        """Whether the server is unreachable."""
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
                    # The server's acquisition locks limit how long events are held.
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
        """Acquire events, waiting for the first; all earlier events must be settled."""
        try:
            messages = self._consumer.poll(timeout_s)
        except KafkaException as error:
            raise self._refusal(kafka_error(error)) from None
        found, trouble = [], None
        for message in messages:
            found_wrong = message.error()
            if found_wrong is not None:
                # librdkafka has released or rejected it by itself.
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
        """Acknowledge events and wait until that is durable; return the refusals by position."""
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
        # Returned here, so not again by the next call.
        for each in refused:
            self._late.pop(each, None)
        return refused

    def settle_soon(
        self, events: Sequence[Event], verdict: Verdict
    ) -> dict[Position, MainstemError]:
        """Acknowledge events; wait only if they cannot share a request with earlier ones.

        Returns the refusals known by then; ``take_late`` returns those that arrive later.
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
        """Release events; refusals are ignored, as their locks may have expired."""
        self._given_back |= {each.position for each in events}
        # In any order: they are the last acquired ones, or all locks have expired.
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
        """Return the refusals of background acknowledgements since the last call."""
        found, self._late = self._late, {}
        return found

    def close(self) -> None:
        """Leave the group, which releases unsettled events."""
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
        return core_error(error, self._cluster.address, topic=self._topic, group=self._group)

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
