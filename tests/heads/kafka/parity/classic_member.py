"""A member of a classic group that sends any request on either server."""

from collections.abc import Mapping, Sequence
from typing import TypedDict, Unpack

from tests.heads.kafka.parity.compared_server import Said, Side, word
from tests.heads.kafka.raw_peers import Peer, request

from mainstem.kafka_protocol.messages import membership

LAST_JOIN, LAST_SYNC = 9, 5
KIND = "other"
"""A protocol type whose metadata brokers do not parse."""


class JoinOptions(TypedDict, total=False):
    """Optional parts of a JoinGroup."""

    kind: str
    session_ms: int
    metadata: bytes
    version: int


class SyncOptions(TypedDict, total=False):
    """Optional parts of a SyncGroup."""

    generation: int | None
    kind: str | None
    protocol: str | None
    version: int


class Member:
    """A member; it has an id once it has joined."""

    def __init__(
        self,
        side: Side,
        group: str,
        instance: str | None = None,
        *,
        peer: Peer | None = None,
        member: str = "",
    ) -> None:
        self.side = side
        self.peer = peer or side.peer
        self.group = group
        self.instance = instance
        self.id = member
        self.generation = -1

    def send_join(
        self,
        protocols: Sequence[str] = ("mine",),
        *,
        kind: str = KIND,
        session_ms: int = 30_000,
        metadata: bytes = b"",
        version: int = LAST_JOIN,
    ) -> None:
        """Ask to join, and do not wait for the answer."""
        body = membership.JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=30_000,
            member_id=self.id,
            group_instance_id=self.instance,
            protocol_type=kind,
            protocols=[membership.JoinProtocol(each, metadata) for each in protocols],
        )
        self.peer.send(request(membership.JOIN_GROUP, version, body))

    def joined(self, version: int = LAST_JOIN) -> tuple[Said, ...]:
        """Wait for the answer and keep the member id; return what must be equal on both servers."""
        answer = self.peer.answer(membership.JOIN_GROUP, version, membership.JoinGroupResponse)
        is_kept = answer.member_id == self.id
        self.id = answer.member_id or self.id
        if not answer.error_code:
            self.generation = answer.generation_id
        return (
            word(answer.error_code),
            answer.generation_id,
            answer.protocol_type,
            answer.protocol_name,
            answer.leader == answer.member_id,
            answer.skip_assignment,
            is_kept,
            sorted((it.group_instance_id or "", it.metadata) for it in answer.members),
        )

    def join(
        self, protocols: Sequence[str] = ("mine",), **said: Unpack[JoinOptions]
    ) -> tuple[Said, ...]:
        """Ask to join, and wait for the answer."""
        self.send_join(protocols, **said)
        return self.joined(said.get("version", LAST_JOIN))

    def enter(self) -> Said:
        """Join twice: the first answer only assigns the member id."""
        if not self.instance:
            self.join()
        return self.join()

    def send_sync(
        self,
        assigned: Mapping[str, bytes] | None = None,
        *,
        generation: int | None = None,
        kind: str | None = KIND,
        protocol: str | None = "mine",
        version: int = LAST_SYNC,
    ) -> None:
        """Ask for an assignment, and do not wait for the answer."""
        body = membership.SyncGroupRequest(
            self.group,
            self.generation if generation is None else generation,
            self.id,
            self.instance,
            kind,
            protocol,
            [membership.MemberAssignment(*each) for each in (assigned or {}).items()],
        )
        self.peer.send(request(membership.SYNC_GROUP, version, body))

    def synced(self, version: int = LAST_SYNC) -> Said:
        """Wait for the answer."""
        answer = self.peer.answer(membership.SYNC_GROUP, version, membership.SyncGroupResponse)
        return (
            word(answer.error_code),
            answer.protocol_type,
            answer.protocol_name,
            answer.assignment,
        )

    def sync(
        self, assigned: Mapping[str, bytes] | None = None, **said: Unpack[SyncOptions]
    ) -> Said:
        """Ask for an assignment, and wait for it."""
        self.send_sync(assigned, **said)
        return self.synced(said.get("version", LAST_SYNC))

    def beat(self, generation: int | None = None) -> str:
        """Send a heartbeat."""
        at = self.generation if generation is None else generation
        body = membership.HeartbeatRequest(self.group, at, self.id, self.instance)
        return word(
            self.peer.ask(membership.HEARTBEAT, 4, body, membership.HeartbeatResponse).error_code
        )

    def leave(self, version: int = 5) -> Said:
        """Leave by its id."""
        if version < 3:
            body = membership.LeaveGroupRequest(self.group, member_id=self.id)
            found = self.peer.ask(
                membership.LEAVE_GROUP, version, body, membership.LeaveGroupResponse
            )
            return word(found.error_code)
        return let_go(self.side, self.group, (self.id, self.instance), version=version)


def let_go(side: Side, group: str, *who: tuple[str, str | None], version: int = 5) -> Said:
    """Have several members leave, by their ids and instances."""
    body = membership.LeaveGroupRequest(group, [membership.LeavingMember(*each) for each in who])
    answer = side.ask(membership.LEAVE_GROUP, body, membership.LeaveGroupResponse, version=version)
    return word(answer.error_code), [
        (it.group_instance_id, word(it.error_code)) for it in answer.members
    ]


def only_member(side: Side) -> Member:
    """Return a member that is alone in a group, and has synced."""
    found = Member(side, side.group())
    found.enter()
    found.sync()
    return found
