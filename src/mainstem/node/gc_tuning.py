"""Tunes garbage collection, so that it blocks the loop only briefly even with many objects.

A full collection goes through all objects: with 10,000 queues it takes 200 ms, and takes place
again whenever a quarter has been added. So what survives a full collection is frozen, and left out
of the next one. Frozen objects are freed as usual once nothing refers to them, except cycles:
these are found when the number of frozen objects has doubled, by one collection of everything.
"""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


class _LongLived:
    """Freezes what survives full collections; a callback of ``gc``."""

    def __init__(self) -> None:
        self._frozen = 0
        """At most so many objects are frozen: not all that were freed since are subtracted."""
        self._limit = 0
        self._is_thawed = False
        self._freeze()

    def __call__(self, phase: str, info: Mapping[str, int]) -> None:
        """Note what a collection did; called before and after each."""
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
        """Freeze all objects; the next full collection follows when their number has doubled."""
        gc.freeze()
        self._frozen = gc.get_freeze_count()
        self._limit = 2 * self._frozen
        self._is_thawed = False


@contextmanager
def long_lived_left_out() -> Iterator[None]:
    """Freeze the objects that exist, and later those that live long, until the block ends."""
    callback = _LongLived()
    gc.callbacks.append(callback)
    try:
        yield
    finally:
        gc.callbacks.remove(callback)
        gc.unfreeze()
