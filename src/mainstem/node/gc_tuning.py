"""Tunes garbage collection, so that it blocks the loop only briefly even with many objects.

A full collection visits all objects: with 10,000 queues it takes 200 ms, and Python repeats it
whenever a quarter has been added. So objects that survive a full collection are frozen
(``gc.freeze``): later collections skip them. Frozen objects are freed as usual once nothing refers
to them, except cycles: to find these, all objects are unfrozen and collected once when the number
of frozen objects has doubled.
"""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


class _LongLived:
    """Freezes objects that survive a full collection; a callback for ``gc.callbacks``."""

    def __init__(self) -> None:
        self._frozen = 0
        """At most so many objects are frozen: not all that were freed since are subtracted."""
        self._limit = 0
        self._is_thawed = False
        self._freeze()

    def __call__(self, phase: str, info: Mapping[str, int]) -> None:
        """React to a full collection; ``gc`` calls this before and after each collection."""
        if phase != "stop" or info["generation"] != 2:
            return
        if self._is_thawed:
            self._freeze()
            return
        self._frozen += len(gc.get_objects(generation=2))
        gc.freeze()
        if self._frozen > self._limit:
            self._frozen = gc.get_freeze_count()
        if self._frozen > self._limit:
            gc.unfreeze()
            self._is_thawed = True

    def _freeze(self) -> None:
        """Freeze all objects; all are collected again when their number has doubled."""
        gc.freeze()
        self._frozen = gc.get_freeze_count()
        self._limit = 2 * self._frozen
        self._is_thawed = False


@contextmanager
def long_lived_left_out() -> Iterator[None]:
    """In the block, leave out long-lived objects from garbage collection."""
    callback = _LongLived()
    gc.callbacks.append(callback)
    try:
        yield
    finally:
        gc.callbacks.remove(callback)
        gc.unfreeze()
