"""The user of a request: the connection's peer, and HTTP Basic authentication."""

from base64 import b64decode
from typing import TYPE_CHECKING, cast

from mainstem.auth import Auth, Credentials, Peer
from mainstem.core.errors import Unauthenticated

if TYPE_CHECKING:
    from starlette.types import Scope

PEER = "peer"
"""The key of the connection's peer in the ``state`` of a request's scope."""


def header(scope: "Scope", name: bytes) -> bytes:
    """Return the value of a header of a request, b"" if it is absent."""
    headers = cast("list[tuple[bytes, bytes]]", scope["headers"])
    return next((value for each, value in headers if each == name), b"")


def peer_of(scope: "Scope") -> Peer:
    """Return the peer of a request's connection, without a login."""
    return cast("dict[str, Peer]", scope["state"])[PEER]


def user_of(auth: Auth, scope: "Scope") -> Peer:
    """Return the peer of a request with the user who logged in; raises Unauthenticated."""
    return login(auth, peer_of(scope), header(scope, b"authorization"))


def login(auth: Auth, peer: Peer, authorization: bytes) -> Peer:
    """Return the peer with the user of an Authorization header; raises Unauthenticated."""
    if not authorization:
        return peer
    scheme, _, encoded = authorization.partition(b" ")
    try:
        user, colon, secret = b64decode(encoded.strip(), validate=True).partition(b":")
        if scheme.lower() != b"basic" or not colon:
            raise ValueError(scheme)
        credentials = Credentials(user.decode(), secret)
    except ValueError:
        raise Unauthenticated(peer.address, "only HTTP Basic is supported here") from None
    return auth.authenticate("PLAIN", credentials, peer)
