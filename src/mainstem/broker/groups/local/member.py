"""One member of a local group, as the consuming program holds it."""

from collections.abc import Iterable, Mapping

from mainstem.broker.callbacks import make
from mainstem.broker.groups.cursors import Cursor
from mainstem.broker.groups.local.coordinator import AssignedPartition, Assignment
from mainstem.broker.state import State
from mainstem.log.port import Durable


class Member:
    """One member of a group, as the consuming program sees it; thread-safe.

    Whenever ``changed`` (see ``Broker.join``) is called, the program reads ``assignment``. It
    starts to read new partitions at the group's cursor. It stops reading those in ``revoked``,
    commits its offsets in them, and releases them.
    """

    def __init__(self, state: State, group: str, member: str) -> None:
        self._state = state
        self._now_ms = state.clocks.now_ms
        self.group = group
        self.id = member

    def assignment(self) -> Assignment:
        """Return the partitions to read and to give up; raises Fenced if the member was removed."""
        with self._state.lock:
            calls = self._state.groups.tick(self._now_ms())
        make(calls)
        with self._state.lock:
            return self._state.groups.assignment(self.group, self.id)

    def commit(self, offsets: Mapping[AssignedPartition, int], metadata: str = "") -> Durable:
        """Commit offsets in owned partitions; raises Fenced and commits none if one was lost."""
        now_ms = self._now_ms()
        state = self._state
        with state.lock:
            held = state.groups.held(self.group, self.id, offsets)
            cursors = {
                partition: Cursor(offset, now_ms, metadata)
                for partition, offset in zip(held, offsets.values(), strict=True)
            }
            changes = state.cursors.commit(self.group, cursors)
            durable = state.change_cursors(changes, now_ms)
            calls = state.make_room(held)
        make(calls)
        return durable

    def release(self, partitions: Iterable[AssignedPartition]) -> None:
        """Give up partitions that the program has stopped reading and has committed."""
        with self._state.lock:
            calls = self._state.groups.release(self.group, self.id, partitions)
        make(calls)

    def leave(self) -> None:
        """Leave the group; its partitions go to other members at once, so commit before."""
        with self._state.lock:
            calls = self._state.groups.leave(self.group, self.id, self._now_ms())
        make(calls)
