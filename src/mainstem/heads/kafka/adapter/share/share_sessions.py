"""Share sessions (KIP-932): a member sends its partitions once, and then only changes.

How this works: a session belongs to one member of one group; its requests have the epochs 1, 2,
...; epoch 0 begins a new session, and -1 ends it. When a session ends, its member's unsettled
records are released. Their delivery counts towards the delivery limit, as in Apache Kafka 4.3,
unless the session ends because the server stops. A session that replaces another takes over the
member's records.

A closing member leaves its group first, while a fetch of its session may still wait: the fetch is
answered then, or it would acquire records that no consumer reads.
"""

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from functools import partial

from mainstem.broker.door import Queues
from mainstem.core.errors import MainstemError
from mainstem.kafka_protocol.error_codes import Code

BEGIN, END = 0, -1
"""Session epochs in requests that begin (0) and end (-1) a session."""
_LAST_EPOCH = 2**31 - 1

Call = Callable[[], None]
SessionPartition = tuple[bytes, int]
"""Key of a partition: the topic's id, and the partition number."""


class ShareSession:
    """The share session of one member."""

    def __init__(self, group: str, member: str) -> None:
        self.group = group
        self.member = member
        self.epoch = 1
        """The epoch that the next request must have."""
        self.places: dict[SessionPartition, None] = {}
        self.lent: set[bytes] = set()
        """Topics of acquired records; includes every topic that has unsettled records."""
        self.leaving: set[Call] = set()
        """Callbacks for the disconnect of the connection that used the session last."""
        self.lost: Call = _nothing
        self.waiting: set[Call] = set()
        """Callbacks that answer the waiting fetches of the session."""

    def add(self, places: Iterable[SessionPartition]) -> None:
        """Add partitions to the session."""
        for place in places:
            self.places[place] = None

    def forget(self, places: Iterable[SessionPartition]) -> None:
        """Remove partitions from the session."""
        for place in places:
            self.places.pop(place, None)

    def topics(self) -> set[bytes]:
        """Return the topics of the session's partitions and of its unsettled records."""
        return {topic_id for topic_id, _ in self.places} | self.lent

    def by_topic(self) -> dict[bytes, list[int]]:
        """Return partitions by topic, each time with another topic first, so none starves."""
        found: dict[bytes, list[int]] = {}
        for topic_id, number in self.places:
            found.setdefault(topic_id, []).append(number)
        topics = list(found)
        first = self.epoch % len(topics) if topics else 0
        return {each: found[each] for each in topics[first:] + topics[:first]}


class ShareSessions:
    """All share sessions, limited in number and partitions."""

    def __init__(
        self,
        queues: Queues,
        topic_name: Callable[[bytes], str | None],
        is_stopping: Callable[[], bool],
        *,
        max_sessions: int = 10_000,
        max_partitions: int = 500_000,
    ) -> None:
        self._queues = queues
        self._topic_name = topic_name
        self._is_stopping = is_stopping
        self._max_sessions, self._max_partitions = max_sessions, max_partitions
        self._sessions: dict[tuple[str, str], ShareSession] = {}
        self._partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def open(
        self, group: str, member: str, places: Iterable[SessionPartition], leaving: set[Call]
    ) -> ShareSession | Code:
        """Begin a session; it takes over the unsettled records of the member's previous session.

        Returns an error code if the limits do not allow another session.
        """
        session, was = ShareSession(group, member), self._sessions.get((group, member))
        session.add(places)
        count, partitions = len(self._sessions) + 1, self._partitions + len(session.places)
        if was is not None:
            count, partitions = count - 1, partitions - len(was.places)
        if count > self._max_sessions or partitions > self._max_partitions:
            self.close(group, member)
            return Code.SHARE_SESSION_LIMIT_REACHED
        self._sessions[group, member] = session
        self._partitions = partitions
        if was is not None:
            session.lent = was.lent
            was.leaving.discard(was.lost)
            _answer(was)
        self._bind(session, leaving)
        return session

    def resume(
        self,
        group: str,
        member: str,
        epoch: int,
        leaving: set[Call],
        added: Iterable[SessionPartition] = (),
        forgotten: Collection[SessionPartition] = (),
    ) -> ShareSession | Code:
        """Return a member's session, updated by a request of its next epoch.

        Returns an error code if there is no session, or the epoch is wrong.
        """
        session = self._sessions.get((group, member))
        if session is None:
            return Code.SHARE_SESSION_NOT_FOUND
        if epoch == END:
            return session
        if epoch != session.epoch:
            return Code.INVALID_SHARE_SESSION_EPOCH
        was = len(session.places)
        session.add(added)
        session.forget(forgotten)
        if forgotten:
            self._let_go(session)
        self._partitions += len(session.places) - was
        if self._partitions > self._max_partitions:
            self.close(group, member, failed=False)
            return Code.SHARE_SESSION_NOT_FOUND
        session.epoch = session.epoch % _LAST_EPOCH + 1
        self._bind(session, leaving)
        return session

    def is_open(self, session: ShareSession) -> bool:
        """Tell whether this session still exists: neither ended nor replaced."""
        return self._sessions.get((session.group, session.member)) is session

    def left(self, group: str, member: str) -> None:
        """Answer the waiting fetches of a member that left its group."""
        session = self._sessions.get((group, member))
        if session is not None:
            _answer(session)

    def close(self, group: str, member: str, *, failed: bool = True) -> None:
        """End a member's session, if there is one, and release its records.

        ``failed``: whether these deliveries count towards the group's delivery limit.
        """
        session = self._sessions.pop((group, member), None)
        if session is None:
            return
        self._partitions -= len(session.places)
        session.leaving.discard(session.lost)
        for topic_id in session.lent:
            name = self._topic_name(topic_id)
            if name is not None:
                # Records that cannot be released now become available when their locks expire.
                with suppress(MainstemError):
                    self._queues.leave(name, group, member, failed=failed)

    def _let_go(self, session: ShareSession) -> None:
        """Forget a session's topics in which it has neither partitions nor unsettled records."""
        wanted = {topic_id for topic_id, _ in session.places}
        for topic_id in session.lent - wanted:
            name, owners = self._topic_name(topic_id), dict[str, int]()
            if name is not None:
                with suppress(MainstemError):
                    owners = self._queues.show(name, session.group).owners
            if session.member not in owners:
                session.lent.discard(topic_id)

    def _bind(self, session: ShareSession, leaving: set[Call]) -> None:
        """End the session when this connection closes, and no longer when an earlier one does.

        ``leaving``: the calls that the connection makes when it closes.
        """
        session.leaving.discard(session.lost)
        session.leaving = leaving
        session.lost = partial(self._lose, session)
        leaving.add(session.lost)

    def _lose(self, session: ShareSession) -> None:
        """End a session because its connection closed.

        Its deliveries count towards the delivery limit, unless the server is stopping.
        """
        self.close(session.group, session.member, failed=not self._is_stopping())


def _answer(session: ShareSession) -> None:
    for answer in list(session.waiting):
        answer()


def _nothing() -> None:
    """Do nothing; the placeholder until a session has a connection."""
