"""The sample of ``./run``: realistic events, and no processes or files left behind."""

import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections import defaultdict
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.processes import (
    MARK,
    PATIENCE_S,
    OnTerminal,
    in_own_session,
    marked,
    wait_until,
    wait_until_none_is_left,
)

from mainstem.cli.demo.events import TOPICS, sample_events
from mainstem.cli.demo.live import introduction, rows_for
from mainstem.pipelines.state.table_state import TableStatus, table_statuses

TABLES = 5 + (shutil.which("redis-server") is not None)
"""Three of events, and those that follow the shop."""
NOW = datetime(2026, 11, 15, 8, tzinfo=UTC)


def test_every_topic_gets_events_that_happened_a_moment_ago() -> None:
    chance = random.Random(1)

    found = defaultdict(list)
    for turn in range(50):
        now = NOW + timedelta(seconds=turn / 10)
        for topic, event in sample_events(chance, now):
            at = datetime.fromisoformat(json.loads(event.value or b"")["at"])
            assert timedelta() <= now - at < timedelta(seconds=10)
            assert event.key
            found[topic].append(json.loads(event.value or b""))

    assert set(found) == set(TOPICS)
    assert all(float(each["amount"]) > 0 for each in found["sample.purchases"])
    assert {each["sensor"] for each in found["sample.readings"]} >= {"boiler", "roof"}


def test_the_screen_says_how_to_connect_above_the_tables(tmp_path: Path) -> None:
    lines = introduction("127.0.0.1:9092", "data", tmp_path).splitlines()

    text = "\n".join(lines)
    assert f"{Path('data').resolve()} at 127.0.0.1:9092" in text
    assert "kcat -C -b 127.0.0.1:9092 -t sample." in text
    assert "mainstem sub sample." in text
    for height in (24, 30, 60):
        # With an empty line after it and the shop's six, and two titles for each table.
        rows = rows_for(height, 3)
        assert len(lines) + 1 + 6 + 3 * (2 + rows + (rows > 1)) < height
    assert rows_for(60, 3) == 6


class Place:
    """Where ``./run`` works, as often as it is started."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.mark = directory, str(directory)
        self.scratch = directory / "scratch"
        self.scratch.mkdir()
        self.beside: set[Path] = set()
        with socket.create_server(("127.0.0.1", 0)) as found:
            self.port: int = found.getsockname()[1]
        self.command = [sys.executable, "-m", "mainstem.cli.demo.live", "data"]
        self.command += ["--kafka", f"127.0.0.1:{self.port}"]
        java = f"{os.environ['JDK_JAVA_OPTIONS']} -XX:+UseSerialGC -Djava.io.tmpdir={self.scratch}"
        mine = {"TMPDIR": str(self.scratch), "JDK_JAVA_OPTIONS": java, MARK: self.mark}
        self.environment = os.environ | mine

    def started(self) -> AbstractContextManager["subprocess.Popen[bytes]"]:
        """Run it; in the end it is killed."""
        log = self.directory / "run.log"
        return in_own_session(self.command, log, self.directory, self.environment)

    def wait_for_rows(self) -> None:
        """Wait until all tables of the newest run have rows."""
        wait_until(lambda: self._events() > 0, "no rows", patience_s=300)
        # The directories of PostgreSQL and Redis.
        said = " ".join(marked(self.mark).values())
        self.beside |= {Path(each) for each in re.findall(r"/tmp/mainstem-demo-\w+", said)}

    def statuses(self) -> dict[str, TableStatus]:
        """Return how the tables of all runs stand that are there still, by their paths."""
        states = self.scratch.glob("mainstem-sample-*/mainstem-pipelines")
        return {
            f"{state}/{name}": status
            for state in states
            for _, name, status in table_statuses(state)
        }

    def _events(self) -> int:
        found = self.statuses().values()
        return min(each.events for each in found) if len(found) == TABLES else 0

    def assert_nothing_is_left(self) -> None:
        wait_until_none_is_left(self.mark)
        assert self.beside
        assert [each for each in self.beside if each.exists()] == []
        # Nobody listens there any more.
        with socket.create_server(("127.0.0.1", self.port)):
            pass

    def told(self) -> str:
        return (self.directory / "run.log").read_text()


@pytest.mark.peers
@pytest.mark.minutes
@pytest.mark.timeout(1800)
def test_run_works_again_after_its_terminal_was_closed_and_ends_by_a_signal_to_its_group(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path)
    with OnTerminal(place.command, tmp_path, place.environment) as it:
        place.wait_for_rows()
        wait_until(lambda: re.search(rb"views: .* [1-9][\d,]* in the table", it.shown), it.told)
        screen = it.shown.rpartition(b"\x1b[2J")[2].decode()
        it.close()

        assert re.search(
            r"product \d: [a-z ]+ [\d.]+, \d+ left +[cur] \d:\d+ lsn .* index: ", screen
        )
        assert f"mainstem serves {tmp_path / 'data'} at 127.0.0.1:{place.port}" in screen
        assert f"kcat -C -b 127.0.0.1:{place.port} -t sample." in screen
        assert it.wait() == 0
    place.assert_nothing_is_left()

    with place.started() as process:
        place.wait_for_rows()
        # It stops the others in order: a signal to its group reaches it alone.
        group = [each for each in marked(place.mark) if os.getpgid(each) == process.pid]
        assert group == [process.pid]
        os.killpg(process.pid, signal.SIGTERM)

        assert process.wait(PATIENCE_S) == 0, place.told()

    place.assert_nothing_is_left()
    assert "refused" not in place.told()
    for name in ("views", "revenue", "readings"):
        assert re.search(rf"{name}: .* [1-9][\d,]* in the table", place.told())
    assert re.search(r"shop: index, history( and cache)? equal the database", place.told())


@pytest.mark.peers
@pytest.mark.minutes
@pytest.mark.timeout(1800)
def test_run_that_is_killed_leaves_nothing_behind(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with place.started() as process:
        place.wait_for_rows()

        process.kill()

    place.assert_nothing_is_left()
    # The pipeline could finish its batches: the server ended after it.
    found = place.statuses()
    assert len(found) == TABLES
    assert {name: each.failure for name, each in found.items() if each.failure} == {}
