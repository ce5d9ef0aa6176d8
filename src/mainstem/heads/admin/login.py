"""HTTP Basic authentication of the peers of the admin port."""

from base64 import b64decode

from mainstem.auth import Auth, Credentials, Peer
from mainstem.core.errors import Unauthenticated


def login(auth: Auth, peer: Peer, authorization: bytes) -> Peer:
    """Check an Authorization header; return the peer as its user, or raise Unauthenticated."""
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
