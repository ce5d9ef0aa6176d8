"""Groups of a server: list, show, seek, delete."""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from mainstem.client.connected.starts import offsets_of
from mainstem.client.info import GroupInfo, Lag
from mainstem.client.starts import Start, check_start
from mainstem.core.errors import GroupIsLive, UnknownGroup
from mainstem.core.names import check_group
from mainstem.remote.admin import Admin, Bounds, Place
from mainstem.remote.consumer_groups import ConsumerGroups, GroupState
from mainstem.remote.timestamps import times_at


class ConnectedGroups:
    """Implements ``Groups`` through the Kafka protocol."""

    def __init__(self, administration: Admin, check_open: Callable[[], None]) -> None:
        self._administration = administration
        self._cursors = ConsumerGroups(administration)
        self._check_open = check_open

    def list(self) -> tuple[GroupInfo, ...]:
        """Return every group that is live or has cursors."""
        self._check_open()
        return self._infos(self._cursors.states(self._cursors.names()))

    def show(self, name: str) -> GroupInfo:
        """Return one group."""
        self._check_open()
        return self._infos([self._cursors.state(name)])[0]

    def seek(
        self,
        name: str,
        topic: str,
        to: Start,
        *,
        partition: int | None = None,
        dry_run: bool = False,
    ) -> tuple[Lag, ...]:
        """Move the cursors of a group that has no live members; return where they are then."""
        self._check_open()
        check_start(to)
        check_group(name)
        self._check_not_live(name, "moved")
        count = self._administration.count(topic)
        numbers = range(count) if partition is None else (partition,)
        offsets = offsets_of(self._administration, [(topic, each) for each in numbers], to)
        if not dry_run:
            self._cursors.move(name, offsets)
        bounds = self._administration.bounds(offsets)
        return tuple(
            Lag(name, topic, place[1], offset, at.tail, max(0, at.tail - offset))
            for place, offset in offsets.items()
            if (at := bounds.get(place))
        )

    def delete(self, name: str) -> None:
        """Forget a group that has no live members."""
        self._check_open()
        self._cursors.delete(name)

    def _check_not_live(self, name: str, deed: str) -> None:
        """Refuse what the server would refuse, so that a dry run tells the same."""
        try:
            members = len(self._cursors.state(name).members)
        except UnknownGroup:
            return
        if members:
            raise GroupIsLive(name, f"{members} members", deed)

    def _infos(self, states: Iterable[GroupState]) -> tuple[GroupInfo, ...]:
        found = list(states)
        places = {place for state in found for place in _places(state)}
        bounds = self._administration.bounds(sorted(places))
        return self._with_ages([_info(state, bounds) for state in found])

    def _with_ages(self, infos: Sequence[GroupInfo]) -> tuple[GroupInfo, ...]:
        """Look at the first event that each group has not read, to tell how old it is."""
        unread = {
            (lag.topic, lag.partition, lag.cursor or 0)
            for info in infos
            for lag in info.lags
            if lag.lag
        }
        times: dict[tuple[str, int, int], int] = {}
        while unread:
            # Groups may stand at several offsets of a partition, and one is read at a time.
            turn = {(topic, number): offset for topic, number, offset in unread}
            asked = {(*place, offset) for place, offset in turn.items()}
            unread -= asked
            for place, when in times_at(self._administration.cluster, turn).items():
                times[*place, turn[place]] = when

        def aged(lag: Lag) -> Lag:
            when = times.get((lag.topic, lag.partition, lag.cursor or 0))
            return msgspec.structs.replace(lag, unread_since_ms=when if lag.lag else None)

        return tuple(
            msgspec.structs.replace(info, lags=tuple(aged(lag) for lag in info.lags))
            for info in infos
        )


def _places(state: GroupState) -> set[Place]:
    owned = {place for places in state.members.values() for place in places}
    return owned | state.cursors.keys()


def _info(state: GroupState, bounds: dict[Place, Bounds]) -> GroupInfo:
    owners = {place: member for member, places in state.members.items() for place in places}
    lags = tuple(
        _lag(state, place, bounds[place], owners.get(place))
        for place in sorted(_places(state))
        # A cursor may outlive its topic.
        if place in bounds
    )
    return GroupInfo(state.name, "live" if state.members else "empty", state.members, lags)


def _lag(state: GroupState, place: Place, bounds: Bounds, member: str | None) -> Lag:
    cursor = state.cursors.get(place)
    read = bounds.start if cursor is None else max(cursor, bounds.start)
    missed = 0 if cursor is None else max(0, bounds.start - cursor)
    lag = max(0, bounds.tail - read)
    return Lag(state.name, *place, cursor, bounds.tail, lag, missed, member)
