"""The one place that decides who somebody is and what they may do.

There are no users yet. So every login from this machine is accepted, nobody else's is, and
everything is allowed. Heads, tests and one day the node's config give other rules as arguments.
"""

from collections.abc import Callable

import msgspec

from mainstem.auth.peers import ANONYMOUS, Peer, Principal
from mainstem.auth.rights import Action, Authorize, Resource, allow_all
from mainstem.core.errors import Unauthenticated


class Credentials(msgspec.Struct, frozen=True):
    """What somebody who logs in says."""

    user: str = ""
    secret: bytes = b""

    def __repr__(self) -> str:
        """Never show the secret."""
        return f"Credentials(user={self.user!r})"


Authenticate = Callable[[str, Credentials, Peer], Principal]
"""Mechanism, as SASL names it (PLAIN, ANONYMOUS, EXTERNAL), credentials, peer; may be refused."""


def accept_loopback(mechanism: str, credentials: Credentials, peer: Peer) -> Principal:
    """Believe whoever is on this machine."""
    if not peer.is_local:
        raise Unauthenticated(peer.address, "there are no users yet, so only this machine may")
    return Principal(credentials.user) if credentials.user else ANONYMOUS


class Auth:
    """Authentication and authorization of a node; the rules are arguments."""

    def __init__(
        self, *, authorize: Authorize = allow_all, authenticate: Authenticate = accept_loopback
    ) -> None:
        self._authorize = authorize
        self._authenticate = authenticate
        self.allows_all = authorize is allow_all
        """Whether nobody needs to be asked about rights."""

    def peer(self, address: str, *, tls: bool = False) -> Peer:
        """Return the peer of a connection that has just been made."""
        return Peer(address, tls=tls)

    def authenticate(self, mechanism: str, credentials: Credentials, peer: Peer) -> Peer:
        """Return the peer as whom it has proved to be; raises Unauthenticated."""
        principal = self._authenticate(mechanism, credentials, peer)
        return Peer(peer.address, principal, peer.tls)

    def authorize(self, principal: Principal, action: Action, resource: Resource) -> None:
        """Raise Denied unless somebody may do something; Unauthenticated if a login would help."""
        self._authorize(principal, action, resource)
