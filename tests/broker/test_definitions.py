"""Definitions of heads: replay gives the live state, and a refused change changes nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.broker.brokers import FullLog, LateLog, new_broker

from mainstem.broker import definitions
from mainstem.broker.definitions import DefinitionChange, DefinitionFold, DefinitionKey
from mainstem.core.errors import InvalidSetting, StorageFailed, StorageFull

HEADS = st.sampled_from(["amqp", "stomp"])
NAMES = st.tuples(st.sampled_from(["exchange", "binding"]), st.sampled_from(["", "a", "b", "ü"]))
CHANGES = st.dictionaries(NAMES, st.none() | st.binary(max_size=4), max_size=4)
STEPS = st.lists(st.tuples(HEADS, CHANGES, st.booleans()), max_size=12)


@given(STEPS)
def test_replay_gives_what_live_gave_and_that_is_what_was_asked_for(
    steps: list[tuple[str, dict[tuple[str, str], bytes | None], bool]],
) -> None:
    log = FullLog()
    broker = new_broker(log)
    expected: dict[tuple[str, str, str], bytes] = {}

    for head, changes, is_full in steps:
        log.is_full = is_full
        try:
            broker.definitions.open(head).change(changes)
        except StorageFull:
            continue
        for (kind, key), value in changes.items():
            if value is None:
                expected.pop((head, kind, key), None)
            else:
                expected[head, kind, key] = value
    log.is_full = False

    assert dict(broker.definitions.fold) == {
        DefinitionKey(*name): value for name, value in expected.items()
    }
    assert new_broker(log).definitions.fold == broker.definitions.fold


@given(st.lists(st.tuples(HEADS, CHANGES), max_size=12))
def test_the_last_record_of_each_key_is_enough(
    steps: list[tuple[str, dict[tuple[str, str], bytes | None]]],
) -> None:
    live, compacted = DefinitionFold(), DefinitionFold()
    latest: dict[DefinitionKey, DefinitionChange] = {}

    for head, changes in steps:
        for change in live.change(head, changes):
            live.apply(change)
            latest.pop(change.key, None)
            latest[change.key] = change
    for change in latest.values():
        compacted.apply(change)

    assert compacted == live


def test_each_head_sees_its_own_definitions() -> None:
    broker = new_broker()
    amqp, stomp = broker.definitions.open("amqp"), broker.definitions.open("stomp")

    amqp.set("exchange", "logs", b"fanout")
    amqp.set("exchange", "orders", b"topic")
    amqp.set("queue", "logs", b"durable")
    amqp.delete("exchange", "orders")

    assert amqp.get("exchange", "logs") == b"fanout"
    assert amqp.get("exchange", "orders") is None
    assert amqp.items("exchange") == {"logs": b"fanout"}
    assert stomp.items("exchange") == {}


def test_what_is_so_already_is_not_written_again() -> None:
    broker = new_broker()
    amqp = broker.definitions.open("amqp")
    amqp.set("exchange", "logs", b"fanout")
    before = broker.bounds("__mainstem_definitions", 0).end

    amqp.set("exchange", "logs", b"fanout")
    amqp.delete("exchange", "nothing")

    assert broker.bounds("__mainstem_definitions", 0).end == before


def test_who_watches_a_kind_hears_of_every_change_until_the_watch_is_taken_back() -> None:
    broker = new_broker()
    amqp, heard = broker.definitions.open("amqp"), list[tuple[str, bytes | None]]()
    unwatch = amqp.watch("queue", lambda key: heard.append((key, amqp.get("queue", key))))

    amqp.set("exchange", "other", b"")
    amqp.set("queue", "a", b"1")
    amqp.delete("queue", "a")
    unwatch()
    amqp.set("queue", "b", b"2")

    assert heard == [("a", b"1"), ("a", None)]


def test_who_watches_may_change_definitions() -> None:
    amqp = new_broker().definitions.open("amqp")

    def bind(key: str) -> None:
        amqp.set("binding", key, b"default")

    amqp.watch("queue", bind)

    amqp.set("queue", "a", b"")

    assert amqp.items("binding") == {"a": b"default"}


def test_a_disk_that_fails_takes_definitions_back_and_says_so() -> None:
    log = LateLog()
    broker = new_broker(log)
    amqp, heard = broker.definitions.open("amqp"), list[str]()
    amqp.watch("queue", heard.append)
    amqp.set("queue", "kept", b"")
    log.late = True
    start = log.bounds(broker.topic("__mainstem_definitions").partitions[0]).end

    durable = amqp.set("queue", "lost", b"")
    assert amqp.get("queue", "lost") == b""
    log.cut(broker.topic("__mainstem_definitions").partitions[0], end=start)
    log.settle(StorageFailed("the disk is gone"))

    with pytest.raises(StorageFailed):
        durable.wait(0)
    assert amqp.items("queue") == {"kept": b""}
    assert heard == ["kept", "lost", "lost"]


def test_there_are_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definitions, "MAX_DEFINITIONS", 2)
    amqp = new_broker().definitions.open("amqp")
    amqp.change({("queue", "a"): b"", ("queue", "b"): b""})

    with pytest.raises(InvalidSetting, match="2 is the limit"):
        amqp.set("queue", "c", b"")
    with pytest.raises(InvalidSetting, match="shorter name"):
        amqp.set("queue", "x" * 1_000, b"")
    with pytest.raises(InvalidSetting, match="bytes"):
        amqp.set("queue", "a", b"x" * (definitions.MAX_VALUE_BYTES + 1))

    amqp.change({("queue", "a"): None, ("queue", "c"): b""})
    assert set(amqp.items("queue")) == {"b", "c"}


def test_the_largest_definition_can_be_read_back() -> None:
    log = FullLog()
    largest = b"\xff" * definitions.MAX_VALUE_BYTES
    new_broker(log).definitions.open("amqp").set("queue", "a", largest)

    assert new_broker(log).definitions.open("amqp").get("queue", "a") == largest
