"""InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit, EndTxn.

The version of a request tells by which rules its client plays. By the older ones, it names what a
transaction is going to touch, and keeps its epoch. By the newer ones (KIP-890), whatever it writes
joins the transaction, and each end gives it another epoch.
"""

from collections.abc import Callable, Iterable

from mainstem.broker.door import Membership, Speaker
from mainstem.core.errors import MainstemError
from mainstem.heads.kafka.adapter.cursors import Place, wanted
from mainstem.heads.kafka.adapter.errors import code_in
from mainstem.heads.kafka.adapter.service import Asked, Reply
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages.transactions import (
    AddedPartition,
    AddedTopic,
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TransactionTopic,
    TxnCommittedPartition,
    TxnCommittedTopic,
    TxnCommitTopic,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

INIT_FIRST, INIT_LAST = 0, 6
ADD_PARTITIONS_FIRST, ADD_PARTITIONS_LAST = 0, 3
"""Later versions are spoken between brokers only."""
ADD_OFFSETS_FIRST, ADD_OFFSETS_LAST = 0, 4
END_FIRST, END_LAST = 0, 5
COMMIT_FIRST, COMMIT_LAST = 0, 5

_BUMPS = 5
"""The first version of EndTxn that belongs to the newer rules."""
_JOINS = 5
"""The first version of TxnOffsetCommit that does."""

Then = Callable[[Callable[[MainstemError | None], None]], None]


def begin(asked: Asked, request: InitProducerIdRequest, reply: Reply) -> None:
    """Give out a producer id; with a transactional id, fence whoever had it before."""
    service = asked.service
    if request.enable_2pc or request.keep_prepared_txn:
        # What Kafka answers where two-phase commit is not allowed.
        code = (
            Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            if request.enable_2pc
            else Code.UNSUPPORTED_VERSION
        )
        reply(InitProducerIdResponse(error_code=code, producer_epoch=-1))
        return
    if (request.producer_id < 0) != (request.producer_epoch < 0):
        reply(InitProducerIdResponse(error_code=Code.INVALID_REQUEST, producer_epoch=-1))
        return
    try:
        if request.transactional_id is None:
            fresh = service.broker.producers.new_id()
            producer_id, epoch, durable = fresh.producer_id, 0, fresh.durable
        else:
            was = Speaker(request.producer_id, request.producer_epoch)
            producer_id, epoch, durable = service.broker.transactions.begin(
                request.transactional_id,
                request.transaction_timeout_ms,
                was if was.producer_id >= 0 else None,
            )
    except MainstemError as error:
        reply(InitProducerIdResponse(error_code=code_in(asked.header, error), producer_epoch=-1))
        return
    _once(
        asked,
        durable.then,
        lambda code: reply(InitProducerIdResponse(0, code, producer_id, epoch)),
    )


def add_partitions(asked: Asked, request: AddPartitionsToTxnRequest, reply: Reply) -> None:
    """Let a transaction touch partitions."""
    topics = request.v3_and_below_topics
    who = Speaker(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
    places = [(topic.name, number) for topic in topics for number in topic.partitions]
    try:
        moved = asked.service.broker.transactions.add_partitions(
            request.v3_and_below_transactional_id, who, places
        )
    except MainstemError as error:
        reply(_added(topics, {}, code_in(asked.header, error)))
        return
    refused = {place: code_in(asked.header, error) for place, error in moved.refused.items()}
    # "none of the partitions is added" is said of those that were not refused themselves
    left = Code.OPERATION_NOT_ATTEMPTED if refused else Code.NONE
    _once(
        asked,
        moved.durable.then,
        lambda code: reply(_added(topics, refused, code or left)),
    )


def _added(
    topics: Iterable[TransactionTopic], refused: dict[Place, Code], code: Code
) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=tuple(
            AddedTopic(
                topic.name,
                tuple(
                    AddedPartition(number, refused.get((topic.name, number), code))
                    for number in topic.partitions
                ),
            )
            for topic in topics
        )
    )


def add_offsets(asked: Asked, request: AddOffsetsToTxnRequest, reply: Reply) -> None:
    """Let a transaction move cursors of a group."""
    who = Speaker(request.producer_id, request.producer_epoch)
    try:
        durable = asked.service.broker.transactions.add_group(
            request.transactional_id, who, request.group_id
        )
    except MainstemError as error:
        reply(AddOffsetsToTxnResponse(error_code=code_in(asked.header, error)))
        return
    _once(
        asked,
        durable.then,
        lambda code: reply(AddOffsetsToTxnResponse(error_code=code)),
    )


def commit(asked: Asked, request: TxnOffsetCommitRequest, reply: Reply) -> None:
    """Move cursors of a group when the transaction commits."""
    service = asked.service
    cursors, unfit = wanted(request.topics, service.now_ms())
    try:
        moved = service.broker.transactions.commit_cursors(
            request.transactional_id,
            Speaker(request.producer_id, request.producer_epoch),
            request.group_id,
            Membership(request.member_id, request.generation_id, request.group_instance_id),
            cursors,
            joins=asked.header.api_version >= _JOINS,
        )
    except MainstemError as error:
        reply(_committed(request.topics, {}, code_in(asked.header, error)))
        return
    refused = unfit | {place: code_in(asked.header, it) for place, it in moved.refused.items()}
    _once(
        asked,
        moved.durable.then,
        lambda code: reply(_committed(request.topics, refused, code)),
    )


def _committed(
    topics: Iterable[TxnCommitTopic], refused: dict[Place, Code], code: Code
) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=tuple(
            TxnCommittedTopic(
                topic.name,
                tuple(
                    TxnCommittedPartition(
                        each.partition_index,
                        refused.get((topic.name, each.partition_index), code),
                    )
                    for each in topic.partitions
                ),
            )
            for topic in topics
        )
    )


def end(asked: Asked, request: EndTxnRequest, reply: Reply) -> None:
    """Commit or abort."""
    who = Speaker(request.producer_id, request.producer_epoch)
    bumps = asked.header.api_version >= _BUMPS
    try:
        ended = asked.service.broker.transactions.end(
            request.transactional_id, who, committed=request.committed, bumps=bumps
        )
    except MainstemError as error:
        reply(EndTxnResponse(error_code=code_in(asked.header, error)))
        return
    producer_id, epoch, durable = ended
    _once(
        asked,
        durable.then,
        lambda code: reply(EndTxnResponse(0, code, producer_id, epoch)),
    )


def _once(asked: Asked, then: Then, answer: Callable[[Code], None]) -> None:
    """Answer, in the loop's thread, when something is durable, or why it will never be."""
    service = asked.service
    service.look_at_deadlines()

    def settled(error: MainstemError | None) -> None:
        code = Code.NONE if error is None else code_in(asked.header, error)
        service.on_loop(lambda: answer(code))

    then(settled)
