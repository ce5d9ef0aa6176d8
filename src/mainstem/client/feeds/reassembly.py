"""Puts the messages of a session in order, each once, and decides which ones to request again.

How this works: every sequence number below ``_high`` was returned, is kept for later, or is in a
gap. A gap is requested when it is as old as the reordering window, piece by piece, with at most
``max_requests`` requests unanswered. The time to wait for a piece doubles with every request that
is not answered. Messages too far ahead of a gap are not kept; they are requested later. The clock
is an argument.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from mainstem.core.errors import MessagesLost

_FIRST_COUNT = 64
_MAX_COUNT = 1_000


class Message(NamedTuple):
    """A message of a session: its sequence number and its bytes."""

    sequence: int
    data: bytes


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How long a receiver waits for missing messages, and how often it requests them."""

    reorder_ms: float = 5
    """How long a gap may last before it is requested, as packets may overtake others."""
    wait_ms: float = 50
    """How long the first answer may take; doubled with each further request,"""
    max_wait_ms: float = 1_000
    """up to this."""
    give_up_ms: float | None = 60_000
    """How long a message is requested before MessagesLost; None for ever."""
    max_requests: int = 16
    """Unanswered requests at a time."""
    max_ahead: int = 100_000
    """How many messages after a gap are held."""


@dataclass(slots=True)
class _Gap:
    """Missing messages: sequence numbers from ``first`` up to, not including, ``end``."""

    first: int
    end: int
    due_ms: float
    """When it is requested next."""
    since_ms: float | None = None
    """When it was first requested."""
    requests: int = 0
    """How often it was requested without an answer."""


class Ask(msgspec.Struct, frozen=True):
    """A request to send: for ``count`` messages from ``sequence`` on."""

    sequence: int
    count: int


class Reassembly:
    """The receiving side of a session, without sockets."""

    def __init__(self, start: int | None, patience: Patience) -> None:
        """``start``: the first sequence number to deliver; None for the first one that arrives."""
        self._patience = patience
        self.session = ""
        self.next = start
        """The sequence number of the next message to deliver, None if not known yet."""
        self.end: int | None = None
        """One more than the session's last message, once it has ended."""
        self.ready: deque[Message] = deque()
        """Messages to deliver, in order."""
        self.duplicates = self.reordered = self.recovered = self.lost = 0
        self._high = self._known = start or 0
        self._held: dict[int, bytes] = {}
        self._gaps: list[_Gap] = []
        self._count = _FIRST_COUNT
        """How many messages are requested at once: about as many as fit into a packet."""

    @property
    def is_complete(self) -> bool:
        """Whether the session has ended, and no message of it is missing."""
        return self.end is not None and self.next is not None and self.next >= self.end

    def add(
        self, sequence: int, messages: Sequence[bytes], now_ms: float, *, requested: bool = False
    ) -> None:
        """Take the messages of a packet; ``requested`` says that it answers a request."""
        if self.next is None:
            self.next = self._high = sequence
        end = sequence + len(messages)
        self._known = max(self._known, end)
        if sequence == self.next == self._high and not self._gaps:
            self.ready.extend(map(Message, range(sequence, end), messages))
            self.next = self._high = end
            return
        if end <= self.next:
            self.duplicates += len(messages)
            return
        if sequence >= self.next + self._patience.max_ahead:
            self._extend(now_ms)
            return
        if sequence > self._high:
            self._gap(sequence, now_ms)
        new = self._hold(sequence, messages)
        if requested:
            self.recovered += new
            self._learn_count(sequence, len(messages))
        elif sequence < self._high:
            self.reordered += new
        self._high = max(self._high, end)
        self._fill(sequence, end, now_ms, requested=requested)
        self._release()

    def announce(self, sequence: int, now_ms: float, *, is_end: bool = False) -> None:
        """Take a heartbeat or the end of the session; ``sequence`` is that of the next message."""
        if self.next is None:
            self.next = self._high = sequence
        self._known = max(self._known, sequence)
        if is_end:
            self.end = sequence
        self._extend(now_ms)

    def due(self, now_ms: float) -> list[Ask]:
        """Return the requests to send now.

        Raises MessagesLost if the first gap was requested for longer than ``give_up_ms``.
        """
        self._extend(now_ms)
        asks: list[Ask] = []
        open_requests = sum(gap.requests > 0 and gap.due_ms > now_ms for gap in self._gaps)
        for gap in list(self._gaps):
            if open_requests + len(asks) >= self._patience.max_requests:
                break
            # The rest of a gap, whose first piece is requested now, may be due as well.
            while gap.due_ms <= now_ms and open_requests + len(asks) < self._patience.max_requests:
                self._check_patience(gap, now_ms)
                rest = self._split(gap)
                asks.append(self._ask(gap, now_ms))
                if rest is None:
                    break
                gap = rest  # noqa: PLW2901 - the rest of it
        return asks

    def wait_ms(self, now_ms: float) -> float | None:
        """Return for how many ms there is nothing to request; None if nothing is missing."""
        if not self._gaps:
            return None
        return max(0.0, min(gap.due_ms for gap in self._gaps) - now_ms)

    def skip(self) -> tuple[int, int] | None:
        """Give up the first gap; return its first and last sequence number.

        Returns None if there is no gap.
        """
        if not self._gaps:
            return None
        first, before = self._gaps[0].first, self._gaps[0].first
        while self._gaps and self._gaps[0].first == before:
            before = self._gaps.pop(0).end
        self.lost += before - first
        self.next = before
        self._release()
        return first, before - 1

    def _extend(self, now_ms: float) -> None:
        """Make a gap of messages that are known to exist and have not arrived."""
        assert self.next is not None or not self._known
        if self.next is not None and self._known > self._high:
            end = min(self._known, self.next + self._patience.max_ahead)
            if end > self._high:
                self._gap(end, now_ms)
                self._high = end

    def _gap(self, end: int, now_ms: float) -> None:
        due_ms = now_ms + self._patience.reorder_ms
        last = self._gaps[-1] if self._gaps else None
        if last and last.end == self._high and not last.requests:
            last.end = end
        else:
            self._gaps.append(_Gap(self._high, end, due_ms))

    def _hold(self, sequence: int, messages: Sequence[bytes]) -> int:
        """Keep the messages that are new until those before them have come; return their number."""
        assert self.next is not None
        new = 0
        for at, data in enumerate(messages, sequence):
            if at < self.next or at in self._held:
                self.duplicates += 1
            else:
                self._held[at] = data
                new += 1
        return new

    def _fill(self, first: int, end: int, now_ms: float, *, requested: bool) -> None:
        if not self._gaps or end <= self._gaps[0].first or first >= self._gaps[-1].end:
            return
        left: list[_Gap] = []
        for gap in self._gaps:
            if gap.end <= first or gap.first >= end:
                left.append(gap)
                continue
            if gap.first < first:
                left.append(_Gap(gap.first, first, gap.due_ms, gap.since_ms, gap.requests))
            if gap.end > end:
                # The answer was full: the messages that it had no room for are requested at once.
                due_ms = now_ms if requested and gap.requests else gap.due_ms
                left.append(_Gap(end, gap.end, due_ms))
        self._gaps = left

    def _release(self) -> None:
        assert self.next is not None
        held, at = self._held, self.next
        while (data := held.pop(at, None)) is not None:
            self.ready.append(Message(at, data))
            at += 1
        self.next = at

    def _learn_count(self, sequence: int, count: int) -> None:
        asked = next((gap for gap in self._gaps if gap.first == sequence and gap.requests), None)
        if asked is not None and asked.end - asked.first > count:
            self._count = max(1, count)
        elif count >= self._count:
            self._count = min(_MAX_COUNT, self._count * 2)

    def _split(self, gap: _Gap) -> _Gap | None:
        """Shorten a gap to what one request asks for; return the rest, which becomes a gap.

        Returns None if nothing is left.
        """
        if gap.end - gap.first <= self._count:
            return None
        rest = _Gap(gap.first + self._count, gap.end, gap.due_ms)
        gap.end = rest.first
        self._gaps.insert(self._gaps.index(gap) + 1, rest)
        return rest

    def _ask(self, gap: _Gap, now_ms: float) -> Ask:
        if gap.since_ms is None:
            gap.since_ms = now_ms
        wait_ms = self._patience.wait_ms * 2 ** min(gap.requests, 30)
        gap.due_ms = now_ms + min(self._patience.max_wait_ms, wait_ms)
        gap.requests += 1
        return Ask(gap.first, gap.end - gap.first)

    def _check_patience(self, gap: _Gap, now_ms: float) -> None:
        give_up_ms = self._patience.give_up_ms
        if give_up_ms is None or gap.since_ms is None or now_ms - gap.since_ms < give_up_ms:
            return
        if gap is self._gaps[0]:
            raise MessagesLost(self.session, gap.first, gap.end - 1, gap.requests)
