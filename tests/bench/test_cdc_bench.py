"""The benchmarks of change capture: their pages say of each aim whether it is met."""

from bench.cdc.page import page
from bench.cdc.systems import DEBEZIUM, OURS, Figures, Plan

from bench import cdc_views


def figures(rate: float, p50_ms: float) -> Figures:
    return Figures(1.0, rate, rate, 9.5, 20.0, p50_ms, 2 * p50_ms, 50.0)


def test_the_page_says_of_each_aim_whether_it_is_met_and_why_not() -> None:
    rounds = {
        # The ratio is the median of the rounds' ratios, not the ratio of the medians.
        OURS: [figures(400, 1.0), figures(100, 6.0), figures(300, 7.0)],
        DEBEZIUM: [figures(100, 2.0)] * 3,
    }
    found = {"PostgreSQL": rounds, "MariaDB": rounds}

    shown = page(found, Plan(1_000, 10), "python -m bench.cdc --rounds 3", "a machine")

    assert (
        "PostgreSQL, following: 3.00 times Debezium's rows/s (aim: 5) **falls short by 40%**"
        in (shown)
    )
    assert "mainstem takes 9.5 µs of CPU time for a row" in shown
    assert "Debezium's engine takes 20.0 µs" in shown
    assert "- MariaDB, snapshot: 3.00 times Debezium's rows/s (aim: 1) is met." in shown
    assert "p50 6.00 ms (aim: under 5 ms) **falls short by 1.00 ms**" in shown
    assert "| snapshot, rows/s | 300 (100 to 400) | 100 (100 to 100) | 3.00 |" in shown
    assert "Figures are medians of 3 rounds" in shown


def test_the_page_of_views_says_which_sinks_meet_the_aim() -> None:
    parts = dict.fromkeys(cdc_views.PARTS, 50.0)
    found = [
        cdc_views.Figure("redis", [100.0, 200.0, 300.0], parts),
        cdc_views.Figure("delta", [700.0, 600.0, 800.0], parts),
    ]

    shown = cdc_views.page(found, 3, "python -m bench.cdc_views")

    assert "- redis: p50 200 ms is met." in shown
    assert "- delta: p50 700 ms **falls short by 200 ms**: Spark's batch takes 300 ms" in shown
