"""The latest generation of each classic group: replayed from ``__mainstem_generations``.

The number is stored as soon as a generation begins, so that no two generations of a group ever have
the same number. The members are stored when the generation is stable (``records``).
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from mainstem.broker.fold import Fold


class GenerationKey(msgspec.Struct, frozen=True, array_like=True, tag="generation"):
    """The record's key: the group's name."""

    group: str


class Generation(msgspec.Struct, frozen=True, tag_field="kind", tag="generation/1"):
    """The number of the latest generation, and the protocol type of its members."""

    number: int
    protocol_type: str


class GenerationChange(NamedTuple):
    """One record of the internal topic: a key, and its new value (None: deleted)."""

    key: GenerationKey
    value: Generation | None


class Generations(Fold):
    """The latest generation of each group."""

    def __init__(self) -> None:
        self._latest: dict[str, Generation] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._latest)

    def __contains__(self, group: str) -> bool:
        return group in self._latest

    def of(self, group: str) -> Generation:
        """Return the latest generation of a group; number 0 if it has had none."""
        return self._latest.get(group, _NONE)

    def begin(self, group: str, protocol_type: str) -> list[GenerationChange]:
        """Return the change that begins the next generation of a group."""
        number = self.of(group).number + 1
        return [GenerationChange(GenerationKey(group), Generation(number, protocol_type))]

    def forget(self, group: str) -> list[GenerationChange]:
        """Return the change that deletes a group's generation number, if there is one."""
        return [GenerationChange(GenerationKey(group), None)] if group in self._latest else []

    def apply(self, change: GenerationChange) -> None:
        """Apply one change, new or replayed at start; nothing else modifies this state."""
        if change.value is None:
            self._latest.pop(change.key.group, None)
        else:
            self._latest[change.key.group] = change.value


_NONE = Generation(0, "")
