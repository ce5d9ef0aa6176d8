"""ShareFetch, versions 1 to 2: acquires records of a share group, and settles earlier ones.

How a fetch waits: it is registered as a consumer of each topic's queue. The dispatcher, which the
heads share, calls waiting consumers round robin; the fetch then acquires records and is answered.
The member's next fetch is last in the round robin.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from mainstem.broker.door import ACQUIRE_MODE, RECORD_LIMIT
from mainstem.core.errors import MainstemError
from mainstem.core.names import MAX_GROUP_LENGTH
from mainstem.heads.kafka.adapter.durable_replies import when_all
from mainstem.heads.kafka.adapter.errors import code_of
from mainstem.heads.kafka.adapter.groups.group_types import MAX_ID_LENGTH
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.service import Asked, Reply
from mainstem.heads.kafka.adapter.share.share_acknowledgements import (
    Acked,
    Refusal,
    acknowledge,
    denied,
    lock_ms_of,
    results_by_topic,
)
from mainstem.heads.kafka.adapter.share.share_sessions import (
    BEGIN,
    END,
    SessionPartition,
    ShareSession,
)
from mainstem.heads.kafka.adapter.topics import name_of
from mainstem.heads.parked import Over, Parked
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages.share_fetch import (
    SHARE_FETCH,
    AcquiredRecords,
    SharedPartition,
    SharedTopic,
    ShareFetchRequest,
    ShareFetchResponse,
)

_WHOLE_BATCHES, _STRICTLY = 0, 1
"""Acquire modes of a request: batch_optimized (0), and record_limit (1), a strict number of
records.
"""
_MOST_EVENTS = 100_000


@serves(SHARE_FETCH, 1, 2)
def answer(asked: Asked, request: ShareFetchRequest, reply: Reply) -> None:
    """Settle acknowledged records, then acquire more; wait if there are none."""
    session = denied(asked, request.group_id) or _session_to_fetch(asked, request)
    if isinstance(session, Refusal):
        reply(ShareFetchResponse(error_code=session.code, error_message=session.message))
        return
    acked = acknowledge(asked, session, request.topics, renews=request.is_renew_ack)
    fetching = _ShareFetch(asked, request, session, acked, reply)
    if request.share_session_epoch == END:
        asked.service.share_sessions.close(session.group, session.member)
        fetching.end()
    elif request.max_records <= 0:
        fetching.end()
    else:
        # min_bytes 0 does not wait; all other fetches wait only until there is a record.
        fetching.begin(waits=request.max_wait_ms > 0 and request.min_bytes > 0)


def _session_to_fetch(asked: Asked, request: ShareFetchRequest) -> ShareSession | Refusal:
    sessions = asked.service.share_sessions
    group, member = request.group_id or "", request.member_id or ""
    epoch = request.share_session_epoch
    places = [
        (topic.topic_id, each.partition_index)
        for topic in request.topics
        for each in topic.partitions
    ]
    most = asked.service.settings.max_fetch_partitions
    if not _is_named(group, member) or len(places) > most:
        return Refusal(Code.INVALID_REQUEST, "no group id or member id, or too many partitions")
    if request.share_acquire_mode not in (_WHOLE_BATCHES, _STRICTLY):
        return Refusal(Code.INVALID_REQUEST, f"unknown acquire mode {request.share_acquire_mode}")
    wanted = (request.max_records, request.max_bytes, request.min_bytes, request.max_wait_ms)
    if request.is_renew_ack and max(wanted) > 0:
        return Refusal(Code.INVALID_REQUEST, "a fetch that renews must not ask for records")
    if epoch == BEGIN:
        if any(each.acknowledgement_batches for it in request.topics for each in it.partitions):
            return Refusal(Code.INVALID_REQUEST, "a new session has nothing to acknowledge")
        found = sessions.open(group, member, places, asked.waiting)
    else:
        forgotten = [
            (it.topic_id, each) for it in request.forgotten_topics_data for each in it.partitions
        ]
        found = sessions.resume(group, member, epoch, asked.waiting, places, forgotten)
    return Refusal(found) if isinstance(found, Code) else found


def _is_named(group: str, member: str) -> bool:
    """Tell whether the group id and member id are valid: neither empty nor too long."""
    return 0 < len(group) <= MAX_GROUP_LENGTH and 0 < len(member) <= MAX_ID_LENGTH


class _ShareFetch:
    """One ShareFetch request: acquires the available records, and answers.

    If there are none, it waits until the dispatcher calls it or ``max_wait_ms`` has passed.
    """

    def __init__(
        self,
        asked: Asked,
        request: ShareFetchRequest,
        session: ShareSession,
        acked: Acked,
        reply: Reply,
    ) -> None:
        self._asked, self._service = asked, asked.service
        self._request, self._reply = request, reply
        self._session, self._acked = session, acked
        # At least one batch, or a consumer could not make progress; max_bytes 0 gets nothing.
        most = min(request.max_bytes, self._service.settings.max_fetch_bytes)
        self._max_bytes = max(1, most) if most else 0
        self._found: dict[SessionPartition, SharedPartition] = {}
        self._count = 0
        self._parked: Parked | None = None

    def begin(self, *, waits: bool) -> None:
        """Acquire records and answer; if there are none and ``waits`` is set, wait for some.

        Fetches that already wait are served first.
        """
        if self._service.draining:
            self.end()
            return
        go_first, group = self._service.dispatcher.go_first, self._session.group
        names = [name_of(self._service, topic_id) or "" for topic_id in self._session.by_topic()]
        are_content = [go_first(name, group) for name in names]
        if (all(are_content) or not waits) and not self._look():
            return
        if self._found or not waits:
            self.end()
        else:
            self._wait()

    def end(self) -> None:
        """Answer with the acquired records, once the request's acknowledgements are durable."""
        self._stop_waiting()
        lock_ms = lock_ms_of(self._asked, self._session)

        def settled(error: MainstemError | None) -> None:
            body = ShareFetchResponse(
                acquisition_lock_timeout_ms=lock_ms, responses=self._responses(error)
            )
            self._service.on_loop(lambda: self._reply(body))

        if self._acked.settled:
            when_all((each.durable for each in self._acked.settled), settled)
        else:
            self._reply(
                ShareFetchResponse(
                    acquisition_lock_timeout_ms=lock_ms, responses=self._responses(None)
                )
            )

    def _wait(self) -> None:
        wait_ms = min(self._request.max_wait_ms, self._service.settings.max_wait_ms)
        self._parked = self._service.park(self._asked.waiting, wait_ms, self._over)
        self._session.waiting.add(self.end)
        if not self._max_bytes:
            return
        for topic_id, numbers in self._session.by_topic().items():
            consumer = self._service.dispatcher.consume(
                name_of(self._service, topic_id) or "",
                self._session.group,
                self._take_in_turn,
                gone=self._gone,
                credit=None,
                partitions=numbers,
            )
            self._parked.watches[topic_id] = consumer.close

    def _take_in_turn(self, _limit: int) -> int:
        """Acquire records and answer when the dispatcher calls; return the number acquired."""
        if self._look() and self._found:
            self.end()
        return self._count

    def _gone(self, _: MainstemError) -> None:
        """Answer with the error of a topic's queue, which was deleted or cannot be read."""
        if self._look():
            self.end()

    def _over(self, why: Over) -> None:
        self._stop_waiting()
        if why is Over.PEER:
            self._reply(None)
        elif why is Over.DRAINING or self._look():
            self.end()

    def _look(self) -> bool:
        """Acquire the available records, if the session still exists.

        Otherwise answer with SHARE_SESSION_NOT_FOUND and return False.
        """
        if self._service.share_sessions.is_open(self._session):
            self._take()
            return True
        self._stop_waiting()
        self._reply(ShareFetchResponse(error_code=Code.SHARE_SESSION_NOT_FOUND))
        return False

    def _take(self) -> None:
        left = min(self._request.max_records, _MOST_EVENTS)
        room = self._max_bytes
        # The first fetch takes from one partition only, so that members that join together all
        # get records.
        is_first = self._request.share_session_epoch == BEGIN
        queues, session = self._service.broker.queues, self._session
        is_strict = (
            self._request.share_acquire_mode == _STRICTLY
            or self._service.broker.group_configs.text(session.group, ACQUIRE_MODE) == RECORD_LIMIT
        )
        for topic_id, numbers in session.by_topic().items():
            name = name_of(self._service, topic_id)
            if name is None:
                self._refuse(topic_id, numbers, Refusal(Code.UNKNOWN_TOPIC_ID))
                continue
            if left <= 0 or room <= 0 or (is_first and room < self._max_bytes):
                return
            try:
                known = len(self._service.broker.topic(name).partitions)
                lent = queues.acquire_batches(
                    name,
                    session.group,
                    session.member,
                    numbers,
                    max_events=left,
                    max_bytes=room,
                    whole=not is_strict,
                    least=room == self._max_bytes,
                    single=is_first,
                )
            except MainstemError as error:
                self._refuse(topic_id, numbers, Refusal(code_of(error), str(error)))
                continue
            unknown = [number for number in numbers if not 0 <= number < known]
            self._refuse(topic_id, unknown, Refusal(Code.UNKNOWN_TOPIC_OR_PARTITION))
            if lent:
                session.lent.add(topic_id)
            for each in lent:
                records = each.batches[0] if len(each.batches) == 1 else b"".join(each.batches)
                runs = [AcquiredRecords(*run) for run in each.runs]
                self._found[topic_id, each.partition] = SharedPartition(
                    each.partition, records=records, acquired_records=runs
                )
                room -= len(records)
                count = sum(run.last - run.first + 1 for run in each.runs)
                left -= count
                self._count += count
                self._service.counts.fetched_bytes += len(records)

    def _refuse(self, topic_id: bytes, numbers: Iterable[int], why: Refusal) -> None:
        for number in numbers:
            self._found[topic_id, number] = SharedPartition(
                number, error_code=why.code, error_message=why.message
            )

    def _responses(self, error: MainstemError | None) -> list[SharedTopic]:
        """Return the acquired records and the results of acknowledgements, grouped by topic.

        ``error``: why the acknowledgements could not be stored, None if they were.
        """
        found = dict(self._found)
        for topic_id, numbers in results_by_topic(self._acked, error).items():
            for number, refusal in numbers.items():
                was = found.get((topic_id, number), SharedPartition(number))
                found[topic_id, number] = replace(
                    was,
                    acknowledge_error_code=refusal.code,
                    acknowledge_error_message=refusal.message,
                )
        topics: dict[bytes, list[SharedPartition]] = {}
        for (topic_id, _), each in found.items():
            topics.setdefault(topic_id, []).append(each)
        return [SharedTopic(topic_id, partitions) for topic_id, partitions in topics.items()]

    def _stop_waiting(self) -> None:
        if self._parked is not None:
            self._parked.end()
            self._session.waiting.discard(self.end)
