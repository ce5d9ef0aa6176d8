"""Recognises what an SQL statement in the binlog does to captured tables."""

import re
from enum import Enum
from typing import NamedTuple

_COMMENT = re.compile(r"/\*(?!M?!).*?\*/|--[ \t][^\n]*|#[^\n]*", re.DOTALL)
_NAME = r"(?:`(?:[^`]|``)+`|[\w$]+)"
_TABLE = rf"({_NAME}(?:\s*\.\s*{_NAME})?)"
_TRUNCATE = re.compile(rf"TRUNCATE\s+(?:TABLE\s+)?{_TABLE}", re.IGNORECASE)
_DROP = re.compile(
    rf"DROP\s+(TEMPORARY\s+)?TABLES?\s+(?:IF\s+EXISTS\s+)?({_TABLE}(?:\s*,\s*{_TABLE})*)",
    re.IGNORECASE,
)
_REPLACE = re.compile(rf"CREATE\s+OR\s+REPLACE\s+TABLE\s+{_TABLE}", re.IGNORECASE)
_ALTER = re.compile(
    r"(?:ALTER(?:\s+(?:ONLINE|OFFLINE|IGNORE))*\s+TABLE|CREATE\s+TABLE)\s+"
    rf"(?:IF\s+(?:NOT\s+)?EXISTS\s+)?{_TABLE}",
    re.IGNORECASE,
)
_WITHOUT_ROWS = re.compile(
    r"\b(?:(?:DROP|TRUNCATE|EXCHANGE)\s+PARTITION|(?:DISCARD|IMPORT)\s+(?:PARTITION\b.*)?TABLESPACE)",
    re.IGNORECASE,
)
_CHANGES = re.compile(r"(?:INSERT|UPDATE|DELETE|REPLACE|LOAD)\b", re.IGNORECASE)
_PART = re.compile(_NAME)


class Effect(Enum):
    """What a statement does to the rows of tables."""

    NONE = "none"
    """At most it changes columns."""
    EMPTIES = "empties"
    CHANGES_ROWS = "changes rows"
    """It changes rows, and the binlog does not tell which."""


class Meaning(NamedTuple):
    """What a statement does."""

    effect: Effect
    tables: tuple[tuple[str, str], ...]
    """Schema and name of each table; of a change in statement format none."""


def meaning_of(database: str, text: str) -> Meaning:
    """Return what a statement does; ``database`` has the tables that it names without one."""
    plain = _COMMENT.sub(" ", text).strip()
    if found := _TRUNCATE.match(plain):
        return Meaning(Effect.EMPTIES, (_parse(found[1], database),))
    if found := _REPLACE.match(plain):
        return Meaning(Effect.EMPTIES, (_parse(found[1], database),))
    if (found := _DROP.match(plain)) and not found[1]:
        names = re.findall(_TABLE, found[2])
        return Meaning(Effect.EMPTIES, tuple(_parse(each, database) for each in names))
    if found := _ALTER.match(plain):
        without = _WITHOUT_ROWS.search(plain, found.end())
        effect = Effect.CHANGES_ROWS if without else Effect.NONE
        return Meaning(effect, (_parse(found[1], database),))
    if _CHANGES.match(plain):
        return Meaning(Effect.CHANGES_ROWS, ())
    return Meaning(Effect.NONE, ())


def _parse(text: str, database: str) -> tuple[str, str]:
    parts = [
        each[1:-1].replace("``", "`") if each.startswith("`") else each
        for each in _PART.findall(text)
    ]
    return (parts[0], parts[1]) if len(parts) == 2 else (database, parts[0])
