"""``mainstem sql`` on a server."""

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.cli.conftest import Run
from tests.in_process_server import serving

Q = "select user, sum(amount) as total, max(_offset) >= 0 as seen from orders group by 1 order by 1"


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("served")) as address:
        yield address


@pytest.fixture
def at(kafka: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> str:
    """A server with a topic of three orders."""
    monkeypatch.setenv("MAINSTEM_AT", kafka)
    if run("topic", "show", "orders").code:
        lines = (
            {"user": "ann", "amount": 1},
            {"user": "b\x1b[1mob", "amount": 2.5},
            {"user": "ann"},
        )
        sent = "\n".join(json.dumps(each) for each in lines).encode()
        assert run("pub", "orders", stdin=sent).code == 0
    return kafka


def test_every_format_has_the_same_rows(at: str, run: Run) -> None:
    lines, document, table, stream = (
        run("sql", "-q", Q, "--format", form) for form in ("jsonl", "json", "csv", "arrow")
    )

    rows = [
        {"user": "ann", "total": 1.0, "seen": True},
        {"user": "b\x1b[1mob", "total": 2.5, "seen": True},
    ]
    assert [json.loads(line) for line in lines.lines] == rows
    assert json.loads(document.out) == rows
    assert table.out == b"user,total,seen\nann,1.0,true\nb\x1b[1mob,2.5,true\n"
    assert pa.ipc.open_stream(io.BytesIO(stream.out)).read_all().to_pylist() == rows
    assert {each.err for each in (lines, document, table, stream)} == {""}


def test_a_terminal_gets_a_table_without_control_characters(at: str, run: Run) -> None:
    ran = run("sql", Q, terminal=True)

    assert ran.lines == [
        "user        total  seen",
        "ann           1.0  true",
        "b\\x1b[1mob    2.5  true",
        "(2 rows)",
    ]


def test_the_snapshot_that_is_printed_gives_the_same_answer(at: str, run: Run) -> None:
    query = "select count(*) as n from orders where _partition >= 0"
    first = run("sql", query)
    name, snapshot = first.err.strip().split(": ")
    assert (name, first.code) == ("snapshot", 0)

    run("pub", "orders", '{"user": "eve"}')

    assert run("sql", query, "--as-of", snapshot).out == first.out
    assert run("sql", query).out != first.out
    assert run("sql", query, "--as-of", "yesterday").code == 6


def test_changes_of_a_followed_query_have_a_sign(at: str, run: Run) -> None:
    query = "select count(*) > 0 as some from orders"
    lines, table, values = (
        run("sql", "--follow", "-c", "1", query, "--format", form)
        for form in ("jsonl", "table", "csv")
    )

    assert lines.out == b'{"_change":"+","some":true}\n'
    assert table.lines == ["_change  some", "+        true", "(1 row)"]
    assert values.out == b"_change,some\n+,true\n"
    assert lines.err.startswith("snapshot: orders~")
    assert run("sql", "--follow", query, "--format", "json").code == 2


def test_errors_have_their_exit_codes_and_say_what_to_do(at: str, run: Run) -> None:
    limited = run("sql", "select * from range(10)", "--rows", "3")
    refused = run("sql", "select * from read_csv('/etc/passwd')")
    unknown = run("sql", "select * from nowhere")

    assert (limited.code, refused.code, unknown.code) == (6, 6, 3)
    assert "more than 3 rows" in limited.err
    assert "read_csv is not available" in refused.err
    assert "no topic 'nowhere'" in unknown.err
    assert run("sql", "select 1", "--sample", "some").code == 2
    assert run("sql", "select 1", "--memory", "much").code == 2


def test_a_directory_that_nobody_serves_is_refused(run: Run, tmp_path: Path) -> None:
    ran = run("sql", "select 1", "--at", str(tmp_path))

    assert ran.code == 6
    assert "mainstem serve" in ran.err
