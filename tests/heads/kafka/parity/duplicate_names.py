"""Scenarios of requests that name one thing twice."""

from collections.abc import Iterator

from tests.heads.kafka.parity.compared_server import Said, Side, unlike
from tests.heads.kafka.parity.group_admin import commit

from mainstem.kafka_protocol.messages import commits, consumer_groups
from mainstem.kafka_protocol.messages.groups import (
    DESCRIBE_GROUPS,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from mainstem.kafka_protocol.messages.producers import (
    DESCRIBE_PRODUCERS,
    DESCRIBE_TRANSACTIONS,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ProducersTopic,
)


@unlike("what is named twice is told once, as there it makes gigabytes of a small request")
def things_named_twice(side: Side) -> Iterator[Said]:
    group = side.group()
    commit(side, group, 1)
    twice = (group, group)
    groups = side.ask(DESCRIBE_GROUPS, DescribeGroupsRequest(twice), DescribeGroupsResponse)
    yield "groups", len(groups.groups)
    described = consumer_groups.ConsumerGroupDescribeRequest(twice)
    consumers = side.ask(
        consumer_groups.CONSUMER_GROUP_DESCRIBE,
        described,
        consumer_groups.ConsumerGroupDescribeResponse,
    )
    yield "consumer groups", len(consumers.groups)
    ids = DescribeTransactionsRequest(twice)
    transactions = side.ask(DESCRIBE_TRANSACTIONS, ids, DescribeTransactionsResponse)
    yield "transactions", len(transactions.transaction_states)
    places = DescribeProducersRequest([ProducersTopic(side.one.name, (0, 0))])
    producers = side.ask(DESCRIBE_PRODUCERS, places, DescribeProducersResponse)
    yield "producers", len(producers.topics[0].partitions)
    wishes = commits.OffsetFetchRequest([commits.OffsetFetchGroup(group, topics=None)] * 2)
    yield (
        "cursors of a group",
        len(side.ask(commits.OFFSET_FETCH, wishes, commits.OffsetFetchResponse).groups),
    )
    numbers = [commits.OffsetFetchTopic(side.one.id, partition_indexes=(0, 0))]
    wishes = commits.OffsetFetchRequest([commits.OffsetFetchGroup(group, topics=numbers)])
    cursors = side.ask(commits.OFFSET_FETCH, wishes, commits.OffsetFetchResponse)
    yield "a cursor", len(cursors.groups[0].topics[0].partitions)
