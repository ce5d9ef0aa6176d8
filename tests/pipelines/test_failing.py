"""One bad row stops one table at most: the others go on, and the event is named."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest
from pyspark.sql import SparkSession
from tests.pipelines.worlds import ignore, streaming
from tests.serving import serving

import mainstem
from mainstem import pipelines as p
from mainstem.pipelines.errors import PipelineFailed, RunRefused
from mainstem.pipelines.running import run
from mainstem.pipelines.standing import Place, Standing
from mainstem.pipelines.table_run import Request

SHOP = """
    from pyspark.sql import functions as F
    from mainstem import pipelines as p

    @F.udf("int")
    def inverted(amount):
        return 100 // amount

    @p.table(source="orders", schema="id string, amount int", BADsink=p.delta("fragile"))
    def fragile(orders):
        return orders.select("id", inverted("amount").alias("inverted"))

    @p.table(source="orders", schema="id string, amount int", sink=p.delta("sturdy"))
    def sturdy(orders):
        return orders

    @p.table(source="fragile", sink=p.sqlite("base.db", "below"))
    def below(fragile):
        return fragile
"""


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.chdir(tmp_path)
    with serving(None) as at:
        yield at


def publish(address: str, *amounts: int | None) -> None:
    with mainstem.connect(address) as stem:
        stem.topics.create("orders", partitions=1, exist_ok=True)
        first = stem.topics.show("orders").partitions[0].tail
        documents = [
            json.dumps({"id": f"o{first + n}", "amount": each}) for n, each in enumerate(amounts)
        ]
        stem.publish_many("orders", [mainstem.Event(each.encode()) for each in documents])


def shop(bad: str = "", text: str = SHOP) -> p.Pipeline:
    Path("shop.py").write_text(dedent(text.replace("BAD", bad)))
    return p.load(Path("shop.py"))


def standing(table: str) -> Standing:
    found = Place(Path("state/shop") / table).standing()
    assert found is not None
    return found


def ids(pipeline: p.Pipeline, table: str) -> list[str]:
    (found,) = (each for each in pipeline.tables if each.name == table)
    rows = found.sink.read()
    return sorted(row["id"] for row in rows.to_pylist()) if rows is not None else []


STOP = 'bad="stop", '


def test_a_table_that_fails_stops_alone_and_those_below_it_wait(
    spark: SparkSession, address: str
) -> None:
    pipeline = shop(STOP)
    publish(address, 1, 0, 2)
    told: list[str] = []

    with pytest.raises(PipelineFailed, match="table 'fragile' stopped"):
        run(
            spark,
            pipeline,
            Request(address, Path("state")),
            ignore,
            threading.Event(),
            told.append,
        )

    assert ids(pipeline, "sturdy") == ["o0", "o1", "o2"]
    assert standing("sturdy").state == "stopped"
    assert standing("fragile").state == "failed"
    waiting = standing("below")
    assert waiting.state == "stopped"
    assert waiting.failure is not None
    assert waiting.failure.reason == "waits for table 'fragile', which failed"
    assert "table 'below' waits: it reads table 'fragile', which failed" in told


def test_a_stream_goes_on_with_the_tables_that_did_not_fail(
    spark: SparkSession, address: str
) -> None:
    pipeline = shop(STOP)
    publish(address, 1)
    with streaming(spark, pipeline, address, 10) as wait:
        wait(lambda known: set(known) == {"fragile", "sturdy", "below"})
        publish(address, 0)
        publish(address, 3)
        wait(lambda known: known["sturdy"].events == 3)
        wait_for_failure("fragile")
        publish(address, 4)
        wait(lambda known: known["sturdy"].events == 4)

    assert ids(pipeline, "sturdy") == ["o0", "o1", "o2", "o3"]
    assert standing("sturdy").state == "stopped"
    assert (standing("fragile").state, standing("below").state) == ("failed", "stopped")
    assert standing("below").failure is not None


def wait_for_failure(table: str) -> None:
    gone = threading.Event()
    for _ in range(6000):
        if standing(table).state == "failed":
            return
        gone.wait(0.1)
    raise AssertionError(f"{table} does not fail")


def test_only_the_tables_asked_for_are_run_if_what_they_read_stands(
    spark: SparkSession, address: str
) -> None:
    pipeline = shop()
    publish(address, 1)

    def only(*names: str, complete: bool = False) -> dict[str, Standing]:
        request = Request(address, Path("state"), only=names, complete=complete)
        return run(spark, pipeline, request, ignore, threading.Event())

    with pytest.raises(RunRefused, match=r"no table 'nothing'.*fragile, sturdy, below"):
        only("nothing")
    with pytest.raises(RunRefused, match="'below' reads 'fragile', which never ran"):
        only("below")
    assert set(only("fragile")) == {"fragile"}
    with pytest.raises(RunRefused, match="'fragile', which is not complete"):
        only("below", complete=True)
    assert set(only("below")) == {"below"}
    assert ids(pipeline, "below") == ["o0"]
    assert not Path("state/shop/sturdy").exists()
