"""The benchmark of direct messaging: its page, and one bare round."""

from bench.direct.__main__ import (
    BARE_ZMQ,
    P50_WHY,
    RATE_WHY,
    STYLES,
    Results,
    Round,
    Style,
    measure,
    page,
)

CPU_US = (1.0, 2.0, 3.5)


def test_the_page_compares_each_style_with_its_bare_library() -> None:
    found = {style.name: [Round(100.0, 0.25, 50.0, 90.0, CPU_US)] * 3 for style in STYLES}
    found[BARE_ZMQ] = [Round(rate, 0.0, 10.0, 20.0, CPU_US) for rate in (200.0, 400.0, 800.0)]

    shown = page(Results(found), 1_000)

    assert f"| {BARE_ZMQ} | 400 | 1.00 | 0.0 % | 1.0 + 2.0 + 3.5 | 10 | 20 |" in shown
    ours = "mainstem, ZeroMQ, a SUB socket"
    assert f"| {ours} | 100 | 0.25 | 25.0 % | 1.0 + 2.0 + 3.5 | 50 | 90 |" in shown
    assert "`python -m bench.direct --rounds 3 --messages 1000` on" in shown


def test_the_page_says_which_aims_are_missed_and_why() -> None:
    found = {style.name: [Round(100.0, 0.0, 50.0, 90.0, CPU_US)] for style in STYLES}
    found[BARE_ZMQ] = [Round(400.0, 0.0, 10.0, 20.0, CPU_US)]
    slow = found | {STYLES[-1].name: [Round(200.0, 0.0, 300.0, 900.0, CPU_US)]}

    met, missed = (page(Results(each), 1_000) for each in (found, slow))

    rate = (
        f"a SUB socket: 0.25 of {BARE_ZMQ}'s rate (aim: at least 0.50): missed, by a factor of 2.0"
    )
    assert rate in met
    assert RATE_WHY in met
    assert "latency p50 50 µs (aim: below 200 µs): met" in met
    assert P50_WHY not in met
    assert "latency p50 300 µs (aim: below 200 µs): missed, by a factor of 1.5" in missed
    assert P50_WHY in missed


def test_a_round_measures_every_message() -> None:
    found = measure(Style(BARE_ZMQ, "bare_zmq"), 2_000)

    assert found.lost == 0
    assert 0 < found.p50_us <= found.p99_us
    assert found.cpu_us[1] == 0
    assert min(found.cpu_us[0], found.cpu_us[2]) > 0
