"""ConsumerGroupHeartbeat, versions 0 to 1: groups whose members the broker assigns [KIP-848].

| theirs | ours |
|---|---|
| member epoch 0, -1, -2 | a heartbeat that joins; leaving; leaving for a while |
| assignment | what a member is to own |
| topic partitions | what it says it has |
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
from mainstem.heads.kafka.adapter.errors import code_in
from mainstem.heads.kafka.adapter.group_types import CONSUMER
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.service import Asked, Reply, Service
from mainstem.heads.kafka.adapter.stopping import STOPPING
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import consumer_groups as messages

_JOIN, _LEAVE, _LEAVE_FOR_A_WHILE = 0, -1, -2
_CHOOSES_ITS_ID = 1


@serves(messages.CONSUMER_GROUP_HEARTBEAT, 0, 1)
def answer(asked: Asked, request: messages.ConsumerGroupHeartbeatRequest, reply: Reply) -> None:
    """Handle a heartbeat or a leave; answered when the assignment is durable."""
    service = asked.service
    wrong = _wrong(request, asked.header.api_version)
    if wrong is not None:
        reply(
            messages.ConsumerGroupHeartbeatResponse(
                error_code=Code.INVALID_REQUEST, error_message=wrong
            )
        )
        return
    try:
        if service.draining:
            raise STOPPING
        heard = _left(asked, request) if request.member_epoch < 0 else _heard(asked, request)
    except UnknownMember as error:
        # A group that nobody knows may only be forgotten, by a server that keeps nothing, or as
        # its members were asleep: they shall come again, and take GROUP_ID_NOT_FOUND for the end.
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
    """Tell whether members that could not be in a consumer group have its name."""
    found = service.broker.classic.describe(group)
    is_live = found.phase not in (Phase.EMPTY, Phase.DEAD)
    is_other = is_live and found.protocol_type != CONSUMER
    return is_other or service.broker.share.has_members(group)


def _wrong(request: messages.ConsumerGroupHeartbeatRequest, version: int) -> str | None:
    """Return what is wrong with a heartbeat, whatever the group; None if nothing is."""
    epoch, is_join = request.member_epoch, request.member_epoch == _JOIN
    owned, names = request.topic_partitions, request.subscribed_topic_names
    rules = (
        (not request.group_id.strip(), "the group has no name"),
        (
            any(it is not None and not it.strip() for it in (request.instance_id, request.rack_id)),
            "an instance id or a rack is empty",
        ),
        (
            not request.member_id.strip() and (not is_join or version >= _CHOOSES_ITS_ID),
            "the member has no id",
        ),
        (epoch < _LEAVE_FOR_A_WHILE, f"there is no epoch {epoch}"),
        (
            epoch == _LEAVE_FOR_A_WHILE and request.instance_id is None,
            "only a member with an instance id can leave for a while",
        ),
        (is_join and request.rebalance_timeout_ms < 0, "who joins says its rebalance timeout"),
        (is_join and (owned is None or len(owned) > 0), "who joins has no partitions, and says so"),
        (
            # An empty list is what a client sends whose own pattern finds no topic yet.
            is_join and names is None and request.subscribed_topic_regex is None,
            "who joins names topics, or gives a regular expression for them",
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
        # What it is asked for is a consumer group of that name, and there is none.
        code = Code.GROUP_ID_NOT_FOUND
    elif isinstance(error, InvalidSetting):
        code = Code.INVALID_REQUEST
    return messages.ConsumerGroupHeartbeatResponse(error_code=code, error_message=str(error))


def _sent(partitions: Partitions) -> tuple[messages.OwnedPartitions, ...]:
    return tuple(
        messages.OwnedPartitions(bytes.fromhex(topic_id), numbers)
        for topic_id, numbers in written(partitions).items()
    )
