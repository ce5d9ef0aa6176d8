"""Authentication and authorization of a node: the rules that every head uses.

There are no users yet. So every login from this machine is accepted, all others are refused, and
everything is allowed. Heads, tests and later the node's config pass other rules as arguments.
"""

from collections.abc import Callable

import msgspec

from mainstem.auth.peers import ANONYMOUS, Peer, Principal
from mainstem.auth.rights import Action, Authorize, Resource, allow_all
from mainstem.core.errors import Unauthenticated


class Credentials(msgspec.Struct, frozen=True):
    """The user name and secret of a login."""

    user: str = ""
    secret: bytes = b""

    def __repr__(self) -> str:
        """Return a text that does not contain the secret."""
        return f"Credentials(user={self.user!r})"


Authenticate = Callable[[str, Credentials, Peer], Principal]
"""Takes SASL mechanism (PLAIN, ANONYMOUS, EXTERNAL), credentials and peer; raises Unauthenticated.
"""


def accept_loopback(mechanism: str, credentials: Credentials, peer: Peer) -> Principal:
    """Accept a login if it comes from this machine; otherwise raise Unauthenticated."""
    if not peer.is_local:
        raise Unauthenticated(peer.address, "there are no users yet, so only this machine may")
    return Principal(credentials.user) if credentials.user else ANONYMOUS


class Auth:
    """Authentication and authorization of a node, by rules that are passed as arguments."""

    def __init__(
        self, *, authorize: Authorize = allow_all, authenticate: Authenticate = accept_loopback
    ) -> None:
        self._authorize = authorize
        self._authenticate = authenticate
        self.allows_all = authorize is allow_all
        """Whether authorization is off: every peer may do everything."""

    def peer(self, address: str, *, tls: bool = False) -> Peer:
        """Return the peer of a new connection, before any login."""
        return Peer(address, tls=tls)

    def authenticate(self, mechanism: str, credentials: Credentials, peer: Peer) -> Peer:
        """Check a login; return the peer with its principal, or raise Unauthenticated."""
        principal = self._authenticate(mechanism, credentials, peer)
        return Peer(peer.address, principal, peer.tls)

    def authorize(self, principal: Principal, action: Action, resource: Resource) -> None:
        """Raise Denied if the permission is missing, Unauthenticated if a login might grant it."""
        self._authorize(principal, action, resource)
