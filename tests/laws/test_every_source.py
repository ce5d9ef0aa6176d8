"""What every source of changes guarantees: describe, snapshot, follow, position, resume."""

from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise

import pytest
from tests.laws.sources import DATABASES, Bench, told

from mainstem.connectors.errors import SourceRefused
from mainstem.connectors.port import Begin, Change, Commit, Op, Position, SchemaChange, Table
from mainstem.pipelines.planning.change_values import OPERATIONS, position_of

TABLE = "CREATE TABLE t (id INTEGER PRIMARY KEY, v INTEGER NOT NULL, note VARCHAR(20))"


@pytest.fixture(scope="module", params=list(DATABASES))
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    with DATABASES[request.param](tmp_path_factory.mktemp(request.param)) as db:
        yield Bench(request.param, db)


@pytest.fixture
def bench(place: Bench) -> Iterator[Bench]:
    place.db.execute(TABLE, "INSERT INTO t VALUES (1, 1, 'a'), (2, 1, NULL), (3, 1, 'c')")
    yield place
    source = place.open("t")
    source.release()
    source.close()
    place.db.execute("DROP TABLE t")


def row(number: int, v: int, note: str | None) -> dict[str, object]:
    return {"id": number, "v": v, "note": note}


def shape(table: Table) -> list[tuple[str, object]]:
    return [(each.name, each.schema["type"]) for each in table.columns]


def test_a_table_is_described_the_same_by_the_catalog_the_snapshot_and_the_changes(
    bench: Bench,
) -> None:
    with bench.source("t") as source, closing(source.begin()) as snapshot:
        (described,) = source.tables()
        pieces = [each for piece in snapshot.rows(described) for each in piece]
        assert snapshot.source(described) == pieces[0][0].source
    bench.db.execute("INSERT INTO t VALUES (9, 1, 'z')")
    items = bench.follow(snapshot.position, 9, "t")

    followed = next(each.table for each in items if isinstance(each, Change))
    announced = next(each.table for each in items if isinstance(each, SchemaChange))

    assert described.id == f"{bench.schema}.t"
    assert described.key == pieces[0][0].table.key == followed.key == announced.key == ("id",)
    assert shape(described) == shape(pieces[0][0].table) == shape(followed) == shape(announced)
    assert [each.optional for each in described.columns] == [False, False, True]
    assert [each.type for each in described.columns] == [each.type for each in followed.columns]


def test_a_snapshot_has_the_rows_of_its_position_and_following_has_all_later_changes(
    bench: Bench,
) -> None:
    bench.db.execute("UPDATE t SET v = 2 WHERE id = 3")
    with bench.source("t") as source, closing(source.begin()) as snapshot:
        (table,) = source.tables()
        bench.db.execute("UPDATE t SET v = 5", "DELETE FROM t WHERE id = 1")
        rows = [change.after for piece in snapshot.rows(table) for change, _ in piece]
    bench.db.execute("INSERT INTO t VALUES (9, 1, 'z')")

    assert rows == [row(1, 1, "a"), row(2, 1, None), row(3, 2, "c")]
    later = told(bench.follow(snapshot.position, 9, "t"))
    assert [(op, after) for op, _, after in later] == [
        (Op.UPDATE, row(1, 5, "a")),
        (Op.UPDATE, row(2, 5, None)),
        (Op.UPDATE, row(3, 5, "c")),
        (Op.DELETE, None),
        (Op.CREATE, row(9, 1, "z")),
    ]


def test_following_from_a_position_returns_the_same_again(bench: Bench) -> None:
    with bench.source("t") as source:
        position = bench.begin(source)
    bench.db.execute("UPDATE t SET v = v + 1", "UPDATE t SET id = 8 WHERE id = 1")
    bench.db.execute("INSERT INTO t VALUES (9, 1, 'z')")

    first, second = (bench.follow(position, 9, "t") for _ in range(2))

    assert told(first) == told(second)
    begins = [[each for each in items if isinstance(each, Begin)] for items in (first, second)]
    assert begins[0] == begins[1]
    assert len({each.transaction for each in begins[0]}) == len(begins[0])


def test_following_resumes_after_each_commit_without_a_change_more_or_less(bench: Bench) -> None:
    with bench.source("t") as source:
        position = bench.begin(source)
    for number in range(4, 8):
        bench.db.execute(f"INSERT INTO t VALUES ({number}, 1, 'n')", "UPDATE t SET v = v + 1")
    bench.db.execute("INSERT INTO t VALUES (9, 1, 'z')")
    whole = bench.follow(position, 9, "t")
    commits = [place for place, each in enumerate(whole) if isinstance(each, Commit)]

    for place in commits[:-1]:
        commit = whole[place]
        assert isinstance(commit, Commit)
        rest = bench.follow(commit.position, 9, "t")
        assert told(rest) == told(whole[place + 1 :])

    positions = [each.position.at for each in whole if isinstance(each, Commit)]
    assert all(before < after for before, after in pairwise([position.at, *positions]))


def test_a_confirmed_position_can_be_resumed_from(bench: Bench) -> None:
    with bench.source("t") as source:
        position = bench.begin(source)
        bench.db.execute("INSERT INTO t VALUES (7, 1, 'n')", "INSERT INTO t VALUES (8, 1, 'n')")
        at = position
        for item in source.follow(position):
            if isinstance(item, Commit):
                at = item.position
                source.confirm(at)
            elif item is None and at != position:
                break
    bench.db.execute("INSERT INTO t VALUES (9, 1, 'z')")

    assert (Op.CREATE, None, row(9, 1, "z")) in told(bench.follow(at, 9, "t"))


def test_what_was_rolled_back_is_not_followed(bench: Bench) -> None:
    with bench.source("t") as source:
        position = bench.begin(source)
    with bench.db.connect() as connection:
        connection.execute("BEGIN")
        connection.execute("INSERT INTO t VALUES (7, 1, 'n')")
        connection.execute("SAVEPOINT a")
        connection.execute("INSERT INTO t VALUES (8, 1, 'n')")
        connection.execute("ROLLBACK TO SAVEPOINT a")
        connection.execute("COMMIT")
        connection.execute("BEGIN")
        connection.execute("DELETE FROM t")
        connection.execute("ROLLBACK")
    bench.db.execute("INSERT INTO t VALUES (9, 1, 'z')")

    assert told(bench.follow(position, 9, "t")) == [
        (Op.CREATE, None, row(7, 1, "n")),
        (Op.CREATE, None, row(9, 1, "z")),
    ]


def test_a_table_is_read_in_parts_in_the_order_of_its_key(bench: Bench) -> None:
    values = ", ".join(f"({number}, 1, 'n')" for number in range(10, 20))
    with bench.source("t") as source:
        position = bench.begin(source)
        bench.db.execute(f"INSERT INTO t VALUES {values}")
        found, after, chunks = [], None, 0
        while True:
            chunk = source.read(f"{bench.schema}.t", after, 4)
            if chunk is None:
                continue
            found += [each.after for each in chunk.changes]
            chunks += 1
            if chunk.is_last:
                break
            after = chunk.keys[-1]
            assert chunk.holds_at.at[:1] >= position.at[:1]
        with pytest.raises(SourceRefused, match=r"there is no table .*\.other"):
            source.read(f"{bench.schema}.other", None, 4)

    assert chunks == 4
    assert [each and each["id"] for each in found] == [1, 2, 3, *range(10, 20)]


def place_of(change: Change) -> str:
    """Return where consumers put a change among those of its table."""
    return position_of(change.source, 0, OPERATIONS[change.op])


def test_rows_that_are_read_sort_after_what_was_followed_and_before_what_follows(
    bench: Bench,
) -> None:
    with bench.source("t") as source:
        (table,) = source.tables()
        snapshot = source.begin()
        found = [each for piece in snapshot.rows(table) for each, _ in piece]
        snapshot.close()
        bench.db.execute("UPDATE t SET v = 2 WHERE id = 2")
        is_read = False
        # A chunk is asked for at once, before the database says anything else.
        for item in source.follow(snapshot.position):
            found += [item] if isinstance(item, Change) else []
            if isinstance(item, Commit) and is_read:
                break
            if isinstance(item, Commit):
                is_read = True
                chunk = source.read(table.id, None, 10)
                while chunk is None:
                    chunk = source.read(table.id, None, 10)
                found += chunk.changes
                bench.db.execute("DELETE FROM t WHERE id = 2")

    told = [(each.op, (each.after or each.before or {})["id"], place_of(each)) for each in found]
    assert [each[0] for each in told] == [*["r"] * 3, "u", *["r"] * 3, "d"]
    of_row = [place for _, number, place in told if number == 2]
    assert of_row == sorted(of_row)
    # SQLite: a row that was read has the number of the last change, which may be that of the row.
    assert len(set(of_row)) == len(of_row) - (bench.schema == "main")


def test_a_position_of_another_database_is_refused(bench: Bench) -> None:
    with bench.source("t") as source:
        position = bench.begin(source)

    with (
        bench.source("t") as source,
        pytest.raises(SourceRefused, match=r"restart (laws|NAME) --snapshot"),
    ):
        next(source.follow(Position(position.at, "another")))


def test_a_table_that_is_named_and_does_not_exist_is_refused(bench: Bench) -> None:
    source = bench.open("t", "missing")

    with pytest.raises(SourceRefused, match=r"there is no table .*\.missing; correct --tables"):
        source.tables()
    source.close()


def test_how_much_is_kept_is_told_and_nothing_after_release(bench: Bench) -> None:
    with bench.source("t") as source:
        bench.begin(source)
        bench.db.execute("UPDATE t SET v = v + 1")
        assert source.watch().lag_bytes >= 0
        assert source.watch().refusal == ""
        source.release()
        assert source.watch().lag_bytes == 0
    bench.db.execute("UPDATE t SET v = v + 1")
