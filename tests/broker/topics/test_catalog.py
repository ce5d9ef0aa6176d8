"""The catalog of topics: valid changes, and replay gives the same state as live changes."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.broker.topics import catalog
from mainstem.core.errors import (
    InvalidName,
    InvalidSetting,
    MainstemError,
    TopicExists,
    UnknownTopic,
)
from mainstem.core.topic_settings import Durability, Overload, TopicSettings


def create(topics: catalog.Topics, name: str, topic_id: str = "1", **settings: object) -> None:
    for change in topics.create(name, TopicSettings().altered(**settings), topic_id, 1_000):
        topics.apply(change)


def test_a_decision_alone_changes_nothing() -> None:
    topics = catalog.Topics()

    topics.create("orders", TopicSettings(), "1", 1_000)

    assert topics == catalog.Topics()


def test_a_created_topic_is_found_by_name_and_id() -> None:
    topics = catalog.Topics()

    create(topics, "orders", partitions=3)

    topic = topics.get("orders")
    assert topics.by_id("1") is topic
    assert [partition.number for partition in topic.partitions] == [0, 1, 2]
    assert topic.created_ms == 1_000


def test_settings_given_as_text_become_what_they_mean() -> None:
    topics = catalog.Topics()

    changes = topics.create("orders", TopicSettings(durability="disk"), "1", 0)  # type: ignore[arg-type]
    topics.apply(changes[0])

    assert topics.get("orders").settings.durability is Durability.DISK


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "a b", "ä", "x" * 250, "a\0"])
def test_names_that_are_no_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidName):
        catalog.Topics().create(name, TopicSettings(), "1", 0)


def test_internal_names_are_refused_to_users_for_everything() -> None:
    topics = catalog.Topics()
    topics.apply(
        catalog.TopicChange(
            catalog.TopicKey("__mainstem_x"), catalog.TopicSet("9", TopicSettings(), 0)
        )
    )

    with pytest.raises(InvalidName):
        topics.create("__mainstem_y", TopicSettings(), "1", 0)
    with pytest.raises(InvalidName):
        topics.alter("__mainstem_x", TopicSettings(partitions=2))
    with pytest.raises(InvalidName):
        topics.delete("__mainstem_x")


def test_names_that_differ_only_in_dot_and_underscore_live_side_by_side() -> None:
    topics = catalog.Topics()

    create(topics, "a.b", "1")
    create(topics, "a_b", "2")

    assert topics.get("a.b").id != topics.get("a_b").id


def test_a_topic_is_created_only_once() -> None:
    topics = catalog.Topics()
    create(topics, "orders")

    with pytest.raises(TopicExists):
        topics.create("orders", TopicSettings(), "2", 0)


def test_partitions_grow_and_never_shrink() -> None:
    topics = catalog.Topics()
    create(topics, "orders", partitions=2)

    for change in topics.alter("orders", TopicSettings(partitions=4)):
        topics.apply(change)

    assert len(topics.get("orders").partitions) == 4
    with pytest.raises(InvalidSetting, match="cannot become fewer"):
        topics.alter("orders", TopicSettings(partitions=3))


def test_durability_changes_between_disk_and_fsync_but_not_from_or_to_memory() -> None:
    topics = catalog.Topics()
    create(topics, "orders", durability="disk")

    assert topics.alter("orders", TopicSettings(durability=Durability.FSYNC))
    with pytest.raises(InvalidSetting, match="do not move between memory and disk"):
        topics.alter("orders", TopicSettings(durability=Durability.MEMORY))


def test_altering_to_what_is_already_so_writes_nothing() -> None:
    topics = catalog.Topics()
    create(topics, "orders")

    assert topics.alter("orders", TopicSettings()) == []


def test_combinations_that_mean_nothing_are_refused() -> None:
    with pytest.raises(InvalidSetting, match="max_backlog"):
        catalog.Topics().create("orders", TopicSettings(overload=Overload.BACKPRESSURE), "1", 0)


def test_a_deleted_topic_is_gone_but_remembered_until_the_log_has_deleted_it() -> None:
    topics = catalog.Topics()
    create(topics, "orders", partitions=2)

    for change in topics.delete("orders"):
        topics.apply(change)

    with pytest.raises(UnknownTopic):
        topics.get("orders")
    assert topics.by_id("1") is None
    assert topics.going == {"orders": catalog.TopicGone("1", 2)}
    for change in topics.forget("orders"):
        topics.apply(change)
    assert topics == catalog.Topics()


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("orders", ["orders"]),
        ("orders.*", ["orders.eu", "orders.us"]),
        ("orders*", ["orders", "orders.eu", "orders.us"]),
        ("*", ["bills", "orders", "orders.eu", "orders.us"]),
        ("?????", ["bills"]),
        ("nothing", []),
        ("__mainstem_*", []),
        ("__mainstem_x", ["__mainstem_x"]),
    ],
)
def test_a_name_or_pattern_chooses_topics(pattern: str, found: list[str]) -> None:
    topics = catalog.Topics()
    for number, name in enumerate(["orders.us", "orders", "bills", "orders.eu"]):
        create(topics, name, str(number))
    topics.apply(
        catalog.TopicChange(
            catalog.TopicKey("__mainstem_x"), catalog.TopicSet("9", TopicSettings(), 0)
        )
    )

    assert [topic.name for topic in topics.matching(pattern)] == found


def test_internal_topics_match_a_pattern_only_when_asked_for() -> None:
    topics = catalog.Topics()
    topics.apply(
        catalog.TopicChange(
            catalog.TopicKey("__mainstem_x"), catalog.TopicSet("9", TopicSettings(), 0)
        )
    )

    assert [topic.name for topic in topics.matching("*", internal=True)] == ["__mainstem_x"]


def test_there_is_a_limit_to_topics_and_to_partitions() -> None:
    topics = catalog.Topics(catalog.TopicLimits(max_topics=2, max_partitions=5))
    create(topics, "a", "1", partitions=3)

    with pytest.raises(InvalidSetting, match="3 more partitions"):
        topics.create("b", TopicSettings(partitions=3), "2", 0)
    create(topics, "b", "2")
    with pytest.raises(InvalidSetting, match="2 topics already"):
        topics.create("c", TopicSettings(), "3", 0)
    with pytest.raises(InvalidSetting, match="more partitions"):
        topics.alter("b", TopicSettings(partitions=3))


names = st.sampled_from(["a", "b", "c"])
settings = st.builds(
    TopicSettings,
    partitions=st.integers(1, 4),
    durability=st.sampled_from(Durability),
    compact=st.booleans(),
)
requests = st.lists(
    st.one_of(
        st.tuples(st.just("create"), names, settings),
        st.tuples(st.just("alter"), names, settings),
        st.tuples(st.just("delete"), names, settings),
        st.tuples(st.just("forget"), names, settings),
    )
)


@given(requests)
def test_replay_gives_what_live_gave(asked: list[tuple[str, str, TopicSettings]]) -> None:
    live, written = catalog.Topics(), list[catalog.TopicChange]()

    for number, (deed, name, wanted) in enumerate(asked):
        with suppress(MainstemError):
            match deed:
                case "create":
                    changes = live.create(name, wanted, str(number), number)
                case "alter":
                    changes = live.alter(name, wanted)
                case "delete":
                    changes = live.delete(name)
                case _:
                    changes = live.forget(name)
            written += changes
            for change in changes:
                live.apply(change)

    replayed = catalog.Topics()
    for change in written:
        replayed.apply(change)
    assert replayed == live


@given(requests)
def test_replaying_only_the_latest_of_each_key_gives_the_same(
    asked: list[tuple[str, str, TopicSettings]],
) -> None:
    live, latest = catalog.Topics(), dict[catalog.TopicKey, catalog.TopicChange]()

    for number, (deed, name, wanted) in enumerate(asked):
        with suppress(MainstemError):
            if deed == "create":
                changes = live.create(name, wanted, str(number), number)
            elif deed == "alter":
                changes = live.alter(name, wanted)
            else:
                changes = live.delete(name)
            for change in changes:
                live.apply(change)
                latest[change.key] = change

    compacted = catalog.Topics()
    for change in latest.values():
        compacted.apply(change)
    assert compacted == live
