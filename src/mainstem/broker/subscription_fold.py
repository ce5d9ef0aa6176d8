"""Which subscriptions there are, and how far each has got: a fold over their journal.

A window is written down when something in it is settled, not when events are given out: after a
crash at most what was out comes again, and no read costs a write.
"""

from collections.abc import Container, Iterable, Iterator, Mapping

from mainstem.broker.subscription import (
    SubscriptionChange,
    SubscriptionKey,
    SubscriptionSet,
    SubscriptionSettings,
    WindowKey,
    WindowSet,
)
from mainstem.core.errors import InvalidSetting
from mainstem.core.names import check_group

MAX_SUBSCRIPTIONS = 100_000
_BEGINNING = WindowSet(0)


class SubscriptionFold:
    """What has been written down of every subscription."""

    def __init__(self) -> None:
        self._known: dict[SubscriptionKey, SubscriptionSet] = {}
        self._windows: dict[SubscriptionKey, dict[int, WindowSet]] = {}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SubscriptionFold):
            return NotImplemented
        return (self._known, self._windows) == (other._known, other._windows)

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[SubscriptionKey]:
        return iter(self._known)

    def get(self, key: SubscriptionKey) -> SubscriptionSet | None:
        """Return a subscription, if there is one."""
        return self._known.get(key)

    def window(self, key: SubscriptionKey, partition: int) -> WindowSet:
        """Return how far a subscription has got; a partition that came later is read from 0."""
        return self._windows.get(key, {}).get(partition, _BEGINNING)

    def windows(self, key: SubscriptionKey) -> list[SubscriptionChange]:
        """Return what has been written down of a subscription's windows."""
        return [
            SubscriptionChange(WindowKey(key.name, key.topic_id, number), window)
            for number, window in self._windows.get(key, {}).items()
        ]

    def set(
        self,
        key: SubscriptionKey,
        settings: SubscriptionSettings,
        starts: Mapping[int, int],
        now_ms: int,
    ) -> list[SubscriptionChange]:
        """Decide to create a subscription that begins somewhere, or to alter its settings."""
        check_group(key.name)
        settings.check()
        was = self._known.get(key)
        if was is not None:
            value = SubscriptionSet(settings, was.created_ms)
            return [] if value == was else [SubscriptionChange(key, value)]
        if len(self._known) >= MAX_SUBSCRIPTIONS:
            raise InvalidSetting(f"there are {MAX_SUBSCRIPTIONS} subscriptions; delete some first")
        return [
            SubscriptionChange(key, SubscriptionSet(settings, now_ms)),
            *(
                SubscriptionChange(WindowKey(key.name, key.topic_id, number), WindowSet(offset))
                for number, offset in sorted(starts.items())
            ),
        ]

    def remove(self, key: SubscriptionKey) -> list[SubscriptionChange]:
        """Decide to forget a subscription and its windows."""
        windows = self._windows.get(key, {})
        gone = [
            SubscriptionChange(WindowKey(key.name, key.topic_id, number), None)
            for number in windows
        ]
        return [*gone, SubscriptionChange(key, None)]

    def strays(self, topic_ids: Container[str]) -> list[SubscriptionKey]:
        """Return the subscriptions whose topic is none of these."""
        return [key for key in self._known if key.topic_id not in topic_ids]

    def apply(self, changes: Iterable[SubscriptionChange]) -> None:
        """Make changes true; the only place where this state changes, live and on replay."""
        for key, value in changes:
            if isinstance(key, SubscriptionKey):
                if isinstance(value, SubscriptionSet):
                    self._known[key] = value
                else:
                    self._known.pop(key, None)
                continue
            owner = SubscriptionKey(key.name, key.topic_id)
            if isinstance(value, WindowSet):
                self._windows.setdefault(owner, {})[key.partition] = value
            elif owner in self._windows:
                self._windows[owner].pop(key.partition, None)
                if not self._windows[owner]:
                    del self._windows[owner]
