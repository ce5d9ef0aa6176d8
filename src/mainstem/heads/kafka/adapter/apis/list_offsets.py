"""ListOffsets, versions 1 to 11: offsets by timestamp, and both ends of the log."""

from collections.abc import Callable
from functools import cache

from mainstem.broker.door import Door, TimedOffset
from mainstem.core.errors import MainstemError
from mainstem.heads.kafka.adapter.errors import code_of
from mainstem.heads.kafka.adapter.fetching.leader_epochs import compare
from mainstem.heads.kafka.adapter.partitions import each_partition
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.service import Asked, Reply
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import offsets as messages

_LATEST, _EARLIEST, _OF_LATEST_TIME, _EARLIEST_HERE = -1, -2, -3, -4
_ELSEWHERE = (-5, -6)
"""Special timestamps for offsets in tiered storage, which does not exist here."""
_SINCE = {_OF_LATEST_TIME: 7, _EARLIEST_HERE: 8, -5: 9, -6: 11}
"""The first version of ListOffsets that supports each special (negative) timestamp."""
_NO_VERSION = 2**15
_END_OF_TIME = 2**63 - 1
_READ_COMMITTED = 1


@serves(messages.LIST_OFFSETS, 1, 11)
def answer(asked: Asked, request: messages.ListOffsetsRequest, reply: Reply) -> None:
    """Return the offset for a timestamp, or an end of the log, per partition."""
    committed = request.isolation_level == _READ_COMMITTED
    version, broker = asked.header.api_version, asked.service.broker

    # A search by timestamp is expensive, so repeated partitions in a request are limited.
    @cache
    def search(topic: str, number: int, time: int) -> TimedOffset | None:
        time_ms = _latest_time(broker, topic, number) if time == _OF_LATEST_TIME else time
        return broker.offset_at(topic, number, time_ms)

    def listed(topic: str, each: messages.ListOffsetsPartition) -> messages.ListedOffset:
        time = each.timestamp
        if time < _EARLIEST and version < _SINCE.get(time, _NO_VERSION):
            return messages.ListedOffset(each.partition_index, Code.UNSUPPORTED_VERSION)
        return _listed(broker, topic, each, committed, search)

    reply(messages.ListOffsetsResponse(topics=each_partition(request.topics, listed)))


def _listed(
    broker: Door,
    topic: str,
    asked: messages.ListOffsetsPartition,
    committed: bool,
    search: Callable[[str, int, int], TimedOffset | None],
) -> messages.ListedOffset:
    number = asked.partition_index
    try:
        bounds = broker.bounds(topic, number)
        code = compare(asked.current_leader_epoch, bounds.epoch)
        if code or asked.timestamp in _ELSEWHERE:
            return messages.ListedOffset(number, code)
        # For read_committed the end is the last stable offset.
        end = broker.transactions.stable(topic, number) if committed else bounds.tail
        if asked.timestamp == _LATEST:
            return messages.ListedOffset(number, 0, -1, end, bounds.epoch)
        if asked.timestamp in (_EARLIEST, _EARLIEST_HERE):
            return messages.ListedOffset(number, 0, -1, bounds.start, bounds.epoch)
        found = search(topic, number, asked.timestamp)
    except MainstemError as error:
        return messages.ListedOffset(number, code_of(error))
    if found is None or found.offset >= end:
        return messages.ListedOffset(number)
    return messages.ListedOffset(number, 0, found.timestamp_ms, found.offset, bounds.epoch)


def _latest_time(broker: Door, topic: str, number: int) -> int:
    """Find a partition's latest timestamp by binary search; its last event may have another."""
    latest, none_from = -1, _END_OF_TIME
    while latest + 1 < none_from:
        middle = (latest + 1 + none_from) // 2
        found = broker.offset_at(topic, number, middle)
        if found is None:
            none_from = middle
        else:
            latest = found.timestamp_ms
    return max(latest, 0)
