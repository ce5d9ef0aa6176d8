"""The benchmark of HTTP, webhooks and SQL: its pages, and a small run of each part."""

from pathlib import Path

import pytest
from bench.http import head, sql, webhooks
from bench.http.__main__ import PARTS, Part, run
from bench.http.aim import Ratio, summary, verdict
from bench.http.head import BARE, MEMORY, OURS, Load, Turn

PUBLISH = Load("Publish", ("publish", 2, 10, 100))
FOLLOW = Load("Follow", ("fan_out", 3, 10, 20))


def test_a_figure_meets_the_aim_or_falls_short_for_a_reason() -> None:
    assert (verdict(0.5), verdict(0.499), verdict(0.19)) == ("met", "0.01 short", "0.31 short")

    said = summary([Ratio("a", 0.7, "slow"), Ratio("b", 0.2, "why"), Ratio("c", 0.3, "why")])

    assert "1 of 3 figures meet it" in said
    assert "- b: 0.20 (aim: 0.5)\n- c: 0.30 (aim: 0.5)\n\nwhy" in said
    assert "slow" not in said
    assert "All of 1 figures meet it." in summary([Ratio("a", 0.7, "slow")])


def test_one_run_writes_all_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(PARTS) == ["head", "webhooks", "sql"]
    for name, part in PARTS.items():
        monkeypatch.setitem(PARTS, name, Part(part.page, lambda rounds: f"{rounds} rounds", str))

    run(list(PARTS), 3, tmp_path)

    pages = {each.name: each.read_text() for each in tmp_path.iterdir()}
    assert pages == dict.fromkeys(("http.md", "webhooks.md", "sql.md"), "3 rounds")


def test_events_that_are_followed_are_counted_for_each_client() -> None:
    assert (PUBLISH.events, PUBLISH.requests) == (1_000, 100)
    assert (FOLLOW.events, FOLLOW.requests) == (600, 20)


def test_the_page_compares_each_round_with_the_bare_app_in_it() -> None:
    ours = [Turn(4.0, 1.0), Turn(2.0, 1.0), Turn(1.0, 1.0)]
    bare = [Turn(1.0, 0.5), Turn(1.0, 0.5), Turn(1.0, 0.5)]

    shown = head.page({PUBLISH: {OURS: ours, MEMORY: [Turn(4.0, 1.0)] * 3, BARE: bare}})

    rows = [line for line in shown.splitlines() if line.startswith("| mainstem")]
    assert rows == [
        "| mainstem, fsync | 50 | 500 | 1000.0 | 0.50 | 0.50 | met |",
        "| mainstem, memory | 25 | 250 | 1000.0 | 0.25 | 0.50 | 0.25 short |",
    ]
    assert "- Publish: mainstem, memory: 0.25 (aim: 0.5)" in shown
    assert "each line is parsed as JSON" in shown
    assert "--rounds 3" in shown


def test_the_page_of_webhooks_says_what_falls_short() -> None:
    found = {
        webhooks.OURS: [80.0, 70.0],
        webhooks.ORDERED: [30.0, 20.0],
        webhooks.BARE: [100.0] * 2,
    }

    shown = webhooks.page(found, 10)

    assert "| mainstem, parallel | 75 | 70 to 80 | 0.75 | met |" in shown
    assert "- mainstem, order=key: 0.25 (aim: 0.5)" in shown
    assert "bench.http --only webhooks --rounds 2" in shown


def test_the_page_of_sql_says_what_falls_short() -> None:
    shown = sql.page({"count": ([1.0, 1.0], [0.01, 0.01]), "fields": ([1.0], [0.9])}, 1_000)

    assert "| count | 1,000 | 100,000 | 0.01 | 0.01 to 0.01 | 0.49 short |" in shown
    assert "- count: 0.01 (aim: 0.5)" in shown
    assert "- fields" not in shown


@pytest.mark.parametrize("system", [MEMORY, BARE])
def test_a_turn_ends_once_everything_came(system: str) -> None:
    took = head.turn(system, FOLLOW)

    assert took.seconds > 0
    assert took.cpu_s >= 0


def test_deliveries_are_counted_of_both() -> None:
    rates = {name: rate(50) for name, rate in webhooks.SYSTEMS.items()}

    assert set(rates) == {webhooks.OURS, webhooks.ORDERED, webhooks.BARE}
    assert min(rates.values()) > 0


def test_queries_are_measured_on_both_and_give_the_same_rows() -> None:
    found = sql.measure(1, 500)

    assert list(found) == list(sql.QUERIES)
    assert all(len(one) == len(other) == 1 for one, other in found.values())
