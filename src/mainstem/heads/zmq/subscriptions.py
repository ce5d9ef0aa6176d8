"""The subscriptions of a PUB socket's peers, which decide what topics are published.

How this works: libzmq reports each subscription of each peer, and applies it only if it is
accepted. A subscription is a prefix of subjects (``topic/key``): one with a ``/`` selects one
topic, one without all topics whose names begin with it. A peer needs the permission to READ the
topic; with permissions in force, only subscriptions with a ``/`` are accepted.
"""

from collections import Counter
from collections.abc import Iterable

from mainstem.auth import Action, Auth, Peer, Resource, ResourceKind
from mainstem.core.errors import MainstemError

_INTERNAL = "__"


class Subscriptions:
    """The subscriptions of all peers, by prefix."""

    def __init__(self, auth: Auth, max_subscriptions: int) -> None:
        self._auth, self._max = auth, max_subscriptions
        self._counts: Counter[bytes] = Counter()
        """How many peers have subscribed to each prefix, even if refused: libzmq reports the end of
        those, too.
        """
        self._topics: Counter[bytes] = Counter()
        """The number of accepted prefixes with a ``/``, by topic."""
        self._begun: set[bytes] = set()
        """The accepted prefixes without a ``/``."""
        self._accepted: set[bytes] = set()
        self.count = 0
        self.refused = 0

    def add(self, prefix: bytes, peer: Peer) -> bool:
        """Record a peer's subscription; return whether it is accepted."""
        self._counts[prefix] += 1
        self.count += 1
        if self.count > self._max or not self._may_read(prefix, peer):
            self.refused += 1
            return False
        if prefix not in self._accepted:
            self._accepted.add(prefix)
            topic, slash, _ = prefix.partition(b"/")
            if slash:
                self._topics[topic] += 1
            else:
                self._begun.add(prefix)
        return True

    def remove(self, prefix: bytes) -> None:
        """Remove a subscription that a peer has ended."""
        self.count -= 1
        self._counts[prefix] -= 1
        if self._counts[prefix]:
            return
        del self._counts[prefix]
        if prefix in self._accepted:
            self._accepted.remove(prefix)
            topic, _, _ = prefix.partition(b"/")
            self._begun.discard(prefix)
            self._topics.subtract([topic] if b"/" in prefix else ())
            if not self._topics[topic]:
                del self._topics[topic]

    def told(self, prefix: bytes) -> int:
        """Return how many subscriptions of peers have this prefix, even if refused."""
        return self._counts[prefix]

    def wanted(self, topics: Iterable[str]) -> set[str]:
        """Return those of these topics to which peers have subscribed."""
        begun = tuple(self._begun)
        return {
            topic
            for topic in topics
            if topic.encode() in self._topics or topic.encode().startswith(begun)
        }

    def _may_read(self, prefix: bytes, peer: Peer) -> bool:
        topic, slash, _ = prefix.partition(b"/")
        try:
            name = topic.decode()
            if not slash:
                return self._auth.allows_all
            self._auth.authorize(peer.principal, Action.READ, Resource(ResourceKind.TOPIC, name))
        except (UnicodeDecodeError, MainstemError):
            return False
        return not name.startswith(_INTERNAL)
