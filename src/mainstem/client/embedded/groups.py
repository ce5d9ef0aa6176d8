"""Groups of the embedded log: list, show, seek, delete."""

from collections.abc import Callable

from mainstem.broker.door import Door, GroupState
from mainstem.broker.door import Lag as BrokerLag
from mainstem.client.embedded.starts import offset_of
from mainstem.client.info import GroupInfo, Lag
from mainstem.client.starts import Start, check_start
from mainstem.core.errors import GroupIsLive, MainstemError, UnknownGroup
from mainstem.core.names import check_group


class EmbeddedGroups:
    """Implements ``Groups`` on the broker of this process."""

    def __init__(self, broker: Door, check_open: Callable[[], None]) -> None:
        self._broker = broker
        self._check_open = check_open

    def list(self) -> tuple[GroupInfo, ...]:
        """Return every group that is live or has cursors."""
        self._check_open()
        return tuple(self._info(state) for state in self._broker.groups())

    def show(self, name: str) -> GroupInfo:
        """Return one group."""
        self._check_open()
        return self._info(self._broker.group(name))

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
        self._check_not_live(name)
        count = len(self._broker.topic(topic).partitions)
        numbers = range(count) if partition is None else (partition,)
        offsets = {(topic, each): offset_of(self._broker, topic, each, to) for each in numbers}
        if not dry_run:
            self._broker.seek(name, offsets).wait()
        found = []
        for (_, number), offset in offsets.items():
            tail = self._broker.bounds(topic, number).tail
            found.append(Lag(name, topic, number, offset, tail, max(0, tail - offset)))
        return tuple(found)

    def delete(self, name: str) -> None:
        """Forget a group that has no live members."""
        self._check_open()
        self._broker.delete_group(name).wait()

    def _check_not_live(self, name: str) -> None:
        """Refuse what the broker would refuse, so that a dry run tells the same."""
        try:
            members = len(self._broker.group(name).members)
        except UnknownGroup:
            return
        if members:
            raise GroupIsLive(name, f"{members} members", "moved")

    def _info(self, state: GroupState) -> GroupInfo:
        found = tuple(self._lag(each) for each in state.lags)
        return GroupInfo(state.name, state.state, state.members, found)

    def _lag(self, lag: BrokerLag) -> Lag:
        return Lag(
            lag.group,
            lag.topic,
            lag.partition,
            lag.cursor,
            lag.tail,
            lag.lag,
            missed=lag.missed,
            member=lag.member,
            unread_since_ms=self._unread_since_ms(lag),
        )

    def _unread_since_ms(self, lag: BrokerLag) -> int | None:
        if not lag.lag:
            return None
        try:
            return self._broker.time_at(lag.topic, lag.partition, lag.cursor or 0)
        except MainstemError:
            # Deleted meanwhile, or damaged: who reads it is told, who asks for the lag need not be.
            return None
