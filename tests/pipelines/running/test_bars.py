"""The bars that the sample of ``./run --feed`` makes of a market's trades."""

import random
from collections import defaultdict
from decimal import Decimal
from pathlib import Path

from pyspark.sql import SparkSession
from tests.pipelines.sample_events import bounded

import mainstem
from mainstem import pipelines as p
from mainstem.cli.demo import feed
from mainstem.cli.demo.market import EXECUTE, Market

BARS = Path(feed.__file__).with_name("pipeline") / "bars.py"
BEGAN_US = 1_795_000_000_000_000
BAR_US = 10_000_000


def test_bars_have_the_prices_and_volumes_of_the_trades(spark: SparkSession, address: str) -> None:
    market = Market(random.Random(3))
    messages = [
        each for turn in range(50) for each in market.messages(BEGAN_US + turn * 500_000, 20)
    ]
    trades = defaultdict[tuple[int, str], list[tuple[Decimal, int]]](list)
    for message in messages:
        if message[:1] == b"E":
            _, at_us, _, shares, stock, price = EXECUTE.unpack(message)
            bar = (at_us // BAR_US, stock.decode().strip())
            trades[bar].append((Decimal(price) / 10_000, shares))
    with mainstem.connect(address) as stem:
        stem.topics.create(feed.TOPIC, partitions=1)
        stem.publish_many(feed.TOPIC, messages[:600])
        pipeline = p.load(BARS)
        bounded(spark, pipeline, address)
        stem.publish_many(feed.TOPIC, messages[600:])
        bounded(spark, pipeline, address)

    rows = pipeline.tables[0].sink.read()
    assert rows is not None
    found = sorted(
        (row["stock"], row["open"], row["high"], row["low"], row["close"], row["volume"])
        for row in rows.to_pylist()
    )
    wanted = sorted(
        (
            stock,
            each[0][0],
            max(price for price, _ in each),
            min(price for price, _ in each),
            each[-1][0],
            sum(shares for _, shares in each),
        )
        for (_, stock), each in trades.items()
    )
    assert len({start for start, _ in trades}) == 3
    assert found == wanted
