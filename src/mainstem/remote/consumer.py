"""Consuming: partitions that are assigned by hand, or by a consumer group.

How this works: every assigned partition has a ``Progress``: what was returned to the caller, what
the caller has finished, what is committed, and where to stop. librdkafka prefetches. In a group,
partitions are assigned and revoked inside a call to librdkafka: prefetched events of a revoked
partition are dropped, and its finished offset is committed first. Partitions without a committed
offset start where ``begin`` says.

An offset that the server no longer has is an error (auto.offset.reset=error), never a silent jump,
so that missed events are counted.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from mainstem.core.errors import Fenced, MainstemError, UnknownTopic
from mainstem.core.event import Event
from mainstem.remote.admin import Place
from mainstem.remote.cluster import Cluster
from mainstem.remote.errors import GONE, LOST_MEMBERSHIP, NO_TOPIC, core_error, kafka_error
from mainstem.remote.events import event_of
from mainstem.remote.progress import Progress

Begin = Callable[[list[Place]], Mapping[Place, int]]
"""Returns the start offsets of given partitions, which have no committed offset."""

_AT_ONCE = 10_000


class RemoteConsumer:
    """A consumer over librdkafka; not thread-safe."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        group: str | None,
        begin: Begin,
        limits: Mapping[Place, int] | None,
        commits: bool,
    ) -> None:
        self._cluster, self._group = cluster, group
        self._begin, self._limits = begin, limits
        self._commits = commits
        self._progress: dict[Place, Progress] = {}
        self._former: dict[Place, Progress] = {}
        """Progress of revoked partitions, because a rebalance may assign them again at once."""
        self._owed: list[Place] | None = None
        """Newly assigned partitions whose start offset is not known yet."""
        self._cut: set[Place] = set()
        """Partitions whose next event was deleted; their start offset is looked up."""
        self._unfinished: list[Progress] = []
        self._waiting: deque[Event] = deque()
        self._trouble: MainstemError | None = None
        self.settled = group is None
        """Whether the group has assigned partitions to this member yet."""
        self.missed = 0
        """Number of events that were deleted before they could be read."""
        self._lost = False
        self._gone = False
        self._heard_at = time.monotonic()
        self._consumer = Consumer(
            cluster.config(
                # librdkafka wants a group id even if nothing is committed.
                group_id=group or "mainstem-reader",
                enable_auto_commit=False,
                enable_auto_offset_store=False,
                enable_partition_eof=True,
                auto_offset_reset="error",
                isolation_level="read_committed",
                queued_max_messages_kbytes=16_384,
                fetch_wait_max_ms=500,
                # How soon a new topic that matches a pattern is detected.
                topic_metadata_refresh_interval_ms=1000,
                heartbeat_interval_ms=500,
                session_timeout_ms=10_000,
                partition_assignment_strategy="range,roundrobin",
            )
            | {"error_cb": self._on_error, "on_commit": self._on_commit}
        )

    # Assignment

    def join(self, topics: list[str]) -> None:
        """Subscribe as a member of the group.

        A topic with a leading ``^`` is a regular expression.
        """
        self._consumer.subscribe(
            topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def read(self, offsets: Mapping[Place, int]) -> None:
        """Assign these partitions too, each starting at its offset."""
        for place, offset in offsets.items():
            self._progress[place] = self._progress_from(place, offset)
        self._consumer.incremental_assign(
            [TopicPartition(*place, offset) for place, offset in offsets.items()]
        )

    def drop(self, places: Iterable[Place]) -> None:
        """Unassign partitions."""
        gone = [place for place in places if self._progress.pop(place, None)]
        if gone:
            self._consumer.incremental_unassign([TopicPartition(*place) for place in gone])
            self._forget_waiting()

    @property
    def places(self) -> tuple[Place, ...]:
        """The partitions that are assigned now."""
        return tuple(sorted(self._progress))

    @property
    def ended(self) -> bool:
        """Whether every partition was read up to its limit."""
        return (
            self.settled
            and not self._waiting
            and self._limits is not None
            and all(progress.done for progress in list(self._progress.values()))
        )

    # Events

    def take(self, limit: int, timeout_s: float) -> list[Event]:
        """Return at most ``limit`` events; waits up to ``timeout_s`` until there is one.

        Raises the error that librdkafka or the server reports.
        """
        if self._owed is not None:
            self._take_up(self._owed)
        if not self._waiting:
            self._fetch(limit, timeout_s)
        self._raise_trouble()
        waiting = self._waiting
        taken = [waiting.popleft() for _ in range(min(limit, len(waiting)))]
        for event in taken:
            progress = self._progress[event.topic, event.partition]
            progress.given = event.offset + 1
            self._unfinished.append(progress)
        return taken

    def finish(self) -> None:
        """Mark all events returned so far as finished (processed by the caller)."""
        for progress in self._unfinished:
            progress.finished = progress.given
        self._unfinished.clear()

    def _fetch(self, limit: int, timeout_s: float) -> None:
        messages: list[Message] = []
        try:
            first = self._consumer.poll(timeout_s)
            if first is not None:
                messages.append(first)
                if limit > 1:
                    # Take no more than requested: while events are buffered here, the group is not
                    # polled.
                    messages += self._consumer.consume(min(limit - 1, _AT_ONCE), 0)
        except KafkaException as error:
            self._trouble = self._cluster.refusal(error, group=self._group or "")
        if messages:
            self._hear()
        # librdkafka returns each message once: an error must not lose those behind it.
        for message in messages:
            trouble = message.error()
            if trouble is not None:
                self._on_message_error(trouble, message)
            else:
                self._keep(message)
        # Partitions may have been revoked since.
        self._cut &= self._progress.keys()
        if self._cut:
            self._jump()

    def _keep(self, message: Message) -> None:
        topic, partition = message.topic() or "", message.partition() or 0
        progress = self._progress.get((topic, partition))
        offset = message.offset() or 0
        # After a seek, events may come a second time.
        if progress is None or progress.done or offset < progress.next:
            return
        if progress.limit is not None and offset >= progress.limit:
            self._stop(topic, partition, progress)
            return
        self._waiting.append(event_of(message, topic, partition, offset))
        progress.next = offset + 1
        if progress.limit is not None and offset + 1 >= progress.limit:
            self._stop(topic, partition, progress)

    def _stop(self, topic: str, partition: int, progress: Progress) -> None:
        progress.done = True
        self._consumer.pause([TopicPartition(topic, partition)])

    def _on_message_error(self, error: KafkaError, message: Message) -> None:
        place = (message.topic() or "", message.partition() or 0)
        progress = self._progress.get(place)
        code = error.code()
        if code == KafkaError._PARTITION_EOF:
            if progress is not None and progress.limit is not None:
                progress.done = True
        elif code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            if progress is not None:
                self._cut.add(place)
        elif code in NO_TOPIC:
            # The topic was deleted: the caller subscribed to it by name and must get an error.
            self._trouble = UnknownTopic(place[0])
        elif code in GONE:
            self._gone = True
        else:
            self._trouble = core_error(
                error, self._cluster.address, topic=place[0], group=self._group or ""
            )

    def _jump(self) -> None:
        """After a deletion, seek to the first events that are left, and count the missed ones."""
        for place in self._cut:
            at, progress = TopicPartition(*place), self._progress[place]
            try:
                start, tail = self._consumer.get_watermark_offsets(
                    at, timeout=self._cluster.timeout_s
                )
            except KafkaException as error:
                # Retried with the next fetch; until then librdkafka does not fetch it.
                self._trouble = self._cluster.refusal(error, topic=place[0], partition=place[1])
                return
            wanted = progress.next
            # Past the tail only if the log was truncated: nothing was missed.
            offset = min(max(wanted, start), tail)
            self.missed += max(0, offset - wanted)
            progress.next = offset
            progress.done = progress.limit is not None and offset >= progress.limit
        self._cut.clear()
        # Reassign all: a failed partition can be neither sought nor assigned by itself.
        self._consumer.assign(
            [
                TopicPartition(*each, other.next)
                for each, other in self._progress.items()
                if not other.done
            ]
        )

    def _raise_trouble(self) -> None:
        trouble, self._trouble = self._trouble, None
        if trouble is not None:
            raise trouble

    @property
    def gone(self) -> bool:
        """Whether the server was unreachable at the last contact."""
        return self._gone

    def _hear(self) -> None:
        self._gone, self._heard_at = False, time.monotonic()

    def _on_error(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._gone = True

    # Cursors

    def commit(self, *, finished: bool, wait: bool, before: Iterable[Event] = ()) -> None:
        """Commit the position after the finished events.

        Without ``finished``, after the returned ones. ``before``: returned events that are still
        buffered, not yet passed to the program; no offset after one of them is committed.
        """
        lost, self._lost = self._lost, False
        if lost and wait:
            raise self._fenced()
        offsets = self._unstored(self._progress, finished=finished)
        for event in before:
            place = (event.topic, event.partition)
            if place in offsets:
                offsets[place] = min(offsets[place], event.offset)
        if not wait:
            known = self._progress
            offsets = {place: at for place, at in offsets.items() if known[place].asked != at}
        self._commit(offsets, wait=wait)

    def _unstored(self, places: Iterable[Place], *, finished: bool) -> dict[Place, int]:
        offsets = {}
        for place in places:
            progress = self._progress[place]
            offset = progress.finished if finished else progress.given
            if progress.committed != offset:
                offsets[place] = offset
        return offsets

    def _commit(self, offsets: Mapping[Place, int], *, wait: bool) -> None:
        if not offsets:
            return
        asked = [TopicPartition(*place, offset) for place, offset in offsets.items()]
        if wait and time.monotonic() - self._heard_at > self._cluster.timeout_s:
            # librdkafka would wait for its coordinator, longer than our time-out.
            self._cluster.check_reachable()
        try:
            if wait:
                self._check(self._consumer.commit(offsets=asked, asynchronous=False))
                self._hear()
            else:
                self._consumer.commit(offsets=asked, asynchronous=True)
        except KafkaException as error:
            raise self._commit_refusal(kafka_error(error)) from None
        for place, offset in offsets.items():
            self._progress[place].asked = offset
            if wait:
                self._progress[place].committed = offset

    def _on_commit(self, error: KafkaError | None, stored: list[TopicPartition]) -> None:
        for at in stored:
            progress = self._progress.get((at.topic, at.partition))
            if progress is None:
                continue
            if error is None and at.error is None:
                progress.committed = at.offset
            else:
                # Not raised: the next commit covers it.
                progress.asked = None

    def _check(self, stored: Iterable[TopicPartition] | None) -> None:
        for at in stored or ():
            if at.error is not None:
                raise self._commit_refusal(at.error)

    def _commit_refusal(self, error: KafkaError) -> MainstemError:
        if error.code() in LOST_MEMBERSHIP:
            return self._fenced()
        return core_error(error, self._cluster.address, group=self._group or "")

    def _fenced(self) -> Fenced:
        return Fenced(
            f"partitions of group {self._group!r} went to another consumer before this one "
            "committed; what was not committed is read again"
        )

    def close(self) -> None:
        """Leave the group and close; commits nothing."""
        self._commits = False
        self._consumer.close()
        self._progress.clear()
        self._waiting.clear()

    # Callbacks of librdkafka, inside a poll

    def _on_assign(self, consumer: Consumer, given: list[TopicPartition]) -> None:
        self._take_up([(at.topic, at.partition) for at in given])

    def _take_up(self, places: list[Place]) -> None:
        """Start reading assigned partitions.

        If that fails, a later call raises the error and retries.
        """
        self._owed = places
        given = [TopicPartition(*place) for place in places]
        try:
            stored = (
                self._consumer.committed(given, timeout=self._cluster.timeout_s) if given else []
            )
            cursors = {(at.topic, at.partition): at.offset for at in stored if at.offset >= 0}
            fresh = self._begin([place for place in places if place not in cursors])
        except (MainstemError, KafkaException) as error:
            # Cannot be raised through librdkafka; without start offsets nothing is read.
            self._trouble = (
                error if isinstance(error, MainstemError) else self._cluster.refusal(error)
            )
            self._consumer.assign([])
            return
        self._owed = None
        self._progress = {place: self._taken_up(place, cursors, fresh) for place in places}
        self._former = {}
        self._consumer.assign(
            [
                TopicPartition(*place, progress.given)
                for place, progress in self._progress.items()
                if not progress.done
            ]
        )
        self._forget_waiting()
        self.settled = True

    def _on_revoke(self, consumer: Consumer, taken: list[TopicPartition]) -> None:
        if self._commits:
            places = [(at.topic, at.partition) for at in taken]
            mine = [place for place in places if place in self._progress]
            try:
                self._commit(self._unstored(mine, finished=True), wait=True)
            except MainstemError as error:
                # Fenced: uncommitted events are read again by the new owner.
                self._trouble = None if isinstance(error, Fenced) else error
        former = self._progress
        self._let_go(consumer)
        self._former = former

    def _on_lost(self, consumer: Consumer, taken: list[TopicPartition]) -> None:
        self._lost = any(
            progress.given != progress.committed for progress in self._progress.values()
        )
        self._let_go(consumer)

    def _let_go(self, consumer: Consumer) -> None:
        self.settled = False
        self._owed = None
        self._progress, self._former = {}, {}
        self._forget_waiting()
        consumer.unassign()

    def _taken_up(
        self, place: Place, cursors: Mapping[Place, int], fresh: Mapping[Place, int]
    ) -> Progress:
        former, cursor = self._former.get(place), cursors.get(place)
        if former is not None and former.committed == cursor:
            # No other member owned it in between: continue without repeating events.
            former.next = former.given
            former.done = former.limit is not None and former.next >= former.limit
            return former
        # Commit the start even if nothing is read, so that ``latest`` keeps its meaning.
        progress = self._progress_from(place, fresh.get(place, 0) if cursor is None else cursor)
        progress.committed = cursor
        return progress

    def _progress_from(self, place: Place, offset: int) -> Progress:
        if self._limits is None:
            return Progress(offset, offset, offset)
        # Partitions created later lie after the limit.
        limit = self._limits.get(place, 0)
        return Progress(offset, offset, offset, limit, done=offset >= limit)

    def _forget_waiting(self) -> None:
        known = self._progress
        kept = [
            each
            for each in self._waiting
            if (progress := known.get((each.topic, each.partition)))
            and each.offset >= progress.given
        ]
        self._waiting = deque(kept)
