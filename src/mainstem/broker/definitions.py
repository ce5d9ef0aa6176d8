"""Definitions: state of protocol heads (exchanges, bindings, users), stored in an internal topic.

How this works: a head is a protocol front end. A definition maps a head's name, a kind and a key to
bytes, whose format and version only that head knows. Changes are checked, appended to
``__mainstem_definitions`` in one append and applied, all under the broker's lock. They are visible
at once; a caller waits for ``durable`` before it answers its peer.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from mainstem.broker.callbacks import Callback
from mainstem.broker.journal import DEFINITIONS, Journal
from mainstem.broker.state import State
from mainstem.core.errors import InvalidSetting, MainstemError
from mainstem.log.port import Batches, Durable

MAX_VALUE_BYTES = 256 * 1024
MAX_NAME_LENGTH = 1_000
MAX_DEFINITIONS = 100_000
"""Maximum number of definitions per head."""

Name = tuple[str, str]
"""Kind and key of a definition of one head."""
Changed = Callable[[str], None]


class DefinitionKey(msgspec.Struct, frozen=True, array_like=True, tag="definition"):
    """The record's key: head, kind and key."""

    head: str
    kind: str
    key: str


class Definition(msgspec.Struct, frozen=True, tag_field="kind", tag="definition/1"):
    """The record's value: the definition's bytes."""

    value: bytes


class DefinitionChange(NamedTuple):
    """One record of the internal topic: a key, and its new value (None: deleted)."""

    key: DefinitionKey
    value: Definition | None


class HeadChanges(NamedTuple):
    """New values of one head's definitions (None: delete), to be stored with published events."""

    head: str
    changes: Mapping[Name, bytes | None]


class DefinitionFold:
    """The definitions of all heads, rebuilt by replaying the internal topic."""

    def __init__(self) -> None:
        self._heads: dict[str, dict[str, dict[str, bytes]]] = {}

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, DefinitionFold) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[tuple[DefinitionKey, bytes]]:
        for head, kinds in sorted(self._heads.items()):
            for kind, keys in sorted(kinds.items()):
                for key, value in sorted(keys.items()):
                    yield DefinitionKey(head, kind, key), value

    def of(self, head: str, kind: str) -> Mapping[str, bytes]:
        """Return a head's definitions of one kind, by key."""
        return self._heads.get(head, {}).get(kind, {})

    def change(self, head: str, changes: Mapping[Name, bytes | None]) -> list[DefinitionChange]:
        """Return the records that set definitions, or delete those whose new value is None.

        Definitions that already have the value are left out.

        Raises InvalidSetting; then nothing was changed.
        """
        decided: list[DefinitionChange] = []
        added = 0
        for (kind, key), value in changes.items():
            was = self.of(head, kind).get(key)
            if value == was:
                continue
            if value is not None:
                _check(head, kind, key, value)
            added += (was is None) - (value is None)
            defined = None if value is None else Definition(value)
            decided.append(DefinitionChange(DefinitionKey(head, kind, key), defined))
        count = sum(map(len, self._heads.get(head, {}).values()))
        if added > 0 and count + added > MAX_DEFINITIONS:
            raise InvalidSetting(
                f"{head} has {count} definitions, and {MAX_DEFINITIONS} is the limit; "
                "delete some first"
            )
        return decided

    def apply(self, change: DefinitionChange) -> None:
        """Apply one change, new or replayed at start; nothing else modifies this state."""
        head, kind, key = change.key.head, change.key.kind, change.key.key
        kinds = self._heads.setdefault(head, {})
        if change.value is not None:
            kinds.setdefault(kind, {})[key] = change.value.value
            return
        kinds.get(kind, {}).pop(key, None)
        if not kinds.get(kind):
            kinds.pop(kind, None)
        if not kinds:
            del self._heads[head]


class Definitions:
    """The definitions of all heads: the public interface; synchronous and thread-safe."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._now_ms = state.clocks.now_ms
        self.fold = DefinitionFold()
        self._watches: dict[Name, dict[int, Changed]] = {}
        self._next_watch = 0
        self._journal = Journal[DefinitionKey, Definition](
            state.log, DEFINITIONS, DefinitionKey, Definition
        )
        self._replay_into(self.fold)

    def open(self, head: str) -> "HeadDefinitions":
        """Return the definitions of one head, by its name."""
        return HeadDefinitions(self, head)

    def of(self, head: str, kind: str) -> dict[str, bytes]:
        """Return a head's definitions of one kind, by key."""
        with self._state.lock:
            return dict(self.fold.of(head, kind))

    def get(self, head: str, kind: str, key: str) -> bytes | None:
        """Return the value of one definition, None if there is none; needs no lock."""
        return self.fold.of(head, kind).get(key)

    def change(self, head: str, changes: Mapping[Name, bytes | None]) -> Durable:
        """Set and delete definitions, all or nothing, in one append."""
        with self._state.lock:
            decided = self.fold.change(head, changes)
            durable = self._journal.append(decided, self._now_ms())
            self.apply(decided)
        self.tell(decided, durable)
        return durable

    def batches(self, decided: Sequence[DefinitionChange]) -> Batches:
        """Encode the changes returned by the fold, for the caller to append with other batches."""
        return self._journal.batches(decided, self._now_ms())

    def apply(self, decided: Sequence[DefinitionChange]) -> None:
        """Apply changes after their append; the caller has held the lock since it decided them."""
        for each in decided:
            self.fold.apply(each)

    def tell(self, decided: Sequence[DefinitionChange], durable: Durable) -> None:
        """Notify the watchers of applied changes; the caller must not hold the lock."""
        if decided:
            self._tell(each.key for each in decided)
            durable.then(self._check_kept)

    def watch(self, head: str, kind: str, changed: Changed) -> Callback:
        """Call ``changed`` with the key at each change of a kind; returns a function to cancel."""
        with self._state.lock:
            self._next_watch += 1
            token = self._next_watch
            watches = self._watches.setdefault((head, kind), {})
            watches[token] = changed

        def unwatch() -> None:
            with self._state.lock:
                watches.pop(token, None)

        return unwatch

    def _tell(self, keys: Iterable[DefinitionKey]) -> None:
        """Notify the watchers, without the lock, as they may read the new value."""
        for each in keys:
            with self._state.lock:
                watches = list(self._watches.get((each.head, each.kind), {}).values())
            for changed in watches:
                changed(each.key)

    def _check_kept(self, error: MainstemError | None) -> None:
        """If a commit failed, which stops the log, restore the definitions that are durable."""
        if error is None:
            return
        changed: list[DefinitionKey] = []
        # If the journal cannot be read, the durable state is unknown until the next start.
        with suppress(MainstemError), self._state.lock:
            kept = DefinitionFold()
            self._replay_into(kept)
            changed = [key for key, _ in set(self.fold) ^ set(kept)]
            self.fold = kept
        self._tell(dict.fromkeys(changed))

    def _replay_into(self, fold: DefinitionFold) -> None:
        self._journal.replay(lambda key, value: fold.apply(DefinitionChange(key, value)))


class HeadDefinitions:
    """The definitions of one head, by kind and key; synchronous and thread-safe."""

    def __init__(self, definitions: Definitions, head: str) -> None:
        self._definitions = definitions
        self.head = head

    def get(self, kind: str, key: str) -> bytes | None:
        """Return the value of one definition, None if there is none."""
        return self._definitions.get(self.head, kind, key)

    def items(self, kind: str) -> dict[str, bytes]:
        """Return all definitions of a kind, by key."""
        return self._definitions.of(self.head, kind)

    def set(self, kind: str, key: str, value: bytes) -> Durable:
        """Create or replace a definition; raises InvalidSetting, StorageFull."""
        return self.change({(kind, key): value})

    def delete(self, kind: str, key: str) -> Durable:
        """Delete a definition, if it exists."""
        return self.change({(kind, key): None})

    def change(self, changes: Mapping[Name, bytes | None]) -> Durable:
        """Set definitions by kind and key, or delete those with value None; all or nothing.

        The change is visible at once; wait for ``durable`` before answering a peer.
        """
        return self._definitions.change(self.head, changes)

    def watch(self, kind: str, changed: Changed) -> Callback:
        """Call ``changed`` with the key at each change of a kind; returns a function to cancel.

        Calls come from any thread, without a lock, and must not block.
        """
        return self._definitions.watch(self.head, kind, changed)


def _check(head: str, kind: str, key: str, value: bytes) -> None:
    if len(kind) + len(key) > MAX_NAME_LENGTH:
        raise InvalidSetting(
            f"{kind} {key!r:.100} of {head}: {len(kind) + len(key)} characters, and "
            f"{MAX_NAME_LENGTH} is the limit; choose a shorter name"
        )
    if len(value) > MAX_VALUE_BYTES:
        raise InvalidSetting(
            f"{kind} {key!r:.100} of {head}: {len(value)} bytes, and {MAX_VALUE_BYTES} is the limit"
        )
