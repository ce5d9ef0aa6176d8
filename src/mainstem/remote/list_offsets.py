"""ListOffsets, sent straight to the partition leaders.

librdkafka requests metadata before each ListOffsets, which takes milliseconds; that is too slow for
a planner that needs offsets a hundred times a second.
"""

from collections.abc import Mapping

from confluent_kafka import KafkaError

from mainstem.core.errors import Unreachable
from mainstem.kafka_protocol.messages.offsets import (
    LIST_OFFSETS,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from mainstem.remote.admin import Place
from mainstem.remote.connection import Connection
from mainstem.remote.leaders import Leaders

_VERSION = 4
_READ_COMMITTED = 1

Listed = dict[Place, tuple[int, int]]
"""For each partition: offset (-1 if there is none at or after that time), and leader epoch."""


def list_offsets(leaders: Leaders, *asked: Mapping[Place, int]) -> list[Listed]:
    """List offsets by timestamp, several requests at once (-2: the start, -1: the committed end).

    Raises Unreachable, also if a partition does not exist or has another leader by now: then use
    librdkafka, which reports the reason.
    """
    sent: list[tuple[int, Connection]] = []
    for number, wanted in enumerate(asked):
        for connection, places in _by_connection(leaders, wanted).items():
            connection.send(LIST_OFFSETS, _VERSION, _request(places))
            sent.append((number, connection))
    found: list[Listed] = [{} for _ in asked]
    for number, connection in sent:
        found[number] |= _read(connection.receive(ListOffsetsResponse), connection.address)
    return found


def _by_connection(
    leaders: Leaders, wanted: Mapping[Place, int]
) -> dict[Connection, dict[Place, int]]:
    found: dict[Connection, dict[Place, int]] = {}
    for place, moment in wanted.items():
        found.setdefault(leaders.connection(place), {})[place] = moment
    return found


def _request(wanted: Mapping[Place, int]) -> ListOffsetsRequest:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for (topic, partition), timestamp in wanted.items():
        asked = ListOffsetsPartition(partition, timestamp=timestamp)
        topics.setdefault(topic, []).append(asked)
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=_READ_COMMITTED,
        topics=tuple(ListOffsetsTopic(name, tuple(asked)) for name, asked in topics.items()),
    )


def _read(response: ListOffsetsResponse, address: str) -> Listed:
    found: Listed = {}
    for topic in response.topics:
        for each in topic.partitions:
            if each.error_code:
                raise Unreachable(address, KafkaError(each.error_code).str())
            found[topic.name, each.partition_index] = (each.offset, each.leader_epoch)
    return found
