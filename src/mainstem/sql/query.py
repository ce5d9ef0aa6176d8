"""A query over topics: parsed once, evaluated over one snapshot or several.

How this works: the worker tells which tables a query names, and the topics of these names are
looked up. A snapshot fixes the offsets to read. The fields of each topic are inferred from a
sample. Then the worker evaluates the query and asks for the events of its scans. If an event does
not fit what the sample told, fields are inferred from all events of the snapshot, and the query is
evaluated again: no row was returned before that.
"""

from collections.abc import Callable, Iterator, Mapping

import msgspec
import pyarrow as pa

from mainstem.core.errors import OffsetOutOfRange, UnknownTopic
from mainstem.remote.admin import Admin, Described
from mainstem.remote.cluster import Cluster
from mainstem.sql import events
from mainstem.sql.avro import AvroValues
from mainstem.sql.errors import InvalidQuery, SnapshotGone
from mainstem.sql.evaluation import Evaluation, Limits, Misfit
from mainstem.sql.snapshot import ID_LENGTH, Snapshot, TopicSnapshot
from mainstem.sql.tables import StoredTable, Topic
from mainstem.sql.worker_messages import Scan, Span

_SAMPLE = pa.schema([(events.KEY, pa.binary()), (events.VALUE, pa.binary())])
_SAMPLE_PARTITIONS = 16
SAMPLE_EVENTS = 1000
StoredTables = Callable[[str], pa.Table | None]
"""Returns the rows of a table that is no topic, by its name; None if there is none."""


def _no_tables(name: str) -> None:
    """Return None, as there are no tables besides topics."""


class Result(msgspec.Struct, frozen=True):
    """The result of one evaluation: its schema and its batches."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    """Read once, and while no other evaluation runs; raises what goes wrong on the way."""


class Query:
    """A query with its worker process; must be closed."""

    def __init__(
        self,
        cluster: Cluster,
        sql: str,
        *,
        limits: Limits,
        sample: int | None = SAMPLE_EVENTS,
        stored: StoredTables = _no_tables,
        schemas: Mapping[str, AvroValues] = {},
    ) -> None:
        self._cluster, self._sql, self._sample = cluster, sql, sample
        self._stored, self._schemas = stored, schemas
        self._looked_at = ""
        """The snapshot whose events were all looked at."""
        self._notices: list[str] = []
        self._admin = Admin(cluster)
        self._evaluation = Evaluation(limits)
        try:
            self._parsed = self._evaluation.parse(sql)
            self._tables = self._found()
            self._topics = [each for each in self._tables if isinstance(each, Topic)]
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Query":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill the worker and close the connections."""
        self._evaluation.close()
        self._admin.close()

    @property
    def notices(self) -> list[str]:
        """Sentences for the user about the result; complete once the result was read to its end."""
        misfits = [
            f"some values of {each.name} are not Avro of its schema: their fields are null"
            for each in self._topics
            if each.has_misfits
        ]
        return [*self._notices, *misfits]

    @property
    def stored_tables(self) -> list[str]:
        """The names of the tables in the query that are not topics."""
        return sorted({each.name for each in self._tables if isinstance(each, StoredTable)})

    @property
    def appends(self) -> bool:
        """Whether new events can only add rows to the result, never change or remove any."""
        return self._parsed.appends

    @property
    def topics(self) -> list[str]:
        """The names of the topics that the query reads."""
        return sorted({each.name for each in self._topics})

    def snapshot(self) -> Snapshot:
        """Return a snapshot of all events that are committed now."""
        described = self._admin.describe(self.topics)
        places = [
            (name, number)
            for name in self.topics
            for number in range(self._known(described, name).partitions)
        ]
        bounds = self._admin.bounds(places, committed=True)
        spans: dict[str, list[Span]] = {name: [] for name in self.topics}
        for (name, number), found in sorted(bounds.items()):
            # While a partition is trimmed, its start may briefly be after its end for committed
            # events.
            spans[name].append(Span(number, min(found.start, found.tail), found.tail))
        return Snapshot(
            {
                name: TopicSnapshot(described[name].id[:ID_LENGTH], tuple(each))
                for name, each in spans.items()
            }
        )

    def check(self, snapshot: Snapshot) -> None:
        """Raise SnapshotGone, with the reason, if an earlier snapshot cannot be read any more.

        Raises InvalidQuery if it lacks a topic of the query.
        """
        now = self.snapshot()
        for name in self.topics:
            given, there = snapshot.topics.get(name), now.topics[name]
            if given is None:
                raise InvalidQuery(f"the snapshot has no topic {name}, which the query reads")
            if given.id != there.id:
                raise SnapshotGone(f"topic {name} was deleted and created again since the snapshot")
            bounds = {span.partition: span for span in there.spans}
            for span in given.spans:
                kept = bounds.get(span.partition)
                if kept is None or (span.start < kept.start and span.start < span.end):
                    first = "none" if kept is None else kept.start
                    raise SnapshotGone(
                        f"the snapshot begins at offset {span.start} of partition "
                        f"{span.partition} of topic {name}, and the first one kept is {first}"
                    )
                if span.end > kept.end:
                    raise SnapshotGone(
                        f"the snapshot ends at offset {span.end} of partition {span.partition} of "
                        f"topic {name}, which ends at {kept.end}"
                    )

    def run(self, snapshot: Snapshot, *, of: Snapshot | None = None) -> Result:
        """Evaluate the query over a snapshot.

        If the snapshot is only the new part of a larger one (``of``), columns are inferred from the
        larger one.
        """
        for topic in self._topics:
            if not topic.learned:
                self._learn(topic, of or snapshot, self._sample)
        try:
            return self._run(snapshot)
        except Misfit as misfit:
            text = str(misfit)
        except InvalidQuery as error:
            if "not found in FROM" not in str(error):
                raise
            known = [f"{each.name} has {', '.join(each.columns)}" for each in self._tables]
            raise InvalidQuery(f"{error}; {'; '.join(known)}") from None
        seen = str(of or snapshot)
        if self._looked_at == seen:
            raise InvalidQuery(text)
        for topic in self._topics:
            self._learn(topic, of or snapshot, None)
        self._looked_at = seen
        try:
            return self._run(snapshot)
        except Misfit as misfit:
            raise InvalidQuery(str(misfit)) from None

    def _run(self, snapshot: Snapshot) -> Result:
        views = [
            each.view(self._parsed, snapshot.topics[each.name].spans)
            if isinstance(each, Topic)
            else each.view()
            for each in self._tables
        ]
        found = self._evaluation.run(self._sql, views, self._read)
        schema = next(found)
        # Wait for the first batch, as it tells whether the events fit the sample.
        first = next(found, None)
        return Result(schema, self._rest(first, found))

    def _rest(
        self, first: pa.RecordBatch | None, rest: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        if first is not None:
            yield first
            yield from rest

    def _read(self, scan: Scan) -> Iterator[pa.RecordBatch]:
        topic = self._tables[scan.view]
        if isinstance(topic, StoredTable):
            yield from topic.read(scan.columns)
            return
        spans = scan.spans
        if scan.from_ms is not None:
            spans = events.since(self._admin, topic.name, spans, scan.from_ms)
        schema = pa.schema([topic.schema.field(name) for name in scan.columns])
        yield from self._undeleted(topic.name, topic.read(self._cluster, spans, schema))

    def _undeleted(self, topic: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except OffsetOutOfRange as error:
            raise SnapshotGone(
                f"events of topic {topic} were deleted while they were read: {error}"
            ) from None

    # Topics

    def _found(self) -> list[Topic | StoredTable]:
        """Return the topics and stored tables that the query names; raises UnknownTopic."""
        known = self._admin.partitions()
        by_case: dict[str, list[str]] = {}
        for name in known:
            by_case.setdefault(name.lower(), []).append(name)
        return [self._table(path, known, by_case) for path in self._parsed.tables]

    def _table(
        self, path: list[str], known: Mapping[str, int], by_case: Mapping[str, list[str]]
    ) -> Topic | StoredTable:
        try:
            name = _resolved(path, known, by_case)
        except UnknownTopic as error:
            rows = self._stored(error.topic)
            if rows is None:
                raise
            return StoredTable(error.topic, path, rows)
        return Topic(name, path, self._schemas.get(name))

    def _learn(self, topic: Topic, snapshot: Snapshot, sample: int | None) -> None:
        spans = snapshot.topics[topic.name].spans
        chosen = spans if sample is None else _sampled(spans, sample)
        batches = self._undeleted(topic.name, topic.read(self._cluster, chosen, _SAMPLE))
        topic.learn(batches, whole=sample is None)
        if topic.whole and topic.has_fields and topic.values.others:
            self._notices.append(
                f"{topic.values.others:,} events of {topic.name} are not JSON objects: their "
                "fields are null (_value has what they are)"
            )

    def _known(self, described: Mapping[str, Described], name: str) -> Described:
        if name not in described:
            raise UnknownTopic(name)
        return described[name]


def _resolved(path: list[str], known: Mapping[str, int], by_case: Mapping[str, list[str]]) -> str:
    name = ".".join(path)
    if len(path) > 2:
        raise InvalidQuery(f'write a name with several dots as "{name}"')
    if name in known:
        return name
    alike = by_case.get(name.lower(), [])
    if len(alike) > 1:
        raise InvalidQuery(f"{name} could be {' or '.join(sorted(alike))}: write the name exactly")
    if not alike:
        raise UnknownTopic(name)
    return alike[0]


def _sampled(spans: tuple[Span, ...], count: int) -> list[Span]:
    """Return offset ranges for a sample: of some partitions the last and a few first events."""
    filled = sorted(spans, key=lambda span: span.end - span.start, reverse=True)
    chosen = []
    for span in filled[:_SAMPLE_PARTITIONS]:
        late = max(span.start, span.end - count)
        early = min(late, span.start + count // 5)
        chosen += [Span(span.partition, span.start, early), Span(span.partition, late, span.end)]
    return [span for span in chosen if span.start < span.end]
