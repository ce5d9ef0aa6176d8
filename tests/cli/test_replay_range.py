"""Where a run of a pipeline begins and ends: a day, an hour, any time, offsets."""

from pathlib import Path

import click
import pytest
from tests.cli.conftest import Run

from mainstem.cli.arguments.units import parse_ms
from mainstem.cli.pipelines.replay_range import edges

NINE_MS = 1_794_733_200_000
SHOP = """
from mainstem import pipelines as p
every = p.sql("select 1", source="orders", schema="id string", sink=p.sqlite("base.db", "orders"))
large = p.sql("select 1", source="orders", schema="id string", sink=p.parquet("large"))
small = p.sql("select 1", source="large", sink=p.sqlite("base.db", "small"))
"""


@pytest.mark.parametrize(
    ("begin", "end", "lasts"),
    [
        ("2026-11-15T09:00Z", "2026-11-15T10:00Z", "1h"),
        ("2026-11-15T09Z", "+1h", "1h"),
        ("2026-11-15T09Z", "+1d", "1d"),
        (str(NINE_MS), str(NINE_MS + 1), "1ms"),
        (f"@{NINE_MS}", "+90s", "90s"),
    ],
)
def test_a_range_is_said_by_times(begin: str, end: str, lasts: str) -> None:
    starting, ending = edges(begin, end)

    assert starting == {"startingTimestamp": str(NINE_MS)}
    assert ending == {"endingTimestamp": str(NINE_MS + parse_ms(lasts))}


def test_a_day_is_one_of_this_place() -> None:
    (begin,), (end,) = (edge.values() for edge in edges("2026-07-15", "2026-07-16"))

    assert int(end) - int(begin) == parse_ms("1d")


def test_a_range_is_said_by_offsets() -> None:
    offsets = '{"orders": {"0": 100, "1": -2}}'

    assert edges(offsets, None) == ({"startingOffsets": offsets}, {})
    assert edges("0", offsets)[1] == {"endingOffsets": offsets}


@pytest.mark.parametrize(
    ("begin", "end", "told"),
    [
        ("end", None, "is not a time"),
        ("yesterday", None, "is not a time"),
        ('{"orders": {', None, "Expecting property name"),
        (None, "+1h", "counts from --from"),
        ('{"orders": {"0": 1}}', "+1h", "counts from --from"),
        ("0", "+1 moon", "is not a duration"),
    ],
)
def test_what_is_no_edge_is_refused(begin: str | None, end: str | None, told: str) -> None:
    with pytest.raises(click.BadParameter, match=told.replace("?", r"\?")):
        edges(begin, end)


@pytest.mark.parametrize(
    ("begin", "end", "told"),
    [
        ("2026-11-15", "2026-11-15", "is not after --from"),
        ("-1h", "-2h", "is not after --from"),
        ('{"ordres": {"0": 1}}', "end", "reads no topic 'ordres'; it reads orders"),
        ("2026-11-15", '{"large": {"0": 1}}', "reads no topic 'large'; it reads orders"),
    ],
)
def test_a_range_with_nothing_in_it_is_refused(run: Run, begin: str, end: str, told: str) -> None:
    Path("shop.py").write_text(SHOP)

    ran = run("pipeline", "run", "shop.py", "--batch", "--from", begin, "--to", end, "--into", "x")

    assert ran.code == 6
    assert told in ran.err


def test_settings_of_spark_have_their_names(run: Run) -> None:
    Path("shop.py").write_text(SHOP)

    ran = run("pipeline", "run", "shop.py", "--stream", "--conf", "driver.memory=1g")

    assert ran.code == 2
    assert "write spark.NAME=VALUE" in ran.err
