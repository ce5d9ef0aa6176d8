"""The text form of PostgreSQL's extension ``hstore``: pairs of keys and values."""

import re

_PAIR = re.compile(r'\s*"((?:[^"\\]|\\.)*)"=>(?:"((?:[^"\\]|\\.)*)"|(NULL))\s*(?:,|$)', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def parse_hstore(text: str) -> dict[str, str | None]:
    """Return the pairs of keys and values; raises ValueError."""
    pairs: dict[str, str | None] = {}
    at = 0
    while at < len(text):
        found = _PAIR.match(text, at)
        if found is None:
            raise ValueError(f"not an hstore: {text:.100}")
        at = found.end()
        key, value, _ = found.groups()
        pairs[_ESCAPED.sub(r"\1", key)] = None if value is None else _ESCAPED.sub(r"\1", value)
    return pairs
