"""``mainstem sql`` on a server."""

import csv
import io
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import fastavro
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from tests.cli.conftest import Ran, Run
from tests.in_process_server import serving

from mainstem.pipelines.sinks.delta import DeltaSink
from mainstem.pipelines.sinks.parquet import MANIFESTS, SCHEMA, Manifest, ParquetSink
from mainstem.pipelines.sinks.port import Sink
from mainstem.pipelines.sinks.redis import RedisSink
from mainstem.pipelines.sinks.sqlite import SqliteSink
from mainstem.pipelines.state.table_state import DEFAULT_STATE, StateDirectory, TableStatus

Q = "select user, sum(amount) as total, max(_offset) >= 0 as seen from orders group by 1 order by 1"


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("served")) as address:
        yield address


@pytest.fixture
def at(kafka: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> str:
    """A server with a topic of three orders."""
    monkeypatch.setenv("MAINSTEM_AT", kafka)
    if run("topic", "show", "orders").code:
        lines = (
            {"user": "ann", "amount": 1},
            {"user": "b\x1b[1mob", "amount": 2.5},
            {"user": "ann"},
        )
        sent = "\n".join(json.dumps(each) for each in lines).encode()
        assert run("pub", "orders", stdin=sent).code == 0
    return kafka


def test_every_format_has_the_same_rows(at: str, run: Run) -> None:
    lines, document, table, stream = (
        run("sql", "-q", Q, "--format", form) for form in ("jsonl", "json", "csv", "arrow")
    )

    rows = [
        {"user": "ann", "total": 1.0, "seen": True},
        {"user": "b\x1b[1mob", "total": 2.5, "seen": True},
    ]
    assert [json.loads(line) for line in lines.lines] == rows
    assert json.loads(document.out) == rows
    assert table.out == b"user,total,seen\nann,1.0,true\nb\x1b[1mob,2.5,true\n"
    assert pa.ipc.open_stream(io.BytesIO(stream.out)).read_all().to_pylist() == rows
    assert {each.err for each in (lines, document, table, stream)} == {""}


def test_events_put_no_formulas_into_a_spreadsheet(at: str, run: Run) -> None:
    texts = ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(1)", "\t=1", "\r=1", "a=1", "'x"]
    query = "select * from (values " + ", ".join(
        f"""({number}, '{text.replace("'", "''")}', -1.5)""" for number, text in enumerate(texts)
    )
    query += """) as t(n, "=text", minus) order by n"""

    inert, raw = (run("sql", "-q", query, "--format", "csv", *more) for more in ((), ("--raw",)))

    def rows(of: Ran) -> list[list[str]]:
        return list(csv.reader(io.StringIO(of.out.decode(), newline="")))

    names, *found = rows(inert)
    assert names == ["n", "'=text", "minus"]
    assert [text for _, text, _ in found] == ["'" + text for text in texts[:6]] + texts[6:]
    assert {number for *_, number in found} == {"-1.5"}
    names, *found = rows(raw)
    assert names == ["n", "=text", "minus"]
    assert [text for _, text, _ in found] == texts


def test_a_terminal_gets_a_table_without_control_characters(at: str, run: Run) -> None:
    ran = run("sql", Q, terminal=True)

    assert ran.lines == [
        "user        total  seen",
        "ann           1.0  true",
        "b\\x1b[1mob    2.5  true",
        "(2 rows)",
    ]


def test_the_snapshot_that_is_printed_gives_the_same_answer(at: str, run: Run) -> None:
    query = "select count(*) as n from orders where _partition >= 0"
    first = run("sql", query)
    name, snapshot = first.err.strip().split(": ")
    assert (name, first.code) == ("snapshot", 0)

    run("pub", "orders", '{"user": "eve"}')

    assert run("sql", query, "--as-of", snapshot).out == first.out
    assert run("sql", query).out != first.out
    assert run("sql", query, "--as-of", "yesterday").code == 6


def test_changes_of_a_followed_query_have_a_sign(at: str, run: Run) -> None:
    query = "select count(*) > 0 as some from orders"
    lines, table, values = (
        run("sql", "--follow", "-c", "1", query, "--format", form)
        for form in ("jsonl", "table", "csv")
    )

    assert lines.out == b'{"_change":"+","some":true}\n'
    assert table.lines == ["_change  some", "+        true", "(1 row)"]
    assert values.out == b"_change,some\n+,true\n"
    assert lines.err.startswith("snapshot: orders~")
    assert run("sql", "--follow", query, "--format", "json").code == 2


def test_errors_have_their_exit_codes_and_say_what_to_do(at: str, run: Run) -> None:
    limited = run("sql", "select * from range(10)", "--rows", "3")
    refused = run("sql", "select * from read_csv('/etc/passwd')")
    unknown = run("sql", "select * from nowhere")

    assert (limited.code, refused.code, unknown.code) == (6, 6, 3)
    assert "more than 3 rows" in limited.err
    assert "read_csv is not available" in refused.err
    assert "no topic 'nowhere'" in unknown.err
    assert run("sql", "select 1", "--sample", "some").code == 2
    assert run("sql", "select 1", "--memory", "much").code == 2


def test_a_directory_that_nobody_serves_is_refused(run: Run, tmp_path: Path) -> None:
    ran = run("sql", "select 1", "--at", str(tmp_path))

    assert ran.code == 6
    assert "mainstem serve" in ran.err


# Tables of pipelines


@pytest.fixture
def kept(own_directory: Path) -> dict[str, Sink]:
    """Tables as a pipeline ``shop`` has left them: their sinks, and their state."""
    rows = pa.table({"user": ["ann", "bob"], "age": pa.array([30, 40], pa.int32())})
    write_deltalake("delta", rows)
    write_deltalake("delta", rows.slice(0, 1), mode="append")
    Path("parquet", MANIFESTS).mkdir(parents=True)
    pq.write_table(rows.schema.empty_table(), Path("parquet", MANIFESTS, SCHEMA))
    pq.write_table(rows, "parquet/whole.parquet")
    pq.write_table(rows, "parquet/unfinished.parquet")
    manifest = Manifest("shop", 0, 1, ["whole.parquet"], 2)
    Path("parquet", MANIFESTS, "0.json").write_bytes(msgspec.json.encode(manifest))
    with closing(sqlite3.connect("base.db")) as base, base:
        base.execute("create table users (user TEXT, age INTEGER)")
        base.executemany("insert into users values (?, ?)", [("ann", 30), ("bob", 40)])
    sinks: dict[str, Sink] = {
        "delta": DeltaSink("delta"),
        "parquet": ParquetSink("parquet"),
        "sqlite": SqliteSink("base.db", "users"),
        "orders": ParquetSink("parquet"),
        "cache": RedisSink("redis://127.0.0.1/0", "users"),
    }
    for name, sink in sinks.items():
        status = TableStatus("stopped", sink=sink.place)
        StateDirectory(Path(DEFAULT_STATE, "shop", name)).save_status(status)
    return sinks


@pytest.mark.parametrize(("table", "count"), [("delta", 3), ("parquet", 2), ("sqlite", 2)])
@pytest.mark.usefixtures("kept")
def test_tables_of_pipelines_are_tables(at: str, run: Run, table: str, count: int) -> None:
    name = f"Shop.{table.upper()}"
    ran = run("sql", f"select count(*) as n, max(age) as age from {name} where age > 20")
    assert [json.loads(line) for line in ran.lines] == [{"n": count, "age": 40}], ran.err

    joined = run(
        "sql", f"select o.amount, t.age from orders o join {table} t on o.user = t.user limit 1"
    )
    assert json.loads(joined.lines[0])["age"] == 30
    assert f"{table}: as of now, and not in the snapshot" in joined.err


@pytest.mark.usefixtures("kept")
def test_topics_come_first_and_what_cannot_be_read_is_refused(at: str, run: Run) -> None:
    assert run("sql", "-q", "select max(_partition) >= 0 as topic from orders").lines == [
        '{"topic":true}'
    ]
    assert run("sql", "-q", "select count(*) as n from shop.orders").lines == ['{"n":2}']

    cache = run("sql", "select * from cache")
    assert (cache.code, "queries read Delta, Parquet and SQLite" in cache.err) == (6, True)
    assert run("sql", "select * from shop.nothing").code == 3
    assert run("sql", "--follow", "select * from delta").code == 2


# Avro


SCHEMA_OF_PAYMENTS = {
    "type": "record",
    "name": "Payment",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "user", "type": ["null", "string"]},
        {"name": "paid", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}


def payment(number: int, user: str | None) -> bytes:
    out = io.BytesIO()
    value = {"id": number, "user": user, "paid": number * 1000, "tags": ["a"] * number}
    fastavro.schemaless_writer(out, SCHEMA_OF_PAYMENTS, value)
    return out.getvalue()


def test_avro_values_have_the_columns_of_their_schema(at: str, run: Run) -> None:
    values = [payment(0, None), payment(1, "ann"), b"\0\0\0\0\7" + payment(2, "bob")]
    for value in (*values, b"not avro", payment(3, "x") + b"!"):
        Path("value").write_bytes(value)
        assert run("pub", "payments", "--file", "value", "-q").code == 0
    Path("payment.avsc").write_text(json.dumps(SCHEMA_OF_PAYMENTS))

    ran = run(
        *("sql", "--schema", "payments=payment.avsc"),
        "select id, user, paid::timestamptz as paid, len(tags) as tags from payments order by id",
    )

    assert ran.code == 0, ran.err
    assert [list(json.loads(line).values()) for line in ran.lines] == [
        [0, None, "1970-01-01T00:00:00Z", 0],
        [1, "ann", "1970-01-01T00:00:01Z", 1],
        [2, "bob", "1970-01-01T00:00:02Z", 2],
        [None, None, None, None],
        [None, None, None, None],
    ]
    assert "some values of payments are not Avro of its schema" in ran.err
    assert run("sql", "select id from payments").code == 6
    assert run("sql", "--schema", "payments=none.avsc", "select id from payments").code == 2
    Path("payment.avsc").write_text('{"type": "what"}')
    ran = run("sql", "--schema", "payments=payment.avsc", "select id from payments")
    assert "is no Avro schema" in ran.err
