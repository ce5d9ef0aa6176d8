"""``mainstem sql`` gives what Spark gives for the same query over the same snapshot."""

import json
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.pipelines.format.topics import FIRST_MS, PATIENCE_S, Topic

from mainstem.remote.cluster import Cluster
from mainstem.sql.evaluation import Limits
from mainstem.sql.query import Query
from mainstem.sql.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS = "id bigint, user string, amount double, country string, items array<string>"
USERS = "name string, age bigint"
QUERIES = [
    "select count(*) as n, sum(amount) as total, min(amount) as least from orders",
    "select user, sum(amount) as total, count(*) as n from orders group by user",
    "select country, user, avg(amount) as mean from orders group by country, user "
    "having count(*) > 3",
    "select id, amount * 2 as twice from orders where amount > 40 and country = 'it'",
    "select id from orders where country is null",
    "select distinct country, user from orders",
    "select id, amount from orders order by amount desc, id limit 7",
    "select u.age, sum(o.amount) as total from orders o join users u on o.user = u.name "
    "group by u.age",
    "select o.id, u.age from orders o left join users u on o.user = u.name where o.id < 30",
    "select id, row_number() over (partition by user "
    "order by amount nulls first, id, _partition, _offset) as place from orders",
    "with rich as (select user, sum(amount) as total from orders group by user) "
    "select count(*) as n, max(total) as most from rich where total > 100",
    "select user from orders where user in (select name from users where age > 30)",
    "select case when amount > 25 then 'large' else 'small' end as size, count(*) as n "
    "from orders group by case when amount > 25 then 'large' else 'small' end",
    "select _partition, min(_offset) as first, max(_offset) as last, count(*) as n "
    "from orders group by _partition",
    "select sum(amount) as total from orders where _partition = 1 and _offset between 20 and 90",
    "select user, upper(country) as c from orders where id in (3, 5, 7) "
    "union all select name, cast(age as varchar(9)) from users where age is not null",
    "select get(items, 0) as first, count(*) as n from orders group by get(items, 0)",
]


@pytest.fixture(scope="module")
def snapshot(kafka: str) -> tuple[Cluster, Snapshot]:
    """Topics with transactions, tombstones, gaps and nulls, and a snapshot before more events."""
    random = Random(11)
    orders, users = Topic(kafka, "orders", 3), Topic(kafka, "users", 2)

    def order(number: int) -> str:
        found: dict[str, object] = {"id": number, "user": f"u{random.randrange(9)}"}
        found["amount"] = random.choice([random.randrange(5000) / 100, 12, None])
        if random.random() < 0.8:
            found["country"] = random.choice(["it", "fr", "nl", None])
        if random.random() < 0.5:
            found["items"] = random.choices("abc", k=random.randrange(3))
        return json.dumps(found)

    for partition in range(3):
        orders.fill(map(order, range(partition * 100, partition * 100 + 80)), partition, FIRST_MS)
        orders.transaction([order(900 + partition)] * 3, commit=True, partition=partition)
        orders.transaction([order(990)] * 3, commit=False, partition=partition)
        orders.fill(map(order, range(1000, 1020)), partition, compression_type="lz4")
    ages = [20 + number * 3 if number % 4 else None for number in range(8)]
    users.fill([json.dumps({"name": f"u{n}", "age": age}) for n, age in enumerate(ages)])
    open_one = orders.begin([order(5000)])
    cluster = Cluster(kafka, timeout_s=30, settings={})
    with Query(cluster, "select 1 from orders, users", limits=Limits()) as query:
        found = query.snapshot()
    open_one.commit_transaction(PATIENCE_S)
    orders.fill(map(order, range(6000, 6050)))
    return cluster, found


@pytest.fixture
def tables(spark: "SparkSession", kafka: str, snapshot: tuple[Cluster, Snapshot]) -> None:
    """The same snapshot as tables of Spark, made for one query each."""
    for name, columns in (("orders", ORDERS), ("users", USERS)):
        spans = snapshot[1].topics[name].spans
        starts = {name: {str(span.partition): span.start for span in spans}}
        ends = {name: {str(span.partition): span.end for span in spans}}
        rows = (
            spark.read.format("mainstem")
            .option("kafka.bootstrap.servers", kafka)
            .option("subscribe", name)
            .option("startingOffsets", json.dumps(starts))
            .option("endingOffsets", json.dumps(ends))
            .load()
        )
        rows.selectExpr(
            f"from_json(string(value), '{columns}') as j",
            "partition as _partition",
            "offset as _offset",
        ).selectExpr("j.*", "_partition", "_offset").createOrReplaceTempView(name)


@pytest.mark.parametrize("sql", QUERIES)
@pytest.mark.usefixtures("tables")
def test_spark_and_sql_agree(
    spark: "SparkSession", snapshot: tuple[Cluster, Snapshot], sql: str
) -> None:
    cluster, read = snapshot
    # DuckDB counts the elements of arrays from 1.
    with Query(cluster, sql.replace("get(items, 0)", "items[1]"), limits=Limits()) as query:
        result = query.run(read)
        ours = [row for batch in result.batches for row in batch.to_pylist()]

    theirs = [row.asDict() for row in spark.sql(sql).collect()]

    assert ours, "a query that finds nothing shows nothing"
    if "order by amount desc" in sql:
        assert list(map(plain, ours)) == list(map(plain, theirs))
    assert sorted(map(plain, ours)) == sorted(map(plain, theirs))


def plain(row: dict[str, object]) -> tuple[str, ...]:
    """Return a row as texts; sums of floating-point numbers depend on their order."""
    return tuple(
        f"{value:.6g}" if isinstance(value, float | Decimal) else str(value)
        for value in row.values()
    )
