"""A table is taken out of a connector's list and put back: its topic equals the table again."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.connectors.two_tables import NAMES, Captured, captured, sqlite
from tests.connectors.writer import Writer
from tests.processes import wait_until

from mainstem.connectors.settings import Format, SnapshotMode


@pytest.fixture(params=NAMES)
def it(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Captured]:
    with captured(request.param, tmp_path) as found:
        yield found


def test_a_table_that_was_out_of_the_list_for_a_while_is_emptied_and_read_again(
    it: Captured,
) -> None:
    it.add(partitions=2)
    it.catch_up()
    it.capture("b")
    it.change_both()
    it.catch_up()
    assert len(it.parts("a")[0] + it.parts("a")[1]) == 4

    it.capture("ab")
    it.catch_up()
    it.execute("UPDATE a SET v = v + 1", "UPDATE b SET v = v + 1")
    it.catch_up()

    it.assert_equal()


def test_topics_equal_tables_though_the_list_changes_during_random_transactions(
    it: Captured,
) -> None:
    with Writer(it.dialect, "ab", 1) as first, Writer(it.dialect, "ab", 2) as second:

        def wait_for_commits(count: int) -> None:
            target = first.commits + second.commits + count
            wait_until(lambda: first.commits + second.commits >= target, "no commits")

        it.add()
        for tables in ("b", "ab", "a", "ab", "b", "ab"):
            wait_for_commits(60)
            it.capture(tables)
        wait_for_commits(60)
    assert not first.errors + second.errors

    it.catch_up()

    it.assert_equal()


def test_a_table_that_is_taken_out_while_it_is_read_is_read_from_its_start_later(
    it: Captured,
) -> None:
    it.add()
    it.at.connectors.pause("shop")
    it.at.connectors.snapshot("shop", [])
    it.capture("b")
    it.change_both()
    it.at.connectors.resume("shop")
    it.catch_up()

    it.capture("ab")
    it.catch_up()

    it.assert_equal()


def test_a_list_that_changes_to_and_fro_while_the_connector_is_paused_loses_nothing(
    it: Captured,
) -> None:
    it.add()
    it.at.connectors.pause("shop")
    it.capture("b")
    it.change_both()
    it.capture("ab")
    it.at.connectors.resume("shop")
    it.catch_up()

    it.assert_equal()


@pytest.mark.parametrize(
    ("changed", "missing"),
    [
        ({"truncates": False}, "deletions of rows"),
        ({"format": Format.FLAT}, "deletions of rows"),
        ({"snapshot": SnapshotMode.NONE}, "changes made"),
    ],
)
def test_what_a_topic_misses_is_told_if_it_may_not_be_emptied_or_the_table_not_be_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, changed: dict[str, Any], missing: str
) -> None:
    with sqlite(tmp_path) as it:
        it.add(**changed)
        it.execute("INSERT INTO a VALUES (1, 1, 'n', 'x')", "INSERT INTO b VALUES (1, 1, 'n', 'x')")
        it.catch_up()
        it.capture("b")
        it.change_both()
        it.catch_up()
        it.capture("ab")
        it.catch_up()

        text = f"table main.a was not captured for a while: {missing} meanwhile are not in topic"
        assert text in it.at.state().report.note
        assert text in caplog.text
