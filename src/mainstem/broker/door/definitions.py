"""Definitions: a head's own state (exchanges, bindings, endpoints, users), by kind and key."""

from collections.abc import Callable, Mapping
from typing import Protocol

from mainstem.broker.callbacks import Callback
from mainstem.log.port import Durable

__all__ = ["Definitions", "HeadDefinitions"]


class HeadDefinitions(Protocol):
    """The definitions of one head: values of bytes that only the head understands.

    A change is seen by the next decision at once; whoever is answered waits for ``durable``. So a
    head never awaits between reading definitions and changing them.
    """

    def get(self, kind: str, key: str) -> bytes | None:
        """Return one definition, None if there is none."""

    def items(self, kind: str) -> dict[str, bytes]:
        """Return all definitions of a kind, by key."""

    def set(self, kind: str, key: str, value: bytes) -> Durable:
        """Define something, or define it anew; raises InvalidSetting, StorageFull."""

    def delete(self, kind: str, key: str) -> Durable:
        """Forget a definition, if it is there."""

    def change(self, changes: Mapping[tuple[str, str], bytes | None]) -> Durable:
        """Set and, where there is None, delete definitions by kind and key: all or nothing."""

    def watch(self, kind: str, changed: Callable[[str], None]) -> Callback:
        """Call ``changed`` with every key of a kind that is changed, until the watch is taken back.

        Calls come from any thread, without a lock, and must not block.
        """


class Definitions(Protocol):
    """The definitions of all heads; each head opens its own."""

    def open(self, head: str) -> HeadDefinitions:
        """Return the definitions of one head, by its name."""
