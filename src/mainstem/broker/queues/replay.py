"""Replays the queues' journal: which queues exist, and their state per partition (windows).

A window is a queue's state in one partition. It is stored when events in it are settled, not when
they are delivered (except after a crash, see ``queues``). So deliveries cost no writes, and a
restart redelivers at most the events in flight. A record holds the whole window or the changes to
it. Changes are numbered from 0 after each whole window, and a whole window is written again before
there are too many. Compaction keeps the latest record of each key, and thus the latest whole window
with all later changes. Changes from before that window are ignored.
"""

from collections.abc import Container, Iterable, Iterator, Mapping

from mainstem.broker.queues.records import (
    ChangeKey,
    QueueChange,
    QueueKey,
    QueueSet,
    QueueSettings,
    RunKey,
    RunSet,
    WindowChange,
    WindowKey,
    WindowSet,
)
from mainstem.core.errors import InvalidSetting
from mainstem.core.names import check_group

MAX_QUEUES = 100_000
MAX_CHANGES = 64
"""Number of changes after which the whole window is stored again."""
_BEGINNING = WindowSet(0)


class _Written:
    """A window as stored: the last record of the whole window, and the changes since."""

    __slots__ = ("changes", "numbers", "whole")

    def __init__(self) -> None:
        self.whole: WindowSet | None = None
        self.changes: list[WindowChange] = []
        self.numbers = 0
        """Number of change records that the journal holds for this window."""

    def now(self) -> WindowSet:
        """Return the window with all changes applied."""
        window = self.whole or _BEGINNING
        for change in self.changes:
            window = change.applied(window)
        return window


class QueueFold:
    """The stored state of all queues, rebuilt by replaying the journal."""

    def __init__(self) -> None:
        self._known: dict[QueueKey, QueueSet] = {}
        self._by_topic: dict[str, dict[QueueKey, None]] = {}
        self._by_name: dict[str, dict[QueueKey, None]] = {}
        self._windows: dict[QueueKey, dict[int, _Written]] = {}
        self.run: RunSet | None = None
        """Whether a process uses queues; None if no process ever did."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, QueueFold):
            return NotImplemented
        windows = {key: self.windows(key) for key in self._windows}
        others = {key: other.windows(key) for key in other._windows}
        return (self._known, windows) == (other._known, others)

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[QueueKey]:
        return iter(self._known)

    def get(self, key: QueueKey) -> QueueSet | None:
        """Return a queue's stored settings, None if there is no such queue."""
        return self._known.get(key)

    def on_topic(self, topic_id: str) -> list[QueueKey]:
        """Return the keys of the queues on a topic."""
        return list(self._by_topic.get(topic_id, ()))

    def named(self, name: str) -> list[QueueKey]:
        """Return the keys of the queues with a name, on all topics."""
        return list(self._by_name.get(name, ()))

    def names(self) -> set[str]:
        """Return the names of all queues."""
        return set(self._by_name)

    def topic_ids(self) -> list[str]:
        """Return the ids of the topics that have queues."""
        return list(self._by_topic)

    def window(self, key: QueueKey, partition: int) -> WindowSet:
        """Return a queue's window in a partition; that of a partition added later starts at 0."""
        found = self._windows.get(key, {}).get(partition)
        return _BEGINNING if found is None else found.now()

    def windows(self, key: QueueKey) -> list[QueueChange]:
        """Return all stored windows of a queue."""
        return [
            QueueChange(WindowKey(key.name, key.topic_id, number), window.now())
            for number, window in sorted(self._windows.get(key, {}).items())
        ]

    def change(
        self, key: QueueKey, partition: int, value: WindowChange | None
    ) -> QueueChange | None:
        """Return the record of a change to a window; None if the whole window must be stored."""
        found = self._windows.get(key, {}).get(partition)
        if value is None or found is None or found.whole is None:
            return None
        if len(found.changes) >= MAX_CHANGES:
            return None
        number = len(found.changes)
        return QueueChange(ChangeKey(key.name, key.topic_id, partition, number), value)

    def set(
        self,
        key: QueueKey,
        settings: QueueSettings,
        starts: Mapping[int, int],
        now_ms: int,
    ) -> list[QueueChange]:
        """Return the records that create a queue at these start offsets, or change its settings."""
        check_group(key.name, "queue")
        settings.check()
        was = self._known.get(key)
        if was is not None:
            value = QueueSet(settings, was.created_ms)
            return [] if value == was else [QueueChange(key, value)]
        if len(self._known) >= MAX_QUEUES:
            raise InvalidSetting(f"there are {MAX_QUEUES} queues; delete some first")
        return [
            QueueChange(key, QueueSet(settings, now_ms)),
            *(
                QueueChange(WindowKey(key.name, key.topic_id, number), WindowSet(offset))
                for number, offset in sorted(starts.items())
            ),
        ]

    def remove(self, key: QueueKey) -> list[QueueChange]:
        """Return the records that delete a queue and its windows."""
        gone: list[QueueChange] = []
        for number, window in self._windows.get(key, {}).items():
            at = (key.name, key.topic_id, number)
            gone += [QueueChange(ChangeKey(*at, each), None) for each in range(window.numbers)]
            gone.append(QueueChange(WindowKey(*at), None))
        return [*gone, QueueChange(key, None)]

    def strays(self, topic_ids: Container[str]) -> list[QueueKey]:
        """Return the keys of queues whose topic is not among these topic ids."""
        return [
            key
            for topic_id, keys in self._by_topic.items()
            if topic_id not in topic_ids
            for key in keys
        ]

    def apply(self, changes: Iterable[QueueChange]) -> None:
        """Apply records, new or replayed at start; nothing else modifies this state."""
        for key, value in changes:
            if isinstance(key, RunKey):
                self.run = value if isinstance(value, RunSet) else None
                continue
            if isinstance(key, QueueKey):
                self._apply_queue(key, value if isinstance(value, QueueSet) else None)
                continue
            owner = QueueKey(key.name, key.topic_id)
            if isinstance(key, ChangeKey) and value is None:
                continue
            if value is None:
                self._forget(owner, key.partition)
                continue
            windows = self._windows.setdefault(owner, {})
            window = windows.setdefault(key.partition, _Written())
            if isinstance(key, ChangeKey) and isinstance(value, WindowChange):
                window.changes.append(value)
                window.numbers = max(window.numbers, key.number + 1)
            elif isinstance(value, WindowSet):
                window.whole = value
                window.changes.clear()

    def _apply_queue(self, key: QueueKey, value: QueueSet | None) -> None:
        indexes = ((self._by_topic, key.topic_id), (self._by_name, key.name))
        if value is not None:
            self._known[key] = value
            for index, at in indexes:
                index.setdefault(at, {})[key] = None
        elif self._known.pop(key, None) is not None:
            for index, at in indexes:
                del index[at][key]
                if not index[at]:
                    del index[at]

    def _forget(self, owner: QueueKey, partition: int) -> None:
        windows = self._windows.get(owner, {})
        windows.pop(partition, None)
        if not windows:
            self._windows.pop(owner, None)
