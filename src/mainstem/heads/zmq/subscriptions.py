"""What the peers of a PUB socket have subscribed to, and which topics are published therefore.

How this works: libzmq tells each subscription of each peer, and applies it only if it is accepted.
A subscription is a prefix of subjects (``topic/key``): with a ``/`` it concerns one topic, without
one all topics that begin like it. A peer needs the permission to read the topic; where permissions
are restricted, a subscription must name its topic up to the ``/``.
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
        self.count = 0
        self.refused = 0

    def add(self, prefix: bytes, peer: Peer) -> bool:
        """Return whether a peer's subscription is accepted."""
        # Counted even if it is refused, as libzmq tells its end.
        self._counts[prefix] += 1
        self.count += 1
        if self.count <= self._max and self._may_read(prefix, peer):
            return True
        self.refused += 1
        return False

    def remove(self, prefix: bytes) -> None:
        """Forget a subscription that a peer has ended."""
        if self._counts[prefix] <= 1:
            self.count -= self._counts.pop(prefix)
        else:
            self._counts[prefix] -= 1
            self.count -= 1

    def wanted(self, topics: Iterable[str]) -> set[str]:
        """Return those of the topics that somebody has subscribed to."""
        named = {prefix.partition(b"/")[0] for prefix in self._counts if b"/" in prefix}
        begun = tuple(prefix for prefix in self._counts if b"/" not in prefix)
        return {
            topic for topic in topics if topic.encode() in named or topic.encode().startswith(begun)
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
