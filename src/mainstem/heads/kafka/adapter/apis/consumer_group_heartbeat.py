"""ConsumerGroupHeartbeat, versions 0 to 1: groups whose partitions the broker assigns [KIP-848].

| Kafka's word | here |
|---|---|
| member epoch 0, -1, -2 | the member joins, leaves, leaves temporarily |
| assignment | the partitions that a member should own |
| topic partitions | the partitions that the member says it owns |
"""

from mainstem.broker.door import (
    Heartbeat,
    HeartbeatResponse,
    Partitions,
    Phase,
    partitions_of,
    written,
)
from mainstem.core.errors import (
    GroupIsLive,
    InvalidSetting,
    MainstemError,
    UnknownGroup,
    UnknownMember,
)
from mainstem.heads.kafka.adapter.errors import STOPPING, InvalidRequest, code_in
from mainstem.heads.kafka.adapter.groups.group_types import CONSUMER
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.service import Asked, Reply, Service
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import consumer_groups as messages

_JOIN, _LEAVE, _LEAVE_FOR_A_WHILE = 0, -1, -2
_CHOOSES_ITS_ID = 1


@serves(messages.CONSUMER_GROUP_HEARTBEAT, 0, 1)
def answer(asked: Asked, request: messages.ConsumerGroupHeartbeatRequest, reply: Reply) -> None:
    """Carry out a join, heartbeat or leave; answered when the assignment is durable."""
    service = asked.service
    try:
        if wrong := _wrong(request, asked.header.api_version):
            raise InvalidRequest(wrong)
        if service.draining:
            raise STOPPING
        heard = _left(asked, request) if request.member_epoch < 0 else _heard(asked, request)
    except UnknownMember as error:
        # The group may be unknown because of a restart without stored data, or because all its
        # members were paused. UNKNOWN_MEMBER_ID makes them join again; they treat
        # GROUP_ID_NOT_FOUND as fatal.
        is_taken = _is_of_others(service, request.group_id)
        reply(_refusal(asked, UnknownGroup(request.group_id) if is_taken else error))
        return
    except MainstemError as error:
        reply(_refusal(asked, error))
        return
    owned = None if heard.owned is None else messages.ConsumerAssignment(_sent(heard.owned))
    response = messages.ConsumerGroupHeartbeatResponse(
        member_id=heard.member_id,
        member_epoch=heard.epoch,
        heartbeat_interval_ms=heard.interval_ms,
        assignment=owned,
    )

    def settled(error: MainstemError | None) -> None:
        body = response if error is None else _refusal(asked, error)
        service.on_loop(lambda: reply(body))

    heard.durable.then(settled)


def _is_of_others(service: Service, group: str) -> bool:
    """Tell whether a group of another type with members has this name."""
    found = service.broker.classic.describe(group)
    is_live = found.phase not in (Phase.EMPTY, Phase.DEAD)
    is_other = is_live and found.protocol_type != CONSUMER
    return is_other or service.broker.share.has_members(group)


def _wrong(request: messages.ConsumerGroupHeartbeatRequest, version: int) -> str | None:
    """Return an error text if a heartbeat is invalid whatever the group's state, else None."""
    epoch, is_join = request.member_epoch, request.member_epoch == _JOIN
    owned, names = request.topic_partitions, request.subscribed_topic_names
    rules = (
        (not request.group_id.strip(), "the group id is empty"),
        (
            any(it is not None and not it.strip() for it in (request.instance_id, request.rack_id)),
            "the instance id or rack is empty",
        ),
        (
            not request.member_id.strip() and (not is_join or version >= _CHOOSES_ITS_ID),
            "the member id is empty",
        ),
        (epoch < _LEAVE_FOR_A_WHILE, f"invalid member epoch {epoch}"),
        (
            epoch == _LEAVE_FOR_A_WHILE and request.instance_id is None,
            "only a member with an instance id can leave temporarily (epoch -2)",
        ),
        (is_join and request.rebalance_timeout_ms < 0, "a join needs a rebalance timeout"),
        (
            is_join and (owned is None or len(owned) > 0),
            "a join needs an empty list of owned partitions",
        ),
        (
            # Clients send an empty list if their own pattern matches no topic yet.
            is_join and names is None and request.subscribed_topic_regex is None,
            "a join needs subscribed topics or a regular expression",
        ),
    )
    return next((text for applies, text in rules if applies), None)


def _heard(asked: Asked, request: messages.ConsumerGroupHeartbeatRequest) -> HeartbeatResponse:
    timeout_ms, names = request.rebalance_timeout_ms, request.subscribed_topic_names
    regex = request.subscribed_topic_regex
    if request.member_epoch == _JOIN and names is None:
        names = ()
    return asked.service.broker.consumers.heartbeat(
        Heartbeat(
            group=request.group_id,
            member_id=request.member_id,
            epoch=request.member_epoch,
            instance_id=request.instance_id,
            rack=request.rack_id,
            client_id=asked.header.client_id or "",
            host=f"/{asked.peer.rpartition(':')[0]}",
            rebalance_timeout_ms=timeout_ms if timeout_ms >= 0 else None,
            names=None if names is None else tuple(names),
            regex=regex,
            assignor=request.server_assignor,
            owned=None
            if request.topic_partitions is None
            else partitions_of(
                (topic.topic_id.hex(), topic.partitions) for topic in request.topic_partitions
            ),
        )
    )


def _left(asked: Asked, request: messages.ConsumerGroupHeartbeatRequest) -> HeartbeatResponse:
    durable = asked.service.broker.consumers.leave(
        request.group_id,
        request.member_id,
        request.instance_id,
        for_a_while=request.member_epoch == _LEAVE_FOR_A_WHILE,
    )
    return HeartbeatResponse(request.member_id, request.member_epoch, 0, None, durable)


def _refusal(asked: Asked, error: MainstemError) -> messages.ConsumerGroupHeartbeatResponse:
    code = code_in(asked.header, error)
    if isinstance(error, GroupIsLive):
        # The request is for a consumer group, and no consumer group has this name.
        code = Code.GROUP_ID_NOT_FOUND
    elif isinstance(error, InvalidSetting):
        code = Code.INVALID_REQUEST
    return messages.ConsumerGroupHeartbeatResponse(error_code=code, error_message=str(error))


def _sent(partitions: Partitions) -> tuple[messages.OwnedPartitions, ...]:
    return tuple(
        messages.OwnedPartitions(bytes.fromhex(topic_id), numbers)
        for topic_id, numbers in written(partitions).items()
    )
