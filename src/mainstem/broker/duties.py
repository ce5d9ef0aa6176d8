"""Duties: work that is to be done by one of all nodes at a time, such as a connector.

There is one node, so a duty is held at once unless somebody else in it holds the same one. On a
cluster it would come later, be lost when the node is cut off, and be fenced by whoever takes over.
"""

import threading
from collections.abc import Callable


class Duty:
    """A duty that is held, or waited for."""

    def __init__(
        self, name: str, changed: Callable[[], None], release: Callable[["Duty"], None]
    ) -> None:
        self.name = name
        self.changed = changed
        self._release = release
        self.is_held = False
        """Whether the work is to be done here now."""

    def release(self) -> None:
        """Stop holding it, or waiting for it; whoever waits longest has it next."""
        self._release(self)


class Duties:
    """Who holds what; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, list[Duty]] = {}
        """By name, in order; the first one holds it."""

    def hold(self, name: str, changed: Callable[[], None]) -> Duty:
        """Ask for a duty; ``changed`` is called whenever ``is_held`` is different later.

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
