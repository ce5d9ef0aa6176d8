"""Committed offsets in requests: what OffsetCommit, OffsetFetch and TxnOffsetCommit share."""

from collections.abc import Sequence

from mainstem.broker.door import Cursor, TopicPartition
from mainstem.core.errors import GroupIsLive, MainstemError
from mainstem.heads.kafka.adapter.errors import code_in
from mainstem.heads.kafka.adapter.service import Asked
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.fields import NO_ID
from mainstem.kafka_protocol.messages.commits import CommitPartition, CommitTopic
from mainstem.kafka_protocol.messages.transactions import TxnCommitPartition, TxnCommitTopic

_MAX_METADATA = 4096
"""Maximum size of an offset's metadata; Kafka's default of offset.metadata.max.bytes."""


def group_error_code(asked: Asked, group: str, error: MainstemError) -> Code:
    """Return the error code for an error about changing the committed offsets of a group."""
    if isinstance(error, GroupIsLive) and asked.service.broker.share.has_members(group):
        # Share groups have no committed offsets, so for offsets no group of that name exists.
        return Code.GROUP_ID_NOT_FOUND
    return code_in(asked.header, error)


def requested_cursors(
    topics: Sequence[CommitTopic] | Sequence[TxnCommitTopic], now_ms: int
) -> tuple[dict[TopicPartition, Cursor], dict[TopicPartition, Code]]:
    """Return the offsets to commit, and an error code per partition with too large metadata."""
    cursors: dict[TopicPartition, Cursor] = {}
    unfit: dict[TopicPartition, Code] = {}
    for topic in topics:
        for each in topic.partitions:
            place = (topic.name, each.partition_index)
            if _is_too_large(each):
                unfit[place] = Code.OFFSET_METADATA_TOO_LARGE
                continue
            metadata, epoch = each.committed_metadata or "", each.committed_leader_epoch
            cursors[place] = Cursor(each.committed_offset, now_ms, metadata, epoch)
    return cursors, unfit


def _is_too_large(asked: CommitPartition | TxnCommitPartition) -> bool:
    text = asked.committed_metadata
    return text is not None and len(text.encode()) > _MAX_METADATA


def is_missing(topic_id: bytes, name: str) -> bool:
    """Tell whether a request named a topic by an id that does not exist."""
    return topic_id != NO_ID and not name
