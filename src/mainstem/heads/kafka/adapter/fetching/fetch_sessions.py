"""Fetch sessions (KIP-227): a consumer sends its partitions once, and then only changes.

How this works: a session stores a consumer's request for each partition, and the offsets in the
last response. A fetch in the session (epoch 1, 2, ...) may add, change and remove partitions; its
response has only the partitions that changed. Partitions that returned records move to the end of
the order, so that no partition is always last.

Losing a session costs little: the consumer sends all its partitions again. So the number of
sessions and of their partitions is limited, a session that is not used for long is evicted for a
new one, and every session ends with its connection.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import groupby

from mainstem.heads.kafka.settings import KafkaSettings
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages.fetch import (
    FetchedPartition,
    FetchedTopic,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
)

FULL, BEGIN = -1, 0
"""Session epochs in requests: a full fetch without a session (-1), and one that begins a session
(0).
"""
_LAST_EPOCH = 2**31 - 1
_IDLE_MS = 120_000
"""How long a session must be unused before it may be evicted for a new one."""

Call = Callable[[], None]
SessionPartition = tuple[str, bytes, int]
"""Key of a partition: topic name and id (a session uses one of them), and partition number."""


class _Told:
    """One partition of a session: the consumer's request, and the offsets in the last response."""

    __slots__ = ("asked", "stable", "start", "tail")

    def __init__(self, asked: FetchPartition) -> None:
        self.asked = asked
        self.tail = self.stable = self.start = -2

    def is_news(self, found: FetchedPartition) -> bool:
        """Tell whether a response has records, an error or new offsets; store its offsets."""
        if found.error_code:
            # After an error, the next response is always sent.
            self.tail = -2
            return True
        told = (found.high_watermark, found.last_stable_offset, found.log_start_offset)
        if not found.records and told == (self.tail, self.stable, self.start):
            return False
        self.tail, self.stable, self.start = told
        return True


class FetchSession:
    """The fetch session of one consumer."""

    def __init__(self, session_id: int, by_id: bool, leaving: set[Call], leave: Call) -> None:
        self.id = session_id
        self.by_id = by_id
        self.leaving = leaving
        self.leave = leave
        self.epoch = 1
        """The epoch that the next fetch must have."""
        self.used_ms = 0
        self._places: dict[SessionPartition, _Told] = {}

    def __len__(self) -> int:
        return len(self._places)

    def added(self, topics: Iterable[FetchTopic]) -> int:
        """Return how many partitions of these topics are not in the session yet."""
        return sum(place not in self._places for place, _ in _places(topics))

    def update(self, topics: Iterable[FetchTopic], forgotten: Iterable[ForgottenTopic]) -> None:
        """Add, change and remove partitions, as a fetch request demands."""
        for place, asked in _places(topics):
            told = self._places.get(place)
            if told is None:
                self._places[place] = _Told(asked)
            else:
                told.asked = asked
        for topic in forgotten:
            for number in topic.partitions:
                self._places.pop((topic.topic, topic.topic_id, number), None)

    def topics(self) -> list[FetchTopic]:
        """Return all partitions of the session, as a full fetch request would name them."""
        grouped = groupby(self._places.items(), lambda item: item[0][:2])
        return [
            FetchTopic(topic_id, name, [told.asked for _, told in items])
            for (name, topic_id), items in grouped
        ]

    def news(self, topics: Iterable[FetchedTopic]) -> list[FetchedTopic]:
        """Return the partitions whose response differs from the last one; store their offsets."""
        found: list[FetchedTopic] = []
        for topic in topics:
            new = [each for each in topic.partitions if self._is_news(topic, each)]
            if new:
                found.append(FetchedTopic(topic.topic_id, topic.topic, new))
        return found

    def _is_news(self, topic: FetchedTopic, found: FetchedPartition) -> bool:
        place = (topic.topic, topic.topic_id, found.partition_index)
        told = self._places.get(place)
        if told is None:
            # Another fetch removed it while this fetch waited.
            return False
        if found.records:
            self._places[place] = self._places.pop(place)
        return told.is_news(found)


class FetchSessions:
    """All fetch sessions, limited in number and partitions."""

    def __init__(
        self, settings: KafkaSettings, monotonic_ms: Callable[[], int], new_id: Callable[[], int]
    ) -> None:
        self._settings = settings
        self._monotonic_ms, self._new_id = monotonic_ms, new_id
        self._sessions: dict[int, FetchSession] = {}
        """Sessions by id, the least recently used first."""
        self._partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions(self) -> int:
        """The number of partitions in all sessions together."""
        return self._partitions

    def open(
        self, topics: Iterable[FetchTopic], leaving: set[Call], *, by_id: bool
    ) -> FetchSession | None:
        """Begin a session; return None if the limits do not allow another one.

        ``leaving``: calls for when the client disconnects; the one that ends the session is added.
        """
        session_id = self._new_id()
        session = FetchSession(session_id, by_id, leaving, partial(self.close, session_id))
        count = session.added(topics)
        if not count or session_id in self._sessions or not self._make_room(count):
            return None
        session.update(topics, ())
        self._put(session)
        leaving.add(session.leave)
        return session

    def resume(
        self,
        session_id: int,
        epoch: int,
        topics: Iterable[FetchTopic],
        forgotten: Iterable[ForgottenTopic],
        *,
        by_id: bool,
    ) -> FetchSession | Code | None:
        """Update a session from a fetch request; return it, or why it cannot be used.

        After an error code, the consumer begins a new session. Returns None if no partitions are
        left, which ends the session.
        """
        session = self._sessions.get(session_id)
        if session is None:
            return Code.FETCH_SESSION_ID_NOT_FOUND
        if session.by_id != by_id:
            return Code.FETCH_SESSION_TOPIC_ID_ERROR
        if epoch != session.epoch:
            return Code.INVALID_FETCH_SESSION_EPOCH
        self._take(session)
        if not self._make_room(len(session) + session.added(topics)):
            session.leaving.discard(session.leave)
            return Code.FETCH_SESSION_ID_NOT_FOUND
        session.epoch = session.epoch % _LAST_EPOCH + 1
        session.update(topics, forgotten)
        if not len(session):
            session.leaving.discard(session.leave)
            return None
        self._put(session)
        return session

    def close(self, session_id: int) -> None:
        """End the session of this id, if it exists."""
        session = self._sessions.get(session_id)
        if session is not None:
            self._take(session)
            session.leaving.discard(session.leave)

    def _put(self, session: FetchSession) -> None:
        session.used_ms = self._monotonic_ms()
        self._sessions[session.id] = session
        self._partitions += len(session)

    def _take(self, session: FetchSession) -> None:
        del self._sessions[session.id]
        self._partitions -= len(session)

    def _make_room(self, partitions: int) -> bool:
        """Evict long unused sessions if the limits require it; tell whether a session now fits."""
        since_ms = self._monotonic_ms() - _IDLE_MS
        while (
            len(self._sessions) >= self._settings.max_fetch_sessions
            or self._partitions + partitions > self._settings.max_session_partitions
        ):
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or oldest.used_ms > since_ms:
                return False
            self.close(oldest.id)
        return True


def _places(topics: Iterable[FetchTopic]) -> Iterator[tuple[SessionPartition, FetchPartition]]:
    for topic in topics:
        for asked in topic.partitions:
            yield (topic.topic, topic.topic_id, asked.partition), asked
