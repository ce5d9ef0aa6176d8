"""Maps a virtual host and queue name to a topic name, and back.

How this works: a queue's name may be any text of 255 bytes, a topic's name up to 249 of
``[A-Za-z0-9._-]``. A character that topic names cannot contain becomes ``._`` and two hex digits
for each byte of UTF-8 (``@``: ``._40``). The dot of a literal ``._`` is escaped, too (``a._b``:
``a._2e_b``). So ``._`` without two hex digits after it is ours: ``._.`` ends the virtual host, and
``._h`` begins a hash.

| virtual host, queue | topic |
|---|---|
| ``/``, ``orders`` | ``orders`` |
| ``/``, ``celery@host`` | ``celery._40host`` |
| ``shop``, ``orders`` | ``shop._.orders`` |
| too long for a topic | 200 characters, ``._h``, and a hash, which only the definition resolves |
"""

import re
from hashlib import blake2b

from mainstem.core.names import INTERNAL_PREFIX, MAX_TOPIC_LENGTH

DEFAULT_VHOST = "/"

_SEPARATOR = "._."
_HASHED = "._h"
_KEPT_LENGTH = 200
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]|\.(?=_)")
_ESCAPES = re.compile(r"(?:\._[0-9a-f]{2})+")


def topic_of(vhost: str, queue: str) -> str:
    """Return the topic name for a queue; different queues get different names."""
    topic = _escaped(queue)
    if vhost != DEFAULT_VHOST:
        topic = f"{_escaped(vhost)}{_SEPARATOR}{topic}"
    if len(topic) <= MAX_TOPIC_LENGTH:
        return topic
    digest = blake2b(topic.encode(), digest_size=16).hexdigest()
    return f"{topic[:_KEPT_LENGTH]}{_HASHED}{digest}"


def queue_of(topic: str) -> tuple[str, str] | None:
    """Return the virtual host and queue name that a topic name encodes.

    None if no queue's name is encoded so, or the queue's name was too long and was hashed.
    """
    vhost, separator, queue = topic.partition(_SEPARATOR)
    try:
        found = (_plain(vhost), _plain(queue)) if separator else (DEFAULT_VHOST, _plain(topic))
    except UnicodeDecodeError:
        return None
    # A name that topic_of would have encoded differently belongs to some other topic.
    return found if topic_of(*found) == topic else None


def _escaped(text: str) -> str:
    escaped = _UNSAFE.sub(lambda found: _escape(found[0]), text)
    # Topics cannot have these names.
    if escaped in (".", "..") or escaped.startswith(INTERNAL_PREFIX):
        return _escape(escaped[0]) + escaped[1:]
    return escaped


def _escape(character: str) -> str:
    return "".join(f"._{byte:02x}" for byte in character.encode())


def _plain(escaped: str) -> str:
    return _ESCAPES.sub(lambda found: bytes.fromhex(found[0].replace("._", "")).decode(), escaped)
