"""Share sessions (KIP-932): a member names the partitions it takes from once, and then changes.

How this works: a session belongs to one member of one group, and each of its requests says the
next epoch, 1, 2, ...; 0 begins a session anew, and -1 ends it. What the member holds is given back
when its session ends, and that delivery counts, as with Apache Kafka 4.3, unless it is we who end
it; a session that takes the place of another has what the member held in that. A member that
closes leaves its group first, while a fetch of its session may still wait: that is answered then,
or it would take what nobody looks at any more.
"""

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from functools import partial

from mainstem.broker.door import Queues
from mainstem.core.errors import MainstemError
from mainstem.kafka_protocol.error_codes import Code

BEGIN, END = 0, -1
"""Epochs of the requests that begin and end a session."""
_LAST_EPOCH = 2**31 - 1

Call = Callable[[], None]
SessionPartition = tuple[bytes, int]
"""A partition by its topic's id."""


class ShareSession:
    """One member's session."""

    def __init__(self, group: str, member: str) -> None:
        self.group = group
        self.member = member
        self.epoch = 1
        """What the next request has to say."""
        self.places: dict[SessionPartition, None] = {}
        self.lent: set[bytes] = set()
        """Topics of which it was lent something; all of which it holds something are there."""
        self.leaving: set[Call] = set()
        """What is called when its connection closes."""
        self.lost: Call = _nothing
        self.waiting: set[Call] = set()
        """What answers its fetches that wait for more."""

    def add(self, places: Iterable[SessionPartition]) -> None:
        """Take from more partitions."""
        for place in places:
            self.places[place] = None

    def forget(self, places: Iterable[SessionPartition]) -> None:
        """Take no more from partitions."""
        for place in places:
            self.places.pop(place, None)

    def topics(self) -> set[bytes]:
        """Return the topics that it takes from, or has taken from."""
        return {topic_id for topic_id, _ in self.places} | self.lent

    def by_topic(self) -> dict[bytes, list[int]]:
        """Return the partitions of each topic, beginning with another topic each time."""
        found: dict[bytes, list[int]] = {}
        for topic_id, number in self.places:
            found.setdefault(topic_id, []).append(number)
        topics = list(found)
        first = self.epoch % len(topics) if topics else 0
        return {each: found[each] for each in topics[first:] + topics[:first]}


class ShareSessions:
    """All sessions, within limits."""

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
        """Begin a session, in place of the one that the member had; it keeps what it holds."""
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
        """Go on with a session, in its next epoch, or to end it."""
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
        """Tell whether a session has not ended, nor been replaced."""
        return self._sessions.get((session.group, session.member)) is session

    def left(self, group: str, member: str) -> None:
        """Let a member that left its group wait no longer for more."""
        session = self._sessions.get((group, member))
        if session is not None:
            _answer(session)

    def close(self, group: str, member: str, *, failed: bool = True) -> None:
        """End a session, if there is one, and give back what its member holds."""
        session = self._sessions.pop((group, member), None)
        if session is None:
            return
        self._partitions -= len(session.places)
        session.leaving.discard(session.lost)
        for topic_id in session.lent:
            name = self._topic_name(topic_id)
            if name is not None:
                # What cannot be given back now is taken back when its time is up.
                with suppress(MainstemError):
                    self._queues.leave(name, group, member, failed=failed)

    def _let_go(self, session: ShareSession) -> None:
        """Keep topics in mind that a session wants no more only while it holds something there."""
        wanted = {topic_id for topic_id, _ in session.places}
        for topic_id in session.lent - wanted:
            name, owners = self._topic_name(topic_id), dict[str, int]()
            if name is not None:
                with suppress(MainstemError):
                    owners = self._queues.show(name, session.group).owners
            if session.member not in owners:
                session.lent.discard(topic_id)

    def _bind(self, session: ShareSession, leaving: set[Call]) -> None:
        """Let a session end with the connection that used it last."""
        session.leaving.discard(session.lost)
        session.leaving = leaving
        session.lost = partial(self._lose, session)
        leaving.add(session.lost)

    def _lose(self, session: ShareSession) -> None:
        """End a session whose connection is gone; its member has not failed if we have."""
        self.close(session.group, session.member, failed=not self._is_stopping())


def _answer(session: ShareSession) -> None:
    for answer in list(session.waiting):
        answer()


def _nothing() -> None:
    """Before a session has a connection."""
