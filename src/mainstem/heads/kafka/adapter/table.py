"""Every API that is served, with the versions it is served in: ApiVersions is this table."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from mainstem.auth import CLUSTER, Action
from mainstem.core.errors import MainstemError
from mainstem.heads.kafka.adapter import (
    acls,
    api_versions,
    consumer_groups,
    coordinator,
    cursors,
    describe_configs,
    epochs,
    fetch,
    groups,
    list_offsets,
    log_dirs,
    membership,
    metadata,
    produce,
    producers,
    replicas,
    share_fetch,
    share_groups,
    share_offsets,
    topic_partitions,
    topics,
    transactions,
)
from mainstem.heads.kafka.adapter.errors import code_of
from mainstem.heads.kafka.adapter.service import Asked, Reply
from mainstem.kafka_protocol.fields import Wire
from mainstem.kafka_protocol.messages.configs import ListConfigResourcesResponse
from mainstem.kafka_protocol.messages.log_dirs import DescribeLogDirsResponse
from mainstem.kafka_protocol.messages.replicas import (
    AlterPartitionReassignmentsResponse,
    DescribeQuorumResponse,
    ElectLeadersResponse,
    ListPartitionReassignmentsResponse,
)

W = TypeVar("W", bound=Wire)


class Served(NamedTuple):
    """An API: its versions, and who answers it."""

    first: int
    last: int
    answer: Callable[..., None]


def _served(first: int, last: int, answer: Callable[[Asked, W, Reply], None]) -> Served:
    return Served(first, last, answer)


def _of_cluster(
    action: Action, answer: Callable[[Asked, W, Reply], None], refused: Callable[..., Wire]
) -> Callable[[Asked, W, Reply], None]:
    """Ask for a right on the server first, as the answer does not come from the broker."""

    def asking(asked: Asked, request: W, reply: Reply) -> None:
        try:
            asked.service.may(action, CLUSTER)
        except MainstemError as error:
            reply(refused(error_code=code_of(error)))
            return
        answer(asked, request, reply)

    return asking


SERVED: dict[int, Served] = {
    0: _served(produce.FIRST, produce.LAST, produce.answer),
    1: _served(fetch.FIRST, fetch.LAST, fetch.answer),
    2: _served(list_offsets.FIRST, list_offsets.LAST, list_offsets.answer),
    3: _served(metadata.FIRST, metadata.LAST, metadata.answer),
    8: _served(cursors.COMMIT_FIRST, cursors.COMMIT_LAST, cursors.commit),
    9: _served(cursors.FETCH_FIRST, cursors.FETCH_LAST, cursors.fetch),
    10: _served(coordinator.FIRST, coordinator.LAST, coordinator.answer),
    11: _served(membership.JOIN_FIRST, membership.JOIN_LAST, membership.join),
    12: _served(membership.HEARTBEAT_FIRST, membership.HEARTBEAT_LAST, membership.heartbeat),
    13: _served(membership.LEAVE_FIRST, membership.LEAVE_LAST, membership.leave),
    14: _served(membership.SYNC_FIRST, membership.SYNC_LAST, membership.sync),
    15: _served(groups.DESCRIBE_FIRST, groups.DESCRIBE_LAST, groups.describe),
    16: _served(groups.LIST_FIRST, groups.LIST_LAST, groups.list_all),
    18: _served(api_versions.FIRST, api_versions.LAST, api_versions.answer),
    19: _served(topics.CREATE_FIRST, topics.CREATE_LAST, topics.create),
    20: _served(topics.DELETE_FIRST, topics.DELETE_LAST, topics.delete),
    21: _served(list_offsets.DELETE_FIRST, list_offsets.DELETE_LAST, list_offsets.delete_records),
    22: _served(transactions.INIT_FIRST, transactions.INIT_LAST, transactions.begin),
    23: _served(epochs.FIRST, epochs.LAST, epochs.answer),
    24: _served(
        transactions.ADD_PARTITIONS_FIRST,
        transactions.ADD_PARTITIONS_LAST,
        transactions.add_partitions,
    ),
    25: _served(
        transactions.ADD_OFFSETS_FIRST, transactions.ADD_OFFSETS_LAST, transactions.add_offsets
    ),
    26: _served(transactions.END_FIRST, transactions.END_LAST, transactions.end),
    28: _served(transactions.COMMIT_FIRST, transactions.COMMIT_LAST, transactions.commit),
    29: _served(acls.FIRST, acls.LAST, acls.describe),
    30: _served(acls.FIRST, acls.LAST, acls.create),
    31: _served(acls.FIRST, acls.LAST, acls.delete),
    32: _served(
        describe_configs.DESCRIBE_FIRST, describe_configs.DESCRIBE_LAST, describe_configs.describe
    ),
    33: _served(describe_configs.ALTER_FIRST, describe_configs.ALTER_LAST, describe_configs.alter),
    34: _served(replicas.DIRS_FIRST, replicas.DIRS_LAST, replicas.alter_dirs),
    35: _served(
        log_dirs.FIRST,
        log_dirs.LAST,
        _of_cluster(Action.DESCRIBE, log_dirs.answer, DescribeLogDirsResponse),
    ),
    37: _served(topics.GROW_FIRST, topics.GROW_LAST, topics.grow),
    42: _served(groups.DELETE_FIRST, groups.DELETE_LAST, groups.delete),
    43: _served(
        replicas.ELECT_FIRST,
        replicas.ELECT_LAST,
        _of_cluster(Action.ALTER, replicas.elect, ElectLeadersResponse),
    ),
    44: _served(
        describe_configs.INCREMENTAL_FIRST,
        describe_configs.INCREMENTAL_LAST,
        describe_configs.alter_some,
    ),
    45: _served(
        replicas.REASSIGN_FIRST,
        replicas.REASSIGN_LAST,
        _of_cluster(
            Action.ALTER,
            replicas.reassign,
            AlterPartitionReassignmentsResponse,
        ),
    ),
    46: _served(
        replicas.REASSIGNMENTS_FIRST,
        replicas.REASSIGNMENTS_LAST,
        _of_cluster(
            Action.DESCRIBE,
            replicas.reassignments,
            ListPartitionReassignmentsResponse,
        ),
    ),
    47: _served(cursors.DELETE_FIRST, cursors.DELETE_LAST, cursors.delete),
    55: _served(
        replicas.QUORUM_FIRST,
        replicas.QUORUM_LAST,
        _of_cluster(Action.DESCRIBE, replicas.quorum, DescribeQuorumResponse),
    ),
    60: _served(metadata.CLUSTER_FIRST, metadata.CLUSTER_LAST, metadata.cluster),
    61: _served(producers.PRODUCERS_FIRST, producers.PRODUCERS_LAST, producers.describe_producers),
    65: _served(producers.DESCRIBE_FIRST, producers.DESCRIBE_LAST, producers.describe),
    66: _served(producers.LIST_FIRST, producers.LIST_LAST, producers.list_all),
    68: _served(
        consumer_groups.HEARTBEAT_FIRST,
        consumer_groups.HEARTBEAT_LAST,
        consumer_groups.heartbeat,
    ),
    69: _served(
        consumer_groups.DESCRIBE_FIRST, consumer_groups.DESCRIBE_LAST, consumer_groups.describe
    ),
    74: _served(
        describe_configs.LIST_FIRST,
        describe_configs.LIST_LAST,
        _of_cluster(
            Action.DESCRIBE,
            describe_configs.list_all,
            ListConfigResourcesResponse,
        ),
    ),
    75: _served(topic_partitions.FIRST, topic_partitions.LAST, topic_partitions.answer),
    76: _served(share_groups.HEARTBEAT_FIRST, share_groups.HEARTBEAT_LAST, share_groups.heartbeat),
    77: _served(share_groups.DESCRIBE_FIRST, share_groups.DESCRIBE_LAST, share_groups.describe),
    78: _served(share_fetch.FETCH_FIRST, share_fetch.FETCH_LAST, share_fetch.fetch),
    79: _served(
        share_fetch.ACKNOWLEDGE_FIRST, share_fetch.ACKNOWLEDGE_LAST, share_fetch.acknowledge_only
    ),
    90: _served(share_offsets.DESCRIBE_FIRST, share_offsets.DESCRIBE_LAST, share_offsets.describe),
    91: _served(share_offsets.ALTER_FIRST, share_offsets.ALTER_LAST, share_offsets.alter),
    92: _served(share_offsets.DELETE_FIRST, share_offsets.DELETE_LAST, share_offsets.delete),
}
