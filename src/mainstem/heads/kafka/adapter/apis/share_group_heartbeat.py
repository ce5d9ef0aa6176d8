"""ShareGroupHeartbeat, version 1: a member joins, stays in or leaves a share group [KIP-932]."""

from mainstem.broker.door import AssignedTopics, ShareHeartbeat
from mainstem.core.errors import GroupIsLive, MainstemError
from mainstem.heads.kafka.adapter.errors import STOPPING, InvalidRequest, code_in
from mainstem.heads.kafka.adapter.groups.group_types import MAX_ID_LENGTH
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.service import Asked, Reply
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import share_groups as messages

_LEAVE = -1


@serves(messages.SHARE_GROUP_HEARTBEAT, 1, 1)
def answer(asked: Asked, request: messages.ShareGroupHeartbeatRequest, reply: Reply) -> None:
    """Carry out a join, heartbeat or leave; a join is answered when start offsets are durable."""
    service = asked.service
    epoch, topics = request.member_epoch, request.subscribed_topic_names
    try:
        if wrong := _wrong(request):
            raise InvalidRequest(wrong)
        if epoch == _LEAVE:
            service.broker.share.leave(request.group_id, request.member_id)
            service.share_sessions.left(request.group_id, request.member_id)
            reply(
                messages.ShareGroupHeartbeatResponse(
                    member_id=request.member_id, member_epoch=_LEAVE
                )
            )
            return
        if service.draining:
            raise STOPPING
        told = service.broker.share.heartbeat(
            ShareHeartbeat(
                group=request.group_id,
                member_id=request.member_id,
                epoch=epoch,
                topics=None if topics is None else tuple(topics),
                client_id=asked.header.client_id or "",
                host=f"/{asked.peer.rpartition(':')[0]}",
                rack=request.rack_id,
            )
        )
    except MainstemError as error:
        reply(_refused(asked, error))
        return
    places = told.places
    body = messages.ShareGroupHeartbeatResponse(
        member_id=request.member_id,
        member_epoch=told.epoch,
        heartbeat_interval_ms=told.heartbeat_ms,
        assignment=None if places is None else messages.ShareAssignment(_assigned(places)),
    )

    def settled(error: MainstemError | None) -> None:
        response = body if error is None else _refused(asked, error)
        service.on_loop(lambda: reply(response))

    told.durable.then(settled)


def _wrong(request: messages.ShareGroupHeartbeatRequest) -> str | None:
    """Return an error text if a heartbeat is invalid whatever the group's state, else None."""
    if not request.group_id.strip() or not request.member_id.strip():
        return "the group id or member id is empty"
    if len(request.member_id) > MAX_ID_LENGTH:
        return f"the member id is longer than {MAX_ID_LENGTH} characters"
    if request.rack_id is not None and not request.rack_id.strip():
        return "the rack is empty"
    if request.member_epoch < _LEAVE:
        return f"invalid member epoch {request.member_epoch}: 0 joins, -1 leaves"
    if request.member_epoch == 0 and not request.subscribed_topic_names:
        return "a join needs subscribed topics"
    return None


def _refused(asked: Asked, error: MainstemError) -> messages.ShareGroupHeartbeatResponse:
    code = code_in(asked.header, error)
    if isinstance(error, GroupIsLive):
        # The request is for a share group, and no share group has this name.
        code = Code.GROUP_ID_NOT_FOUND
    return messages.ShareGroupHeartbeatResponse(error_code=code, error_message=str(error))


def _assigned(places: AssignedTopics) -> list[messages.SharePartitions]:
    return [
        messages.SharePartitions(bytes.fromhex(topic_id), range(count))
        for _, topic_id, count in places
    ]
