"""The benchmark of direct messaging: its page, and one bare round."""

from bench.direct.__main__ import BARE_ZMQ, STYLES, Round, Style, measure, page


def test_the_page_compares_each_style_with_its_bare_library() -> None:
    found = {style.name: [Round(100.0, 0.25, 50.0, 90.0)] * 3 for style in STYLES}
    found[BARE_ZMQ] = [Round(rate, 0.0, 10.0, 20.0) for rate in (200.0, 400.0, 800.0)]

    shown = page(found, 1_000)

    assert f"| {BARE_ZMQ} | 400 | 1.00 | 0.0 % | 10 | 20 |" in shown
    assert "| mainstem, ZeroMQ, a SUB socket | 100 | 0.25 | 25.0 % | 50 | 90 |" in shown
    assert "--rounds 3" in shown


def test_a_round_measures_every_message() -> None:
    found = measure(Style(BARE_ZMQ, "bare_zmq"), 2_000)

    assert found.lost == 0
    assert 0 < found.p50_us <= found.p99_us
