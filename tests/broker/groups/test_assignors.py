"""Assignors: every partition gets one owner, evenly; ``range`` gives contiguous ranges."""

from hypothesis import given
from hypothesis import strategies as st

from mainstem.broker.groups.assignors import ASSIGNORS, in_ranges, preferred
from mainstem.log.port import PartitionId

_TOPICS = st.dictionaries(st.sampled_from("tuvw"), st.integers(1, 7)).map(
    lambda counts: {
        name: tuple(PartitionId(name, number) for number in range(count))
        for name, count in counts.items()
    }
)
_READS = st.dictionaries(
    st.sampled_from("abcde"), st.frozensets(st.sampled_from("tuvw")), min_size=1
)


@given(st.sampled_from(sorted(ASSIGNORS)), _TOPICS, _READS)
def test_every_partition_that_is_wanted_has_one_owner_who_wants_it(
    assignor: str,
    topics: dict[str, tuple[PartitionId, ...]],
    reads: dict[str, frozenset[str]],
) -> None:
    found = ASSIGNORS[assignor](topics, reads, {})

    wanted = set().union(*reads.values())
    assert found.keys() == {at for name in topics if name in wanted for at in topics[name]}
    assert all(at.topic_id in reads[owner] for at, owner in found.items())


@given(_TOPICS, st.integers(1, 5))
def test_ranges_are_runs_of_nearly_the_same_length_in_the_order_of_members(
    topics: dict[str, tuple[PartitionId, ...]], count: int
) -> None:
    members = [f"m{number}" for number in range(count)]

    found = in_ranges(topics, dict.fromkeys(members, frozenset(topics)), {})

    for partitions in topics.values():
        owners = [found[at] for at in partitions]
        lengths = [owners.count(each) for each in members]
        assert owners == sorted(owners)
        assert lengths == sorted(lengths, reverse=True)
        assert max(lengths) - min(lengths) <= 1


def test_topics_of_one_size_are_cut_alike() -> None:
    topics = {name: tuple(PartitionId(name, n) for n in range(5)) for name in "tu"}

    found = in_ranges(topics, dict.fromkeys("ab", frozenset("tu")), {})

    assert [found[at] for at in topics["t"]] == [found[at] for at in topics["u"]]


def test_the_assignor_of_most_is_preferred_and_uniform_if_nobody_says() -> None:
    assert preferred({}) == "uniform"
    assert preferred({"range": 2, "uniform": 1}) == "range"
