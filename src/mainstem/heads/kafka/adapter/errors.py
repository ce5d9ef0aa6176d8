"""Maps the broker's errors to Kafka's error codes."""

from mainstem.auth import ResourceKind
from mainstem.core import errors
from mainstem.core.errors import Failure, MainstemError
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import membership, share_groups, transactions
from mainstem.kafka_protocol.messages.commits import OFFSET_COMMIT, OFFSET_DELETE, OFFSET_FETCH
from mainstem.kafka_protocol.messages.consumer_groups import CONSUMER_GROUP_HEARTBEAT
from mainstem.kafka_protocol.messages.groups import DELETE_GROUPS
from mainstem.kafka_protocol.messages.produce import PRODUCE
from mainstem.kafka_protocol.server_codec import RequestHeader

STOPPING = errors.Closed("the server is stopping; retry when it is back")
"""The error that group members get while the server stops."""


class InvalidRequest(MainstemError, failure=Failure.INVALID):
    """A request is invalid, whatever the state of what it names."""


FAILURES: dict[Failure, Code] = {
    Failure.NOT_FOUND: Code.UNKNOWN_TOPIC_OR_PARTITION,
    Failure.EXISTS: Code.TOPIC_ALREADY_EXISTS,
    Failure.CONFLICT: Code.INVALID_REQUEST,
    Failure.INVALID: Code.INVALID_REQUEST,
    Failure.DENIED: Code.TOPIC_AUTHORIZATION_FAILED,
    Failure.UNAUTHENTICATED: Code.SASL_AUTHENTICATION_FAILED,
    Failure.FENCED: Code.ILLEGAL_GENERATION,
    Failure.STALE: Code.ILLEGAL_GENERATION,
    # Retriable in every client, unlike the codes for quotas.
    Failure.OVERLOADED: Code.REQUEST_TIMED_OUT,
    Failure.TOO_LARGE: Code.MESSAGE_TOO_LARGE,
    Failure.UNAVAILABLE: Code.COORDINATOR_NOT_AVAILABLE,
    Failure.UNSUPPORTED: Code.UNSUPPORTED_VERSION,
    Failure.CORRUPT: Code.CORRUPT_MESSAGE,
}
"""Kafka's error code for each class of failure."""

REFUSALS: dict[type[MainstemError], Code] = {
    errors.UnknownGroup: Code.GROUP_ID_NOT_FOUND,
    errors.UnknownQueue: Code.GROUP_ID_NOT_FOUND,
    errors.StaleDelivery: Code.INVALID_RECORD_STATE,
    errors.InvalidName: Code.INVALID_TOPIC_EXCEPTION,
    errors.InvalidSetting: Code.INVALID_CONFIG,
    errors.OffsetOutOfRange: Code.OFFSET_OUT_OF_RANGE,
    # Clients retry CORRUPT_MESSAGE; retrying an invalid batch is useless.
    errors.InvalidBatch: Code.INVALID_RECORD,
    errors.DamagedLog: Code.KAFKA_STORAGE_ERROR,
    errors.InvalidEvent: Code.INVALID_RECORD,
    errors.UntimelyEvent: Code.INVALID_TIMESTAMP,
    # Other codes for groups, transactions and InitProducerId: ``code_in``.
    errors.StorageFull: Code.KAFKA_STORAGE_ERROR,
    errors.StorageFailed: Code.KAFKA_STORAGE_ERROR,
    errors.GroupIsLive: Code.NON_EMPTY_GROUP,
    errors.UnknownMember: Code.UNKNOWN_MEMBER_ID,
    errors.FencedInstance: Code.FENCED_INSTANCE_ID,
    errors.FencedMemberEpoch: Code.FENCED_MEMBER_EPOCH,
    errors.RebalanceInProgress: Code.REBALANCE_IN_PROGRESS,
    errors.InconsistentProtocol: Code.INCONSISTENT_GROUP_PROTOCOL,
    errors.MemberIdRequired: Code.MEMBER_ID_REQUIRED,
    errors.GroupFull: Code.GROUP_MAX_SIZE_REACHED,
    errors.StaleMemberEpoch: Code.STALE_MEMBER_EPOCH,
    errors.UnreleasedInstance: Code.UNRELEASED_INSTANCE_ID,
    errors.UnsupportedAssignor: Code.UNSUPPORTED_ASSIGNOR,
    errors.InvalidExpression: Code.INVALID_REGULAR_EXPRESSION,
    errors.InvalidSessionTimeout: Code.INVALID_SESSION_TIMEOUT,
    errors.UnreadableValue: Code.INVALID_RECORD,
    errors.DirectoryInUse: Code.KAFKA_STORAGE_ERROR,
    errors.LinkedFile: Code.KAFKA_STORAGE_ERROR,
    errors.FormatTooNew: Code.KAFKA_STORAGE_ERROR,
    errors.InvalidProducerEpoch: Code.INVALID_PRODUCER_EPOCH,
    errors.ProducerFenced: Code.PRODUCER_FENCED,
    errors.OutOfOrderSequence: Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
    errors.UnknownProducer: Code.INVALID_PRODUCER_ID_MAPPING,
    errors.UnknownTransaction: Code.INVALID_PRODUCER_ID_MAPPING,
    errors.InvalidTransactionState: Code.INVALID_TXN_STATE,
    errors.NotInTransaction: Code.TRANSACTION_ABORTABLE,
    errors.InvalidTransactionTimeout: Code.INVALID_TRANSACTION_TIMEOUT,
}
"""Kafka's error codes for errors that have a more specific code than their class of failure."""
_DENIED: dict[str, Code] = {
    ResourceKind.TOPIC: Code.TOPIC_AUTHORIZATION_FAILED,
    ResourceKind.GROUP: Code.GROUP_AUTHORIZATION_FAILED,
    ResourceKind.TRANSACTIONAL_ID: Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceKind.CLUSTER: Code.CLUSTER_AUTHORIZATION_FAILED,
}
"""The error code for missing permissions, by the kind of resource."""

_LATER: dict[Code, tuple[Code, dict[int, int]]] = {
    Code.STALE_MEMBER_EPOCH: (
        Code.UNSUPPORTED_VERSION,
        {OFFSET_COMMIT.key: 9, OFFSET_FETCH.key: 9},
    ),
    Code.PRODUCER_FENCED: (
        Code.INVALID_PRODUCER_EPOCH,
        {
            transactions.INIT_PRODUCER_ID.key: 4,
            transactions.ADD_PARTITIONS_TO_TXN.key: 2,
            transactions.ADD_OFFSETS_TO_TXN.key: 2,
            transactions.END_TXN.key: 2,
        },
    ),
    Code.TRANSACTION_ABORTABLE: (
        Code.INVALID_TXN_STATE,
        {
            PRODUCE.key: 11,
            transactions.INIT_PRODUCER_ID.key: 5,
            transactions.ADD_PARTITIONS_TO_TXN.key: 5,
            transactions.ADD_OFFSETS_TO_TXN.key: 4,
            transactions.END_TXN.key: 4,
            transactions.TXN_OFFSET_COMMIT.key: 4,
        },
    ),
}
"""Error codes that older versions do not know: the code sent to them instead, and the first version
per API that knows the code.
"""

_COORDINATED = frozenset(
    api.key
    for api in (
        OFFSET_COMMIT,
        membership.JOIN_GROUP,
        membership.HEARTBEAT,
        membership.LEAVE_GROUP,
        membership.SYNC_GROUP,
        transactions.ADD_PARTITIONS_TO_TXN,
        transactions.ADD_OFFSETS_TO_TXN,
        transactions.END_TXN,
        transactions.TXN_OFFSET_COMMIT,
        DELETE_GROUPS,
        OFFSET_DELETE,
        CONSUMER_GROUP_HEARTBEAT,
        share_groups.SHARE_GROUP_HEARTBEAT,
        share_groups.ALTER_SHARE_GROUP_OFFSETS,
        share_groups.DELETE_SHARE_GROUP_OFFSETS,
    )
)
"""Requests about groups and transactions. Their clients treat KAFKA_STORAGE_ERROR as fatal but
retry COORDINATOR_NOT_AVAILABLE, so a full disk is reported as the latter."""


def code_in(header: RequestHeader, error: MainstemError) -> Code:
    """Return the error code for an error, one that this version of the request's API knows."""
    code = code_of(error)
    if code is Code.KAFKA_STORAGE_ERROR and header.api_key in _COORDINATED:
        return Code.COORDINATOR_NOT_AVAILABLE
    if code is Code.KAFKA_STORAGE_ERROR and header.api_key == transactions.INIT_PRODUCER_ID.key:
        # Producers without transactions have no coordinator to look up.
        return Code.COORDINATOR_LOAD_IN_PROGRESS
    earlier, since = _LATER.get(code, (code, {}))
    known = since.get(header.api_key)
    return code if known is not None and header.api_version >= known else earlier


def code_of(error: MainstemError) -> Code:
    """Return Kafka's error code for a broker error."""
    if isinstance(error, errors.InvalidName) and error.kind != "topic":
        return Code.INVALID_GROUP_ID if error.kind == "group" else Code.INVALID_REQUEST
    if isinstance(error, errors.Denied):
        return _DENIED[error.kind]
    return REFUSALS.get(type(error)) or FAILURES[error.failure]
