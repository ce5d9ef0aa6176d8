"""Definitions: state of protocol heads (exchanges, bindings, users), by kind and key."""

from collections.abc import Callable, Mapping
from typing import Protocol

from mainstem.broker.callbacks import Callback
from mainstem.log.port import Durable

__all__ = ["Definitions", "HeadDefinitions"]


class HeadDefinitions(Protocol):
    """The definitions of one head: bytes that only the head understands.

    A change is visible at once; wait for ``durable`` before answering a peer. A head must not await
    between reading definitions and changing them, or it would decide on old state.
    """

    def get(self, kind: str, key: str) -> bytes | None:
        """Return the value of one definition, None if there is none."""

    def items(self, kind: str) -> dict[str, bytes]:
        """Return all definitions of a kind: their values by key."""

    def set(self, kind: str, key: str, value: bytes) -> Durable:
        """Create or replace a definition; raises InvalidSetting, StorageFull."""

    def delete(self, kind: str, key: str) -> Durable:
        """Delete a definition, if it exists."""

    def change(self, changes: Mapping[tuple[str, str], bytes | None]) -> Durable:
        """Set definitions by kind and key, or delete those with value None; all or nothing."""

    def watch(self, kind: str, changed: Callable[[str], None]) -> Callback:
        """Call ``changed`` with the key at each change of a kind; returns a function to cancel.

        Calls come from any thread, without a lock, and must not block.
        """


class Definitions(Protocol):
    """The definitions of all heads; each head opens its own."""

    def open(self, head: str) -> HeadDefinitions:
        """Return the definitions of one head, by its name."""
