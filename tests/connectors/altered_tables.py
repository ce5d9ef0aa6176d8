"""Tables that are altered again and again while a source reads them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from itertools import cycle
from random import Random
from threading import Event, Thread

from tests.long_runs import LONG

from mainstem.connectors.port import Change, Source

Execute = Callable[[str], object]
ROWS = 50


@contextmanager
def repeated(
    session: Callable[[], AbstractContextManager[Execute]], statements: Sequence[str]
) -> Iterator[list[int]]:
    """Execute statements again and again in a thread; yields how many were executed.

    They come at random moments: a snapshot that never finds a moment without a change is refused.
    """
    stop, done, random = Event(), [0], Random(1)

    def run() -> None:
        with session() as execute:
            for each in cycle(statements):
                if stop.wait(random.random() / 10):
                    return
                execute(each)
                done[0] += 1

    thread = Thread(target=run)
    thread.start()
    try:
        yield done
    finally:
        stop.set()
        thread.join()


def check_snapshots(source: Source, altered: Sequence[int]) -> None:
    """Begin many snapshots; each must have all rows of the only table, with all its columns."""
    done = 0
    while done < (500 if LONG else 20) or altered[0] < 10:
        (table,) = source.tables()
        with closing(source.begin()) as snapshot:
            (captured,) = snapshot.tables()
            changes = [change for piece in snapshot.rows(table) for change, _ in piece]
        _check(changes)
        assert {tuple(each.after or ()) for each in changes} == {
            tuple(column.name for column in captured.columns)
        }
        done += 1


def check_chunks(source: Source, table: str, altered: Sequence[int]) -> None:
    """Read the table many times while it is altered; each time, all rows must be there."""
    done = 0
    while done < (5_000 if LONG else 200) or altered[0] < 10:
        chunk = source.read(table, None, 1_000)
        if chunk is not None:
            _check(chunk.changes)
            done += 1


def _check(changes: Iterable[Change]) -> None:
    rows = [each.after for each in changes if each.after]
    assert sorted((row["id"], row["v"]) for row in rows) == [(n, n) for n in range(1, ROWS + 1)]
