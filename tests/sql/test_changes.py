"""Following a query: its changes add up to the result of the last snapshot."""

import json
from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest
from tests.pipelines.format.topics import PATIENCE_S, Topic
from tests.sql.asking import Asked
from tests.sql.conftest import Make

from mainstem.sql.changes import Changes, Row, follow
from mainstem.sql.query import Query


def put(topic: Topic, *values: object, partition: int = 0) -> None:
    topic.fill([json.dumps(each) for each in values], partition)


def apply(result: Counter[Row], changes: Changes) -> None:
    removed, added = Counter(changes.removed), Counter(changes.added)
    assert all(result[row] >= count for row, count in removed.items())
    result.subtract(removed)
    result.update(added)
    for row in [row for row, count in result.items() if not count]:
        del result[row]


@pytest.mark.parametrize(
    "sql",
    [
        "select user, sum(n) as total, count(*) as c from {} group by user",
        "select n, user, _partition, _offset from {} where n % 3 <> 0",
        "select * exclude (_key, _timestamp) from {} order by n desc, _partition, _offset limit 5",
        "select distinct user from {}",
    ],
)
def test_the_changes_add_up_to_the_final_snapshot(make: Make, ask: Asked, sql: str) -> None:
    topic, random = make(partitions=2), Random(7)
    text = sql.format(topic.name)
    put(topic, *({"user": f"u{n % 3}", "n": n} for n in range(20)))
    result = Counter[Row]()
    with ask.query(text) as query:
        changes = follow(ask.cluster, query)
        apply(result, next(changes))

        for turn in range(4):
            new = [{"user": f"u{random.randrange(6)}", "n": random.randrange(99)}] * (turn + 1)
            put(topic, *new, partition=turn % 2)
            found = next_with_all(changes, result, 20 + sum(range(turn + 2)))

        changes.close()

    assert result == Counter(ask.answer(text, snapshot=found.snapshot).rows)


def next_with_all(changes: Iterator[Changes], result: Counter[Row], events: int) -> Changes:
    """Apply changes until the snapshot has that many events."""
    for found in changes:
        apply(result, found)
        if found.snapshot.events == events:
            return found
    raise AssertionError


def test_a_transaction_changes_the_result_when_it_is_committed(make: Make, ask: Asked) -> None:
    topic = make()
    put(topic, {"n": 1})
    with ask.query(f"select sum(n) as s from {topic.name}") as query:
        changes = follow(ask.cluster, query)
        assert next(changes).added == [(1,)]

        writer = topic.begin(['{"n": 10}', '{"n": 20}'])
        writer.commit_transaction(PATIENCE_S)
        found = next(changes)

        changes.close()
    assert (found.removed, found.added) == ([(1,)], [(31,)])


def test_types_widen_when_later_events_do_not_fit(make: Make, ask: Asked) -> None:
    topic = make()
    put(topic, {"n": 1})
    with ask.query(f"select sum(n) as s from {topic.name}") as query:
        changes = follow(ask.cluster, query)
        next(changes)
        for value, total in ((1.5, 2.5), ("x", None)):
            put(topic, {"n": value})
            if total is None:
                with pytest.raises(Exception, match="sum"):
                    next(changes)
            else:
                assert next(changes).added == [(total,)]
        changes.close()


def test_rows_that_are_only_added_are_read_from_new_events_only(
    make: Make, ask: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make()
    put(topic, *({"n": n} for n in range(10)))
    with ask.query(f"select n from {topic.name}") as query:
        assert query.appends
        changes = follow(ask.cluster, query)
        next(changes)
        asked: list[int] = []
        original = Query.run

        def counting(self, snapshot, *, of=None):  # type: ignore[no-untyped-def]
            asked.append(snapshot.events)
            return original(self, snapshot, of=of)

        monkeypatch.setattr(Query, "run", counting)
        put(topic, {"n": 10})

        assert next(changes).added == [(10,)]
        changes.close()
    assert asked == [1]
