"""Compares arguments and headers as RabbitMQ does; errors have RabbitMQ's texts."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from decimal import Decimal

from mainstem.heads.amqp091 import fields
from mainstem.heads.amqp091.errors import AmqpError, ReplyCode


def named(kind: str, name: str, vhost: str) -> str:
    """Return how error texts name an exchange or a queue: its kind, name and virtual host."""
    return f"{kind} '{name}' in vhost '{vhost}'"


def refused(detail: str, code: ReplyCode = ReplyCode.PRECONDITION_FAILED) -> AmqpError:
    """Return an AmqpError with this text; its code is PRECONDITION_FAILED by default."""
    return AmqpError(code, detail)


def comparable(value: object) -> Hashable:
    """Convert a value so that equal numbers of any width are equal, but 1, True and "1" differ."""
    match value:
        case str():
            return value.encode()
        case bytes():
            return bytes(value)
        case Mapping() | Sequence():
            return list, fields.table({"": value})
    for kind in (bool, int, float, Decimal):
        if isinstance(value, kind):
            return kind, value
    # Void, or a timestamp.
    return type(value), value


def type_name(value: object) -> str:
    """Return RabbitMQ's name for the AMQP type of a value."""
    if type(value) is int and not -(2**31) <= value < 2**31:
        return "long"
    return next(name for kind, name in _TYPE_NAMES if isinstance(value, kind))


_TYPE_NAMES: tuple[tuple[type, str], ...] = (
    (bool, "bool"),
    (fields.Octet, "byte"),
    (fields.UnsignedOctet, "unsignedbyte"),
    (fields.Short, "short"),
    (fields.UnsignedShort, "unsignedshort"),
    (fields.UnsignedInt, "unsignedint"),
    (fields.Long, "long"),
    (fields.Single, "float"),
    (int, "signedint"),
    (float, "double"),
    (str, "longstr"),
    (fields.Binary, "binary"),
    (bytes, "longstr"),
    (type(None), "void"),
    (Decimal, "decimal"),
    (fields.Timestamp, "timestamp"),
    (Mapping, "table"),
    (Sequence, "array"),
)


def check_property(what: str, name: str, current: object, received: object) -> None:
    """Raise AmqpError if a property in a declaration differs from that of the existing object."""
    if current != received:
        raise _inequivalent(what, name, _bare(current), _bare(received))


def check_arguments(
    what: str, current: fields.Table, received: fields.Table, names: Iterable[str]
) -> None:
    """Raise AmqpError if one of the named arguments differs from that of the existing object."""
    for name in names:
        is_there, is_given = name in current, name in received
        if not (is_there or is_given):
            continue
        was, given = current.get(name), received.get(name)
        if is_there and is_given:
            if comparable(was) != comparable(given):
                raise _inequivalent(what, name, _bare(was), _bare(given))
            continue
        raise _inequivalent(what, name, _typed(was, is_there), _typed(given, is_given))


def _inequivalent(what: str, name: str, current: str, received: str) -> AmqpError:
    return refused(
        f"inequivalent arg '{name}' for {what}: received {received} but current is {current}"
    )


def _typed(value: object, is_there: bool) -> str:
    return f"the value {_bare(value)} of type '{type_name(value)}'" if is_there else "none"


def _bare(value: object) -> str:
    return f"'{str(value).lower() if isinstance(value, bool) else value}'"
