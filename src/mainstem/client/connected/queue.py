"""A queue of a server: deliveries that wait in the thread of their consumer.

How this works: a queue over the network is a share group [KIP-932]. A member of one may ask for
more only when all that it was given is settled. So a queue object is as many members as are needed:
who asks while everything of the members there are is out, asks as another one.

What waits here has its lock running, and the server counts what goes back as delivered. So a member
asks for one event, and for more only while they are taken so fast that all are handed out well
within their lock (``prefetch.py``); only one member at a time asks for more than are wanted.
What was not handed out before half of its lock is over goes back, and is handed out next, one by
one: an event that nobody has seen goes back once from here.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator

from mainstem.client.checks import check_limit
from mainstem.client.connected.delivery import ConnectedDelivery
from mainstem.client.connected.prefetch import Prefetch
from mainstem.client.connected.queue_end import QueueEnd
from mainstem.client.connected.share_member import Given, Leaving, ShareMember
from mainstem.client.contexts import Closing
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
"""So many members there are, and so many events one asks for, at most."""
_FEW = 2
"""Where whole batches come anyway, so many members ask for single events whatever the pace is."""
_SLICE_S = 0.1
"""How long one wait in librdkafka is at most: who closes waits for its end."""


class ConnectedQueue(Closing):
    """Implements ``Queue`` through the Kafka protocol; one consumer, in one thread or several."""

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
        self._cluster = cluster
        self._reaper = reaper
        self._topic, self._name = topic, name
        self._lock_s = lock_s
        self._follow = follow
        self._unsettled = unsettled
        """How many events of the queue are not settled, by the server; None if it cannot tell."""
        self._ready = ready
        """How many of them are not out with anybody; None if the server cannot tell."""
        self._strict = strict
        """Whether no more events are given out than are asked for."""
        self._turn = threading.Condition()
        """Guards what follows; never held while the server is waited for."""
        self._members: list[ShareMember] = []
        self._closed: str | None = None
        self._leaving: list[ShareMember] = []
        """Members that make room for others; they are closed when nobody waits for it."""
        self._prefetch = Prefetch(lock_s)
        self._gone_since: float | None = None

    def begin(self, has_begun: Callable[[], bool], timeout_s: float) -> None:
        """Wait until the server knows where the queue begins; a while, if it does not tell."""
        member = self._free(1, time.monotonic())
        until = time.monotonic() + timeout_s
        while member is not None and not member.waiting and time.monotonic() < until:
            if has_begun():
                return
            member.poll(_SLICE_S, self._lock_s)

    def __iter__(self) -> Iterator[ConnectedDelivery]:
        """Iterate."""
        return self

    def __next__(self) -> ConnectedDelivery:
        """Return the next delivery; StopIteration once closed, or if it does not follow."""
        found = self._take(1, None, ends=not self._follow)
        if not found:
            raise StopIteration
        return found[0]

    def poll(self, timeout: float | None = None) -> ConnectedDelivery | None:
        """Return the next delivery, or None if none came in ``timeout`` seconds."""
        self._check_open()
        return next(iter(self._take(1, timeout)), None)

    def poll_many(self, limit: int = 100, timeout: float | None = None) -> list[ConnectedDelivery]:
        """Return the deliveries that can be had, at most ``limit``, waiting for the first."""
        self._check_open()
        check_limit(limit)
        return self._take(limit, timeout)

    def ack_many(self, deliveries: Iterable[Delivery]) -> None:
        """Ack deliveries of this queue object together; durable on return.

        Raises StaleDelivery if one of them is not out any more; the others are acked all the same,
        except those that were given out with it of the same partition. Raises InvalidSetting if
        one was delivered to another consumer; none is acked then.
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
        """Say what becomes of one delivery; raises StaleDelivery."""
        for error in self._settle(given.member, [given], verdict, wait=wait):
            raise error

    def close(self) -> None:
        """Leave the queue: what was not settled comes again at once; that delivery counts."""
        self.close_for("the queue has been closed; open it again")

    def close_for(self, reason: str) -> None:
        """Close, and say why to whoever uses it later."""
        with self._turn:
            already, self._closed = self._closed, self._closed or reason
            # First those that have nothing, or they would take what the others give back.
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
            for position, why in each.take_late().items():
                failed = self._stale(position, why)
        if failed is not None:
            raise failed

    def _leave(self, error: BaseException | None) -> None:
        try:
            self.close()
        except MainstemError:
            # The error inside says more.
            if error is None:
                raise

    def __del__(self) -> None:
        # This may run at any point of any thread, so it only leaves a note, for the stem.
        if self._closed is None and self._members:
            self._reaper.note(Leaving([*self._leaving, *self._members]))

    # Taking

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
                # Also for those who do not want to wait: the server has to be asked at least.
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
        """Return events, or else who is to ask for them; neither if there is nothing to be had."""
        while True:
            if self._closed is not None:
                return None, []
            self._tell_late()
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
                # As much is out here as can be, and whoever holds it may be the one who asks.
                return None, []
            # Somebody settles, or another has asked, or the lock of what is out runs out.
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
        """Return a member that may ask for as many events as is safe; None if all are busy."""
        free = [each for each in self._members if each.is_free]
        busy = len(self._members) - len(free)
        most = min(limit, _MOST_AT_ONCE) if limit > 1 else self._most(asked_at, busy)
        # Something may have come since for whoever has asked in vain, so it is asked though it asks
        # for more; not where that may be what went back from another.
        fitting = [
            each
            for each in free
            if each.most <= most or (each.has_asked and not self._prefetch.is_careful)
        ]
        alike = [each for each in fitting if each.most == most]
        # Kafka divides the partitions among the members, so that there each of them has its turn.
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
        """Return how many events may be asked for, for somebody who has asked for one."""
        is_ahead = any(
            each.most > 1 and (each.waiting or each.is_polled or each.has_asked)
            for each in self._members
        )
        if is_ahead or (busy < _FEW and not self._strict):
            return 1
        return self._prefetch.most(asked_at)

    def _let_leave(self) -> None:
        """Close the members that made room for others."""
        with self._turn:
            leaving, self._leaving = self._leaving, []
        for each in leaving:
            each.close()
            for position, why in each.take_late().items():
                raise self._stale(position, why)

    def _let_go(self, now: float) -> None:
        """Give back what waits here for too long, and forget what is out for too long."""
        for member in self._members:
            if member.waiting and now > member.until - self._lock_s / 2:
                back = [each.event for each in member.waiting]
                member.waiting.clear()
                member.give_back(back)
                self._prefetch.gave_back(len(back))
            if member.out and now >= member.until:
                # They are out no more; librdkafka has to be told, or it would not ask again.
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

    def _tell_late(self) -> None:
        for member in self._members:
            for position, why in member.take_late().items():
                raise self._stale(position, why)

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
