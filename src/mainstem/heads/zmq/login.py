"""Decides who may connect: answers libzmq's questions about logins (ZAP, RFC 27).

libzmq asks about every connection, also one without a login. The user name of a CURVE client is its
public key, in Z85.
"""

from collections import Counter
from collections.abc import Sequence

from mainstem.auth import Auth, Credentials
from mainstem.core.errors import Unauthenticated

ADDRESS = "inproc://zeromq.zap.01"
DOMAIN = b"mainstem"
_ACCEPTED, _TRY_LATER, _REFUSED = b"200", b"300", b"400"
_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


class Logins:
    """Answers ZAP requests, and counts the answers by outcome."""

    def __init__(self, auth: Auth) -> None:
        self._auth = auth
        self.outcomes: Counter[str] = Counter(accepted=0, refused=0)

    def answer(self, asked: Sequence[bytes], *, is_full: bool) -> list[bytes]:
        """Return the answer to a ZAP request; ``is_full``: no more connections are allowed."""
        version, number, _domain, address, _identity, mechanism, *credentials = asked
        status, text, user = self._decide(
            mechanism, address.decode(errors="replace"), credentials, is_full=is_full
        )
        return [version, number, status, text.encode(), user.encode(), b""]

    def _decide(
        self, mechanism: bytes, host: str, credentials: Sequence[bytes], *, is_full: bool
    ) -> tuple[bytes, str, str]:
        if is_full:
            self.outcomes["limited"] += 1
            # Not 400: libzmq's clients would not connect again.
            return _TRY_LATER, "too many connections", ""
        try:
            user = self._user(mechanism, host, credentials)
        except Unauthenticated as error:
            self.outcomes["refused"] += 1
            return _REFUSED, str(error), ""
        self.outcomes["accepted"] += 1
        return _ACCEPTED, "OK", user

    def _user(self, mechanism: bytes, host: str, credentials: Sequence[bytes]) -> str:
        peer = self._auth.peer(f"{host}:0")
        match mechanism, credentials:
            case b"NULL", []:
                return ""
            case b"PLAIN", [user, password]:
                said = Credentials(user.decode(errors="replace"), password)
                return self._auth.authenticate("PLAIN", said, peer).principal.name
            case b"CURVE", [key]:
                said = Credentials(z85(key))
                return self._auth.authenticate("EXTERNAL", said, peer).principal.name
        raise Unauthenticated(host, f"the mechanism {mechanism!r:.30} is not known")


def z85(data: bytes) -> str:
    """Encode bytes in Z85 (RFC 32), as ZeroMQ shows keys; their number must be a multiple of 4."""
    digits = []
    for at in range(0, len(data), 4):
        number = int.from_bytes(data[at : at + 4], "big")
        digits += [_Z85[number // 85**power % 85] for power in range(4, -1, -1)]
    return bytes(digits).decode()
