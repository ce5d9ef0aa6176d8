"""Share groups on the wire: sessions, what is acquired and acknowledged, and what is refused."""

from collections.abc import Iterator
from itertools import count

import pytest
from tests.heads.kafka.attack import Peer, served, until
from tests.heads.kafka.sharing import (
    ACCEPT,
    END,
    REJECT,
    RELEASE,
    RENEW,
    Sharer,
    configure,
    partition_of,
    put,
    runs,
)

from mainstem.core.batch import batches, read_header
from mainstem.heads.kafka.adapter.configs import Type
from mainstem.heads.kafka.adapter.errors import Code
from mainstem.heads.kafka.messages.commits import (
    OFFSET_COMMIT,
    CommitPartition,
    CommitTopic,
    OffsetCommitRequest,
    OffsetCommitResponse,
)
from mainstem.heads.kafka.messages.configs import (
    DESCRIBE_CONFIGS,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribedConfigs,
)
from mainstem.heads.kafka.messages.groups import (
    DELETE_GROUPS,
    LIST_GROUPS,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from mainstem.heads.kafka.messages.share_groups import (
    ALTER_SHARE_GROUP_OFFSETS,
    DELETE_SHARE_GROUP_OFFSETS,
    DESCRIBE_SHARE_GROUP_OFFSETS,
    SHARE_GROUP_DESCRIBE,
    SHARE_GROUP_HEARTBEAT,
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareOffset,
    AlterShareOffsetsTopic,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareOffsetsTopic,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    ShareOffsetsGroup,
)

_names = count()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served(None) as found:
        yield found


@pytest.fixture
def peer(address: str) -> Iterator[Peer]:
    with Peer(address) as found:
        yield found


@pytest.fixture
def topic(peer: Peer) -> str:
    """A topic with ten events in one batch, and a group of that name that has begun with them."""
    name = f"orders.{next(_names)}"
    put(peer, name, 10)
    configure(peer, name, "share.auto.offset.reset", "earliest")
    return name


@pytest.fixture
def ann(address: str, topic: str) -> Iterator[Sharer]:
    found = Sharer(address, topic).joined()
    yield found
    found.close()


@pytest.fixture
def bob(address: str, topic: str) -> Iterator[Sharer]:
    found = Sharer(address, topic, "bob").joined()
    yield found
    found.close()


def code(answer: object) -> Code:
    return Code(answer.error_code)  # type: ignore[attr-defined]


def ack_code(answer: object) -> Code:
    (topic,) = answer.responses  # type: ignore[attr-defined]
    return Code(topic.partitions[0].error_code)


# What is acquired


def test_records_come_as_they_are_stored_with_what_is_acquired_of_them(ann: Sharer) -> None:
    found = ann.fetch()

    assert runs(found) == [(0, 9, 1)]
    (batch,) = batches(bytes(partition_of(found).records))  # type: ignore[arg-type]
    assert read_header(batch).count == 10
    assert found.acquisition_lock_timeout_ms == 30_000


def test_what_is_acquired_by_one_is_not_to_be_had_by_another(ann: Sharer, bob: Sharer) -> None:
    assert runs(ann.fetch(max_records=4, mode=1)) == [(0, 3, 1)]
    assert runs(bob.fetch(max_records=4, mode=1)) == [(4, 7, 1)]
    assert runs(bob.fetch(max_records=4, mode=1)) == [(8, 9, 1)]
    assert runs(ann.fetch()) == []


def test_whole_batches_may_be_more_records_than_asked_for(ann: Sharer) -> None:
    assert runs(ann.fetch(max_records=4)) == [(0, 9, 1)]


def test_a_fetch_waits_until_there_is_something(ann: Sharer, bob: Sharer, peer: Peer) -> None:
    ann.fetch()

    bob.send_fetch(wait_ms=60_000)
    put(peer, ann.topic, 2)

    assert runs(bob.fetched()) == [(10, 11, 1)]


def test_a_fetch_that_waits_is_not_woken_by_partitions_that_it_does_not_want(
    ann: Sharer, bob: Sharer, peer: Peer
) -> None:
    bob.fetch(partitions=[1])
    ann.fetch()
    put(peer, ann.topic, 3, partition=1)

    ann.send_fetch(wait_ms=60_000)
    put(peer, ann.topic, 1)

    assert runs(ann.fetched()) == [(10, 10, 1)]
    assert runs(bob.fetch(partitions=[]), 1) == [(0, 2, 1)]


def test_the_first_fetch_takes_from_one_partition_so_that_others_get_some(
    ann: Sharer, bob: Sharer, peer: Peer
) -> None:
    put(peer, ann.topic, 3, partition=1)

    first, second = ann.fetch(partitions=[0, 1]), bob.fetch(partitions=[0, 1])

    taken = [[number for number in (0, 1) if runs(each, number)] for each in (first, second)]
    assert sorted(taken) == [[0], [1]]
    put(peer, ann.topic, 1)
    put(peer, ann.topic, 1, partition=1)
    third = ann.fetch(partitions=[])
    assert (runs(third), runs(third, 1)) == ([(10, 10, 1)], [(3, 3, 1)])


def test_who_wants_no_bytes_gets_nothing(ann: Sharer) -> None:
    assert runs(ann.fetch(max_bytes=0, wait_ms=1)) == []
    assert runs(ann.fetch()) == [(0, 9, 1)]


@pytest.mark.parametrize("max_bytes", [-1, 1])
def test_one_batch_is_sent_whatever_its_size(ann: Sharer, max_bytes: int) -> None:
    assert runs(ann.fetch(max_bytes=max_bytes, wait_ms=60_000)) == [(0, 9, 1)]


def test_a_fetch_that_waits_gets_what_another_gives_back(ann: Sharer, bob: Sharer) -> None:
    ann.fetch()

    bob.send_fetch(wait_ms=60_000)
    ann.acknowledge([(0, 8, [ACCEPT]), (9, 9, [RELEASE])])

    assert runs(bob.fetched()) == [(9, 9, 2)]


def test_records_of_another_delivery_are_runs_of_their_own(ann: Sharer) -> None:
    ann.fetch()
    ann.acknowledge([(0, 9, [1, 2, 2, 1, 1, 2, 1, 1, 1, 1])])

    assert runs(ann.fetch()) == [(1, 2, 2), (5, 5, 2)]


# What is acknowledged


def test_acknowledgements_come_with_the_next_fetch(ann: Sharer, peer: Peer) -> None:
    ann.fetch()
    put(peer, ann.topic, 1)

    found = ann.fetch(acks=[(0, 9, [ACCEPT])])

    assert partition_of(found).acknowledge_error_code == Code.NONE
    assert runs(found) == [(10, 10, 1)]
    assert position(peer, ann.topic) == (10, 1)


def test_what_is_not_acquired_cannot_be_acknowledged_and_nothing_of_it_is(
    ann: Sharer, bob: Sharer, peer: Peer
) -> None:
    ann.fetch(max_records=5, mode=1)
    bob.fetch(max_records=5, mode=1)

    assert ack_code(ann.acknowledge([(0, 5, [ACCEPT])])) is Code.INVALID_RECORD_STATE
    assert position(peer, ann.topic) == (0, 10)
    assert ack_code(ann.acknowledge([(1, 3, [ACCEPT])])) is Code.NONE
    assert ack_code(ann.acknowledge([(1, 3, [ACCEPT])])) is Code.INVALID_RECORD_STATE


def test_who_comes_too_late_hears_of_it_also_if_all_before_is_settled(ann: Sharer) -> None:
    ann.fetch()
    ann.acknowledge([(0, 3, [ACCEPT])])

    assert ack_code(ann.acknowledge([(0, 3, [ACCEPT])])) is Code.INVALID_RECORD_STATE
    assert ack_code(ann.acknowledge([(3, 5, [ACCEPT])])) is Code.INVALID_RECORD_STATE


@pytest.mark.parametrize(
    "acks", [[(10, 10, [ACCEPT])], [(8, 20, [ACCEPT])], [(0, 0, [ACCEPT]), (100, 101, [0])]]
)
def test_of_what_was_never_fetched_nothing_can_be_said(
    ann: Sharer, peer: Peer, acks: list[tuple[int, int, list[int]]]
) -> None:
    ann.fetch()
    put(peer, ann.topic, 1)

    assert ack_code(ann.acknowledge(acks)) is Code.INVALID_REQUEST
    assert position(peer, ann.topic) == (0, 11)


@pytest.mark.parametrize(
    "acks",
    [
        [(5, 4, [ACCEPT])],
        [(-1, 0, [ACCEPT])],
        [(0, 1, [])],
        [(0, 3, [ACCEPT, ACCEPT])],
        [(0, 1, [5])],
        [(0, 1, [-1])],
        [(0, 1, [RENEW])],
        [(3, 4, [ACCEPT]), (0, 1, [ACCEPT])],
        [(0, 3, [ACCEPT]), (3, 4, [ACCEPT])],
    ],
)
def test_acknowledgements_that_mean_nothing_are_refused(
    ann: Sharer, acks: list[tuple[int, int, list[int]]]
) -> None:
    ann.fetch()

    assert ack_code(ann.acknowledge(acks)) is Code.INVALID_REQUEST


def test_a_range_of_all_offsets_there_are_is_refused_at_once(ann: Sharer) -> None:
    ann.fetch()

    answer = ann.acknowledge([(0, 2**62, [0])])

    assert ack_code(answer) is Code.INVALID_REQUEST


def test_gaps_are_no_mistake(ann: Sharer, peer: Peer) -> None:
    ann.fetch()

    assert ack_code(ann.acknowledge([(0, 1, [ACCEPT]), (2, 9, [0])])) is Code.NONE
    assert ack_code(ann.acknowledge([(0, 5, [0])])) is Code.NONE
    assert position(peer, ann.topic) == (10, 0)


def test_a_renewed_record_stays_with_its_member(ann: Sharer, bob: Sharer) -> None:
    ann.fetch()

    answer = ann.acknowledge([(0, 4, [RENEW]), (5, 9, [ACCEPT])], renews=True)

    assert (ack_code(answer), answer.acquisition_lock_timeout_ms) == (Code.NONE, 30_000)
    assert runs(bob.fetch()) == []
    fetched = ann.fetch(acks=[(0, 4, [RENEW])], renews=True, max_records=0, max_bytes=0)
    assert [each.partition_index for each in fetched.responses[0].partitions] == [0]
    assert partition_of(fetched).acknowledge_error_code == Code.NONE


def test_a_fetch_that_renews_asks_for_no_records(ann: Sharer) -> None:
    def renew(max_records: int, max_bytes: int, wait_ms: int) -> Code:
        answer = ann.fetch(
            acks=[(0, 4, [RENEW])],
            renews=True,
            max_records=max_records,
            max_bytes=max_bytes,
            wait_ms=wait_ms,
        )
        return code(answer)

    ann.fetch()

    for wrong in ((1, 0, 0), (0, 1, 0), (0, 0, 1)):
        assert renew(*wrong) is Code.INVALID_REQUEST
    assert renew(0, 0, 0) is Code.NONE, "the epoch of the session is as it was"


def test_an_acquire_mode_that_there_is_not_is_refused(ann: Sharer) -> None:
    assert code(ann.fetch(mode=2)) is code(ann.fetch(mode=-1)) is Code.INVALID_REQUEST


def test_renewing_can_be_turned_off(ann: Sharer, peer: Peer) -> None:
    ann.fetch()

    configure(peer, ann.topic, "share.renew.acknowledge.enable", "false")

    answer = ann.acknowledge([(0, 3, [ACCEPT]), (4, 4, [RENEW])], renews=True)
    assert ack_code(answer) is Code.INVALID_RECORD_STATE
    assert position(peer, ann.topic) == (0, 10)


def test_a_setting_that_is_removed_is_by_default_again(ann: Sharer, peer: Peer) -> None:
    lock = "share.record.lock.duration.ms"
    configure(peer, ann.topic, lock, "1234")
    assert ann.fetch().acquisition_lock_timeout_ms == 1_234

    configure(peer, ann.topic, lock, None)

    assert ann.fetch().acquisition_lock_timeout_ms == 30_000


def test_a_rejected_record_becomes_a_dead_letter(ann: Sharer, address: str) -> None:
    ann.fetch()

    ann.acknowledge([(0, 8, [ACCEPT]), (9, 9, [REJECT])])

    letters = Sharer(address, f"{ann.topic}.dead")
    assert letters.topic_id != bytes(16)
    letters.close()


# Sessions


def test_the_epoch_of_a_session_is_watched(ann: Sharer) -> None:
    assert code(ann.fetch(epoch=1)) is Code.SHARE_SESSION_NOT_FOUND
    ann.fetch()
    assert code(ann.fetch(epoch=7)) is Code.INVALID_SHARE_SESSION_EPOCH
    assert code(ann.acknowledge([(0, 0, [ACCEPT])], epoch=7)) is Code.INVALID_SHARE_SESSION_EPOCH
    assert code(ann.acknowledge([(0, 0, [ACCEPT])], epoch=0)) is Code.INVALID_SHARE_SESSION_EPOCH
    assert code(ann.fetch()) is Code.NONE


def test_who_takes_from_no_topic_is_told_the_time_of_its_group(ann: Sharer, peer: Peer) -> None:
    ann.topic_id = bytes(16)
    configure(peer, ann.topic, "share.record.lock.duration.ms", "20000")

    assert ann.fetch().acquisition_lock_timeout_ms == 20_000


def test_a_session_of_a_group_or_member_that_cannot_be_is_refused(address: str, topic: str) -> None:
    for group, member in ((topic, ""), (topic, "m" * 37), ("g" * 256, "ann")):
        sharer = Sharer(address, group, member)
        assert code(sharer.fetch(partitions=[])) is Code.INVALID_REQUEST
        sharer.close()


def test_a_new_session_has_nothing_to_acknowledge(ann: Sharer) -> None:
    assert code(ann.fetch(acks=[(0, 0, [ACCEPT])])) is Code.INVALID_REQUEST


def test_a_session_that_ends_gives_back_what_was_delivered_once(ann: Sharer, bob: Sharer) -> None:
    ann.fetch()

    ann.acknowledge([(0, 4, [ACCEPT])], epoch=END)

    assert runs(bob.fetch()) == [(5, 9, 2)]
    assert code(ann.fetch()) is Code.SHARE_SESSION_NOT_FOUND


def test_a_connection_that_is_lost_gives_back_what_may_have_failed(
    ann: Sharer, bob: Sharer
) -> None:
    ann.fetch()
    bob.send_fetch(wait_ms=60_000)

    ann.peer.reset()

    assert runs(bob.fetched()) == [(0, 9, 2)]


def test_a_partition_that_is_forgotten_is_not_taken_from(ann: Sharer, peer: Peer) -> None:
    ann.fetch(partitions=[0, 1])
    put(peer, ann.topic, 3, partition=1)

    assert runs(ann.fetch(partitions=[], forgotten=[1]), 1) == []
    assert runs(ann.fetch(partitions=[1]), 1) == [(0, 2, 1)]


def test_a_member_that_begins_anew_keeps_what_it_holds(ann: Sharer, bob: Sharer) -> None:
    ann.fetch()

    assert runs(ann.fetch(epoch=0, partitions=[1])) == runs(bob.fetch()) == []
    assert ack_code(ann.acknowledge([(0, 3, [ACCEPT])], epoch=1)) is Code.NONE
    ann.acknowledge([(4, 5, [ACCEPT])], epoch=END)
    assert runs(bob.fetch()) == [(6, 9, 2)]


def test_partitions_and_topics_that_are_not_there_are_named(ann: Sharer) -> None:
    found = ann.fetch(partitions=[0, 99])

    assert runs(found) == [(0, 9, 1)]
    assert partition_of(found, 99).error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    ann.topic_id = b"\xff" * 16
    answer = ann.acknowledge([(0, 0, [ACCEPT])])
    assert ack_code(answer) is Code.UNKNOWN_TOPIC_ID
    found = ann.fetch(partitions=[5])
    assert partition_of(found, 5).error_code == Code.UNKNOWN_TOPIC_ID


def test_who_never_joined_takes_nothing(address: str, peer: Peer) -> None:
    put(peer, "unshared", 1)
    stranger = Sharer(address, "unshared")

    found = stranger.fetch()

    assert partition_of(found).error_code == Code.GROUP_ID_NOT_FOUND
    stranger.close()


# Members


def test_members_join_stay_and_leave(ann: Sharer, topic: str, peer: Peer) -> None:
    first = ann.beat(epoch=0, topics=[topic])
    assert first.assignment is not None
    (assigned,) = first.assignment.topic_partitions
    assert (assigned.topic_id, list(assigned.partitions)) == (ann.topic_id, [0, 1, 2, 3])
    assert first.heartbeat_interval_ms == 5_000
    assert ann.beat().assignment is None
    assert described(peer, topic) == ("Stable", ["ann"])
    assert ann.beat(epoch=END).member_epoch == -1
    assert described(peer, topic) == ("Empty", [])
    assert code(ann.beat(epoch=1)) is Code.UNKNOWN_MEMBER_ID


def described(peer: Peer, name: str) -> tuple[str, list[str]]:
    asked = ShareGroupDescribeRequest((name,))
    (group,) = peer.ask(SHARE_GROUP_DESCRIBE, 1, asked, ShareGroupDescribeResponse).groups
    return group.group_state, [each.member_id for each in group.members]


def test_a_member_of_another_epoch_is_fenced(ann: Sharer, topic: str) -> None:
    was = ann.epoch

    ann.beat(topics=[topic, "later"])

    assert code(ann.beat(epoch=was + 5)) is Code.FENCED_MEMBER_EPOCH
    assert code(ann.beat(epoch=was)) is Code.NONE, "it may not have got the answer"


@pytest.mark.parametrize(
    ("member", "epoch", "topics"),
    [
        ("", 0, ["t"]),
        ("  ", 0, ["t"]),
        ("m" * 37, 0, ["t"]),
        ("ann", 0, None),
        ("ann", -2, None),
    ],
)
def test_heartbeats_that_mean_nothing_are_refused(
    address: str, member: str, epoch: int, topics: list[str] | None
) -> None:
    sharer = Sharer(address, "nothing", member)

    assert code(sharer.beat(epoch=epoch, topics=topics)) is Code.INVALID_REQUEST
    sharer.close()


@pytest.mark.parametrize(("group", "rack"), [("  ", None), ("", None), ("nothing", "")])
def test_a_group_without_a_name_and_an_empty_rack_are_refused(
    peer: Peer, group: str, rack: str | None
) -> None:
    body = ShareGroupHeartbeatRequest(group, "ann", 0, rack, ("t",))

    answer = peer.ask(SHARE_GROUP_HEARTBEAT, 1, body, ShareGroupHeartbeatResponse)

    assert code(answer) is Code.INVALID_REQUEST


def test_a_topic_that_comes_later_is_taken_from_its_beginning(address: str, peer: Peer) -> None:
    sharer = Sharer(address, "comes.later")
    sharer.beat(epoch=0, topics=["comes.later"])
    put(peer, "comes.later", 3)

    told = sharer.beat()

    assert told.assignment is not None
    sharer.topic_id = told.assignment.topic_partitions[0].topic_id
    assert runs(sharer.fetch()) == [(0, 2, 1)]
    sharer.close()


def test_a_group_begins_at_the_latest_unless_it_is_told_otherwise(address: str, peer: Peer) -> None:
    put(peer, "latest", 5)
    sharer = Sharer(address, "latest").joined()
    put(peer, "latest", 1)

    assert runs(sharer.fetch()) == [(5, 5, 1)]
    sharer.close()


# Looking after them


def position(peer: Peer, name: str, partition: int = 0) -> tuple[int, int]:
    """Return where a group starts in a partition, and how much is left."""
    asked = DescribeShareGroupOffsetsRequest((ShareOffsetsGroup(name, None),))
    api = DESCRIBE_SHARE_GROUP_OFFSETS
    (group,) = peer.ask(api, 1, asked, DescribeShareGroupOffsetsResponse).groups
    (topic,) = group.topics
    return topic.partitions[partition].start_offset, topic.partitions[partition].lag


def test_groups_are_listed_by_type_and_state(ann: Sharer, peer: Peer) -> None:
    def names(states: tuple[str, ...], types: tuple[str, ...]) -> list[str]:
        asked = ListGroupsRequest(states, types)
        found = peer.ask(LIST_GROUPS, 5, asked, ListGroupsResponse).groups
        return [each.group_id for each in found if each.group_id == ann.topic]

    assert names((), ("share",)) == names(("Stable",), ()) == names((), ()) == [ann.topic]
    assert names((), ("classic",)) == names(("Empty",), ("share",)) == []


def test_a_group_without_members_is_moved_and_forgotten(ann: Sharer, peer: Peer) -> None:
    assert moved(peer, ann.topic, 4) is Code.NON_EMPTY_GROUP
    assert deleted(peer, ann.topic) is Code.NON_EMPTY_GROUP
    ann.fetch()
    ann.fetch(acks=[(0, 9, [ACCEPT])], epoch=END)
    ann.beat(epoch=END)

    assert moved(peer, ann.topic, 4) is Code.NONE
    assert position(peer, ann.topic) == (4, 6)
    assert moved(peer, ann.topic, 11) is Code.OFFSET_OUT_OF_RANGE
    assert forgotten(peer, ann.topic, "no.such.topic") is Code.UNKNOWN_TOPIC_OR_PARTITION
    assert forgotten(peer, ann.topic, ann.topic) is Code.NONE
    assert forgotten(peer, ann.topic, ann.topic) is Code.GROUP_ID_NOT_FOUND


def test_a_group_is_deleted_with_all_it_knows(ann: Sharer, peer: Peer) -> None:
    ann.beat(epoch=END)

    assert deleted(peer, ann.topic) is Code.NONE
    assert deleted(peer, ann.topic) is Code.GROUP_ID_NOT_FOUND


def test_a_queue_and_a_group_of_one_name_are_deleted_together(ann: Sharer, peer: Peer) -> None:
    ann.beat(epoch=END)
    place = CommitTopic(name=ann.topic, partitions=(CommitPartition(0, 1),))
    wish = OffsetCommitRequest(ann.topic, topics=(place,))
    committed = peer.ask(OFFSET_COMMIT, 8, wish, OffsetCommitResponse)
    assert Code(committed.topics[0].partitions[0].error_code) is Code.NONE

    assert deleted(peer, ann.topic) is Code.NONE

    listed = peer.ask(LIST_GROUPS, 5, ListGroupsRequest(), ListGroupsResponse).groups
    assert ann.topic not in [each.group_id for each in listed]


def moved(peer: Peer, name: str, offset: int) -> Code:
    topic = AlterShareOffsetsTopic(name, (AlterShareOffset(0, offset),))
    asked = AlterShareGroupOffsetsRequest(name, (topic,))
    answer = peer.ask(ALTER_SHARE_GROUP_OFFSETS, 0, asked, AlterShareGroupOffsetsResponse)
    return Code(answer.error_code or answer.responses[0].partitions[0].error_code)


def forgotten(peer: Peer, group: str, topic: str) -> Code:
    asked = DeleteShareGroupOffsetsRequest(group, (DeleteShareOffsetsTopic(topic),))
    answer = peer.ask(DELETE_SHARE_GROUP_OFFSETS, 0, asked, DeleteShareGroupOffsetsResponse)
    return Code(answer.error_code or answer.responses[0].error_code)


def deleted(peer: Peer, group: str) -> Code:
    answer = peer.ask(DELETE_GROUPS, 2, DeleteGroupsRequest((group,)), DeleteGroupsResponse)
    return Code(answer.results[0].error_code)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("share.auto.offset.reset", "yesterday"),
        ("share.auto.offset.reset", "by_duration:P"),
        ("share.isolation.level", "serializable"),
        ("share.delivery.count.limit", "1"),
        ("share.delivery.count.limit", "00"),
        ("mainstem.share.acquire.mode", "strictly"),
        ("share.record.lock.duration.ms", "0"),
        ("share.session.timeout.ms", "5000"),
    ],
)
def test_settings_that_mean_nothing_are_refused(peer: Peer, name: str, value: str) -> None:
    assert configure(peer, "settings", name, value) is Code.INVALID_CONFIG


def test_a_switch_is_shown_as_one(peer: Peer) -> None:
    def shown(group: str) -> DescribedConfigs:
        body = DescribeConfigsRequest((DescribeConfigsResource(32, group, None),))
        return peer.ask(DESCRIBE_CONFIGS, 4, body, DescribeConfigsResponse).results[0]

    types = {each.name: each.config_type for each in shown("settings").configs}

    assert types["share.renew.acknowledge.enable"] == Type.BOOLEAN
    assert types["share.session.timeout.ms"] == Type.INT
    assert types["share.isolation.level"] == Type.TEXT
    assert code(shown("")) is Code.INVALID_REQUEST


def test_other_settings_hold_from_the_next_heartbeat_on(ann: Sharer, peer: Peer) -> None:
    ann.fetch()
    configure(peer, ann.topic, "share.record.lock.duration.ms", "1000")

    ann.beat()

    found = ann.acknowledge([(0, 1, [RELEASE])])
    assert found.acquisition_lock_timeout_ms == 1_000
    again = ann.fetch()
    assert (runs(again), again.acquisition_lock_timeout_ms) == ([(0, 1, 2)], 1_000)
    until(lambda: runs(ann.fetch(wait_ms=5_000)) == [(0, 1, 3)], lambda: None)
