"""Fetch, versions 4 to 18: returns stored record batches, at once or when min_bytes is reached.

How a fetch waits: it is called when any of its partitions grows beyond the tail that it has read,
so it misses no append, and then reads only the partitions that have grown.
"""

from collections import deque
from functools import partial

from mainstem.core.errors import MainstemError
from mainstem.heads.conversation import ProtocolError
from mainstem.heads.kafka.adapter.errors import code_of
from mainstem.heads.kafka.adapter.fetching.fetch_sessions import BEGIN, FULL, FetchSession
from mainstem.heads.kafka.adapter.fetching.leader_epochs import compare
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.service import Asked, Reply
from mainstem.heads.kafka.adapter.topics import name_of
from mainstem.heads.parked import Over, Parked
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages.fetch import (
    FETCH,
    AbortedTransaction,
    FetchedPartition,
    FetchedTopic,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)

_SAYS_WHY = 7
"""First version whose response has an error code for the whole request."""
_NAMES_BY_ID = 13
_NOTHING = b""
_READ_COMMITTED = 1


@serves(FETCH, 4, 18)
def answer(asked: Asked, request: FetchRequest, reply: Reply) -> None:
    """Return the available records; if they are fewer than min_bytes, wait for more."""
    count = sum(len(topic.partitions) for topic in request.topics)
    most = asked.service.settings.max_fetch_partitions
    if count > most:
        if asked.header.api_version < _SAYS_WHY:
            raise ProtocolError(f"a fetch of {count} partitions; the limit is {most}")
        reply(FetchResponse(error_code=Code.INVALID_REQUEST))
        return
    session = None
    if request.session_epoch != FULL or request.session_id:
        session = _session(asked, request)
    if isinstance(session, Code):
        reply(FetchResponse(error_code=session))
        return
    _Fetch(asked, request, session, reply).look(last=request.max_wait_ms <= 0)


def _session(asked: Asked, request: FetchRequest) -> FetchSession | Code | None:
    """Return the session that the fetch begins or continues, None without one, or an error code."""
    sessions = asked.service.fetch_sessions
    topics, by_id = request.topics, asked.header.api_version >= _NAMES_BY_ID
    if request.session_epoch not in (BEGIN, FULL):
        known = (request.session_id, request.session_epoch)
        return sessions.resume(*known, topics, request.forgotten_topics_data, by_id=by_id)
    sessions.close(request.session_id)
    if request.session_epoch == BEGIN:
        return sessions.open(topics, asked.waiting, by_id=by_id)
    return None


class _Fetch:
    """A fetch request: reads its partitions, and reads again those that grow, until min_bytes.

    The state of a partition is keyed by the Python ``id`` of its part of the request, because a
    request may name a partition twice.
    """

    def __init__(
        self, asked: Asked, request: FetchRequest, session: FetchSession | None, reply: Reply
    ) -> None:
        self._service = asked.service
        self._request = request
        self._session = session
        self._topics = request.topics if session is None else session.topics()
        self._reply = reply
        self._waiting = asked.waiting
        self._by_id = asked.header.api_version >= _NAMES_BY_ID
        self._committed = request.isolation_level == _READ_COMMITTED
        self._most = min(request.max_bytes, self._service.settings.max_fetch_bytes)
        # Batches are sent whole, so the limit may not be filled exactly.
        self._enough = min(request.min_bytes, self._most // 2)
        self._seen: dict[int, tuple[str, int, int]] = {}
        """Per partition: topic, number, and the tail when it was last read."""
        self._quiet: dict[int, FetchedPartition] = {}
        """The responses for partitions that had no records; reused until the partition grows."""
        self._grown: deque[int] = deque()
        """Keys of partitions that have grown since the last read; other threads append to it."""
        self._parked: Parked | None = None

    def look(self, *, last: bool = False) -> None:
        """Read available records; answer if they reach min_bytes or ``last`` is set, else wait."""
        parked = self._parked
        while parked is not None and self._grown:
            key = self._grown.popleft()
            self._quiet.pop(key, None)
            # Its watch has fired and must be set again.
            parked.watches.pop(key, None)
        self._length = 0
        self._failed = False
        if last:
            self._quiet.clear()
        topics = [self._topic(topic) for topic in self._topics]
        enough = self._length >= self._enough or self._failed
        if enough or last or self._service.draining:
            if parked is not None:
                parked.end()
            self._service.counts.fetched_bytes += self._length
            session = self._session
            if session is None:
                self._reply(FetchResponse(responses=topics))
            else:
                self._reply(FetchResponse(session_id=session.id, responses=session.news(topics)))
            return
        self._wait()

    def _topic(self, topic: FetchTopic) -> FetchedTopic:
        name = self._name(topic)
        if name is None:
            self._failed = True
            partitions = [_refused(it.partition, Code.UNKNOWN_TOPIC_ID) for it in topic.partitions]
        else:
            quiet = self._quiet
            partitions = [
                quiet.get(id(each)) or self._partition(name, each) for each in topic.partitions
            ]
        return FetchedTopic(topic.topic_id, topic.topic, partitions)

    def _name(self, topic: FetchTopic) -> str | None:
        return name_of(self._service, topic.topic_id) if self._by_id else topic.topic

    def _partition(self, topic: str, asked: FetchPartition) -> FetchedPartition:
        broker = self._service.broker
        try:
            bounds = broker.bounds(topic, asked.partition)
            code = compare(asked.current_leader_epoch, bounds.epoch)
            if code:
                self._failed = True
                return _refused(asked.partition, code)
            # The first batch is sent whole even over the limit, so that consumers make progress.
            room = min(asked.partition_max_bytes, self._most - self._length)
            stable, aborted = bounds.tail, None
            self._seen[id(asked)] = topic, asked.partition, bounds.tail
            if asked.fetch_offset == bounds.tail or (room <= 0 and self._length):
                data = None
                if self._committed:
                    aborted = []
                    stable = broker.transactions.stable(topic, asked.partition, bounds.tail)
            elif self._committed:
                place = (topic, asked.partition, asked.fetch_offset, max(room, 0))
                found = broker.transactions.read_committed(*place)
                data, stable = found.data, found.stable
                aborted = [
                    AbortedTransaction(span.producer_id, span.first_offset)
                    for span in found.aborted
                ]
            else:
                data = broker.read(topic, asked.partition, asked.fetch_offset, max(room, 0))
        except MainstemError as error:
            self._failed = True
            return _refused(asked.partition, code_of(error))
        if data is not None and data.length > max(room, 0) and self._length:
            data = None
        length = 0 if data is None else data.length
        self._length += length
        answer = FetchedPartition(
            asked.partition,
            0,
            bounds.tail,
            stable,
            bounds.start,
            records=data if length else _NOTHING,
            aborted_transactions=aborted,
        )
        if not length:
            self._quiet[id(asked)] = answer
        return answer

    def _wait(self) -> None:
        parked = self._parked
        if parked is None:
            wait_ms = min(self._request.max_wait_ms, self._service.settings.max_wait_ms)
            parked = self._service.park(self._waiting, wait_ms, self._over, self.look)
            self._parked = parked
        watches = parked.watches
        for key in self._seen.keys() - watches.keys():
            wake = partial(self._wake, key)
            try:
                watches[key] = self._service.broker.watch(*self._seen[key], wake)
            except MainstemError:
                wake()

    def _wake(self, key: int) -> None:
        """Record that a partition has grown, and schedule a read; called from any thread."""
        self._grown.append(key)
        if self._parked is not None:
            self._parked.wake()

    def _over(self, why: Over) -> None:
        if why is Over.PEER:
            self._reply(None)
        else:
            self.look(last=True)


def _refused(partition: int, code: Code) -> FetchedPartition:
    # Empty, not null: librdkafka treats null records as damage and ignores the error code.
    return FetchedPartition(partition, code, -1, records=_NOTHING)
