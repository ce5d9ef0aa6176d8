"""Share groups as an administrator sees them: listed, moved, and deleted."""

from tests.heads.kafka.raw_peers import Peer
from tests.heads.kafka.share.groups import deleted, forgotten, moved, position
from tests.heads.kafka.share_member import ACCEPT, END, Sharer

from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages.commits import (
    OFFSET_COMMIT,
    CommitPartition,
    CommitTopic,
    OffsetCommitRequest,
    OffsetCommitResponse,
)
from mainstem.kafka_protocol.messages.groups import (
    LIST_GROUPS,
    ListGroupsRequest,
    ListGroupsResponse,
)


def test_groups_are_listed_by_type_and_state(ann: Sharer, peer: Peer) -> None:
    def names(states: tuple[str, ...], types: tuple[str, ...]) -> list[str]:
        asked = ListGroupsRequest(states, types)
        found = peer.ask(LIST_GROUPS, 5, asked, ListGroupsResponse).groups
        return [each.group_id for each in found if each.group_id == ann.topic]

    assert names((), ("share",)) == names(("Stable",), ()) == names((), ()) == [ann.topic]
    assert names((), ("classic",)) == names(("Empty",), ("share",)) == []


def test_a_group_without_members_is_moved_and_forgotten(ann: Sharer, peer: Peer) -> None:
    name = ann.topic
    assert moved(peer, name, name, {0: 4}) is Code.NON_EMPTY_GROUP
    assert deleted(peer, name) is Code.NON_EMPTY_GROUP
    ann.fetch()
    ann.fetch(acks=[(0, 9, [ACCEPT])], epoch=END)
    ann.beat(epoch=END)

    assert moved(peer, name, name, {0: 4}) == {0: Code.NONE}
    assert position(peer, name) == (4, 6)
    assert moved(peer, name, name, {0: 11}) == {0: Code.OFFSET_OUT_OF_RANGE}
    unknown = Code.UNKNOWN_TOPIC_OR_PARTITION
    assert forgotten(peer, name, "no.such.topic") == {"no.such.topic": unknown}
    assert forgotten(peer, name, name) == {name: Code.NONE}
    assert forgotten(peer, name, name) is Code.GROUP_ID_NOT_FOUND


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
