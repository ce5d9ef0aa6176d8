"""Multicast feeds from the command line."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.cli.conftest import Run
from tests.heads.moldudp64.feed_head import new_group
from tests.in_process_server import server
from tests.processes import wait_until

import mainstem
from mainstem.cli.exit_codes import Exit
from mainstem.heads.moldudp64.settings import MoldSettings
from mainstem.node.config import Config
from mainstem.node.server import Running

MOLD = MoldSettings(listen="127.0.0.1:0", heartbeat_ms=20)
CONFIG = msgspec.structs.replace(Config(), heads=Config().heads | {"moldudp64": MOLD})


@pytest.fixture
def running(own_directory: Path) -> Iterator[Running]:
    """A server of the default directory, so that commands need no ``--at``."""
    with server(own_directory / "mainstem-data", config=CONFIG) as found:
        with mainstem.connect(str(found.kafka)) as stem:
            stem.topics.create("trades", partitions=1)
            stem.publish_many("trades", [b"trade %d" % each for each in range(100)])
        yield found


def test_a_feed_is_served_listened_to_ended_and_removed(run: Run, running: Running) -> None:
    group, requests = new_group(), str(running.addresses["moldudp64"])
    listener = subprocess.Popen(
        [sys.executable, "-m", "mainstem", "feed", "listen", group, "--requests", requests],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        served = run("feed", "serve", "trades", "--session", "T1", "--group", group)
        assert json.loads(served.out)["requests"] == requests
        again = run("feed", "serve", "trades", "--session", "T1", "--group", group)
        assert again.code == Exit.OK
        wait_until(
            lambda: json.loads(run("feed", "ls").out)["next_sequence"] == 101, "nothing is sent"
        )
        assert json.loads(run("feed", "end", "T1").out)["state"] == "ended"
        # It began late or early: it has everything, and ends with the session.
        out, err = listener.communicate(timeout=60)
    finally:
        listener.kill()

    assert listener.returncode == 0
    heard = [json.loads(line) for line in out.splitlines()]
    assert heard == [{"sequence": each + 1, "data": f"trade {each}"} for each in range(100)]
    report = json.loads(err)
    assert (report["session"], report["delivered"], report["lost"]) == ("T1", 100, 0)
    replayed = run("feed", "replay", "T1", "3", "5", "--requests", requests)
    assert [json.loads(line)["sequence"] for line in replayed.lines] == [3, 4, 5]
    found = json.loads(run("feed", "sequence", "T1", "40").out)
    assert found == {"session": "T1", "offset": 40, "sequence": 41}
    refused = run("feed", "sequence", "T1", "101")
    assert refused.code == Exit.NOT_FOUND
    assert "offset 101 has no sequence number in session T1 yet" in refused.err
    assert run("feed", "rm", "T1").code == Exit.OK
    assert run("feed", "ls").out == b""


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (("end", "other"), Exit.NOT_FOUND, "there is no feed 'other'"),
        (("rm", "other"), Exit.NOT_FOUND, "there is no feed 'other'"),
        (("serve", "none", "--session", "A", "--group", "239.1.1.1:5"), Exit.NOT_FOUND, "no topic"),
        (
            ("serve", "trades", "--session", "A", "--group", "1.1.1.1:5"),
            Exit.REFUSED,
            "no multicast",
        ),
        (("serve", "trades", "--session", "é", "--group", "239.1.1.1:5"), Exit.REFUSED, "letters"),
        (("listen", "239.1.1.1:5", "--from", "0"), Exit.USAGE, "sequence number from 1 on"),
        (
            ("replay", "A", "5", "4", "--requests", "127.0.0.1:5"),
            Exit.REFUSED,
            "no messages from 5",
        ),
    ],
)
def test_what_cannot_be_done_is_explained(
    run: Run, running: Running, arguments: tuple[str, ...], code: int, why: str
) -> None:
    ran = run("feed", *arguments)

    assert why in ran.err
    assert ran.code == code


def test_a_server_without_feeds_is_told_how_to_start_it(run: Run, own_directory: Path) -> None:
    with server(own_directory / "mainstem-data"):
        ran = run("feed", "ls")

    assert "mainstem serve --moldudp64" in ran.err
    assert ran.code == Exit.REFUSED


def test_a_group_that_is_no_multicast_address_is_refused(run: Run) -> None:
    code, _, err = run("feed", "listen", "10.0.0.1:30001")

    assert code == Exit.REFUSED
    assert "is no multicast group" in err
