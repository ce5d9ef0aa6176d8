"""Matches messages with the bindings of one exchange: direct, fanout, topic and headers.

How this works: a matcher keeps the destinations of bindings in buckets, one bucket for all bindings
that match the same messages. ``match`` returns the buckets of a message.

Topic bindings are a trie of words. To match a routing key, the matcher goes through it word by word
and keeps the set of nodes that the words so far can reach, so the work is at most the number of
words times the number of nodes, whatever the wildcards. That can still be slow, so there is a limit
(``MAX_PLACES``).

Headers bindings are indexed by header, so that a message is compared with few of them: an ``any``
binding is indexed under each of its headers, an ``all`` binding under its rarest one.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import Protocol

from mainstem.heads.amqp091 import fields
from mainstem.heads.amqp091.adapter.topology.declared import Binding, DestinationKind, ExchangeType
from mainstem.heads.amqp091.adapter.topology.equivalence import comparable, refused, type_name

X_MATCH = "x-match"
MAX_PLACES = 50_000
"""Maximum number of trie nodes that one routing key may visit; more raise an error. Only hundreds
of ``#`` reach it.
"""
_MATCH_VALUES = frozenset({"all", "any", "all-with-x", "any-with-x"})


class Bucket:
    """Destinations of all bindings that match the same messages, and how many bindings each has."""

    __slots__ = ("exchanges", "queues")

    def __init__(self) -> None:
        self.queues: dict[str, int] = {}
        self.exchanges: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self.queues or self.exchanges)

    def add(self, binding: Binding) -> None:
        """Add a binding's destination, or count one more binding for it."""
        names = self._names(binding)
        names[binding.destination] = names.get(binding.destination, 0) + 1

    def remove(self, binding: Binding) -> None:
        """Remove a binding, and its destination if no other binding in this bucket leads to it."""
        names = self._names(binding)
        names[binding.destination] -= 1
        if not names[binding.destination]:
            del names[binding.destination]

    def _names(self, binding: Binding) -> dict[str, int]:
        is_queue = binding.destination_kind is DestinationKind.QUEUE
        return self.queues if is_queue else self.exchanges


class Matcher(Protocol):
    """Finds the bindings of one exchange that match a message."""

    @property
    def by_key(self) -> bool:
        """Whether matching depends on the routing key."""

    @property
    def by_headers(self) -> bool:
        """Whether matching depends on the headers."""

    def add(self, binding: Binding) -> None:
        """Add a binding that was not added before."""

    def remove(self, binding: Binding) -> None:
        """Remove a binding that was added before."""

    def match(self, keys: Sequence[str], headers: fields.Table) -> Iterable[Bucket]:
        """Yield the non-empty buckets of destinations for these routing keys and headers."""


class DirectMatcher:
    """Matches bindings whose routing key equals the message's routing key."""

    by_key = True
    by_headers = False

    def __init__(self) -> None:
        self._buckets: dict[str, Bucket] = {}

    def add(self, binding: Binding) -> None:
        """Add a binding."""
        self._buckets.setdefault(binding.routing_key, Bucket()).add(binding)

    def remove(self, binding: Binding) -> None:
        """Remove a binding."""
        bucket = self._buckets[binding.routing_key]
        bucket.remove(binding)
        if not bucket:
            del self._buckets[binding.routing_key]

    def match(self, keys: Sequence[str], headers: fields.Table) -> Iterable[Bucket]:
        """Return the destinations that are bound with one of these routing keys."""
        return [self._buckets[key] for key in keys if key in self._buckets]


class FanoutMatcher:
    """Matches every binding."""

    by_key = False
    by_headers = False

    def __init__(self) -> None:
        self._bucket = Bucket()

    def add(self, binding: Binding) -> None:
        """Add a binding."""
        self._bucket.add(binding)

    def remove(self, binding: Binding) -> None:
        """Remove a binding."""
        self._bucket.remove(binding)

    def match(self, keys: Sequence[str], headers: fields.Table) -> Iterable[Bucket]:
        """Return the destinations of all bindings."""
        return (self._bucket,) if self._bucket else ()


class _Place:
    """A node of the trie of topic bindings: its child nodes, and the destinations bound here."""

    __slots__ = ("any_word", "any_words", "bucket", "is_any_words", "words")

    def __init__(self, is_any_words: bool = False) -> None:
        self.words: dict[str, _Place] = {}
        self.any_word: _Place | None = None
        self.any_words: _Place | None = None
        self.is_any_words = is_any_words
        """Whether this node's word is ``#``, so that every further word of a routing key stays
        here.
        """
        self.bucket = Bucket()

    @property
    def is_needed(self) -> bool:
        return bool(self.words or self.any_word or self.any_words or self.bucket)

    def next(self, word: str) -> "_Place | None":
        """Return the child node for a word of a binding key, None if there is none."""
        match word:
            case "*":
                return self.any_word
            case "#":
                return self.any_words
        return self.words.get(word)

    def grow(self, word: str) -> "_Place":
        """Return the child node for a word of a binding key; create it if needed."""
        found = self.next(word)
        if found is not None:
            return found
        grown = _Place(is_any_words=word == "#")
        match word:
            case "*":
                self.any_word = grown
            case "#":
                self.any_words = grown
            case _:
                self.words[word] = grown
        return grown

    def cut(self, word: str) -> None:
        """Remove the child node for a word of a binding key."""
        match word:
            case "*":
                self.any_word = None
            case "#":
                self.any_words = None
            case _:
                del self.words[word]


class TopicMatcher:
    """Matches bindings word by word: ``*`` matches one word, ``#`` any number of words."""

    by_key = True
    by_headers = False

    def __init__(self) -> None:
        self._root = _Place()

    def add(self, binding: Binding) -> None:
        """Add a binding."""
        place = self._root
        for word in _pattern(binding.routing_key):
            place = place.grow(word)
        place.bucket.add(binding)

    def remove(self, binding: Binding) -> None:
        """Remove a binding, and the nodes that no other binding needs."""
        path: list[tuple[_Place, str]] = []
        place = self._root
        for word in _pattern(binding.routing_key):
            path.append((place, word))
            place = place.grow(word)
        place.bucket.remove(binding)
        for parent, word in reversed(path):
            if place.is_needed:
                break
            parent.cut(word)
            place = parent

    def match(self, keys: Sequence[str], headers: fields.Table) -> Iterable[Bucket]:
        """Return the destinations whose binding key, with wildcards, matches a routing key."""
        if len(keys) == 1:
            return [place.bucket for place in self._walk(keys[0]) if place.bucket]
        places = dict.fromkeys(place for key in keys for place in self._walk(key))
        return [place.bucket for place in places if place.bucket]

    def _walk(self, key: str) -> Iterable[_Place]:
        here: dict[_Place, None] = {}
        _enter(here, self._root)
        left = MAX_PLACES
        for word in _words(key):
            there: dict[_Place, None] = {}
            left -= len(here)
            if left < 0:
                raise refused(f"too many bindings with wildcards match routing key '{key}'")
            for place in here:
                if place.is_any_words:
                    _enter(there, place)
                if (found := place.words.get(word)) is not None:
                    _enter(there, found)
                if place.any_word is not None:
                    _enter(there, place.any_word)
            here = there
        return here


def _enter(places: dict[_Place, None], place: _Place | None) -> None:
    """Add a node to ``places``, with its ``#`` child, since ``#`` matches zero words too."""
    while place is not None and place not in places:
        places[place] = None
        place = place.any_words


def _words(key: str) -> list[str]:
    """Split a routing key into words; an empty key has no words, as in RabbitMQ."""
    return key.split(".") if key else []


def _pattern(key: str) -> list[str]:
    """Split a binding key into words; consecutive ``#`` become one."""
    words = _words(key)
    return [word for at, word in enumerate(words) if word != "#" or words[at - 1 : at] != ["#"]]


class _Condition:
    """What one headers binding requires of a message's headers, and the binding's destination."""

    __slots__ = ("bucket", "is_any", "present", "values")

    def __init__(self, binding: Binding) -> None:
        how = binding.arguments.get(X_MATCH, "all")
        self.is_any = how in ("any", "any-with-x")
        with_x = how in ("all-with-x", "any-with-x")
        asked = {
            name: value
            for name, value in binding.arguments.items()
            if name != X_MATCH and (with_x or not name.startswith("x-"))
        }
        self.values = {
            (name, comparable(value)) for name, value in asked.items() if value is not None
        }
        self.present = {name for name, value in asked.items() if value is None}
        self.bucket = Bucket()
        self.bucket.add(binding)

    def is_met(self, values: set[tuple[str, Hashable]], names: Iterable[str]) -> bool:
        """Tell whether a message's headers satisfy this condition."""
        return self.values <= values and self.present.issubset(names)


class HeadersMatcher:
    """Matches bindings whose arguments the message's headers satisfy."""

    by_key = False
    by_headers = True

    def __init__(self) -> None:
        self._conditions: dict[object, _Condition] = {}
        self._by_value: dict[tuple[str, Hashable], dict[_Condition, None]] = {}
        self._by_name: dict[str, dict[_Condition, None]] = {}
        self._always: dict[_Condition, None] = {}

    def add(self, binding: Binding) -> None:
        """Add a binding."""
        condition = _Condition(binding)
        self._conditions[binding.identity] = condition
        places = [self._by_value.setdefault(each, {}) for each in condition.values]
        places += [self._by_name.setdefault(each, {}) for each in condition.present]
        if not condition.is_any:
            # Indexed under its rarest header only; that is enough to find it.
            places = [min(places, key=len)] if places else [self._always]
        for place in places:
            place[condition] = None

    def remove(self, binding: Binding) -> None:
        """Remove a binding."""
        condition = self._conditions.pop(binding.identity)
        self._always.pop(condition, None)
        for value in condition.values:
            self._by_value.get(value, {}).pop(condition, None)
        for name in condition.present:
            self._by_name.get(name, {}).pop(condition, None)
        self._forget_empty(condition)

    def match(self, keys: Sequence[str], headers: fields.Table) -> Iterable[Bucket]:
        """Return the destinations of the bindings that these headers satisfy."""
        values = {(name, comparable(value)) for name, value in headers.items()}
        candidates = dict(self._always)
        for value in values:
            candidates |= self._by_value.get(value, {})
        for name in headers:
            candidates |= self._by_name.get(name, {})
        return [
            each.bucket for each in candidates if each.is_any or each.is_met(values, headers.keys())
        ]

    def _forget_empty(self, condition: _Condition) -> None:
        for value in condition.values:
            if not self._by_value.get(value, True):
                del self._by_value[value]
        for name in condition.present:
            if not self._by_name.get(name, True):
                del self._by_name[name]


def check_binding(matching: ExchangeType, arguments: fields.Table) -> None:
    """Raise AmqpError if a binding's arguments are invalid for an exchange of this type."""
    if matching is not ExchangeType.HEADERS or X_MATCH not in arguments:
        return
    how = arguments[X_MATCH]
    expected = "expected all, any, all-with-x, or any-with-x"
    if not isinstance(how, str):
        raise refused(
            f"Invalid x-match field type {type_name(how)} (value {how}); expected longstr"
        )
    if how not in _MATCH_VALUES:
        raise refused(f'Invalid x-match field value <<"{how}">>; {expected}')


def new_matcher(matching: ExchangeType) -> Matcher:
    """Return an empty matcher for an exchange type."""
    match matching:
        case ExchangeType.FANOUT:
            return FanoutMatcher()
        case ExchangeType.TOPIC:
            return TopicMatcher()
        case ExchangeType.HEADERS:
            return HeadersMatcher()
    return DirectMatcher()
