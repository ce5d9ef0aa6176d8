"""The sticky assignor: complete and even assignments that move as few partitions as possible."""

from collections import Counter
from zlib import crc32

from hypothesis import given
from hypothesis import strategies as st
from tests.broker.counted_names import CountedName

from mainstem.broker.groups.sticky_assignor import assign
from mainstem.log.port import PartitionId


def partitions_of(topic: str, count: int) -> list[PartitionId]:
    return [PartitionId(topic, number) for number in range(count)]


def topics_of(**counts: int) -> dict[str, list[PartitionId]]:
    return {topic: partitions_of(topic, count) for topic, count in counts.items()}


def loads(owners: dict[PartitionId, str]) -> dict[str, int]:
    return dict(Counter(owners.values()))


def test_one_member_owns_everything() -> None:
    owners = assign(topics_of(a=3, b=1), {"m": frozenset("ab")}, {})

    assert loads(owners) == {"m": 4}


def test_a_newcomer_takes_its_part_and_nothing_else_moves() -> None:
    topics = topics_of(a=6)
    both = {"first": frozenset("a"), "second": frozenset("a")}
    before = assign(topics, both, {})

    after = assign(topics, both | {"third": frozenset("a")}, before)

    assert loads(after) == {"first": 2, "second": 2, "third": 2}
    assert sum(before[at] != after[at] for at in before) == 2


def test_what_a_leaver_owned_is_shared_out_and_nothing_else_moves() -> None:
    topics = topics_of(a=6)
    members = {name: frozenset("a") for name in ("first", "second", "third")}
    before = assign(topics, members, {})
    del members["second"]

    after = assign(topics, members, before)

    assert loads(after) == {"first": 3, "third": 3}
    assert all(after[at] == before[at] for at in before if before[at] != "second")


def test_more_members_than_partitions_leaves_some_without() -> None:
    members = {f"m{number}": frozenset("a") for number in range(5)}

    assert sorted(loads(assign(topics_of(a=3), members, {})).values()) == [1, 1, 1]


def test_many_topics_of_one_partition_spread_over_the_members() -> None:
    topics = {f"t{number}": partitions_of(f"t{number}", 1) for number in range(9)}
    members = {name: frozenset(topics) for name in ("x", "y", "z")}

    assert loads(assign(topics, members, {})) == {"x": 3, "y": 3, "z": 3}


def test_who_reads_less_leaves_the_rest_to_others() -> None:
    members = {"both": frozenset("ab"), "only b": frozenset("b")}

    owners = assign(topics_of(a=2, b=4), members, {})

    assert loads(owners) == {"both": 3, "only b": 3}
    assert all(owners[at] == "both" for at in partitions_of("a", 2))


def test_topics_that_nobody_reads_are_left_out() -> None:
    owners = assign(topics_of(a=1, b=1), {"m": frozenset("a")}, {})

    assert list(owners) == partitions_of("a", 1)


def test_a_thousand_members_of_ten_thousand_partitions_are_quickly_assigned() -> None:
    topics = {f"t{number}": partitions_of(f"t{number}", 10) for number in range(1_000)}
    members = {f"m{number}": frozenset(topics) for number in range(100)}
    before = assign(topics, members, {})

    after = assign(topics, members | {"new": frozenset(topics)}, before)

    assert set(loads(after).values()) == {99, 100}


def looks(
    topics: dict[str, list[PartitionId]],
    members: dict[str, frozenset[str]],
    current: dict[PartitionId, str],
) -> int:
    """Return how often members are looked at until partitions are assigned."""
    CountedName.times = 0
    assign(topics, members, current)
    return CountedName.times


def test_to_level_many_members_does_not_look_at_all_of_them_for_every_move() -> None:
    topics = topics_of(a=1_000)
    members: dict[str, frozenset[str]] = {
        CountedName(f"m{number}"): frozenset("a") for number in range(500)
    }
    all_at_first = dict.fromkeys(topics["a"], next(iter(members)))

    assert looks(topics, members, all_at_first) < 40 * (1_000 + 500)


def test_to_level_members_of_many_topics_does_not_begin_anew_with_every_topic() -> None:
    topics = {f"t{number}": partitions_of(f"t{number}", 10) for number in range(100)}
    members: dict[str, frozenset[str]] = {
        CountedName(f"m{number}"): frozenset(
            each for each in topics if crc32(f"{each} {number}".encode()) % 2
        )
        for number in range(100)
    }
    few = dict(list(members.items())[:5])
    current = assign(topics, few, {})

    assert looks(topics, members, current) < 60 * (1_000 + 100)


topic_names = st.sampled_from("abc")
readers = st.dictionaries(
    st.sampled_from([f"m{number}" for number in range(6)]),
    st.frozensets(topic_names, min_size=1),
    min_size=1,
)
counts = st.dictionaries(topic_names, st.integers(1, 7), min_size=1)


@given(counts, readers, readers)
def test_every_partition_that_is_read_has_one_owner_that_reads_it(
    partitions: dict[str, int], before: dict[str, frozenset[str]], after: dict[str, frozenset[str]]
) -> None:
    topics = topics_of(**partitions)

    owners = assign(topics, after, assign(topics, before, {}))

    read = frozenset[str]().union(*after.values())
    assert set(owners) == {at for topic in read for at in topics.get(topic, ())}
    assert all(at.topic_id in after[owner] for at, owner in owners.items())


@given(st.integers(1, 30), st.sets(st.integers(0, 9), min_size=1), st.sets(st.integers(0, 9)))
def test_equal_members_differ_by_one_at_most_and_only_what_must_move_moves(
    count: int, before: set[int], joined: set[int]
) -> None:
    topics = topics_of(a=count)
    old = {f"m{number}": frozenset("a") for number in sorted(before)}
    new = {f"m{number}": frozenset("a") for number in sorted(before | joined)}
    owners = assign(topics, old, {})

    after = assign(topics, new, owners)

    spread = [list(after.values()).count(member) for member in new]
    assert max(spread) - min(spread) <= 1
    newcomers = sum(list(after.values()).count(member) for member in new if member not in old)
    assert sum(owners[at] != after[at] for at in owners) == newcomers


@given(counts, readers)
def test_what_is_balanced_stays_as_it_is(
    partitions: dict[str, int], members: dict[str, frozenset[str]]
) -> None:
    topics = topics_of(**partitions)
    owners = assign(topics, members, {})

    assert assign(topics, members, owners) == owners


@given(st.lists(st.integers(0, 12), min_size=1, max_size=40), st.integers(1, 10))
def test_equal_members_are_levelled_by_the_fewest_moves_whatever_they_had(
    had: list[int], count: int
) -> None:
    topics = topics_of(a=len(had))
    members = {f"m{number}": frozenset("a") for number in range(count)}
    current = {at: f"m{had[at.number]}" for at in topics["a"]}

    owners = assign(topics, members, current)

    spread = [list(owners.values()).count(member) for member in members]
    assert max(spread) - min(spread) <= 1
    most_first = sorted((had.count(number) for number in range(count)), reverse=True)
    shares = [len(had) // count + (place < len(had) % count) for place in range(count)]
    needed = sum(max(0, load - share) for load, share in zip(most_first, shares, strict=True))
    moved = sum(owners[at] != was for at, was in current.items() if was in members)
    assert moved == needed
