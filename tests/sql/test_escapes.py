"""Files, network, settings and the environment are out of reach, by two lines of defence."""

import json
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from mainstem.core.errors import MainstemError
from mainstem.sql.errors import InvalidQuery
from mainstem.sql.evaluation import Evaluation, Limits
from mainstem.sql.statement import TABLE_FUNCTIONS, parsed
from mainstem.sql.worker_messages import Scan

ESCAPES = [
    "select * from read_csv('/etc/passwd')",
    "select * from read_text('/etc/hostname')",
    "select * from read_blob('/proc/self/environ')",
    "select * from read_json('/etc/passwd')",
    "select * from parquet_metadata('/etc/passwd')",
    "select * from sniff_csv('/etc/passwd')",
    "select * from read_duckdb('/tmp/x.db')",
    "select * from glob('/etc/*')",
    "select * from '/etc/passwd'",
    "select * from 'http://127.0.0.1:1/x.csv'",
    "select * from read_csv('http://127.0.0.1:1/x.csv')",
    "select * from read_parquet('s3://bucket/x')",
    "attach '/tmp/escaped.db'",
    "attach ':memory:' as other",
    "copy (select 1) to '/tmp/escaped'",
    "copy (select 1) to '/dev/stdout'",
    "export database '/tmp/escaped'",
    "import database '/tmp/escaped'",
    "install httpfs",
    "load httpfs",
    "load '/tmp/escaped.duckdb_extension'",
    "set memory_limit = '1TB'",
    "set enable_external_access = true",
    "set lock_configuration = false",
    "reset memory_limit",
    "pragma enable_external_access = true",
    "create secret (type s3)",
    "select getenv('PATH')",
    "from json_execute_serialized_sql(json_serialize_sql('from read_text(''/etc/hostname'')'))",
    "select * from query('from read_text(''/etc/hostname'')')",
]


@pytest.fixture(scope="module")
def evaluation() -> Iterator[Evaluation]:
    found = Evaluation(Limits(seconds=20))
    yield found
    found.close()


def nothing(scan: Scan) -> Iterator[pa.RecordBatch]:
    raise AssertionError(scan)


@pytest.mark.parametrize("sql", ESCAPES)
def test_a_query_that_would_escape_is_refused_or_names_no_topic(sql: str) -> None:
    with duckdb.connect() as database:
        tree = database.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()[0][0]

    try:
        found = parsed(json.loads(tree), set())
    except InvalidQuery:
        return
    # It reads a table, which is looked up among the topics, and only there.
    assert len(found.tables) == 1


@pytest.mark.parametrize("sql", ESCAPES)
def test_a_worker_that_is_told_to_escape_cannot(evaluation: Evaluation, sql: str) -> None:
    if "getenv" not in sql and "other" not in sql and "secret" not in sql:
        with pytest.raises(MainstemError):
            list(evaluation.run(sql, [], nothing))

    assert not [*Path("/tmp").glob("escaped*")]
    _, rows = evaluation.run("select 1 as alive", [], nothing)
    assert rows.to_pylist() == [{"alive": 1}]


def test_every_table_function_that_is_not_allowed_is_refused() -> None:
    with duckdb.connect() as database:
        asked = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type LIKE ?"
        names = {str(name) for (name,) in database.execute(asked, ["table%"]).fetchall()}
        for name in sorted(names - TABLE_FUNCTIONS):
            sql = f"select * from {name}()"
            tree = database.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()[0][0]
            with pytest.raises(InvalidQuery, match=r"not available|only SELECT|SHOW"):
                parsed(json.loads(tree), set())
    assert len(names) > 50
