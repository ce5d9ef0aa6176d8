"""A connector's life with a source that is a list: what is skipped, left out, and refused."""

import json
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pytest
from tests.broker.brokers import LateLog, new_broker, read_all

from mainstem.broker.broker import Broker
from mainstem.connectors.errors import SourceFailed, SourceRefused
from mainstem.connectors.events.envelope import Common
from mainstem.connectors.port import (
    Begin,
    Change,
    Chunk,
    Column,
    Commit,
    Item,
    Key,
    Op,
    Position,
    Progress,
    Row,
    Snapshot,
    SourceBlock,
    Table,
    Watch,
)
from mainstem.connectors.running.output import Stopped
from mainstem.connectors.running.progress import PendingTable
from mainstem.connectors.running.progress import Progress as Stored
from mainstem.connectors.running.report import Report
from mainstem.connectors.running.runner import Runner
from mainstem.connectors.running.target import DoorTarget
from mainstem.connectors.settings import ConnectorSettings, Format, SnapshotMode
from mainstem.core.event import Event

NUMBER = {"type": "int32"}
TABLE = Table("s", "t", (Column("id", "int", NUMBER), Column("v", "int", NUMBER)), ("id",))
SETTINGS = ConnectorSettings(name="shop", url="list://", tables=("s.t",))
COMMON = Common("1", "list", "shop", "db", SourceBlock("S", ()))


def row(number: int, v: int) -> Row:
    return {"id": number, "v": v}


def created(number: int, v: int = 1) -> Change:
    return Change(TABLE, Op.CREATE, None, row(number, v), {})


def at(place: int) -> Position:
    return Position((place,), "db")


def transaction(name: str, end: int, *changes: Change) -> list[Item]:
    return [Begin(name, 0), *changes, Commit(at(end))]


class ListSource:
    """A database whose later changes are a list, and whose rows are one chunk."""

    database = "db"

    def __init__(self, items: Iterable[Item | None], chunk: Chunk | None = None) -> None:
        self.items = items
        self._chunk = chunk
        self.confirmed: list[Position] = []

    def tables(self) -> Sequence[Table]:
        return [TABLE]

    def capture(self, tables: Sequence[Table]) -> None:
        """Nothing is to be done."""

    def begin(self) -> Snapshot:
        raise AssertionError("the tests begin after the snapshot")

    def source_at(self, table: Table, position: Position) -> Mapping[str, object]:
        return {"place": position.at[0]}

    def read(self, table: str, after: Key | None, limit: int) -> Chunk | None:
        assert (table, after) == ("s.t", None)
        return self._chunk

    def follow(self, position: Position) -> Iterator[Item | None]:
        yield from self.items
        raise Stopped

    def confirm(self, position: Position) -> None:
        self.confirmed.append(position)

    def watch(self) -> Watch:
        return Watch(0)

    def release(self) -> None:
        """Nothing is kept."""

    def close(self) -> None:
        """Nothing is open."""


def runner(broker: Broker, source: ListSource, settings: ConnectorSettings = SETTINGS) -> Runner:
    stop, report = threading.Event(), Report()
    return Runner(DoorTarget(broker), settings, source, COMMON, stop, report, lambda: 10**18)


def run(broker: Broker, source: ListSource) -> None:
    with pytest.raises(Stopped):
        runner(broker, source).run()


def store(broker: Broker, progress: Stored) -> None:
    definitions = broker.definitions.open("connectors")
    definitions.set("progress", "shop", msgspec.json.encode(progress))
    definitions.set("schema", "shop/s.t", b"old")


def stored(broker: Broker) -> Stored:
    found = broker.definitions.open("connectors").get("progress", "shop")
    assert found is not None
    return msgspec.json.decode(found, type=Stored)


def published(broker: Broker) -> list[tuple[str, Any]]:
    found = [msgspec.json.decode(each.value or b"") for each in read_all(broker, "shop.s.t")]
    return [(each["op"], each["after"]) for each in found]


def test_what_was_published_of_a_transaction_is_skipped_also_if_the_position_moves_before_it() -> (
    None
):
    broker = new_broker()
    store(broker, Stored(at(1), transaction="x", done=2))

    changes = [created(number) for number in range(4)]
    run(broker, ListSource([Progress(at(5)), None, *transaction("x", 9, *changes), None]))

    assert published(broker) == [("c", row(2, 1)), ("c", row(3, 1))]
    assert stored(broker) == Stored(at(9))


OTHER = Table("s", "u", TABLE.columns, ("id",))


class PairSource(ListSource):
    """Two tables, of which the settings choose some; the transaction may break off."""

    def __init__(self, settings: ConnectorSettings, *, breaks: bool) -> None:
        changes = [
            Change(table, Op.CREATE, None, {"id": number, "v": "x" * 1_000_000}, {})
            for number in range(12)
            for table in (TABLE, OTHER)
            if table.id in settings.tables
        ]
        whole = transaction("x", 9, *changes)
        broken = whole[: 2 + len(changes) // 2]
        later = transaction("y", 12, *(Change(each, *changes[0][1:]) for each in (TABLE, OTHER)))
        chosen = [
            each
            for each in later
            if not isinstance(each, Change) or each.table.id in settings.tables
        ]
        super().__init__(broken if breaks else [*whole, *chosen, None])
        self._tables = [each for each in (TABLE, OTHER) if each.id in settings.tables]

    def tables(self) -> Sequence[Table]:
        return self._tables

    def read(self, table: str, after: Key | None, limit: int) -> Chunk | None:
        return Chunk([], [], at(20), is_last=True)


@pytest.mark.parametrize("second", [("s.t",), ("s.u",), ("s.t", "s.u")])
@pytest.mark.parametrize("first", [("s.t",), ("s.t", "s.u")])
def test_a_transaction_published_in_part_is_continued_though_other_tables_are_captured_then(
    first: tuple[str, ...], second: tuple[str, ...]
) -> None:
    broker = new_broker()
    store(broker, Stored(at(1)))
    broker.definitions.open("connectors").set("schema", "shop/s.u", b"old")
    before, after = (msgspec.structs.replace(SETTINGS, tables=each) for each in (first, second))
    with pytest.raises(Stopped):
        runner(broker, PairSource(before, breaks=True), before).run()
    assert stored(broker).done_in.keys() == set(first)

    with pytest.raises(Stopped):
        runner(broker, PairSource(after, breaks=False), after).run()

    for table in second:
        ids = [json.loads(each.key or b"")["id"] for each in read_all(broker, f"shop.{table}")]
        assert ids == [*range(12), 0]
    assert stored(broker).done_in == {}


def test_another_transaction_than_the_one_that_was_published_in_part_is_refused() -> None:
    broker = new_broker()
    store(broker, Stored(at(1), transaction="x", done=2))

    source = ListSource([*transaction("y", 9, created(1)), None])

    with pytest.raises(SourceRefused, match="restart shop --snapshot"):
        run(broker, source)


def test_rows_that_changed_after_they_were_read_are_left_out_of_the_chunk() -> None:
    broker = new_broker()
    store(broker, Stored(at(1), pending=(PendingTable("s.t"),)))
    rows = [Change(TABLE, Op.READ, None, row(number, 1), {}) for number in range(4)]
    chunk = Chunk(rows, [(str(number),) for number in range(4)], at(20), is_last=True)
    update = Change(TABLE, Op.UPDATE, row(0, 1), row(0, 2), {})
    moved = Change(TABLE, Op.UPDATE, row(1, 1), row(7, 2), {}, moved=True)
    delete = Change(TABLE, Op.DELETE, row(2, 1), None, {})

    run(
        broker,
        ListSource(
            [None, *transaction("x", 9, update, moved, delete), None, Progress(at(20)), None], chunk
        ),
    )

    keys = [(each.key, each.value is None) for each in read_all(broker, "shop.s.t")]
    assert keys == [
        (b'{"id":0}', False),
        (b'{"id":1}', False),
        (b'{"id":1}', True),
        (b'{"id":7}', False),
        (b'{"id":2}', False),
        (b'{"id":2}', True),
        (b'{"id":3}', False),
    ]
    assert stored(broker).pending == ()


def test_values_that_a_change_did_not_log_are_taken_from_the_row_that_is_left_out() -> None:
    broker = new_broker()
    store(broker, Stored(at(1), pending=(PendingTable("s.t"),)))
    rows = [Change(TABLE, Op.READ, None, row(number, 7), {}) for number in range(4)]
    chunk = Chunk(rows, [(str(number),) for number in range(4)], at(20), is_last=True)

    def changed(number: int, before: Row | None = None) -> Change:
        after = {"id": number, "v": "not logged"}
        moved = before is not None
        return Change(TABLE, Op.UPDATE, before, after, {}, moved=moved, unavailable=("v",))

    # The second change of a row has its value in the event of the first.
    changes = (changed(0), changed(0), changed(9, {"id": 1}), changed(12))
    items = [None, *transaction("x", 9, *changes), None, Progress(at(20)), None]

    run(broker, ListSource(items, chunk))

    found = [json.loads(each.value) for each in read_all(broker, "shop.s.t") if each.value]
    assert [(each["op"], each["after"]) for each in found] == [
        ("u", row(0, 7)),
        ("u", {"id": 0, "v": "not logged"}),
        ("d", None),
        ("c", row(9, 7)),
        ("u", {"id": 12, "v": "not logged"}),
        ("r", row(2, 7)),
        ("r", row(3, 7)),
    ]


def test_a_truncated_table_leaves_out_the_whole_chunk() -> None:
    broker = new_broker()
    store(broker, Stored(at(1), pending=(PendingTable("s.t"),)))
    rows = [Change(TABLE, Op.READ, None, row(number, 1), {}) for number in range(4)]
    chunk = Chunk(rows, [(str(number),) for number in range(4)], at(20), is_last=True)
    truncate = Change(TABLE, Op.TRUNCATE, None, None, {})

    run(
        broker,
        ListSource(
            [None, *transaction("x", 9, truncate, created(2, 5)), None, Progress(at(20)), None],
            chunk,
        ),
    )

    assert published(broker) == [("t", None), ("c", row(2, 5))]


def test_only_what_is_durable_is_confirmed() -> None:
    log = LateLog()
    broker = new_broker(log)
    store(broker, Stored(at(1)))
    broker.create_topic("shop")
    broker.create_topic("shop.s.t")
    log.late = True
    source = ListSource(())

    def items() -> Iterator[Item | None]:
        yield from transaction("x", 9, created(1))
        yield from (None, None)
        assert stored(broker).position == at(9)
        assert source.confirmed == []
        log.settle()
        yield from (None, None)
        assert source.confirmed[-1] == at(9)

    source.items = items()

    run(broker, source)

    assert published(broker) == [("c", row(1, 1))]


def test_a_transaction_without_its_end_is_not_published() -> None:
    broker = new_broker()
    store(broker, Stored(at(1)))
    begun = transaction("y", 12, created(2))[:-1]

    run(broker, ListSource([*transaction("x", 9, created(1)), None, *begun, None]))

    assert published(broker) == [("c", row(1, 1))]
    assert stored(broker) == Stored(at(9))


class TableSource(ListSource):
    """A table of two rows, whose snapshot may be interrupted after the first."""

    def __init__(self, *, breaks: bool = False) -> None:
        super().__init__([None])
        self._breaks = breaks
        rows = [Change(TABLE, Op.READ, None, row(2, 1), {})]
        self._chunk = Chunk(rows, [("2",)], at(1), is_last=True)
        self.position = at(1)

    def begin(self) -> Snapshot:
        return self

    def read(self, table: str, after: Key | None, limit: int) -> Chunk | None:
        assert after == ("1",)
        return self._chunk

    def source(self, table: Table) -> Mapping[str, object]:
        return {"place": 1}

    def rows(self, table: Table) -> Iterator[Sequence[tuple[Change, Key]]]:
        for number in (1, 2):
            yield [(Change(table, Op.READ, None, row(number, 1), {}), (str(number),))]
            if self._breaks:
                raise SourceFailed("the database is gone")


def restarted(broker: Broker) -> None:
    """Forget the position, as ``connector restart --snapshot`` does."""
    store(broker, Stored(epoch=stored(broker).epoch))


def test_a_snapshot_into_topics_that_have_events_empties_them_and_begins_an_epoch() -> None:
    broker = new_broker()
    settings = msgspec.structs.replace(SETTINGS, partitions=2, truncates=True)
    with pytest.raises(Stopped):
        runner(broker, TableSource(), settings).run()
    restarted(broker)
    with pytest.raises(SourceFailed):
        runner(broker, TableSource(breaks=True), settings).run()
    first = stored(broker).epoch
    with pytest.raises(Stopped):
        runner(broker, TableSource(), settings).run()
    restarted(broker)
    with pytest.raises(Stopped):
        runner(broker, TableSource(), settings).run()

    told = []
    for partition in range(2):
        for each in read_all(broker, "shop.s.t", partition):
            value = msgspec.json.decode(each.value or b"")
            told.append((value["source"].get("epoch", 0), value["op"], partition))

    second = stored(broker).epoch
    assert first == 10**12
    # The clock has not moved on, and yet it is another one.
    assert second == first + 1
    assert [each[:2] for each in sorted(told)] == [
        *[(0, "r")] * 2,
        *[(first, "r")] * 2,
        *[(first, "t")] * 2,
        *[(second, "r")] * 2,
        *[(second, "t")] * 2,
    ]
    for partition in range(2):
        mine = [each[:2] for each in told if each[2] == partition]
        assert mine.index((first, "t")) == mine.count((0, "r"))
        assert mine.index((second, "t")) == len(mine) - 1 - mine.count((second, "r"))


def test_the_schema_of_an_event_has_the_epoch_where_the_event_has_it() -> None:
    broker = new_broker()
    settings = msgspec.structs.replace(SETTINGS, format=Format.JSON_SCHEMA)
    with pytest.raises(Stopped):
        runner(broker, TableSource(), settings).run()
    restarted(broker)
    with pytest.raises(Stopped):
        runner(broker, TableSource(), settings).run()

    for each in read_all(broker, "shop.s.t"):
        value = msgspec.json.decode(each.value or b"")
        (source,) = (each for each in value["schema"]["fields"] if each["field"] == "source")
        has_field = "epoch" in [each["field"] for each in source["fields"]]
        assert has_field == ("epoch" in value["payload"]["source"])


@pytest.mark.parametrize(
    "changed", [{"truncates": False}, {"snapshot": SnapshotMode.NONE}, {"format": Format.FLAT}]
)
def test_a_topic_is_not_emptied_if_that_is_not_wanted_or_rows_are_not_read(changed: Any) -> None:
    broker = new_broker()
    settings = msgspec.structs.replace(SETTINGS, **changed)
    broker.create_topic("shop.s.t")
    broker.publish("shop.s.t", [Event(b"old")])
    with pytest.raises(Stopped):
        runner(broker, TableSource(), settings).run()

    values = [each.value or b"" for each in read_all(broker, "shop.s.t")]
    assert not any(b'"op":"t"' in each for each in values)
    assert stored(broker).epoch == 10**12


TEXT = {"type": "string"}
BOX = Table(
    "s",
    "box",
    tuple(Column(each, "text", TEXT) for each in ("id", "aggregatetype", "aggregateid", "payload")),
    ("id",),
)


class BoxSource(ListSource):
    """An outbox with two rows, whose snapshot may be interrupted between them."""

    def __init__(self, *, breaks: bool) -> None:
        super().__init__(())
        self._breaks = breaks
        self.position = at(1)

    def tables(self) -> Sequence[Table]:
        return [BOX]

    def begin(self) -> Snapshot:
        return self

    def source(self, table: Table) -> Mapping[str, object]:
        return {}

    def rows(self, table: Table) -> Iterator[Sequence[tuple[Change, Key]]]:
        for number in ("1", "2"):
            row: Row = {"id": number, "aggregatetype": "t", "aggregateid": "k", "payload": number}
            yield [(Change(table, Op.READ, None, row, {}), (number,))]
            if self._breaks:
                raise SourceFailed("the database is gone")


def test_the_rows_of_an_outbox_are_published_once_also_if_its_snapshot_is_interrupted() -> None:
    broker = new_broker()
    settings = msgspec.structs.replace(SETTINGS, tables=(), outbox=("s.box",))

    with pytest.raises(SourceFailed):
        runner(broker, BoxSource(breaks=True), settings).run()
    with pytest.raises(Stopped):
        runner(broker, BoxSource(breaks=False), settings).run()
    with pytest.raises(Stopped):
        runner(broker, BoxSource(breaks=True), settings).run()

    events = read_all(broker, "outbox.event.t")
    assert [(each.key, each.value) for each in events] == [(b"k", b"1"), (b"k", b"2")]
