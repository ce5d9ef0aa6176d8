"""ShareGroupHeartbeat, ShareGroupDescribe: being a member of a share group, and looking at one."""

from collections.abc import Iterator

from mainstem.broker.door import Places, ShareBeat, ShareGroupState
from mainstem.core.errors import GroupIsLive, MainstemError
from mainstem.core.names import check_group
from mainstem.heads.kafka.adapter.allowed import on_group
from mainstem.heads.kafka.adapter.errors import code_in
from mainstem.heads.kafka.adapter.membership import STOPPING
from mainstem.heads.kafka.adapter.service import Asked, Reply, Service
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages.groups import ListedGroup
from mainstem.kafka_protocol.messages.share_groups import (
    DescribedShareAssignment,
    DescribedShareGroup,
    DescribedShareMember,
    DescribedSharePartitions,
    ShareAssignment,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    SharePartitions,
)

HEARTBEAT_FIRST, HEARTBEAT_LAST = 1, 1
DESCRIBE_FIRST, DESCRIBE_LAST = 1, 1

KIND = "share"
"""What these groups are called in lists of groups."""
_LEAVE = -1
MAX_ID_LENGTH = 36
"""What Kafka allows: the length of a UUID."""


def heartbeat(asked: Asked, request: ShareGroupHeartbeatRequest, reply: Reply) -> None:
    """Join, stay or leave; answered when what the member begins to share is written down."""
    service = asked.service
    epoch, topics = request.member_epoch, request.subscribed_topic_names
    wrong = _wrong(request)
    if wrong is not None:
        reply(ShareGroupHeartbeatResponse(error_code=Code.INVALID_REQUEST, error_message=wrong))
        return
    try:
        if epoch == _LEAVE:
            service.broker.share.leave(request.group_id, request.member_id)
            service.share_sessions.left(request.group_id, request.member_id)
            reply(ShareGroupHeartbeatResponse(member_id=request.member_id, member_epoch=_LEAVE))
            return
        if service.draining:
            raise STOPPING
        told = service.broker.share.heartbeat(
            ShareBeat(
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
    service.look_at_deadlines()
    places = told.places
    body = ShareGroupHeartbeatResponse(
        member_id=request.member_id,
        member_epoch=told.epoch,
        heartbeat_interval_ms=told.heartbeat_ms,
        assignment=None if places is None else ShareAssignment(_assigned(places)),
    )

    def settled(error: MainstemError | None) -> None:
        answer = body if error is None else _refused(asked, error)
        service.on_loop(lambda: reply(answer))

    told.durable.then(settled)


def _wrong(request: ShareGroupHeartbeatRequest) -> str | None:
    """Return what is wrong with a heartbeat, whatever the group."""
    if not request.group_id.strip() or not request.member_id.strip():
        return "a heartbeat names its group and its member"
    if len(request.member_id) > MAX_ID_LENGTH:
        return f"the id of a member has at most {MAX_ID_LENGTH} characters"
    if request.rack_id is not None and not request.rack_id.strip():
        return "a rack is empty"
    if request.member_epoch < _LEAVE:
        return f"epoch {request.member_epoch}: there are 0 to join, -1 to leave, and those given"
    if request.member_epoch == 0 and not request.subscribed_topic_names:
        return "a member that joins names the topics that it wants"
    return None


def _refused(asked: Asked, error: MainstemError) -> ShareGroupHeartbeatResponse:
    code = code_in(asked.header, error)
    if isinstance(error, GroupIsLive):
        # What it is asked for is a share group of that name, and there is none.
        code = Code.GROUP_ID_NOT_FOUND
    return ShareGroupHeartbeatResponse(error_code=code, error_message=str(error))


def _assigned(places: Places) -> list[SharePartitions]:
    return [SharePartitions(bytes.fromhex(topic_id), range(count)) for _, topic_id, count in places]


def describe(asked: Asked, request: ShareGroupDescribeRequest, reply: Reply) -> None:
    """Show share groups and their members."""
    groups = []
    allowed = on_group(request.include_authorized_operations)
    for name in request.group_ids:
        try:
            check_group(name)
            groups.append(_described(asked.service.broker.share.describe(name), allowed))
        except MainstemError as error:
            code, message = code_in(asked.header, error), str(error)
            groups.append(DescribedShareGroup(code, message, name))
    reply(ShareGroupDescribeResponse(groups=groups))


def listed(service: Service) -> Iterator[ListedGroup]:
    """Return the share groups as they are listed beside others; a queue is one, too."""
    share = service.broker.share
    for name in share.names():
        yield ListedGroup(name, KIND, _state(has_members=share.has_members(name)), KIND)


def _state(*, has_members: bool) -> str:
    return "Stable" if has_members else "Empty"


def _described(group: ShareGroupState, allowed: int) -> DescribedShareGroup:
    return DescribedShareGroup(
        group_id=group.name,
        group_state=_state(has_members=bool(group.members)),
        group_epoch=group.epoch,
        assignment_epoch=group.epoch,
        assignor_name="simple",
        members=[
            DescribedShareMember(
                each.id,
                each.rack,
                each.epoch,
                each.client_id,
                each.host,
                each.topics,
                DescribedShareAssignment(
                    [
                        DescribedSharePartitions(bytes.fromhex(topic_id), name, range(count))
                        for name, topic_id, count in each.places
                    ]
                ),
            )
            for each in group.members
        ],
        authorized_operations=allowed,
    )
