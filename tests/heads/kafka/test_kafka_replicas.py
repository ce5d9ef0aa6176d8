"""Elections, reassignments, directories and the quorum of one broker, over a real socket."""

from collections.abc import Iterator

import pytest
from tests.heads.kafka.raw_peers import Peer, produce, served

from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages.log_dirs import (
    DESCRIBE_LOG_DIRS,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from mainstem.kafka_protocol.messages.quorum import (
    DESCRIBE_QUORUM,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    QuorumPartitionNumber,
    QuorumTopicName,
)
from mainstem.kafka_protocol.messages.replicas import (
    ALTER_PARTITION_REASSIGNMENTS,
    ALTER_REPLICA_LOG_DIRS,
    ELECT_LEADERS,
    LIST_PARTITION_REASSIGNMENTS,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    ElectionTopic,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
    ReplicaDir,
    ReplicaDirTopic,
)

NODE = 1
MISSING = Code.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """A client of a server that has a topic of four partitions."""
    with served(tmp_path_factory.mktemp("served")) as address, Peer(address) as found:
        assert produce(found, "t", bytes(build([Event(value=b"v")], now_ms=1))).index == 0
        yield found


@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_partition_has_its_leader_already(peer: Peer, version: int) -> None:
    wish = ElectLeadersRequest(topic_partitions=(ElectionTopic("t", (0, 3, 4)),))

    answer = peer.ask(ELECT_LEADERS, version, wish, ElectLeadersResponse)

    (topic,) = answer.replica_election_results
    assert topic.topic == "t"
    assert [(each.partition_index, each.error_code) for each in topic.partitions] == [
        (0, Code.ELECTION_NOT_NEEDED),
        (3, Code.ELECTION_NOT_NEEDED),
        (4, MISSING),
    ]


def test_of_all_partitions_none_needs_an_election(peer: Peer) -> None:
    answer = peer.ask(
        ELECT_LEADERS, 2, ElectLeadersRequest(topic_partitions=None), ElectLeadersResponse
    )

    assert (answer.error_code, len(answer.replica_election_results)) == (0, 0)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    ("partition", "replicas", "code"),
    [
        (0, (NODE,), Code.NONE),
        (0, (NODE + 1,), Code.INVALID_REPLICA_ASSIGNMENT),
        (0, (NODE, NODE + 1), Code.INVALID_REPLICA_ASSIGNMENT),
        (0, (), Code.INVALID_REPLICA_ASSIGNMENT),
        (0, None, Code.NO_REASSIGNMENT_IN_PROGRESS),
        (4, (NODE,), MISSING),
    ],
)
def test_partitions_may_be_assigned_to_where_they_are(
    peer: Peer, version: int, partition: int, replicas: tuple[int, ...] | None, code: Code
) -> None:
    place = ReassignablePartition(partition, replicas)
    wish = AlterPartitionReassignmentsRequest(topics=(ReassignableTopic("t", (place,)),))

    answer = peer.ask(
        ALTER_PARTITION_REASSIGNMENTS, version, wish, AlterPartitionReassignmentsResponse
    )

    (found,) = answer.responses[0].partitions
    assert (answer.error_code, found.partition_index, found.error_code) == (0, partition, code)
    assert (found.error_message is None) == (code is Code.NONE)


def test_nothing_is_being_reassigned(peer: Peer) -> None:
    answer = peer.ask(
        LIST_PARTITION_REASSIGNMENTS,
        0,
        ListPartitionReassignmentsRequest(),
        ListPartitionReassignmentsResponse,
    )

    assert (answer.error_code, len(answer.topics)) == (0, 0)


@pytest.mark.parametrize("version", [1, 2])
def test_partitions_may_be_moved_into_the_only_directory(peer: Peer, version: int) -> None:
    described = peer.ask(
        DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest(None), DescribeLogDirsResponse
    )
    here = described.results[0].log_dir
    dirs = (
        ReplicaDir(here, (ReplicaDirTopic("t", (0, 4)),)),
        ReplicaDir("/elsewhere", (ReplicaDirTopic("t", (1,)),)),
    )

    answer = peer.ask(
        ALTER_REPLICA_LOG_DIRS,
        version,
        AlterReplicaLogDirsRequest(dirs),
        AlterReplicaLogDirsResponse,
    )

    found = [(p.partition_index, p.error_code) for t in answer.results for p in t.partitions]
    assert found == [(0, 0), (4, MISSING), (1, Code.LOG_DIR_NOT_FOUND)]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_broker_is_the_only_voter(peer: Peer, version: int) -> None:
    topics = (
        QuorumTopicName("__cluster_metadata", (QuorumPartitionNumber(0),)),
        QuorumTopicName("t", (QuorumPartitionNumber(0),)),
    )

    answer = peer.ask(
        DESCRIBE_QUORUM, version, DescribeQuorumRequest(topics), DescribeQuorumResponse
    )

    metadata, other = (each.partitions[0] for each in answer.topics)
    assert (answer.error_code, metadata.error_code, metadata.leader_id) == (0, 0, NODE)
    assert [each.replica_id for each in metadata.current_voters] == [NODE]
    assert metadata.high_watermark == metadata.current_voters[0].log_end_offset > 0
    assert [each.node_id for each in answer.nodes] == ([NODE] if version == 2 else [])
    assert other.error_code == MISSING
