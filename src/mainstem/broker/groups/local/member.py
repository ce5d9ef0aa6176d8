"""One consumer of a group, as the program that consumes holds it."""

from collections.abc import Callable, Iterable, Mapping

from mainstem.broker.callbacks import make
from mainstem.broker.groups.cursors import Cursor
from mainstem.broker.groups.local.coordinator import AssignedPartition, Assignment
from mainstem.broker.state import State
from mainstem.log.port import Durable


class Member:
    """A place in a group: what to read, how far it was read, and giving it up.

    Its program looks at ``assignment`` whenever it is told that it changed. It begins shares it
    has not seen before at the group's cursor, and those under ``revoked`` it finishes, commits and
    releases. Safe to use from several threads.
    """

    def __init__(self, state: State, now_ms: Callable[[], int], group: str, member: str) -> None:
        self._state = state
        self._now_ms = now_ms
        self.group = group
        self.id = member

    def assignment(self) -> Assignment:
        """Return what to read and what to give up; raises Fenced if it is no member any more."""
        with self._state.lock:
            calls = self._state.groups.tick(self._now_ms())
        make(calls)
        with self._state.lock:
            return self._state.groups.assignment(self.group, self.id)

    def commit(self, offsets: Mapping[AssignedPartition, int], metadata: str = "") -> Durable:
        """Move the group's cursors in shares it has; Fenced, and nothing moved, if one is gone."""
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

    def release(self, shares: Iterable[AssignedPartition]) -> None:
        """Give up shares that it has stopped reading and has committed."""
        with self._state.lock:
            calls = self._state.groups.release(self.group, self.id, shares)
        make(calls)

    def leave(self) -> None:
        """Leave the group; what it owned goes to others at once, so commit before."""
        with self._state.lock:
            calls = self._state.groups.leave(self.group, self.id, self._now_ms())
        make(calls)
