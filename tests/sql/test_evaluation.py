"""The worker, given scans by the test itself."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from mainstem.core.errors import Unreachable
from mainstem.sql.errors import LimitReached, QueryFailed
from mainstem.sql.evaluation import Evaluation, Limits, Misfit
from mainstem.sql.events import NotText
from mainstem.sql.worker_messages import Scan, View

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])
ROWS = pa.RecordBatch.from_pydict({"n": range(100_000), "text": ["x" * 100] * 100_000}, SCHEMA)
VIEW = View(["t"], "SELECT * FROM {scan}", memoryview(SCHEMA.serialize()).tobytes(), [])


def read(scan: Scan) -> Iterator[pa.RecordBatch]:
    yield ROWS.select(scan.columns)


@pytest.fixture
def evaluation() -> Iterator[Evaluation]:
    found = Evaluation(Limits())
    yield found
    found.close()


def test_one_worker_evaluates_many_queries(evaluation: Evaluation) -> None:
    for limit in (10, 1000):
        _, *batches = evaluation.run(f"select n from t where n < {limit}", [VIEW], read)

        assert sum(batch.num_rows for batch in batches) == limit


def test_a_table_that_is_used_twice_is_scanned_twice(evaluation: Evaluation) -> None:
    asked: list[Scan] = []

    def seen(scan: Scan) -> Iterator[pa.RecordBatch]:
        asked.append(scan)
        yield from read(scan)

    _, rows = evaluation.run("select count(*) from t a join t b using (n)", [VIEW], seen)

    assert rows.to_pylist() == [{"count_star()": 100_000}]
    assert [scan.columns for scan in asked] == [["n"], ["n"]]


def test_scans_that_read_ahead_do_not_mix_their_messages_with_those_of_results(
    evaluation: Evaluation,
) -> None:
    def few(scan: Scan) -> Iterator[pa.RecordBatch]:
        for first in range(0, 200, 10):
            yield ROWS.slice(first, 10).select(scan.columns)

    views = [msgspec.structs.replace(VIEW, path=[name]) for name in "abc"]
    for number in range(100):
        limit = number % 2
        query = f"select a.n from a join b using (n) join c using (n) {'limit 1' * limit}"
        _, *batches = evaluation.run(query, views, few)

        assert sum(batch.num_rows for batch in batches) == (1 if limit else 200)


def test_an_error_of_a_scan_is_the_error_of_the_query(evaluation: Evaluation) -> None:
    def broken(scan: Scan) -> Iterator[pa.RecordBatch]:
        yield from read(scan)
        raise Unreachable("here:1", "it is gone")

    with pytest.raises(Unreachable, match="it is gone"):
        list(evaluation.run("select max(n) from t", [VIEW], broken))
    _, rows = evaluation.run("select max(n) as n from t", [VIEW], read)
    assert rows.to_pylist() == [{"n": 99_999}]


def test_what_does_not_fit_the_sample_is_told_before_the_first_row(
    evaluation: Evaluation,
) -> None:
    def misfit(scan: Scan) -> Iterator[pa.RecordBatch]:
        yield from read(scan)
        raise NotText("_key")

    with pytest.raises(Misfit):
        list(evaluation.run("select max(n) from t", [VIEW], misfit))


def test_rows_that_were_returned_before_a_misfit_are_not_taken_back(
    evaluation: Evaluation,
) -> None:
    returned = threading.Event()

    def misfit(scan: Scan) -> Iterator[pa.RecordBatch]:
        while not returned.is_set():
            yield from read(scan)
        raise NotText("_key")

    result = evaluation.run("select * from t", [VIEW], misfit)
    next(result)
    assert isinstance(next(result), pa.RecordBatch)
    returned.set()

    with pytest.raises(QueryFailed, match="--sample all"):
        list(result)


def test_a_result_that_is_not_read_stops_the_scans(evaluation: Evaluation) -> None:
    given = []

    def endless(scan: Scan) -> Iterator[pa.RecordBatch]:
        while True:
            given.append(1)
            yield ROWS.select(scan.columns)

    result = evaluation.run("select * from t", [VIEW], endless)
    next(result)
    for _ in range(3):
        next(result)
    result.close()

    assert len(given) < 40


def test_a_worker_that_is_killed_is_an_error(evaluation: Evaluation) -> None:
    def killing(scan: Scan) -> Iterator[pa.RecordBatch]:
        yield from read(scan)
        os.kill(evaluation.worker_pid, signal.SIGTERM)
        yield from read(scan)

    with pytest.raises(QueryFailed, match="ended unexpectedly"):
        list(evaluation.run("select max(n) from t", [VIEW], killing))


def test_the_worker_cannot_open_a_file_even_if_it_wanted(evaluation: Evaluation) -> None:
    evaluation.parse("select 1")

    process = Path("/proc", str(evaluation.worker_pid))
    limits = (process / "limits").read_text()
    descriptors = [each.name for each in (process / "fd").iterdir()]

    (line,) = [each for each in limits.splitlines() if each.startswith("Max open files")]
    most = int(line.split()[3])
    assert sorted(map(int, descriptors))[:most] == list(range(most))


def test_the_environment_of_the_worker_has_no_secrets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DATABASE_PASSWORD", "hidden")
    evaluation = Evaluation(Limits())
    try:
        evaluation.parse("select 1")

        environment = Path("/proc", str(evaluation.worker_pid), "environ").read_text()
        assert "hidden" not in environment
    finally:
        evaluation.close()


def test_the_worker_ends_with_the_evaluation() -> None:
    evaluation = Evaluation(Limits(seconds=0.5))
    pid = evaluation.worker_pid

    with pytest.raises(LimitReached):
        list(evaluation.run("select count(*) from range(10000000000)", [], read))
    evaluation.close()

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
