"""The socket options of ZeroMQ's security mechanisms."""

from pathlib import Path

import zmq
import zmq.auth

from mainstem.core.errors import InvalidSetting
from mainstem.heads.addresses import NONE
from mainstem.heads.zmq.login import DOMAIN
from mainstem.heads.zmq.settings import Security, ZmqSettings


def options_of(settings: ZmqSettings) -> dict[int, int | bytes]:
    """Return the socket options of a server; raises InvalidSetting for bad keys and settings."""
    # With a domain, libzmq also asks about peers without a login.
    found: dict[int, int | bytes] = {zmq.ZAP_DOMAIN: DOMAIN}
    if settings.security is Security.PLAIN:
        found[zmq.PLAIN_SERVER] = 1
    if settings.security is Security.CURVE:
        found[zmq.CURVE_SERVER] = 1
        found[zmq.CURVE_SECRETKEY] = _secret_key(settings.curve_key)
    return found


def _secret_key(path: str) -> bytes:
    if path == NONE:
        raise InvalidSetting(
            "zmq.security = curve needs the server's key pair: set zmq.curve_key to a file that "
            "zmq.auth.create_certificates has written (server.key_secret)"
        )
    try:
        secret: bytes | None = zmq.auth.load_certificate(Path(path))[1]
    except (OSError, ValueError) as error:
        raise InvalidSetting(f"zmq.curve_key: {path!r:.200} cannot be read: {error}") from None
    if secret is None:
        raise InvalidSetting(f"zmq.curve_key: {path!r:.200} has no secret key in it")
    return secret
