"""Every error that mainstem raises on purpose.

One class per reason for a refusal. An error carries the values that it is about, and its text says
what happened, where, and what to do next. Each head has one table that maps these classes to its
protocol's error codes.
"""

import warnings
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar


class Failure(StrEnum):
    """What kind of failure an error is; protocol heads map each kind to an error code.

    A head maps single error classes only if its protocol has a more specific code for them.
    """

    NOT_FOUND = "not_found"
    EXISTS = "exists"
    CONFLICT = "conflict"
    """Not possible in the current state; may work later."""
    INVALID = "invalid"
    DENIED = "denied"
    UNAUTHENTICATED = "unauthenticated"
    FENCED = "fenced"
    """A newer instance has replaced the requester; retrying does not help."""
    STALE = "stale"
    """The requester's state is out of date; it must refresh first."""
    OVERLOADED = "overloaded"
    TOO_LARGE = "too_large"
    UNAVAILABLE = "unavailable"
    UNSUPPORTED = "unsupported"
    CORRUPT = "corrupt"


class MainstemError(Exception):
    """Base class of every error raised on purpose; any other exception that escapes is a bug."""

    failure: ClassVar[Failure] = Failure.UNAVAILABLE
    retriable: ClassVar[bool] = False

    def __init_subclass__(
        cls, *, failure: Failure | None = None, retriable: bool | None = None
    ) -> None:
        """Say what kind of failure the errors of a class are; otherwise as those of its base."""
        super().__init_subclass__()
        if failure is not None:
            cls.failure = failure
        if retriable is not None:
            cls.retriable = retriable


class UnknownTopic(MainstemError, failure=Failure.NOT_FOUND):
    """The topic does not exist, and auto-creation does not apply."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"there is no topic {topic!r}; create it (mainstem topic create {topic}) "
            "or list what exists (mainstem topic ls)"
        )
        self.topic = topic


class Denied(MainstemError, failure=Failure.DENIED):
    """The principal is not authorized."""

    def __init__(self, principal: str, action: str, kind: str, name: str) -> None:
        super().__init__(
            f"{principal!r:.300} may not {action} {kind} {name!r:.300}; log in as another user, "
            "or ask the server's administrator for the permission"
        )
        self.principal, self.action, self.kind, self.name = principal, action, kind, name


class Unauthenticated(MainstemError, failure=Failure.UNAUTHENTICATED):
    """The peer is not authenticated."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"{address} is not authenticated: {reason}; log in, and try again")
        self.address, self.reason = address, reason


class UnknownPartition(MainstemError, failure=Failure.NOT_FOUND):
    """The topic exists, but has no such partition."""

    def __init__(self, topic: str, partition: int, partitions: int = 0) -> None:
        count = f"; it has {partitions} (0 to {partitions - 1})" if partitions else ""
        super().__init__(f"topic {topic!r} has no partition {partition}{count}")
        self.topic, self.partition = topic, partition


class TopicExists(MainstemError, failure=Failure.EXISTS):
    """A topic of that name exists already."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"topic {topic!r} exists already; alter it, or choose another name")
        self.topic = topic


class UnknownGroup(MainstemError, failure=Failure.NOT_FOUND):
    """The group has neither members nor committed offsets."""

    def __init__(self, group: str) -> None:
        super().__init__(f"there is no group {group!r}; list what exists (mainstem group ls)")
        self.group = group


class GroupIsLive(MainstemError, failure=Failure.CONFLICT):
    """The operation needs a group without members."""

    def __init__(self, group: str, holders: str, deed: str) -> None:
        super().__init__(
            f"group {group!r} is live ({holders}), so it cannot be {deed}; "
            "try again when its members have left"
        )
        self.group = group


class UnknownQueue(MainstemError, failure=Failure.NOT_FOUND):
    """The topic has no queue of that name."""

    def __init__(self, topic: str, name: str) -> None:
        super().__init__(
            f"topic {topic!r} has no queue {name!r}; list what exists (mainstem queue ls)"
        )
        self.topic, self.name = topic, name


class StaleDelivery(MainstemError, failure=Failure.STALE):
    """The delivery can no longer be settled by its consumer: its lock has expired, for example."""

    def __init__(self, place: str, owner: str, reason: str) -> None:
        super().__init__(
            f"{place} is not in flight to {owner!r:.300}: {reason}; nothing was changed, "
            "and the event is delivered again unless it is settled"
        )
        self.place, self.owner = place, owner


class Unsupported(MainstemError, failure=Failure.UNSUPPORTED):
    """The operation is not supported."""


class InvalidName(MainstemError, failure=Failure.INVALID):
    """A topic or group name that is not allowed."""

    def __init__(self, kind: str, name: str, reason: str) -> None:
        super().__init__(f"{name!r:.300} cannot name a {kind}: {reason}")
        self.kind, self.name = kind, name


class InvalidSetting(MainstemError, failure=Failure.INVALID):
    """An invalid setting, or an invalid combination of settings."""


class OffsetOutOfRange(MainstemError, failure=Failure.INVALID):
    """The offset is before the first event kept, or after the end."""

    def __init__(self, place: str, offset: int, start: int, tail: int) -> None:
        super().__init__(
            f"{place} holds offsets {start} to {tail} (exclusive), not {offset}; "
            "start at 'earliest' or 'latest', or at an offset in that range"
        )
        self.offset, self.start, self.tail = offset, start, tail


class MessagesLost(MainstemError, failure=Failure.NOT_FOUND):
    """Messages of a feed (multicast, ZeroMQ, nng) are lost: requests for them were not answered."""

    def __init__(self, session: str, first: int, last: int, requests: int) -> None:
        super().__init__(
            f"messages {first} to {last} of session {session} did not arrive, and {requests} "
            "requests were not answered: retention may have deleted them, or their server is away; "
            "continue after them with skip(), or try again"
        )
        self.session, self.first, self.last = session, first, last


class CorruptBatch(MainstemError, failure=Failure.CORRUPT):
    """Bytes that are not a record batch, or one that was damaged."""


class InvalidBatch(CorruptBatch, failure=Failure.INVALID):
    """A record batch that is invalid as its producer made it: retrying does not help."""


class DamagedLog(MainstemError, failure=Failure.CORRUPT):
    """Files of the log are damaged; damaged data is reported and kept, but not served."""


class EventTooLarge(MainstemError, failure=Failure.TOO_LARGE):
    """The event or batch is larger than the topic's ``max_batch_bytes``."""

    def __init__(self, topic: str, size: int, limit: int) -> None:
        super().__init__(
            f"{size} bytes for topic {topic!r}, whose max_batch_bytes is {limit}; "
            "send smaller batches, or raise the limit"
        )
        self.topic, self.size, self.limit = topic, size, limit


class InvalidEvent(MainstemError, failure=Failure.INVALID):
    """The event cannot be stored in this topic, such as one without a key in a compacted topic."""

    def __init__(self, text: str, which: Sequence[int] = ()) -> None:
        super().__init__(text)
        self.which = which
        """Indexes of the invalid events within the batch; the whole batch is refused."""


class UntimelyEvent(InvalidEvent):
    """The event's timestamp is further from the broker's clock than its topic allows."""

    def __init__(self, topic: str, which: Sequence[int], timestamp_ms: int, now_ms: int) -> None:
        away_ms = timestamp_ms - now_ms
        where = f"{away_ms} ms ahead of" if away_ms > 0 else f"{-away_ms} ms behind"
        limit = "max_ahead_ms" if away_ms > 0 else "max_behind_ms"
        super().__init__(
            f"an event has the time {timestamp_ms}, {where} the clock, more than {limit} of topic "
            f"{topic!r} allows: is it in milliseconds, and are the clocks right?",
            which,
        )


class UnreadableValue(MainstemError, failure=Failure.INVALID):
    """The event's value cannot be decoded as text or JSON."""

    def __init__(self, kind: str, place: str, reason: str) -> None:
        super().__init__(
            f"the value of {place} is not {kind}: {reason}; its bytes are in event.value"
        )
        self.kind, self.place = kind, place


class Overloaded(MainstemError, failure=Failure.OVERLOADED, retriable=True):
    """The topic's backlog is full, and its overload policy refuses the event."""


class Fenced(MainstemError, failure=Failure.FENCED):
    """The request comes from a member, generation or epoch that a newer one has replaced."""


class UnknownMember(MainstemError, failure=Failure.STALE):
    """The group has no such member: it never joined, left, or was silent for too long."""

    def __init__(self, group: str, member: str) -> None:
        super().__init__(
            f"{member or 'a consumer without a member id'!r:.300} is not a member of group "
            f"{group!r}: it left, was silent for longer than its session timeout, or the broker "
            "was restarted; join again"
        )
        self.group, self.member = group, member


class FencedInstance(Fenced):
    """Another consumer has joined with the same instance id."""

    def __init__(self, group: str, instance: str) -> None:
        super().__init__(
            f"another consumer of group {group!r} has joined with the instance id "
            f"{instance!r:.300} and replaced this one; give every consumer its own instance id"
        )
        self.group, self.instance = group, instance


class IllegalGeneration(MainstemError, failure=Failure.STALE):
    """The request names a generation that is not the group's current one."""

    def __init__(self, group: str, generation: int, current: int) -> None:
        super().__init__(
            f"group {group!r} is in generation {current}, not {generation}; join again"
        )
        self.group, self.generation, self.current = group, generation, current


class RebalanceInProgress(MainstemError, failure=Failure.STALE, retriable=True):
    """The group is rebalancing."""

    def __init__(self, group: str) -> None:
        super().__init__(f"group {group!r} is rebalancing; join again")
        self.group = group


class InconsistentProtocol(MainstemError, failure=Failure.INVALID):
    """The member has no assignment protocol in common with the group."""

    def __init__(self, group: str, offered: str, known: str) -> None:
        super().__init__(
            f"group {group!r} needs {known}, and the consumer offers {offered}; "
            "give all consumers of a group an assignment strategy in common"
        )
        self.group = group


class MemberIdRequired(MainstemError, failure=Failure.STALE):
    """The member must join again, with the member id that this error carries."""

    def __init__(self, group: str, member: str) -> None:
        super().__init__(f"join group {group!r} again as {member!r:.300}")
        self.group, self.member = group, member


class FencedMemberEpoch(Fenced):
    """The request names an outdated member epoch: the member's partitions were reassigned."""

    def __init__(self, group: str, member: str, epoch: int, current: int) -> None:
        super().__init__(
            f"{member!r:.300} of group {group!r} is in epoch {current}, not {epoch}; "
            "it must give up all its partitions and join again"
        )
        self.group, self.member, self.epoch, self.current = group, member, epoch, current


class StaleMemberEpoch(MainstemError, failure=Failure.STALE, retriable=True):
    """The member's epoch has advanced, and the member does not know it yet."""

    def __init__(self, group: str, member: str, epoch: int, current: int) -> None:
        super().__init__(
            f"{member!r:.300} of group {group!r} is in epoch {current}, not {epoch}; "
            "try again with the epoch of the next heartbeat"
        )
        self.group, self.member, self.epoch, self.current = group, member, epoch, current


class UnreleasedInstance(MainstemError, failure=Failure.EXISTS):
    """The instance id is in use by another member that has not left."""

    def __init__(self, group: str, instance: str) -> None:
        super().__init__(
            f"the instance id {instance!r:.300} of group {group!r} belongs to another member that "
            "has not left; give every consumer its own instance id, or wait until the session "
            "of the other has ended"
        )
        self.group, self.instance = group, instance


class UnsupportedAssignor(MainstemError, failure=Failure.UNSUPPORTED):
    """The member asks for an unknown assignor."""

    def __init__(self, assignor: str, known: tuple[str, ...]) -> None:
        super().__init__(f"there is no assignor {assignor!r:.100}; choose {' or '.join(known)}")
        self.assignor = assignor


class InvalidExpression(MainstemError, failure=Failure.INVALID):
    """A regular expression that is invalid, or uses unsupported syntax."""

    def __init__(self, expression: str, reason: str) -> None:
        super().__init__(f"the regular expression {expression!r:.100} is refused: {reason}")
        self.expression, self.reason = expression, reason


class GroupFull(MainstemError, failure=Failure.OVERLOADED):
    """The group has reached its limit of members, or of memory used by them."""

    def __init__(self, group: str, limit: str) -> None:
        super().__init__(
            f"group {group!r} is full: {limit} is the limit; use fewer consumers, or more groups"
        )
        self.group = group


class InvalidSessionTimeout(InvalidSetting):
    """The session timeout is outside the range that the broker allows."""

    def __init__(self, timeout_ms: int, least_ms: int, most_ms: int) -> None:
        super().__init__(f"session timeout {timeout_ms} ms: it must be {least_ms} to {most_ms}")
        self.timeout_ms = timeout_ms


class InvalidProducerEpoch(Fenced):
    """The producer's epoch is outdated: a newer producer has replaced it."""

    def __init__(self, producer_id: int, epoch: int, current: int) -> None:
        super().__init__(
            f"producer {producer_id} writes with epoch {epoch}, but the current one is {current}: "
            "another producer has replaced it, or its transaction timed out"
        )
        self.producer_id, self.epoch, self.current = producer_id, epoch, current


class OutOfOrderSequence(MainstemError, failure=Failure.STALE):
    """A sequence number of an idempotent producer is not the next one: a batch is missing."""

    def __init__(self, producer_id: int, place: str, sequence: int, expected: int) -> None:
        super().__init__(
            f"producer {producer_id} writes sequence {sequence} to {place}, but {expected} is "
            "next: an earlier batch is missing, or this one was written long ago"
        )
        self.producer_id, self.sequence, self.expected = producer_id, sequence, expected


class ProducerFenced(Fenced):
    """Another producer with the same transactional id has taken over."""

    def __init__(self, transactional_id: str, epoch: int, current: int) -> None:
        super().__init__(
            f"a producer with the transactional id {transactional_id!r:.300} has epoch "
            f"{epoch}, but the current one is {current}: another producer has replaced it, or its "
            "transaction timed out and was aborted; start a new producer"
        )
        self.transactional_id, self.epoch, self.current = transactional_id, epoch, current


class WriterFenced(Fenced):
    """Another writer of the same name has taken over the partition."""

    def __init__(self, topic: str, partition: int, name: str) -> None:
        super().__init__(
            f"another writer {name!r:.300} of topic {topic!r}[{partition}] has taken over, so this "
            "one can no longer append; open it again only if this program is to be the writer"
        )
        self.topic, self.partition, self.name = topic, partition, name


class UnknownProducer(MainstemError, failure=Failure.NOT_FOUND):
    """The producer id is unknown, or belongs to another transactional id."""

    def __init__(self, transactional_id: str, producer_id: int) -> None:
        whom = f"transactional id {transactional_id!r:.300}" if transactional_id else "transactions"
        super().__init__(f"producer {producer_id} is not known for {whom}; start a new one")
        self.transactional_id, self.producer_id = transactional_id, producer_id


class UnknownTransaction(MainstemError, failure=Failure.NOT_FOUND):
    """The transactional id is unknown."""

    def __init__(self, transactional_id: str) -> None:
        super().__init__(f"there is no transactional id {transactional_id!r:.300}")
        self.transactional_id = transactional_id


class InvalidTransactionState(MainstemError, failure=Failure.CONFLICT):
    """The transaction's state does not allow the operation."""

    def __init__(self, transactional_id: str, phase: str, deed: str) -> None:
        super().__init__(
            f"the transaction of {transactional_id!r:.300} is {phase}, so it cannot be {deed}"
        )
        self.transactional_id, self.phase = transactional_id, phase


class NotInTransaction(InvalidTransactionState):
    """A partition or group was not added to the transaction; abort it and begin again."""


class InvalidTransactionTimeout(InvalidSetting):
    """The transaction timeout is outside the range that the broker allows."""

    def __init__(self, timeout_ms: int, most_ms: int) -> None:
        super().__init__(f"transaction timeout {timeout_ms} ms: it must be 1 to {most_ms}")
        self.timeout_ms = timeout_ms


class StorageFull(MainstemError, failure=Failure.UNAVAILABLE, retriable=True):
    """The disk is full; nothing of the request was stored, and it may be retried."""


class StorageFailed(MainstemError, failure=Failure.UNAVAILABLE):
    """A write or sync failed; nothing more is acknowledged until the log is reopened."""


class DirectoryInUse(MainstemError, failure=Failure.UNAVAILABLE):
    """Another process holds the data directory."""


class LinkedFile(MainstemError, failure=Failure.INVALID):
    """A file of the data directory is a symlink or not a regular file; it was not opened."""

    def __init__(self, path: str, what: str = "a symbolic link") -> None:
        super().__init__(
            f"{path} is {what}; files of a data directory are not opened through links: check "
            "its target, then remove it, or replace it with the file itself"
        )
        self.path = path


class FormatTooNew(MainstemError, failure=Failure.UNSUPPORTED):
    """The data directory was written by a newer version."""


class Closed(MainstemError, failure=Failure.UNAVAILABLE):
    """The log, stem or subscription has been closed."""


class Unreachable(MainstemError, failure=Failure.UNAVAILABLE, retriable=True):
    """The server cannot be reached."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(
            f"no answer from {address}: {reason}; check that the server runs (mainstem serve) "
            "and that the address is right"
        )
        self.address, self.reason = address, reason


if not TYPE_CHECKING:  # Type checkers would accept any name if __getattr__ were visible to them.

    def __getattr__(name: str) -> type[MainstemError]:
        """Return an error class by the name that it had in an earlier version."""
        if name == "UnknownSubscription":
            warnings.warn(
                "UnknownSubscription is called UnknownQueue now", DeprecationWarning, stacklevel=2
            )
            return UnknownQueue
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
