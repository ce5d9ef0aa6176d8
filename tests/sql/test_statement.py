"""What is found in a query's syntax tree, and what is refused."""

import json

import duckdb
import pytest

from mainstem.sql.errors import InvalidQuery
from mainstem.sql.statement import parsed
from mainstem.sql.worker_messages import Parsed

AGGREGATES = {"count_star", "count", "sum", "max"}


def read(sql: str) -> Parsed:
    with duckdb.connect() as database:
        tree = database.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()[0][0]
    return parsed(json.loads(tree), AGGREGATES)


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("select 1", []),
        ("select * from orders", [["orders"]]),
        ('select * from sample.views v join "a-b.c" on true', [["sample", "views"], ["a-b.c"]]),
        ("from orders union all from orders", [["orders"]]),
        (
            "select * from a where x in (select y from b where exists (from c))",
            [["b"], ["c"], ["a"]],
        ),
        ("with a as (select 1) select * from a", []),
        ("with a as (select * from b) select * from A, c", [["b"], ["c"]]),
        ("with orders as (select * from orders where x) select * from orders", [["orders"]]),
        ("with a as (from b), c as (from a) select * from c", [["b"]]),
        ("with recursive t(n) as (from s union all select n + 1 from t) from t", [["s"]]),
        ("select (with a as (from b) select max(x) from a) from a", [["b"], ["a"]]),
        ("describe orders", [["orders"]]),
        ("select * from 'file.csv'", [["file.csv"]]),
    ],
)
def test_the_tables_are_those_that_with_does_not_define(sql: str, tables: list[list[str]]) -> None:
    assert sorted(read(sql).tables) == sorted(tables)


@pytest.mark.parametrize(
    ("sql", "star"),
    [
        ("select user from orders", False),
        ("select count(*) from orders", False),
        ("select * from orders", True),
        ("select o.* from orders o", True),
        ("select columns('a.*') from orders", True),
        ("select a from orders natural join users", True),
        ("select o from orders o", True),
        ("select orders from orders", True),
        ("from orders", True),
    ],
)
def test_all_columns_are_needed_where_they_are_not_named(sql: str, star: bool) -> None:
    assert read(sql).star is star


def test_every_name_is_found_wherever_it_stands() -> None:
    found = read(
        "select a, b.c, sum(d) filter (where e) from t join u using (f) where g in "
        "(select h from v) group by i having j order by k limit (select l from w)"
    )

    assert set("abcdefghijkl") <= set(found.words)
    assert found.dotted == ["b"]


@pytest.mark.parametrize(
    ("sql", "appends"),
    [
        ("select a, b + 1 from t where c > 2", True),
        ("select lower(a) from t", True),
        ("select a from t limit 1", False),
        ("select distinct a from t", False),
        ("select sum(a) from t", False),
        ("select a from t group by a", False),
        ("select a, row_number() over () from t", False),
        ("select a from t where b = (select max(b) from t)", False),
        ("select a from t join u using (a)", False),
        ("select a from t order by a", False),
        ("select a from t using sample 10%", False),
        ("with x as (from t) select a from x", False),
    ],
)
def test_new_events_only_add_rows_if_rows_do_not_depend_on_others(sql: str, appends: bool) -> None:
    assert read(sql).appends is appends


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("create table x (a int)", "only SELECT"),
        ("insert into x select 1", "only SELECT"),
        ("drop table x", "only SELECT"),
        ("copy (select 1) to '/tmp/x'", "only SELECT"),
        ("attach '/tmp/x'", "only SELECT"),
        ("install httpfs", "only SELECT"),
        ("load httpfs", "only SELECT"),
        ("set memory_limit = '1TB'", "only SELECT"),
        ("pragma database_list", "only SELECT"),
        ("call pragma_version()", "only SELECT"),
        ("export database '/tmp/x'", "only SELECT"),
        ("explain analyze select 1", "only SELECT"),
        ("with z as (insert into x values (1) returning *) from z", "only SELECT"),
        ("select 1; select 2", "2 statements"),
        ("", "0 statements"),
        ("show tables", "SHOW"),
        ("select", "SELECT clause"),
        ("select * from read_csv('/etc/passwd')", "read_csv is not available"),
        ("select * from read_text('/etc/passwd')", "read_text"),
        ("select * from read_parquet('x')", "read_parquet"),
        ("select * from glob('*')", "glob"),
        ("select * from query('select 1')", "query"),
        ("select * from duckdb_settings()", "duckdb_settings"),
        ("select * from json_execute_serialized_sql('x')", "json_execute_serialized_sql"),
        ("select (select max(x) from main.READ_CSV('x'))", "read_csv"),
        ("with a as (from sniff_csv('x')) select 1", "sniff_csv"),
        ("select getenv('HOME')", "getenv"),
        ("select current_setting('threads')", "current_setting"),
        ("select * from orders where sleep_ms(1000) is null", "sleep_ms"),
        ("select * from my-topic", "quote names"),
    ],
)
def test_what_is_not_a_plain_select_is_refused_with_the_reason(sql: str, reason: str) -> None:
    with pytest.raises(InvalidQuery, match=reason):
        read(sql)
