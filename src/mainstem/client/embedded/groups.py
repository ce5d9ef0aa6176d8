"""Consumer groups of a log in this process: list, show, seek, delete."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from mainstem.broker.door import Door, GroupState, TopicPartition
from mainstem.broker.door import Lag as BrokerLag
from mainstem.client.embedded.start_positions import offset_of
from mainstem.client.info import GroupInfo, Lag
from mainstem.client.seekable_groups import SeekableGroups
from mainstem.client.start_positions import Start
from mainstem.core.errors import MainstemError


class EmbeddedGroups(SeekableGroups):
    """Implements ``Groups`` on the broker of this process."""

    def __init__(self, broker: Door, check_open: Callable[[], None]) -> None:
        super().__init__(check_open)
        self._broker = broker

    def list(self) -> tuple[GroupInfo, ...]:
        """Return every group that has members or committed offsets."""
        self._check_open()
        return tuple(self._info(state) for state in self._broker.groups())

    def show(self, name: str) -> GroupInfo:
        """Return the members and the lag of one group."""
        self._check_open()
        return self._info(self._broker.group(name))

    def delete(self, name: str) -> None:
        """Delete a group and its committed offsets; it must not have members."""
        self._check_open()
        self._broker.delete_group(name).wait()

    def _members(self, name: str) -> int:
        return len(self._broker.group(name).members)

    def _partitions(self, topic: str) -> int:
        return len(self._broker.topic(topic).partitions)

    def _offsets(self, places: Sequence[TopicPartition], to: Start) -> dict[TopicPartition, int]:
        return {place: offset_of(self._broker, *place, to) for place in places}

    def _move(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        self._broker.seek(name, offsets).wait()

    def _tails(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {place: self._broker.bounds(*place).tail for place in places}

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
            # The topic was deleted or is damaged: readers get an error, the lag just has no age.
            return None
