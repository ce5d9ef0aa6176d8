"""The source of events for a subscription to a server: partitions, start and end offsets."""

import re
import threading
import time
from collections.abc import Iterable, Mapping

from mainstem.client.connected.start_positions import offsets_of
from mainstem.client.subscription import SubscriptionOptions
from mainstem.core.errors import (
    Closed,
    Fenced,
    InvalidSetting,
    UnknownPartition,
    UnknownTopic,
    Unreachable,
)
from mainstem.core.event import Event
from mainstem.core.names import check_group, is_pattern, matches
from mainstem.remote.admin import Admin, Described, Place
from mainstem.remote.consumer import RemoteConsumer

_LOOK_S = 1.0
_SLICE_S = 0.1
"""Maximum time of one librdkafka poll in seconds: ``close`` has to wait until it ends."""


class ConnectedFeed:
    """Fetches the events of a subscription, for one thread; any thread may close it."""

    def __init__(self, administration: Admin, options: SubscriptionOptions) -> None:
        options.check()
        if options.group is not None:
            check_group(options.group)
        self._administration = administration
        self._options = options
        self._lock = threading.Lock()
        self._closed = False
        self._auto = options.group is not None and options.commit == "auto"
        self._commit_at = time.monotonic() + options.commit_s
        self._look_at = time.monotonic() + _LOOK_S
        self._gone_since: float | None = None
        self._unseen_since: float | None = None
        self._named: dict[str, str] = {}
        """The ids of topics that were subscribed by name."""
        self._known = self._places()
        places = list(self._known)
        self._tails = {place: at.tail for place, at in administration.bounds(places).items()}
        # Raises for an offset past the tail already here, even if the group has committed offsets.
        starts = self._begin(places)
        self._consuming = RemoteConsumer(
            administration.cluster,
            group=options.group,
            begin=self._begin,
            limits=None if options.follow else self._tails,
            commits=self._auto,
        )
        if options.group is None:
            self._consuming.read(starts)
        else:
            self._consuming.join([_subscribed(name) for name in options.topics])

    # Returning events, which finishes all events returned before

    def take(self, limit: int, timeout_s: float) -> list[Event]:
        """Return at most ``limit`` events; waits for one at most ``timeout_s``, and at most 0.1 s.

        Returns an empty list if none has arrived by then. The events returned before count as
        finished.
        """
        with self._lock:
            if self._closed:
                return []
            self._turn()
            events = self._consuming.take(limit, min(timeout_s, _SLICE_S))
            self._check_reachable()
            return events

    @property
    def ended(self) -> bool:
        """Whether no more events will come."""
        return self._closed or self._consuming.ended

    @property
    def closed(self) -> bool:
        """Whether the feed was closed."""
        return self._closed

    @property
    def assignment(self) -> tuple[Place, ...]:
        """The partitions (topic, number) that are being read."""
        return self._consuming.places

    @property
    def missed(self) -> int:
        """Number of events that were deleted before they could be read."""
        return self._consuming.missed

    # Finishing

    def commit(self, *, before: Iterable[Event] = ()) -> None:
        """Commit the offsets up to the last event returned, but not past events in ``before``."""
        if self._options.group is None:
            raise InvalidSetting("this subscription has no group, so it has no cursors")
        with self._lock:
            if self._closed:
                raise Closed("the subscription has been closed; what it finished was committed")
            self._consuming.commit(finished=False, wait=True, before=before)

    def close(self, *, finished: bool) -> None:
        """Leave the group; with ``finished``, the events returned last count as processed."""
        # Set before the lock is acquired, so that a thread that is reading ends and releases it.
        already, self._closed = self._closed, True
        with self._lock:
            if already:
                return
            try:
                if finished:
                    self._consuming.finish()
                if self._auto:
                    self._consuming.commit(finished=True, wait=True)
            except Fenced:
                # The group has given the partitions away: another member reads the uncommitted
                # events again.
                return
            finally:
                self._consuming.close()

    # Called under the lock

    def _turn(self) -> None:
        self._consuming.finish()
        now = time.monotonic()
        if self._auto and now >= self._commit_at:
            self._commit_at = now + self._options.commit_s
            try:
                self._consuming.commit(finished=True, wait=False)
            except Fenced:
                # The partition's new owner reads the uncommitted events again.
                return
        if self._options.group is None and self._options.follow and now >= self._look_at:
            self._look_at = now + _LOOK_S
            self._look_patiently(now)

    def _look_patiently(self, now: float) -> None:
        """Look for new and deleted topics; raises Unreachable only after the client's timeout."""
        try:
            self._look_around()
        except Unreachable:
            since = self._unseen_since or now
            if time.monotonic() - since >= self._administration.cluster.timeout_s:
                self._unseen_since = None
                raise
            self._unseen_since = since
        else:
            self._unseen_since = None

    def _look_around(self) -> None:
        """Start reading new partitions, and stop reading deleted ones."""
        try:
            places = self._places()
        except UnknownTopic as error:
            # There may be a new topic of the same name, but it is not the one subscribed to.
            self._consuming.drop([place for place in self._known if place[0] == error.topic])
            raise
        kept = {place: topic for place, topic in self._known.items() if places.get(place) == topic}
        gone = self._known.keys() - kept.keys()
        self._consuming.drop(gone)
        for place in gone:
            self._tails.pop(place, None)
        self._known = kept
        new = sorted(places.keys() - kept.keys())
        if not new:
            return
        try:
            self._consuming.read(self._begin(new))
        except UnknownPartition:
            # One of them was deleted in the meantime; the next check starts to read the others.
            return
        self._known = places

    def _check_reachable(self) -> None:
        if not self._consuming.gone:
            self._gone_since = None
            return
        now = time.monotonic()
        self._gone_since = self._gone_since or now
        if now - self._gone_since >= self._administration.cluster.timeout_s:
            self._gone_since = None
            self._administration.cluster.check_reachable()

    def _begin(self, places: Iterable[Place]) -> dict[Place, int]:
        wanted = list(places)
        if self._options.start != "latest":
            return offsets_of(self._administration, wanted, self._options.start)
        # Partitions created later are read from their start.
        new = [place for place in wanted if place not in self._tails]
        known = {place: self._tails[place] for place in wanted if place in self._tails}
        return known | offsets_of(self._administration, new, "earliest")

    def _places(self) -> dict[Place, str]:
        """Return the partitions that match names and patterns now, each with its topic's id.

        Raises UnknownTopic if a topic subscribed by name does not exist, or was deleted and created
        again.
        """
        names = [name for name in self._options.topics if not is_pattern(name)]
        patterns = [name for name in self._options.topics if is_pattern(name)]
        wanted = set(names)
        if patterns:
            wanted |= {
                name
                for name in self._administration.partitions()
                if not name.startswith("__") and any(matches(each, name) for each in patterns)
            }
        described = self._administration.describe(sorted(wanted)) if wanted else {}
        for name in names:
            if name not in described or described[name].id != self._named.setdefault(
                name, described[name].id
            ):
                raise UnknownTopic(name)
        return self._chosen(described)

    def _chosen(self, topics: Mapping[str, Described]) -> dict[Place, str]:
        places = {
            (name, number): each.id
            for name, each in topics.items()
            for number in range(each.partitions)
        }
        chosen = self._options.partitions
        if chosen is None:
            return places
        missing = set(chosen) - {number for _, number in places}
        if missing:
            raise UnknownPartition(self._options.topics[0], min(missing))
        return {place: topic for place, topic in places.items() if place[1] in chosen}


def _subscribed(name: str) -> str:
    """Return a topic's name or pattern as librdkafka expects it: a pattern as a regex."""
    if not is_pattern(name):
        return name
    written = re.escape(name).replace(r"\*", ".*").replace(r"\?", ".")
    return f"^{written}$"
