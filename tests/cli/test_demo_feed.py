"""The sample of ``./run --feed``, as a program."""

import os
import random
import re
import sys
from pathlib import Path

from tests.heads.moldudp64.feed_head import new_group
from tests.processes import MARK, PATIENCE_S, in_own_session, wait_until_none_is_left

from mainstem.cli.demo.market import Market, described


def test_a_market_has_orders_trades_and_cancellations_of_open_orders() -> None:
    texts = [described(each) for each in Market(random.Random(1)).messages(1, 2_000)]

    open_shares: dict[str, int] = {}
    for text in texts:
        found = re.fullmatch(r"(\w+) +(?:buy|sell)? *(\d+).*\(order (\d+)\)", text)
        assert found is not None, text
        word, shares, order = found.groups()
        if word == "add":
            assert order not in open_shares
            open_shares[order] = int(shares)
        else:
            open_shares[order] -= int(shares)
    assert {text.split()[0] for text in texts} == {"add", "execute", "cancel"}
    assert min(open_shares.values()) == 0


def test_without_java_the_feed_is_shown_alone_and_nothing_is_left_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mainstem.cli.demo.feed", "data", "--for", "6"]
    command += ["--kafka", "127.0.0.1:0", "--requests", "127.0.0.1:0", "--group", new_group()]
    environment = {**os.environ, "PATH": str(tmp_path), "JAVA_HOME": "", MARK: str(tmp_path)}
    log = tmp_path / "run.log"

    with in_own_session(command, log, tmp_path, environment) as process:
        assert process.wait(PATIENCE_S) == 0, log.read_text()

    told = log.read_text()
    assert "there are no bars" in told
    found = re.search(
        r"([\d,]+) published; ([\d,]+) received in order, ([\d,]+) of them by [\d,]+ requests; "
        r"0 lost",
        told,
    )
    assert found is not None, told
    published, received, requested = (int(each.replace(",", "")) for each in found.groups())
    # It came late, and has what it missed from the log.
    assert 0 < requested <= received <= published
    wait_until_none_is_left(str(tmp_path))
