"""Queries over topics of a server: what they give, and what they read."""

import json
from datetime import UTC, datetime

import pytest
from confluent_kafka import Producer
from tests.pipelines.format.topics import FIRST_MS, PATIENCE_S, Topic
from tests.sql.asking import Asked, answered
from tests.sql.conftest import Make

from mainstem.core.errors import UnknownTopic
from mainstem.sql import events
from mainstem.sql.errors import InvalidQuery, LimitReached, SnapshotGone
from mainstem.sql.snapshot import parse
from mainstem.sql.worker_messages import Span

MIB = 1 << 20


def put(topic: Topic, *values: object, partition: int = 0, at_ms: int | None = None) -> None:
    topic.fill([json.dumps(each) for each in values], partition, at_ms)


def produce(
    topic: Topic,
    value: bytes | None,
    key: bytes | None = None,
    headers: list[tuple[str, str | bytes | None]] | None = None,
) -> None:
    producer = Producer({"bootstrap.servers": topic.address, "log_level": 0})
    producer.produce(topic.name, value, key, headers=headers or [])
    assert producer.flush(PATIENCE_S) == 0


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[Span], list[str]]]:
    """What scans read: spans and columns, without those of samples."""
    seen: list[tuple[list[Span], list[str]]] = []
    original = events.read

    def spying(cluster, topic, spans, wanted):  # type: ignore[no-untyped-def]
        if wanted.names != [events.KEY, events.VALUE]:
            seen.append((list(spans), wanted.names))
        return original(cluster, topic, spans, wanted)

    monkeypatch.setattr(events, "read", spying)
    return seen


# Columns


def test_fields_of_json_values_are_columns(make: Make, ask: Asked) -> None:
    topic = make()
    put(topic, {"user": "ann", "amount": 3}, {"user": "bob", "amount": 4}, {"user": "ann"})

    rows = ask(f"select user, sum(amount), count(*) from {topic.name} group by user order by user")

    assert rows == [("ann", 3, 2), ("bob", 4, 1)]


def test_a_star_is_the_fields_then_key_partition_offset_and_time(make: Make, ask: Asked) -> None:
    topic = make(partitions=2)
    put(topic, {"b": 1, "a": "x"}, partition=1, at_ms=FIRST_MS)

    found = ask.answer(f"select * from {topic.name}")

    assert found.names == ["b", "a", "_key", "_partition", "_offset", "_timestamp"]
    moment = datetime.fromtimestamp(FIRST_MS / 1000, UTC)
    assert found.rows == [(1, "x", '{"b": 1, "a": "x"}', 1, 0, moment)]


def test_text_and_bytes_are_in_the_value(make: Make, ask: Asked) -> None:
    topic, raw = make("lines"), make("raw")
    topic.fill(["one", "two"])
    produce(raw, value=b"\xff\xfe", key=b"\x00\xff", headers=[("trace", b"7"), ("trace", None)])

    assert ask(f"select _value, _key from {topic.name}") == [("one", "one"), ("two", "two")]
    assert ask(f"select * exclude (_timestamp) from {raw.name}") == [
        (b"\xff\xfe", b"\x00\xff", 0, 0)
    ]
    assert ask(f"select _headers from {raw.name}") == [
        ([{"key": "trace", "value": b"7"}, {"key": "trace", "value": None}],)
    ]


def test_nested_fields_are_reached_by_dots_and_by_paths(make: Make, ask: Asked) -> None:
    topic = make()
    put(topic, {"to": {"city": "Rome", "at": {"zip": 7}}, "tags": ["a", "b"], "n": [1, 2]})

    assert ask(f'select "to".city, "to".at.zip, tags[2], n[1] from {topic.name}') == [
        ("Rome", 7, "b", 1)
    ]
    assert ask(
        f"select \"to\"->>'city', \"to\"->>'$.at.zip', _value->>'$.tags[0]' from {topic.name}"
    ) == [("Rome", "7", "a")]
    assert ask(f"select unnest(tags) from {topic.name}") == [("a",), ("b",)]


def test_every_type_of_json_keeps_its_value(make: Make, ask: Asked) -> None:
    topic = make()
    put(
        topic,
        {
            "whole": 2**53 + 1,
            "big": 2**64,
            "part": 0.1,
            "yes": True,
            "none": None,
            "o": {},
            "l": [],
        },
        {"whole": -1, "big": -1, "part": 2, "yes": False, "none": None, "o": {"a": 1}, "l": [{}]},
        {"mixed": 1, "A": "upper", "a": "lower", "a b": 1, 'q"r': 2, "_key": "field"},
        {"mixed": "x"},
    )

    found = ask.answer(f'select whole, big, part, yes, "none", o, l from {topic.name} limit 2')
    assert found.rows == [
        (2**53 + 1, 2**64, 0.1, True, None, "{}", []),
        (-1, -1, 2.0, False, None, '{"a":1}', ["{}"]),
    ]
    found = ask.answer(f'select mixed, "A", a_1, "a b", "q""r" from {topic.name} where _offset > 1')
    assert found.rows == [("1", "upper", "lower", 1, 2), ("x", None, None, None, None)]


def test_tombstones_and_events_without_the_field_have_null(make: Make, ask: Asked) -> None:
    topic = make()
    put(topic, {"a": 1}, {"b": 2})
    produce(topic, key=b"k", value=None)

    assert ask(f"select a, b, _value is null from {topic.name}") == [
        (1, None, False),
        (None, 2, False),
        (None, None, True),
    ]


def test_describe_tells_columns_and_types(make: Make, ask: Asked) -> None:
    topic = make()
    put(topic, {"a": 1, "b": "x"})

    rows = ask(f"select column_name, column_type from (describe {topic.name})")

    assert rows[:2] == [("a", "BIGINT"), ("b", "VARCHAR")]


def test_an_unknown_column_is_refused_with_those_there_are(make: Make, ask: Asked) -> None:
    topic = make()
    put(topic, {"amount": 1})

    with pytest.raises(InvalidQuery, match=r"amont.*has amount, _key, _value"):
        ask(f"select amont from {topic.name}")


@pytest.mark.parametrize(
    "query",
    [
        "select user from {}",
        "select count(*) from {} where user = 'ann'",
        "select max(current_user) as user from {}",
    ],
)
def test_a_field_that_no_event_has_is_not_a_name_of_the_session(
    make: Make, ask: Asked, query: str
) -> None:
    topic = make()
    put(topic, {"amount": 3})

    with pytest.raises(InvalidQuery, match=r"user not found.*has amount, _key, _value"):
        ask(query.format(topic.name))


# Events that the sample did not show


@pytest.mark.parametrize(
    ("early", "total"), [({"n": 1.5}, 3.5), ({"n": 2**70}, 2**70 + 2), ({"n": "x"}, None)]
)
def test_a_value_outside_the_sample_is_never_changed(
    make: Make, ask: Asked, early: object, total: float | None
) -> None:
    topic = make()
    put(topic, {"n": 0}, early, *[{"n": 0}] * 30, {"n": 2})

    with ask.query(f"select n from {topic.name}", sample=5) as query:
        found = answered(query, query.snapshot())

    if total is None:
        assert found.rows[1] == ("x",)
    else:
        assert sum(n for (n,) in found.rows) == total  # type: ignore[misc]


def test_values_that_are_not_json_have_null_fields_and_are_told_of(make: Make, ask: Asked) -> None:
    topic = make()
    put(topic, {"n": 1}, {"n": 2})
    topic.fill(["{broken", "[1]"])
    produce(topic, value=b"\xff\xff")
    put(topic, *[{"n": 3}] * 20)

    found = ask.answer(f"select n, _offset from {topic.name}", sample=5)

    assert found.rows[:6] == [(1, 0), (2, 1), (None, 2), (None, 3), (None, 4), (3, 5)]
    assert found.notices == [
        f"3 events of {topic.name} are not JSON objects: their fields are null "
        "(_value has what they are)"
    ]


# Topics


def test_topics_are_found_by_quoted_dotted_and_differently_cased_names(
    make: Make, ask: Asked
) -> None:
    dotted, dashed = make("sample.views"), make("a-b.c.d")
    put(dotted, {"n": 1})
    put(dashed, {"n": 2})

    assert ask(f"select n from {dotted.name}") == [(1,)]
    assert ask(f'select n from "{dotted.name}"') == [(1,)]
    assert ask(f"select views.n from {dotted.name} as views") == [(1,)]
    assert ask(f'select n from "{dashed.name}"') == [(2,)]
    assert ask(f"select n from {dotted.name.upper()}") == [(1,)]
    with pytest.raises(UnknownTopic):
        ask("select * from nothing.here")
    with pytest.raises(UnknownTopic):
        ask("select * from information_schema.tables")
    with pytest.raises(InvalidQuery, match="several dots"):
        ask("select * from a.b.c")


def test_topics_are_joined_and_with_themselves(make: Make, ask: Asked) -> None:
    orders, users = make("orders"), make("users")
    put(orders, *({"user": n % 3, "amount": n} for n in range(30)))
    put(users, *({"id": n, "name": f"u{n}"} for n in range(3)))

    rows = ask(
        f"with big as (select * from {orders.name} where amount >= 20) "
        f"select name, count(*), (select count(*) from {orders.name}) from big "
        f"join {users.name} on user = id join big b2 on big._offset = b2._offset "
        "group by name order by name"
    )

    assert rows == [("u0", 3, 30), ("u1", 3, 30), ("u2", 4, 30)]


def test_a_query_without_topics_is_answered(ask: Asked) -> None:
    assert ask("select 1 + 1") == [(2,)]


# What is read


def test_filters_on_offset_and_partition_narrow_what_is_read(
    make: Make, ask: Asked, read: list[tuple[list[Span], list[str]]]
) -> None:
    topic = make(partitions=3)
    for partition in range(3):
        put(topic, *({"n": n} for n in range(100)), partition=partition)

    rows = ask(
        f"select sum(n) from {topic.name} where _partition = 1 and _offset between 10 and 19"
    )

    assert rows == [(145,)]
    assert read == [([Span(1, 10, 20)], ["_offset", "_partition", "_value"])]


def test_a_filter_on_time_narrows_what_is_read(
    make: Make, ask: Asked, read: list[tuple[list[Span], list[str]]]
) -> None:
    topic = make(partitions=2)
    put(topic, *({"n": n} for n in range(100)), at_ms=FIRST_MS)
    put(topic, {"n": 7}, partition=1, at_ms=FIRST_MS)

    rows = ask(
        f"select count(*) from {topic.name} where _timestamp >= "
        f"make_timestamptz({FIRST_MS + 90} * 1000) and _timestamp < '2100-01-01'"
    )

    assert rows == [(10,)]
    assert read == [([Span(0, 90, 100)], ["_offset", "_timestamp"])]


def test_columns_that_are_not_used_are_not_decoded(
    make: Make, ask: Asked, read: list[tuple[list[Span], list[str]]]
) -> None:
    topic = make()
    put(topic, {"n": 1})

    ask(f"select _key from {topic.name}")

    assert [names for _, names in read] == [["_key"]]


def test_only_committed_events_are_read(make: Make, ask: Asked) -> None:
    topic = make()
    put(topic, {"n": 1})
    topic.transaction(['{"n": 10}', '{"n": 20}'], commit=True)
    topic.transaction(['{"n": 100}'], commit=False)
    put(topic, {"n": 1000})
    open_one = topic.begin(['{"n": 10000}'])

    before = ask.answer(f"select sum(n), count(*) from {topic.name}")
    open_one.commit_transaction(PATIENCE_S)
    after = ask.answer(f"select sum(n), count(*) from {topic.name}")

    assert before.rows == [(1031, 4)]
    assert after.rows == [(11031, 5)]
    assert ask.answer(
        f"select sum(n), count(*) from {topic.name}", snapshot=before.snapshot
    ).rows == [(1031, 4)]


# Snapshots


def test_a_snapshot_gives_the_same_answer_while_events_come(make: Make, ask: Asked) -> None:
    topic = make(partitions=2)
    put(topic, *({"n": n} for n in range(50)))
    sql = f"select count(*), sum(n), max(_offset) from {topic.name}"
    first = ask.answer(sql)

    for number in range(3):
        put(topic, *[{"n": number}] * 10, partition=number % 2)

        assert ask.answer(sql, snapshot=parse(str(first.snapshot))).rows == first.rows
    assert ask(sql) != first.rows


def test_a_snapshot_that_is_gone_is_refused_with_the_reason(make: Make, ask: Asked) -> None:
    topic, other = make(), make("other")
    put(topic, {"n": 1}, {"n": 2})
    put(other, {"n": 1})
    sql = f"select n from {topic.name}"
    snapshot = ask.answer(sql).snapshot

    with pytest.raises(InvalidQuery, match="has no topic"):
        ask.answer(f"select n from {other.name}", snapshot=snapshot)
    longer = parse(str(snapshot).replace("0-2", "0-9"))
    with pytest.raises(SnapshotGone, match="ends at offset 9"):
        ask.answer(sql, snapshot=longer)
    topic.trim(1)
    with pytest.raises(SnapshotGone, match="begins at offset 0"):
        ask.answer(sql, snapshot=snapshot)
    topic.delete()
    topic.make()
    put(topic, {"n": 1}, {"n": 2})
    with pytest.raises(SnapshotGone, match="created again"):
        ask.answer(sql, snapshot=snapshot)


# Limits


def test_a_result_with_too_many_rows_is_refused(make: Make, ask: Asked) -> None:
    topic = make()
    put(topic, *[{"n": 1}] * 11)

    assert len(ask(f"select n from {topic.name}", rows=11)) == 11
    with pytest.raises(LimitReached, match="more than 10 rows"):
        ask(f"select n from {topic.name}", rows=10)


@pytest.mark.parametrize(
    "sql",
    [
        "select count(*) from range(1000000) a, range(1000000) b where a.range % 7 = b.range % 5",
        "with recursive t(n) as (select 1 union all select n + 1 from t) select max(n) from t",
    ],
)
def test_a_query_that_takes_too_long_is_stopped(ask: Asked, sql: str) -> None:
    with pytest.raises(LimitReached, match="not done within 3 s"):
        ask(sql, seconds=3)


@pytest.mark.parametrize("mib", [64, 256])
def test_a_topic_that_is_larger_than_memory_is_read(make: Make, ask: Asked, mib: int) -> None:
    topic = make()
    topic.fill(["x" * 10_000] * 10_000)

    rows = ask(f"select count(*), max(length(_value)) from {topic.name}", memory_bytes=mib * MIB)

    assert rows == [(10_000, 10_000)]


@pytest.mark.parametrize(
    "sql",
    [
        "select list(range) from range(1000000000)",
        "select a.range from range(100000000) a order by hash(a.range)",
        "select length(string_agg(repeat('x', 1000000), '')) from range(100000)",
    ],
)
def test_a_query_that_needs_too_much_memory_is_stopped(ask: Asked, sql: str) -> None:
    with pytest.raises(LimitReached, match="64 MiB of memory"):
        ask(sql, memory_bytes=64 * MIB)
