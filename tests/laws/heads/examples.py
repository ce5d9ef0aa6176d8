"""What the laws for every head need to know of one head: examples of its protocol."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from hypothesis import strategies as st

from mainstem.broker.broker import Broker
from mainstem.heads.head import HeadSettings, RunningHead


class Law(StrEnum):
    """The laws that may not apply to a head."""

    CUTTING = "cutting the stream anywhere changes nothing"
    SETTLING = "closing gives unsettled deliveries back"
    FRAME_LIMIT = "a frame over the limit is refused before it is allocated"
    LOGIN = "who fails to log in gets the protocol's own refusal"
    WAITING = "who waits is answered when the server drains"
    READING = "draining does not wait for who does not read"


UDP = {
    Law.CUTTING: "there is no stream: every UDP packet is whole, and stands for itself",
    Law.FRAME_LIMIT: "a UDP packet has 64 KiB at most, and the kernel holds it",
}
"""Why laws do not apply to heads that hear UDP."""


@dataclass(frozen=True)
class Outcomes:
    """What a peer is told, by what became of its request."""

    done: object
    denied: object
    """if it has no right,"""
    unauthenticated: object
    """and if it would have to log in."""


@dataclass(frozen=True)
class Examples:
    """What a peer of one head may say, and what it is told.

    Every head starts with the topic ``TOPIC``, and with a queue of the same name on it.
    """

    settings: HeadSettings
    ask: bytes
    """A whole conversation with one request that needs a right: to publish, if the head can."""
    told: Callable[[bytes, RunningHead], object]
    """What the peer was told in answer to ``ask``; None if nothing."""
    outcomes: Outcomes
    publishes: bool
    """Whether ``ask`` publishes to the topic."""
    messages: st.SearchStrategy[Any]
    """Messages of the protocol,"""
    there_and_back: Callable[[Any], object]
    """and what is left of one that was encoded and decoded."""

    prepare: Callable[[Broker], None] | None = None
    """What must be defined before a peer speaks."""
    stream: bytes | None = None
    """Several requests of one conversation: Law.CUTTING."""
    answers: Callable[[bytes], object] = bytes
    """What of the answers to them is the same every time."""
    take: Callable[[Broker], bytes] | None = None
    """A conversation that is handed an event of the queue and does not settle it: Law.SETTLING."""
    limit: int = 0
    """The largest frame that the settings allow,"""
    claims: Callable[[int], bytes] | None = None
    """and how a frame of so many bytes begins: Law.FRAME_LIMIT."""
    login: bytes | None = None
    """``ask`` with a wrong password: Law.LOGIN."""
    wait: bytes | None = None
    """A conversation that waits for an hour: Law.WAITING;"""
    wait_begins: bytes = b""
    """what the peer hears before it waits."""
    unread: bytes | None = None
    """A conversation that is answered with 60 KiB or more: Law.READING."""
    not_applicable: Mapping[Law, str] = field(default_factory=dict)
    """Why a law does not apply."""

    def gaps(self) -> set[Law]:
        """Return the laws of which the entry says nothing."""
        given = {
            Law.CUTTING: self.stream,
            Law.SETTLING: self.take,
            Law.FRAME_LIMIT: self.claims,
            Law.LOGIN: self.login,
            Law.WAITING: self.wait,
            Law.READING: self.unread,
        }
        return {law for law in Law if given[law] is None}
