"""ListOffsets, sent straight to the partition leaders.

Librdkafka asks for metadata before each such question and takes some milliseconds; a planner that
asks a hundred times a second, or searches for a moment, has no time for that.
"""

from collections.abc import Mapping
from struct import Struct

from confluent_kafka import KafkaError

from mainstem.core.errors import Unreachable
from mainstem.remote.admin import Place
from mainstem.remote.connection import Answer, Connection, array, string
from mainstem.remote.leaders import Leaders

_LIST_OFFSETS, _VERSION = 2, 4
_REQUEST = Struct(">ib")
_PARTITION = Struct(">iiq")
_NO_REPLICA, _NO_EPOCH = -1, -1
_READ_COMMITTED = 1

Listed = dict[Place, tuple[int, int]]
"""Offset, or -1 if all is before that time, and leader epoch."""


def list_offsets(leaders: Leaders, *asked: Mapping[Place, int]) -> list[Listed]:
    """Answer some questions at once: partitions and times (-2: the begin, -1: the committed end).

    Raises Unreachable, also if a partition is not there or is led by somebody else by now: then
    ask in another way, which explains it.
    """
    sent: list[tuple[int, Connection]] = []
    for number, wanted in enumerate(asked):
        for connection, places in _by_connection(leaders, wanted).items():
            connection.send(_LIST_OFFSETS, _VERSION, _request(places))
            sent.append((number, connection))
    found: list[Listed] = [{} for _ in asked]
    for number, connection in sent:
        found[number] |= _read(connection.receive(), connection.address)
    return found


def _by_connection(
    leaders: Leaders, wanted: Mapping[Place, int]
) -> dict[Connection, dict[Place, int]]:
    found: dict[Connection, dict[Place, int]] = {}
    for place, moment in wanted.items():
        found.setdefault(leaders.connection(place), {})[place] = moment
    return found


def _request(wanted: Mapping[Place, int]) -> bytes:
    topics: dict[str, list[bytes]] = {}
    for (topic, partition), moment in wanted.items():
        topics.setdefault(topic, []).append(_PARTITION.pack(partition, _NO_EPOCH, moment))
    return _REQUEST.pack(_NO_REPLICA, _READ_COMMITTED) + array(
        string(topic) + array(partitions) for topic, partitions in topics.items()
    )


def _read(answer: Answer, address: str) -> Listed:
    answer.int32()
    found: Listed = {}
    for topic, partitions in answer.array(lambda: _topic(answer)):
        for partition, code, offset, epoch in partitions:
            if code:
                raise Unreachable(address, KafkaError(code).str())
            found[topic, partition] = (offset, epoch)
    return found


def _topic(answer: Answer) -> tuple[str, list[tuple[int, int, int, int]]]:
    return answer.string(), answer.array(lambda: _partition(answer))


def _partition(answer: Answer) -> tuple[int, int, int, int]:
    partition, code = answer.int32(), answer.int16()
    answer.int64()
    return partition, code, answer.int64(), answer.int32()
