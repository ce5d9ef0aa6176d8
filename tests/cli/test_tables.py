"""Lists on a terminal and in a pipe."""

import json

import pytest

from mainstem.cli.output.tables import Row, print_rows, table

ROWS: list[Row] = [
    {"topic": "orders", "events": 1234567, "size_bytes": 1536, "retention_ms": 604800000},
    {"topic": "a\x1b[31m\n", "events": 0, "size_bytes": 0, "retention_ms": None},
]


def test_columns_are_aligned_and_units_are_for_people() -> None:
    assert table(ROWS).splitlines() == [
        "TOPIC             EVENTS     SIZE  RETENTION",
        "orders         1,234,567  1.5 KiB         7d",
        "a\\x1b[31m\\x0a          0      0 B          -",
    ]


def test_in_a_pipe_a_list_is_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(ROWS, None)

    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == ROWS


def test_json_is_one_document_also_if_empty(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(ROWS, "json")
    print_rows([], "json")

    full, empty = capsys.readouterr().out.splitlines()
    assert json.loads(full) == ROWS
    assert empty == "[]"


def test_an_empty_table_says_what_to_do_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows([], "table", empty="nothing; make some")

    out, err = capsys.readouterr()
    assert (out, err) == ("", "mainstem: nothing; make some\n")
