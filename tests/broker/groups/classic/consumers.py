"""Consumers of classic groups for tests: they send requests and record the responses."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Generic, TypedDict, TypeVar, Unpack

import pytest
from msgspec.structs import replace
from tests.broker.brokers import Clock, new_broker

from mainstem.broker.broker import Broker
from mainstem.broker.groups.classic.group import Join, Joined, Protocols, Sync, Synced
from mainstem.core.errors import MainstemError, RebalanceInProgress, UnknownMember

RANGE: Protocols = (("range", b"range metadata"),)
SESSION_MS = 10_000
REBALANCE_MS = 60_000
JOIN = Join(
    group="g",
    protocol_type="consumer",
    protocols=RANGE,
    session_timeout_ms=SESSION_MS,
    rebalance_timeout_ms=REBALANCE_MS,
)
"""A consumer joins the group ``g``; see ``msgspec.structs.replace`` for others."""
Answer = TypeVar("Answer")


class JoinOptions(TypedDict, total=False):
    """What a test may change of ``JOIN``."""

    group: str
    instance_id: str | None
    client_id: str
    host: str
    protocols: Protocols
    protocol_type: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    takes_id_first: bool
    skips_assignment: bool


class Asked(Generic[Answer]):
    """A request to the broker; collects its answer."""

    def __init__(self) -> None:
        self.answers: list[Answer | MainstemError] = []

    def __call__(self, answer: Answer | MainstemError) -> None:
        assert not self.answers, "answered twice"
        self.answers.append(answer)

    @property
    def is_answered(self) -> bool:
        return bool(self.answers)

    @property
    def answer(self) -> Answer:
        """Return the answer; an error is raised."""
        (answer,) = self.answers
        if isinstance(answer, MainstemError):
            raise answer
        return answer

    @property
    def error(self) -> type[MainstemError] | None:
        """Return the type of the error, if the answer was one."""
        (answer,) = self.answers
        return type(answer) if isinstance(answer, MainstemError) else None


class Room:
    """A broker, its clock, and consumers of the group ``g``."""

    def __init__(self, broker: Broker | None = None, clock: Clock | None = None) -> None:
        self.clock = clock or Clock()
        self.broker = broker or new_broker(clock=self.clock)
        self.groups = self.broker.classic

    def join(self, member_id: str = "", **said: Unpack[JoinOptions]) -> Asked[Joined]:
        asked = Asked[Joined]()
        ours: JoinOptions = {"client_id": "app", "host": "/127.0.0.1"}
        self.groups.join(replace(JOIN, member_id=member_id, **(ours | said)), asked)
        return asked

    def sync(
        self,
        joined: Joined,
        assignments: Mapping[str, bytes] | None = None,
        *,
        instance_id: str | None = None,
        protocol: str | None = None,
    ) -> Asked[Synced]:
        asked = Asked[Synced]()
        sync = Sync(
            group="g",
            member_id=joined.member_id,
            generation=joined.generation,
            instance_id=instance_id,
            protocol=protocol,
            assignments=assignments or {},
        )
        self.groups.sync(sync, asked)
        return asked

    def heartbeat(self, joined: Joined, instance_id: str | None = None) -> None:
        self.groups.heartbeat("g", joined.member_id, joined.generation, instance_id)

    def check_is_out(self, gone: Joined, left: Joined) -> None:
        """Fail unless a member was taken out, so that the other one has to join again."""
        with pytest.raises(UnknownMember):
            self.heartbeat(gone)
        with pytest.raises(RebalanceInProgress):
            self.heartbeat(left)

    def leave(self, *joined: Joined) -> list[MainstemError | None]:
        return self.groups.leave("g", [(each.member_id, None) for each in joined])

    def pass_time(self, ms: int) -> None:
        self.clock.now_ms += ms
        self.groups.tick()

    def heartbeat_until(self, joined: Joined, ms: int) -> None:
        """Let time pass; only one member keeps sending heartbeats."""
        for _ in range(4):
            with suppress(RebalanceInProgress):
                self.heartbeat(joined)
            self.pass_time(ms // 4)

    def stable(self, count: int) -> list[Joined]:
        """Return the members of a stable group of this size; the first is the leader."""
        joined = [self.join().answer]
        self.sync(joined[0], {joined[0].member_id: b"0"})
        for _ in range(count - 1):
            asked = [self.join(), *(self.join(each.member_id) for each in joined)]
            joined = [each.answer for each in (*asked[1:], asked[0])]
            assigned = {each.member_id: b"%d" % at for at, each in enumerate(joined)}
            for each in joined:
                self.sync(each, assigned if each.leader == each.member_id else {})
        return joined
