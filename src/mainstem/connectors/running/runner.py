"""Runs a connector once, until it stops or fails: the snapshot, then following the changes.

How this works: everything that is published goes through ``Output``, which stores the progress in
the same append. The progress has a position between two transactions, how many changes of the next
transaction are published, and the tables that are still to be read. After a crash the source
returns the changes after the position again, and the runner skips those that were published.

The first snapshot is one consistent view. If it is interrupted, the remaining rows are read in
chunks while changes are followed. A chunk is published when the position at which it was read is
reached; rows that changed in between are left out, because their changes are published (with values
that only the chunk has, where the database did not log them). This needs keys. So tables without a
key are read first in a snapshot; if it is interrupted before their end, it starts again.

If a snapshot begins while the topics have events of an earlier one, changes between these events
and the rows may be missing, and the database's positions may begin anew. So a truncate is published
to the topics first, which removes rows that were deleted meanwhile, and later events carry an
epoch: the time of this snapshot.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec

from mainstem.connectors.errors import SourceRefused
from mainstem.connectors.events.envelope import Common, Origin, TableEncoder, check_topics, topic_of
from mainstem.connectors.events.outbox import OutboxRouter, is_outbox
from mainstem.connectors.events.schema_changes import schema_change, schema_of
from mainstem.connectors.events.transactions import TransactionOrder, topic_of_transactions
from mainstem.connectors.port import Begin, Change, Chunk, Commit, Op, SchemaChange, Source, Table
from mainstem.connectors.port import Progress as Moved
from mainstem.connectors.running.output import Output, Stopped
from mainstem.connectors.running.progress import (
    PROGRESS,
    REQUEST,
    SCHEMA,
    PendingTable,
    Progress,
    decode_progress,
)
from mainstem.connectors.running.report import Report, watch_every_s
from mainstem.connectors.running.target import Target
from mainstem.connectors.selection import Reduce, Selection
from mainstem.connectors.settings import ConnectorSettings, Format, SnapshotMode
from mainstem.core.names import is_pattern
from mainstem.core.topic_settings import TopicSettings

_FLUSH_BYTES = 512 * 1024
_MOST_BYTES = 4 * 1024 * 1024
"""A larger transaction is published in parts."""
_CHUNK_ROWS = 2_048
_LOOK_S = 10.0
"""How often new tables are looked for."""
_logger = logging.getLogger("mainstem.connectors")


class _Known(NamedTuple):
    """A captured table, with the encoder and the filter for its changes."""

    source: Table
    encoder: TableEncoder
    reduce: Reduce | None
    outbox: OutboxRouter | None
    """Set if the rows are events themselves."""


class _Transaction:
    """The state of the transaction that is being followed."""

    def __init__(self, progress: Progress, settings: ConnectorSettings) -> None:
        self._settings = settings
        self.name = ""
        """Empty between two transactions."""
        self.changes = 0
        self.skip = progress.done
        """How many of its changes are published already."""
        self._published = progress.done_in
        """The same for each table; empty if an earlier version has stored the progress."""
        self._seen: dict[str, int] = {}
        self.origin = Origin(0, "false")

    def begin(self, item: Begin) -> None:
        """Reset the state for a transaction that begins."""
        self.name, self.changes, self._seen = item.transaction, 0, {}
        order = None
        if self._settings.transactions:
            with_schema = self._settings.format is Format.JSON_SCHEMA
            order = TransactionOrder(item.transaction, item.committed_us, with_schema=with_schema)
        self.origin = Origin(item.committed_us, "false", order)

    def is_published(self, table: str) -> bool:
        """Count a change, and return whether it is published already."""
        self.changes += 1
        seen = self._seen[table] = self._seen.get(table, 0) + 1
        if self._published:
            return seen <= self._published.get(table, 0)
        return self.changes <= self.skip

    @property
    def published(self) -> dict[str, int]:
        """How many changes of each table are published, with all that were seen."""
        tables = self._seen.keys() | self._published.keys()
        return {each: max(self._seen.get(each, 0), self._published.get(each, 0)) for each in tables}

    def end(self) -> None:
        """Reset the state after the transaction's commit."""
        self.name, self.skip, self._published = "", 0, {}


class Runner:
    """Runs a connector until it is told to stop, or its source fails."""

    def __init__(
        self,
        target: Target,
        settings: ConnectorSettings,
        source: Source,
        common: Common,
        stop: threading.Event,
        report: Report,
        now_ns: Callable[[], int],
    ) -> None:
        self._target, self._settings, self._source = target, settings, source
        self._stop, self._report, self._now_ns = stop, report, now_ns
        self._selection = Selection(settings)
        topic = TopicSettings(
            partitions=settings.partitions, max_batch_bytes=settings.max_event_bytes
        )
        self._output = Output(target, settings.name, topic, stop)
        self._progress = decode_progress(self._target.get(PROGRESS, settings.name))
        self._common = common._replace(epoch=self._progress.epoch)
        self._tables: dict[str, _Known] = {}
        self._last: _Known | None = None
        self._chunk: Chunk | None = None
        self._read_at_us = 0
        """When the reading of the chunk began."""
        self._touched: set[bytes] | None = set()
        """Keys of the chunk's table that changed since it was read; None for all."""
        self._stored_s = self._watched_s = self._looked_s = 0.0

    def run(self) -> None:
        """Run until told to stop, then raise Stopped; raises errors of the source and the broker.

        When it raises, everything that it has published is durable.
        """
        try:
            tables = self._source.tables()
            self._capture(tables)
            self._forget_others(tables)
            by_id = {each.id: each for each in tables}
            again = [
                each.table
                for each in self._progress.pending
                if each.table in by_id and not self._can_resume(by_id[each.table])
            ]
            if self._progress.position is None or again:
                self._take_snapshot(tables)
            else:
                self._add_new_tables(tables)
            self._follow()
        finally:
            self._output.wait()

    def _capture(self, tables: Sequence[Table]) -> None:
        check_topics(self._settings.topic_prefix, tables)
        self._source.capture(tables)

    # The first snapshot

    def _take_snapshot(self, tables: Sequence[Table]) -> None:
        self._report.phase = "snapshot"
        # The rows' time: not later than the snapshot, and earlier than every change after it.
        origin = Origin(self._now_ns() // 1000, "true")
        snapshot = self._source.begin()
        # A table may have been altered or dropped since the caller has asked for the tables.
        seen = {each.id: each for each in snapshot.tables()}
        tables = [seen[each.id] for each in tables if each.id in seen]
        try:
            used = self._used(tables)
            reads = self._settings.snapshot is SnapshotMode.INITIAL
            # What cannot be resumed is read first: tables without a key, whose rows may be
            # published twice anyway, and outboxes, which are read in one append; after that, the
            # snapshot is never started again.
            order = sorted(
                tables, key=lambda each: (bool(each.key), self._can_resume(each), each.id)
            )
            pending = tuple(PendingTable(each.id) for each in order) if reads else ()
            epoch = self._progress.epoch
            if used or epoch:
                epoch = self._next_epoch(origin)
            self._begin_epoch(epoch)
            self._progress = Progress(snapshot.position, pending=pending, epoch=epoch)
            for table in tables:
                self._learn(SchemaChange(table, is_new=True, source=_no_source(table)))
            if reads:
                self._empty(used, snapshot.source, origin)
            self._flush()
            # The source keeps all later changes. Wait until the position is durable, as these must
            # not be lost by beginning the snapshot again.
            self._output.wait()
            for table in order if reads else ():
                for piece in snapshot.rows(table):
                    self._publish_rows([change for change, _ in piece], origin)
                    if not is_outbox(self._settings, table):
                        self._read_to(table.id, piece[-1][1] if piece and table.key else None)
                self._finish(table.id)
        finally:
            snapshot.close()

    def _used(self, tables: Sequence[Table]) -> list[Table]:
        """Return the tables whose topics have, or once had, events."""
        prefix = self._settings.topic_prefix
        return [
            each
            for each in tables
            if not is_outbox(self._settings, each)
            and self._output.was_written(topic_of(prefix, each))
        ]

    def _next_epoch(self, origin: Origin) -> int:
        return max(self._progress.epoch + 1, origin.committed_us // 1000)

    def _begin_epoch(self, epoch: int) -> None:
        self._common = self._common._replace(epoch=epoch)
        self._tables.clear()
        self._last = None

    def _empty(
        self,
        tables: Sequence[Table],
        source_of: Callable[[Table], Mapping[str, object]],
        origin: Origin,
    ) -> None:
        """Publish a truncate for each table; the rows that still exist are read again after it."""
        now_ns = self._now_ns()
        for each in tables:
            change = Change(each, Op.TRUNCATE, None, None, source_of(each))
            self._publish(change, origin, now_ns)

    def _can_resume(self, table: Table) -> bool:
        return bool(table.key) and not is_outbox(self._settings, table)

    def _publish_rows(self, changes: Sequence[Change], origin: Origin) -> None:
        now_ns = self._now_ns()
        for change in changes:
            self._publish(change, origin, now_ns)

    def _read_to(self, table: str, after: tuple[str, ...] | None) -> None:
        """Publish the rows collected, and store the key up to which the table is read."""
        if self._stop.is_set():
            raise Stopped
        if after is not None:
            rest = tuple(each for each in self._progress.pending if each.table != table)
            self._set(pending=(PendingTable(table, after), *rest))
        self._flush()

    def _finish(self, table: str) -> None:
        rest = tuple(each for each in self._progress.pending if each.table != table)
        self._set(pending=rest)
        self._flush()

    # Following

    def _follow(self) -> None:
        position = self._progress.position
        assert position is not None
        self._report.phase = "following"
        at = _Transaction(self._progress, self._settings)
        output = self._output
        for item in self._source.follow(position):
            if isinstance(item, Change):
                if at.is_published(item.table.id):
                    self._count(item, at.origin)
                else:
                    self._mark(at, is_end=False)
                    self._publish(item, at.origin, self._now_ns())
                    if output.bytes >= _MOST_BYTES:
                        self._set(transaction=at.name, done=at.changes, done_in=at.published)
                        self._flush()
            elif isinstance(item, Begin):
                at.begin(item)
                self._report.committed_us = item.committed_us
                self._check_resumed(at.skip, item)
            elif isinstance(item, SchemaChange):
                self._learn(item)
            else:
                self._moved(at, item)

    def _moved(self, at: "_Transaction", item: Commit | Moved | None) -> None:
        """Advance the position; publish what was collected, if it is much or nothing more has come.

        ``item`` None means that there is nothing more for now.
        """
        if isinstance(item, Commit):
            self._mark(at, is_end=True)
            self._set(position=item.position, transaction="", done=0, done_in={})
            at.end()
        elif item is not None:
            # A transaction published in part keeps its progress, as it comes after this position.
            self._set(position=item.position)
        if item is None or self._output.bytes >= _FLUSH_BYTES:
            if self._output.bytes and not at.name:
                self._flush()
            self._turn(is_between=not at.name)

    def _check_resumed(self, skip: int, begin: Begin) -> None:
        if skip and begin.transaction != self._progress.transaction:
            raise SourceRefused(
                f"transaction {self._progress.transaction} was published in part, and the database "
                f"returns {begin.transaction} instead; take a new snapshot: mainstem connector "
                f"restart {self._settings.name} --snapshot"
            )

    def _turn(self, *, is_between: bool) -> None:
        """Do periodic work: read new tables, store progress, confirm positions, measure the lag.

        ``is_between`` says that no transaction is open.
        """
        if self._stop.is_set():
            raise Stopped
        now_s = time.monotonic()
        self._report.published = self._output.published
        if is_between:
            self._read_on()
            if now_s - self._looked_s > _LOOK_S or self._has_request():
                self._looked_s = now_s
                self._look_for_tables()
            if now_s - self._stored_s > self._settings.heartbeat_ms / 1000:
                stored = decode_progress(self._target.get(PROGRESS, self._settings.name))
                if stored != self._progress:
                    self._flush()
                self._stored_s = now_s
        durable = self._output.confirmed()
        if durable is not None:
            self._source.confirm(durable)
        if now_s - self._watched_s > watch_every_s(self._settings):
            self._watched_s = now_s
            watch = self._source.watch()
            self._report.watched(watch, self._settings)
            if watch.refusal:
                raise SourceRefused(watch.refusal)

    # Reading tables while following

    def _read_on(self) -> None:
        """Publish a chunk of rows once its position is reached, and read the next chunk."""
        position = self._progress.position
        assert position is not None
        while self._progress.pending:
            self._report.phase = "following, reading tables"
            first = self._progress.pending[0]
            if self._chunk is None:
                self._read_at_us = self._now_ns() // 1000
                self._chunk = self._source.read(first.table, first.after, _CHUNK_ROWS)
                self._touched = set()
            if self._chunk is None or position.at < self._chunk.holds_at.at:
                return
            self._publish_chunk(first, self._chunk)
            self._chunk = None
            if not self._progress.pending:
                self._report.phase = "following"

    def _publish_chunk(self, pending: PendingTable, chunk: Chunk) -> None:
        touched, rows = self._touched, []
        for change in chunk.changes:
            known = self._known(change.table)
            assert change.after is not None
            if touched is not None and known.encoder.key(change.after) not in touched:
                rows.append(change)
        self._publish_rows(rows, Origin(self._read_at_us, "incremental"))
        if chunk.is_last:
            self._finish(pending.table)
        else:
            self._read_to(pending.table, chunk.keys[-1])

    def _has_request(self) -> bool:
        return self._target.get(REQUEST, self._settings.name) is not None

    def _look_for_tables(self) -> None:
        """Add tables that are new, or that somebody has asked to be read again."""
        request = self._target.get(REQUEST, self._settings.name)
        patterns = not self._settings.tables or any(map(is_pattern, self._settings.tables))
        if request is None and not patterns:
            return
        tables = self._source.tables()
        self._capture(tables)
        self._forget_others(tables)
        self._add_new_tables(tables)
        if request is None:
            return
        wanted = msgspec.json.decode(request, type=list[str])
        have = {each.table for each in self._progress.pending}
        chosen = [each for each in tables if each.id in wanted or not wanted]
        # The rows of an outbox are events, published once, so they are not read again.
        again = [each for each in chosen if self._can_resume(each)]
        refused = [each.id for each in chosen if each not in again]
        refused += [each for each in wanted if each not in {table.id for table in tables}]
        if refused:
            self._report.note = (
                f"not read again, as not captured, without key, or an outbox: {refused}"
            )
        self._set(
            pending=(
                *self._progress.pending,
                *(PendingTable(each.id) for each in again if each.id not in have),
            )
        )
        self._flush({(REQUEST, self._settings.name): None})

    def _forget_others(self, tables: Sequence[Table]) -> None:
        """Forget the tables that are not captured any more, as their changes are not seen."""
        have = {each.id for each in tables}
        prefix = f"{self._settings.name}/"
        left = [
            each
            for each in self._target.keys(SCHEMA, prefix)
            if each.removeprefix(prefix) not in have
        ]
        if not left:
            return
        pending = tuple(each for each in self._progress.pending if each.table in have)
        if pending[:1] != self._progress.pending[:1]:
            self._chunk = None
        self._set(pending=pending)
        self._forget_changes(have)
        # In an append before any later position: what is published from here on has gaps.
        self._flush({(SCHEMA, each): None for each in left})

    def _forget_changes(self, captured: Collection[str]) -> None:
        """Forget the changes of other tables in a transaction that is published in part."""
        progress = self._progress
        left = {each: count for each, count in progress.done_in.items() if each in captured}
        if left:
            self._set(done_in=left)
        elif progress.done_in:
            # Nothing more of the transaction may be seen.
            self._set(transaction="", done=0, done_in={})

    def _add_new_tables(self, tables: Sequence[Table]) -> None:
        pending = {each.table for each in self._progress.pending}
        new = [
            each for each in tables if self._stored_schema(each) is None and each.id not in pending
        ]
        if not new:
            return
        readable = [each for each in new if self._can_resume(each)]
        if self._settings.snapshot is not SnapshotMode.INITIAL:
            readable = []
        used = self._used(new)
        if gone := [each for each in used if each in readable]:
            origin = Origin(self._now_ns() // 1000, "true")
            epoch = self._next_epoch(origin)
            self._begin_epoch(epoch)
            self._set(epoch=epoch)
            self._empty(gone, self._source_now, origin)
        self._warn_of_gaps(used, readable)
        for table in new:
            self._learn(SchemaChange(table, is_new=True, source=_no_source(table)))
        added = tuple(PendingTable(each.id) for each in readable)
        self._set(pending=(*self._progress.pending, *added))
        self._flush()

    def _source_now(self, table: Table) -> Mapping[str, object]:
        position = self._progress.position
        assert position is not None
        return self._source.source_at(table, position)

    def _warn_of_gaps(self, used: Sequence[Table], readable: Sequence[Table]) -> None:
        """Say which topics miss changes, as their tables were not captured for a while."""
        settings = self._settings
        empties = settings.truncates and settings.format is not Format.FLAT
        for table in used:
            if table in readable and empties:
                continue
            missing = "changes made" if table not in readable else "deletions of rows"
            note = (
                f"table {table.id} was not captured for a while: {missing} meanwhile are not in "
                f"topic {topic_of(settings.topic_prefix, table)}"
            )
            self._report.note = note
            _logger.warning("connector %s: %s", settings.name, note)

    # Publishing

    def _mark(self, at: "_Transaction", *, is_end: bool) -> None:
        """Publish that a transaction with changes begins or ends, if ``transactions`` is on."""
        order = at.origin.order
        if order is not None and (at.changes if is_end else at.changes == 1):
            topic = topic_of_transactions(self._settings.topic_prefix)
            self._output.add(topic, [order.end() if is_end else order.begin()])

    def _count(self, change: Change, origin: Origin) -> None:
        """Count the events of a published change, so that those after it get the right numbers."""
        known = self._known(change.table)
        is_counted = change.op is not Op.TRUNCATE or self._settings.truncates
        if origin.order is not None and known.outbox is None and is_counted:
            for _ in known.encoder.events(change, origin, 0):
                pass

    def _publish(self, change: Change, origin: Origin, now_ns: int) -> None:
        known = self._known(change.table)
        encoder, reduce = known.encoder, known.reduce
        if change.unavailable and self._chunk is not None:
            change = self._completed(change, self._chunk, encoder)
        if reduce is not None:
            change = change._replace(before=reduce(change.before), after=reduce(change.after))
        if known.outbox is not None:
            for topic, event in known.outbox.route(change, origin):
                self._output.add(topic, [event])
        elif change.op is Op.TRUNCATE:
            if self._settings.truncates:
                for event in encoder.events(change, origin, now_ns):
                    self._output.add_to_all_partitions(encoder.topic, event)
        else:
            self._output.add(encoder.topic, encoder.events(change, origin, now_ns))
        if self._chunk is not None and change.op is not Op.READ:
            self._touch(change, encoder)

    def _completed(self, change: Change, chunk: Chunk, encoder: TableEncoder) -> Change:
        """Return the change with values that the database did not log, taken from the chunk.

        The chunk's own row will be left out, so those values would be missing.
        """
        before = change.before if change.moved else change.after
        if before is None or change.after is None or self._touched is None:
            return change
        key = encoder.key(before)
        if change.table.id != self._progress.pending[0].table or key in self._touched:
            return change
        for read in chunk.changes:
            if read.after is not None and encoder.key(read.after) == key:
                known = {
                    each: read.after[each] for each in change.unavailable if each in read.after
                }
                return change._replace(after=change.after | known)
        return change

    def _touch(self, change: Change, encoder: TableEncoder) -> None:
        if change.table.id != self._progress.pending[0].table or self._touched is None:
            return
        if change.op is Op.TRUNCATE:
            self._touched = None
            return
        for row in (change.before, change.after):
            key = None if row is None else encoder.key(row)
            if key is not None:
                self._touched.add(key)

    def _known(self, table: Table) -> _Known:
        # Usually a change is of the same table as the one before.
        if self._last is not None and self._last.source is table:
            return self._last
        known = self._tables.get(table.id)
        if known is None or known.source is not table:
            reduced, reduce = self._selection.reduced(table)
            encoder = TableEncoder(self._settings, reduced, self._common)
            outbox = (
                OutboxRouter(self._settings, reduced) if is_outbox(self._settings, table) else None
            )
            known = self._tables[table.id] = _Known(table, encoder, reduce, outbox)
        self._last = known
        return known

    def _learn(self, found: SchemaChange) -> _Known:
        """Publish a table's schema if it is new or differs from the one published last."""
        known = self._known(found.table)
        reduced = known.encoder.table
        schema = schema_of(reduced)
        before = self._stored_schema(found.table)
        if schema != before:
            event = schema_change(
                self._common, reduced, before, found.source, self._now_ns(), found.ddl
            )
            self._output.add(self._settings.topic_prefix, [event])
            self._output.set_schema(found.table.id, schema)
        return known

    def _stored_schema(self, table: Table) -> bytes | None:
        pending = self._output.pending_schema(table.id)
        return pending or self._target.get(SCHEMA, f"{self._settings.name}/{table.id}")

    def _set(self, **changes: object) -> None:
        self._progress = msgspec.structs.replace(self._progress, **changes)

    def _flush(self, more: dict[tuple[str, str], bytes | None] | None = None) -> None:
        self._output.flush(self._progress, more or {})
        self._stored_s = time.monotonic()
        self._report.published = self._output.published


def _no_source(table: Table) -> dict[str, object]:
    return {"schema": table.schema, "table": table.name}
