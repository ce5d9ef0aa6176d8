"""Duties: work that only one node does at a time, such as running a connector.

There is one node, so a duty is granted at once unless another part of the node holds it. On a
cluster, granting would take time, and a node that is cut off would lose its duties and be fenced.
"""

import threading
from collections.abc import Callable


class Duty:
    """A duty that one caller holds or waits for."""

    def __init__(
        self, name: str, changed: Callable[[], None], release: Callable[["Duty"], None]
    ) -> None:
        self.name = name
        self.changed = changed
        self._release = release
        self.is_held = False
        """Whether the caller holds the duty now, and may do its work."""

    def release(self) -> None:
        """Release the duty or stop waiting for it; the longest waiter gets it next."""
        self._release(self)


class Duties:
    """All duties, held or awaited; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, list[Duty]] = {}
        """Holder and waiters by duty, in order; the first one is the holder."""

    def hold(self, name: str, changed: Callable[[], None]) -> Duty:
        """Request a duty; ``changed`` is called whenever ``is_held`` changes later.

        Calls come from any thread, without a lock, and must not block.
        """
        duty = Duty(name, changed, self._release)
        with self._lock:
            waiting = self._waiting.setdefault(name, [])
            waiting.append(duty)
            duty.is_held = waiting[0] is duty
        return duty

    def _release(self, duty: Duty) -> None:
        following: Duty | None = None
        with self._lock:
            waiting = self._waiting.get(duty.name, [])
            if duty not in waiting:
                return
            waiting.remove(duty)
            duty.is_held = False
            if not waiting:
                del self._waiting[duty.name]
            elif not waiting[0].is_held:
                following = waiting[0]
                following.is_held = True
        if following is not None:
            following.changed()
