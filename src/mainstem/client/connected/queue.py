"""A queue on a server: blocking deliveries through a share group.

How this works: a queue on a server is a share group [KIP-932]. A member of a share group may fetch
again only when all its events are settled. So a queue object uses as many members as needed: a
request that finds all members busy adds another one.

Prefetched events are locked from the fetch on, and the server counts released events as delivered.
So a member fetches single events, and more only while they are consumed fast enough to be returned
well within their lock time (``prefetch.py``); only one member at a time fetches more than
requested. Prefetched events that were not returned within half of their lock time are released, and
then fetched one by one: a queue object releases an event that no caller got at most once.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator

from mainstem.client.checks import check_limit
from mainstem.client.connected.delivery import ConnectedDelivery
from mainstem.client.connected.prefetch import Prefetch
from mainstem.client.connected.queue_end import QueueEnd
from mainstem.client.connected.share_member import Given, Leaving, ShareMember
from mainstem.client.contexts import Closing, close_after
from mainstem.client.reaper import Reaper
from mainstem.client.stem import Delivery
from mainstem.core.errors import (
    Closed,
    InvalidSetting,
    MainstemError,
    StaleDelivery,
)
from mainstem.core.event import Event, Position
from mainstem.remote.cluster import Cluster
from mainstem.remote.share_consumer import NotOut, RemoteShareConsumer, Verdict

_MOST_MEMBERS, _MOST_AT_ONCE = 24, 1000
"""Maximum number of members of a queue object, and of events that a member fetches at a time."""
_FEW = 2
"""If the server delivers whole batches, this many members always fetch single events."""
_SLICE_S = 0.1
"""Maximum time of one librdkafka poll in seconds: ``close`` has to wait until it ends."""


class ConnectedQueue(Closing):
    """Implements ``Queue`` through the Kafka protocol; several threads may use it."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        name: str,
        *,
        lock_s: float,
        strict: bool,
        follow: bool,
        unsettled: Callable[[], int | None],
        ready: Callable[[], int | None],
        reaper: Reaper,
    ) -> None:
        self._cluster, self._reaper = cluster, reaper
        self._topic, self._name = topic, name
        self._lock_s, self._follow = lock_s, follow
        self._unsettled = unsettled
        """Returns how many events are not settled; None if unknown."""
        self._ready = ready
        """Returns how many unsettled events no consumer has now; None if unknown."""
        self._strict = strict
        """Whether the server delivers no more events than a fetch requests."""
        self._turn = threading.Condition()
        """Guards the attributes below; never held while waiting for the server."""
        self._members: list[ShareMember] = []
        self._closed: str | None = None
        self._leaving: list[ShareMember] = []
        """Members that others have replaced; closed when no caller is waiting for events."""
        self._prefetch = Prefetch(lock_s)
        self._gone_since: float | None = None

    def begin(self, has_begun: Callable[[], bool], timeout_s: float) -> None:
        """Wait until the server has initialized the queue's start, at most ``timeout_s`` seconds.

        If the server does not report that, wait the whole time.
        """
        member = self._free(1, time.monotonic())
        until = time.monotonic() + timeout_s
        while member is not None and not member.waiting and time.monotonic() < until:
            if has_begun():
                return
            member.poll(_SLICE_S, self._lock_s)

    def __iter__(self) -> Iterator[ConnectedDelivery]:
        """Return this iterator."""
        return self

    def __next__(self) -> ConnectedDelivery:
        """Return the next delivery; StopIteration once closed, or at the end without ``follow``."""
        found = self._take(1, None, ends=not self._follow)
        if not found:
            raise StopIteration
        return found[0]

    def poll(self, timeout: float | None = None) -> ConnectedDelivery | None:
        """Return the next delivery, or None after ``timeout`` seconds (None: no limit)."""
        self._check_open()
        return next(iter(self._take(1, timeout)), None)

    def poll_many(self, limit: int = 100, timeout: float | None = None) -> list[ConnectedDelivery]:
        """Return up to ``limit`` deliveries; waits for one, at most ``timeout`` s if given."""
        self._check_open()
        check_limit(limit)
        return self._take(limit, timeout)

    def ack_many(self, deliveries: Iterable[Delivery]) -> None:
        """Ack deliveries of this queue object together; they are durable on return.

        Raises StaleDelivery if the lock of one has expired; the others are still acked, except
        those of the same partition that were fetched together with it. Raises InvalidSetting if one
        belongs to another consumer; then none is acked.
        """
        given = [self._own(each) for each in deliveries]
        refused: list[MainstemError] = []
        for member in {id(each.member): each.member for each in given}.values():
            refused += self._settle(
                member, [each for each in given if each.member is member], Verdict.ACCEPT, wait=True
            )
        for error in refused:
            raise error

    def settle(self, given: Given, verdict: Verdict, *, wait: bool = True) -> None:
        """Settle one delivery with this verdict; raises StaleDelivery if its lock has expired."""
        for error in self._settle(given.member, [given], verdict, wait=wait):
            raise error

    def close(self) -> None:
        """Close; unsettled events are redelivered, which counts towards ``max_deliveries``."""
        self.close_for("the queue has been closed; open it again")

    def close_for(self, reason: str) -> None:
        """Close the queue; later calls raise ``reason`` as their error message."""
        with self._turn:
            already, self._closed = self._closed, self._closed or reason
            # Idle members leave first, or they would get the events that the others release.
            members = sorted(
                [*self._leaving, *self._members], key=lambda it: bool(it.out or it.waiting)
            )
            self._turn.notify_all()
        if already is not None:
            return
        failed: MainstemError | None = None
        for each in members:
            try:
                each.close()
            except MainstemError as error:
                failed = error
        failed = self._late(members) or failed
        if failed is not None:
            raise failed

    def _leave(self, error: BaseException | None) -> None:
        close_after(error, self.close)

    def __del__(self) -> None:
        # A finalizer may run in any thread at any point, so it only registers the members for
        # closing.
        if self._closed is None and self._members:
            self._reaper.note(Leaving([*self._leaving, *self._members]))

    # Fetching

    def _take(
        self, limit: int, timeout: float | None, *, ends: bool = False
    ) -> list[ConnectedDelivery]:
        asked_at = time.monotonic()
        until = None if timeout is None else asked_at + timeout
        end = QueueEnd(self._unsettled, self._ready)
        is_last = False
        while True:
            with self._turn:
                member, found = self._turn_to(limit, asked_at, until, ends=ends, is_last=is_last)
            if found or member is None:
                return [ConnectedDelivery(self, each) for each in found]
            try:
                self._let_leave()
                # Even with timeout 0, the server must be polled once.
                member.poll(_SLICE_S, self._lock_s)
            finally:
                with self._turn:
                    member.is_polled = False
                    self._turn.notify_all()
            self._check_reachable(member)
            if not member.waiting:
                is_last = (ends and end.is_here(self._held, was_given=member.was_given)) or (
                    until is not None and time.monotonic() >= until
                )

    def _turn_to(
        self, limit: int, asked_at: float, until: float | None, *, ends: bool, is_last: bool
    ) -> tuple[ShareMember | None, list[Given]]:
        """Return events, or a member that the caller must poll for some, or neither.

        Waits while all members are busy. Neither is returned at the end, when closed, or when the
        time is up.
        """
        while True:
            if self._closed is not None:
                return None, []
            self._tell_late(self._members)
            now = time.monotonic()
            self._let_go(now)
            found = self._hand_out(limit, asked_at, now)
            if found or is_last:
                return None, found
            member = self._free(limit, asked_at)
            if member is not None:
                member.is_polled = True
                return member, []
            if ends:
                # All members are busy: the caller itself may have the deliveries that keep them so.
                return None, []
            # Wait until another thread settles or fetches, or until the first lock expires.
            soonest = min((each.until for each in self._members if each.out), default=None)
            waits = [each - now for each in (soonest, until) if each is not None]
            if until is not None and now >= until:
                return None, []
            self._turn.wait(max(0.0, min(waits)) if waits else None)

    def _hand_out(self, limit: int, asked_at: float, now: float) -> list[Given]:
        found: list[Given] = []
        for member in self._members:
            while member.waiting and len(found) < limit:
                given = Given(member, member.waiting.popleft())
                member.out[given.shared.event.position] = given
                found.append(given)
        if found:
            self._prefetch.handed_out(asked_at, now)
        return found

    def _free(self, limit: int, asked_at: float) -> ShareMember | None:
        """Return a member that may fetch, adding one if necessary; None if all are busy."""
        free = [each for each in self._members if each.is_free]
        busy = len(self._members) - len(free)
        most = min(limit, _MOST_AT_ONCE) if limit > 1 else self._most(asked_at, busy)
        # A member whose last poll was empty may get events by now, so it is polled even if its
        # fetch size is larger than allowed; but not while released events may be redelivered.
        fitting = [
            each
            for each in free
            if each.most <= most or (each.has_asked and not self._prefetch.is_careful)
        ]
        alike = [each for each in fitting if each.most == most]
        # Apache Kafka divides the partitions among the members, so each of them must be polled.
        asked = [each for each in fitting if each.has_asked or (alike and not self._strict)]
        if asked or alike:
            return min(asked or alike, key=lambda it: it.polled_at)
        if len(self._members) >= _MOST_MEMBERS:
            if fitting:
                return max(fitting, key=lambda it: it.most)
            if not free:
                return None
            leaving = min(free, key=lambda it: it.has_asked)
            self._members.remove(leaving)
            self._leaving.append(leaving)
        member = ShareMember(RemoteShareConsumer(self._cluster, self._name, self._topic, most))
        self._members.append(member)
        return member

    def _most(self, asked_at: float, busy: int) -> int:
        """Return how many events a fetch may get, for a request of a single event."""
        is_ahead = any(
            each.most > 1 and (each.waiting or each.is_polled or each.has_asked)
            for each in self._members
        )
        if is_ahead or (busy < _FEW and not self._strict):
            return 1
        return self._prefetch.most(asked_at)

    def _let_leave(self) -> None:
        """Close the members that were replaced by others."""
        with self._turn:
            leaving, self._leaving = self._leaving, []
        for each in leaving:
            each.close()
        self._tell_late(leaving)

    def _let_go(self, now: float) -> None:
        """Release events prefetched too long ago; drop deliveries whose locks have expired."""
        for member in self._members:
            if member.waiting and now > member.until - self._lock_s / 2:
                back = [each.event for each in member.waiting]
                member.waiting.clear()
                member.give_back(back)
                self._prefetch.gave_back(len(back))
            if member.out and now >= member.until:
                # The server has released these events; librdkafka must know, or it would not fetch
                # again.
                back = [each.shared.event for each in member.out.values()]
                member.out.clear()
                member.give_back(back)

    def _held(self) -> int:
        with self._turn:
            return sum(len(each.out) + len(each.waiting) for each in self._members)

    def _check_reachable(self, member: ShareMember) -> None:
        if not member.gone:
            self._gone_since = None
            return
        now = time.monotonic()
        self._gone_since = self._gone_since or now
        if now - self._gone_since >= self._cluster.timeout_s:
            self._gone_since = None
            self._cluster.check_reachable()

    def _tell_late(self, members: Iterable[ShareMember]) -> None:
        """Raise the first error of settlements made with ``wait=False``, if there is one."""
        error = self._late(members)
        if error is not None:
            raise error

    def _late(self, members: Iterable[ShareMember]) -> MainstemError | None:
        """Return the first error of settlements made with ``wait=False``; None if there is none.

        The others are in its notes.
        """
        late = dict(each for member in members for each in member.take_late().items())
        if not late:
            return None
        first, *others = (self._stale(position, late[position]) for position in sorted(late))
        for each in others:
            first.add_note(f"as well: {each}")
        return first

    # Settling

    def _settle(
        self, member: ShareMember, given: list[Given], verdict: Verdict, *, wait: bool
    ) -> list[MainstemError]:
        self._check_open()
        now = time.monotonic()
        refused: list[MainstemError] = []
        said: list[Event] = []
        with self._turn:
            for each in given:
                event = each.shared.event
                if each.is_settled:
                    refused.append(self._stale(event.position, "it was settled before"))
                elif member.out.get(event.position) is not each or now >= each.until:
                    refused.append(self._stale(event.position, "its lock has run out"))
                else:
                    said.append(event)
                each.is_settled = True
        if said:
            try:
                answers = member.settle(said, verdict, wait=wait)
            finally:
                with self._turn:
                    for event in said:
                        member.out.pop(event.position, None)
                    self._turn.notify_all()
            refused += [self._stale(position, why) for position, why in answers.items()]
        return refused

    def _stale(self, position: Position, why: MainstemError | str) -> MainstemError:
        place = f"{self._topic}[{position.partition}]@{position.offset}"
        if isinstance(why, str | NotOut):
            return StaleDelivery(place, self._name, str(why))
        return why

    def _own(self, delivery: object) -> Given:
        if not isinstance(delivery, ConnectedDelivery):
            raise InvalidSetting(
                f"only deliveries can be acked, not a {type(delivery).__name__}: give what poll, "
                "poll_many or the loop gave; nothing was acked"
            )
        if not delivery.is_of(self):
            event = delivery.event
            raise InvalidSetting(
                f"{event.topic}[{event.partition}]@{event.offset} was delivered to another queue "
                "object, and only the one that gave a delivery can ack it; none of these "
                "deliveries was acked"
            )
        return delivery.given

    def _check_open(self) -> None:
        if self._closed is not None:
            raise Closed(self._closed)
