"""Cursors: valid changes, and replay gives the same state as live changes."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.broker.groups.cursors import Cursor, CursorChange, CursorKey, Cursors
from mainstem.core.errors import InvalidName, InvalidSetting, MainstemError, UnknownGroup
from mainstem.log.port import PartitionId

FIRST, SECOND = PartitionId("a" * 32, 0), PartitionId("a" * 32, 1)


def commit(cursors: Cursors, group: str, partition: PartitionId, offset: int, at: int = 0) -> None:
    for change in cursors.commit(group, {partition: Cursor(offset, at)}):
        cursors.apply(change)


def test_a_committed_cursor_is_found_by_group_and_by_partition() -> None:
    cursors = Cursors()

    commit(cursors, "billing", FIRST, 7)
    commit(cursors, "search", FIRST, 3)

    assert cursors.of("billing") == {FIRST: Cursor(7, 0)}
    assert {group: at.offset for group, at in cursors.readers(FIRST).items()} == {
        "billing": 7,
        "search": 3,
    }
    assert cursors.groups() == ["billing", "search"]


def test_metadata_is_kept_up_to_a_limit() -> None:
    cursors = Cursors()

    kept = cursors.commit("billing", {FIRST: Cursor(1, 0, "note " * 800)})

    assert kept[0].value is not None
    assert kept[0].value.metadata == "note " * 800
    with pytest.raises(InvalidSetting, match="metadata"):
        cursors.commit("billing", {FIRST: Cursor(1, 0, "é" * 2_049)})
    with pytest.raises(InvalidSetting, match="UTF-8"):
        cursors.commit("billing", {FIRST: Cursor(1, 0, "\ud800")})


@pytest.mark.parametrize("group", ["", "x" * 256, "a\nb"])
def test_group_names_that_are_no_names_are_refused(group: str) -> None:
    with pytest.raises(InvalidName):
        Cursors().commit(group, {FIRST: Cursor(1, 0)})


def test_a_negative_offset_is_refused() -> None:
    with pytest.raises(InvalidSetting):
        Cursors().commit("billing", {FIRST: Cursor(-1, 0)})


def test_a_cursor_that_is_unset_is_kept_and_says_no_offset() -> None:
    cursors = Cursors()
    commit(cursors, "billing", FIRST, 1)

    for change in cursors.commit("billing", {FIRST: Cursor(-2, 0)}, may_unset=True):
        cursors.apply(change)

    assert cursors.of("billing") == {FIRST: Cursor(-2, 0)}
    assert cursors.at("billing", FIRST) is None


def test_a_removed_group_is_unknown_again() -> None:
    cursors = Cursors()
    commit(cursors, "billing", FIRST, 1)
    commit(cursors, "billing", SECOND, 2)

    for change in cursors.remove("billing"):
        cursors.apply(change)

    assert cursors == Cursors()
    with pytest.raises(UnknownGroup):
        cursors.remove("billing")


def test_cursors_in_partitions_that_are_gone_are_forgotten_for_all_groups() -> None:
    cursors = Cursors()
    for group in ("billing", "search"):
        commit(cursors, group, FIRST, 1)
    commit(cursors, "billing", SECOND, 1)

    for change in cursors.forget([FIRST]):
        cursors.apply(change)

    assert cursors.partitions() == [SECOND]
    assert cursors.groups() == ["billing"]


def test_old_cursors_of_some_groups_expire() -> None:
    cursors = Cursors()
    commit(cursors, "old", FIRST, 1, at=100)
    commit(cursors, "young", FIRST, 1, at=200)
    commit(cursors, "other", FIRST, 1, at=100)

    changes = cursors.expire(before_ms=150, groups=["old", "young"])

    assert changes == [CursorChange(CursorKey("old", FIRST.topic_id, 0), None)]


groups = st.sampled_from(["billing", "search"])
partitions = st.sampled_from([FIRST, SECOND, PartitionId("b" * 32, 0)])
requests = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), groups, partitions, st.integers(-1, 9)),
        st.tuples(st.just("remove"), groups, partitions, st.integers(0, 1)),
        st.tuples(st.just("forget"), groups, partitions, st.integers(0, 1)),
        st.tuples(st.just("expire"), groups, partitions, st.integers(0, 20)),
    )
)


@given(requests)
def test_replay_gives_what_live_gave(asked: list[tuple[str, str, PartitionId, int]]) -> None:
    live, written = Cursors(), list[CursorChange]()

    for now_ms, (deed, group, partition, number) in enumerate(asked):
        with suppress(MainstemError):
            match deed:
                case "commit":
                    changes = live.commit(group, {partition: Cursor(number, now_ms)})
                case "remove":
                    changes = live.remove(group, [partition] if number else None)
                case "forget":
                    changes = live.forget([partition])
                case _:
                    changes = live.expire(number, {group})
            written += changes
            for change in changes:
                live.apply(change)

    replayed, compacted = Cursors(), Cursors()
    for change in written:
        replayed.apply(change)
    for change in {change.key: change for change in written}.values():
        compacted.apply(change)
    assert replayed == live
    assert compacted == live
