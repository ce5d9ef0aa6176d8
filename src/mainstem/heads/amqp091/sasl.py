"""Decodes the user and password in StartOk, for each SASL mechanism.

Error texts do not contain the received bytes, as there may be a password in them.
"""

from mainstem.heads.amqp091 import fields
from mainstem.heads.amqp091.errors import AmqpError, ReplyCode
from mainstem.heads.amqp091.methods import ConnectionStartOk

MECHANISMS = ("PLAIN", "AMQPLAIN", "ANONYMOUS")


def credentials(mechanism: str, response: bytes) -> tuple[str, bytes]:
    """Return user and password; AmqpError for unknown mechanisms and malformed responses."""
    if mechanism not in MECHANISMS:
        detail = f"unknown authentication mechanism '{mechanism}'"
        raise AmqpError(ReplyCode.COMMAND_INVALID, detail, *ConnectionStartOk.ids)
    if mechanism == "ANONYMOUS":
        # ANONYMOUS carries a text that is for traces only [RFC 4505].
        return "", b""
    user, password = _plain(response) if mechanism == "PLAIN" else _amqplain(response)
    try:
        return user.decode(), password
    except UnicodeDecodeError:
        raise _malformed(mechanism, "the user's name is not UTF-8") from None


def _plain(response: bytes) -> tuple[bytes, bytes]:
    """Decode SASL PLAIN [RFC 4616]; an authorization identity is refused, as in RabbitMQ."""
    parts = response.split(b"\0")
    if len(parts) != 3 or parts[0]:
        raise _malformed("PLAIN", "not NUL, user, NUL, password")
    return parts[1], parts[2]


def _amqplain(response: bytes) -> tuple[bytes, bytes]:
    """Decode AMQPLAIN, a table without its length."""
    said = fields.read_bare_table(response, 0, len(response))
    found = []
    for name in ("LOGIN", "PASSWORD"):
        value = said.get(name)
        if not isinstance(value, str | bytes):
            raise _malformed("AMQPLAIN", f"no {name} that is a string")
        found.append(value.encode() if isinstance(value, str) else bytes(value))
    return found[0], found[1]


def _malformed(mechanism: str, why: str) -> AmqpError:
    detail = f"invalid response of mechanism {mechanism}: {why}"
    return AmqpError(ReplyCode.SYNTAX_ERROR, detail, *ConnectionStartOk.ids)
