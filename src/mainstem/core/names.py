"""Valid names of topics and groups, and patterns of topic names."""

from mainstem.core.errors import InvalidName

INTERNAL_PREFIX = "__mainstem_"
MAX_TOPIC_LENGTH = 249
MAX_GROUP_LENGTH = 255

_TOPIC_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def check_topic(name: str, *, internal: bool = False) -> None:
    """Raise InvalidName if Kafka refuses the name, or if it is reserved for internal topics."""
    if not name:
        raise InvalidName("topic", name, "it is empty")
    if len(name) > MAX_TOPIC_LENGTH:
        reason = f"it has {len(name)} characters, at most {MAX_TOPIC_LENGTH} are allowed"
        raise InvalidName("topic", name, reason)
    if name in {".", ".."}:
        raise InvalidName("topic", name, "'.' and '..' are directories everywhere")
    if not _TOPIC_CHARACTERS.issuperset(name):
        raise InvalidName("topic", name, "only a-z, A-Z, 0-9, '.', '_' and '-' are allowed")
    if is_internal(name) and not internal:
        raise InvalidName("topic", name, f"names in {INTERNAL_PREFIX} are kept for mainstem itself")


def check_group(name: str, kind: str = "group") -> None:
    """Raise InvalidName if a group or queue name is empty, too long, or not printable."""
    if not name:
        raise InvalidName(kind, name, "it is empty")
    if len(name) > MAX_GROUP_LENGTH:
        reason = f"it has {len(name)} characters, at most {MAX_GROUP_LENGTH} are allowed"
        raise InvalidName(kind, name, reason)
    if not name.isprintable():
        raise InvalidName(kind, name, "it holds characters that cannot be printed")


def is_internal(topic: str) -> bool:
    """Tell whether a topic is internal: it stores the broker's state."""
    return topic.startswith(INTERNAL_PREFIX)


def is_pattern(text: str) -> bool:
    """Tell whether a text is a pattern: it contains ``*`` or ``?``, which names cannot contain."""
    return "*" in text or "?" in text


def matches(pattern: str, name: str) -> bool:
    """Tell whether a name matches a pattern: ``*`` matches any characters, ``?`` exactly one.

    Only the last ``*`` is ever retried, so the time is at most the product of both lengths,
    whatever the pattern.
    """
    at, star, resume = 0, -1, 0
    place = 0
    while place < len(name):
        if at < len(pattern) and pattern[at] == "*":
            star, resume = at, place
            at += 1
        elif at < len(pattern) and pattern[at] in ("?", name[place]):
            at += 1
            place += 1
        elif star >= 0:
            resume += 1
            at, place = star + 1, resume
        else:
            return False
    return not pattern[at:].strip("*")
