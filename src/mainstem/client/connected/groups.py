"""Consumer groups of a server: list, show, seek, delete."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from mainstem.client.connected.start_positions import offsets_of
from mainstem.client.info import GroupInfo, Lag
from mainstem.client.seekable_groups import SeekableGroups
from mainstem.client.start_positions import Start
from mainstem.remote.admin import Admin, Bounds, Place
from mainstem.remote.consumer_groups import ConsumerGroups, GroupState
from mainstem.remote.timestamps import times_at


class ConnectedGroups(SeekableGroups):
    """Implements ``Groups`` through the Kafka protocol."""

    def __init__(self, administration: Admin, check_open: Callable[[], None]) -> None:
        super().__init__(check_open)
        self._administration = administration
        self._cursors = ConsumerGroups(administration)

    def list(self) -> tuple[GroupInfo, ...]:
        """Return every group that has members or committed offsets."""
        self._check_open()
        return self._infos(self._cursors.states(self._cursors.names()))

    def show(self, name: str) -> GroupInfo:
        """Return the members and the lag of one group."""
        self._check_open()
        return self._infos([self._cursors.state(name)])[0]

    def delete(self, name: str) -> None:
        """Delete a group and its committed offsets; it must not have members."""
        self._check_open()
        self._cursors.delete(name)

    def _members(self, name: str) -> int:
        return len(self._cursors.state(name).members)

    def _partitions(self, topic: str) -> int:
        return self._administration.count(topic)

    def _offsets(self, places: Sequence[Place], to: Start) -> dict[Place, int]:
        return offsets_of(self._administration, places, to)

    def _move(self, name: str, offsets: Mapping[Place, int]) -> None:
        self._cursors.move(name, offsets)

    def _tails(self, places: Iterable[Place]) -> dict[Place, int]:
        return {place: at.tail for place, at in self._administration.bounds(places).items()}

    def _infos(self, states: Iterable[GroupState]) -> tuple[GroupInfo, ...]:
        found = list(states)
        places = {place for state in found for place in _places(state)}
        bounds = self._administration.bounds(sorted(places))
        return self._with_ages([_info(state, bounds) for state in found])

    def _with_ages(self, infos: Sequence[GroupInfo]) -> tuple[GroupInfo, ...]:
        """Return the groups with the timestamp of the first unread event added to each lag."""
        unread = {
            (lag.topic, lag.partition, lag.cursor or 0)
            for info in infos
            for lag in info.lags
            if lag.lag
        }
        times: dict[tuple[str, int, int], int] = {}
        while unread:
            # Groups may have different offsets in a partition; each round reads one event per
            # partition.
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
        # The committed offset of a deleted topic may still be there.
        if place in bounds
    )
    return GroupInfo(state.name, "live" if state.members else "empty", state.members, lags)


def _lag(state: GroupState, place: Place, bounds: Bounds, member: str | None) -> Lag:
    cursor = state.cursors.get(place)
    read = bounds.start if cursor is None else max(cursor, bounds.start)
    missed = 0 if cursor is None else max(0, bounds.start - cursor)
    lag = max(0, bounds.tail - read)
    return Lag(state.name, *place, cursor, bounds.tail, lag, missed, member)
