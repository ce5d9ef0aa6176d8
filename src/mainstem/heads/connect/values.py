"""Converts values of a Kafka Connect configuration to settings of a connector."""

import re
from collections.abc import Callable, Mapping

Config = Mapping[str, str]
Settings = dict[str, object]
Take = Callable[[str, Settings], None]
"""Converts a value of a property, and stores it in the settings; raises Refused."""
_TABLE = re.compile(r"[A-Za-z0-9_$ -]+(?:\.[A-Za-z0-9_$ -]+)*(?:\.\*)?")


class Refused(ValueError):
    """A value cannot be used; ``name``: the property at fault, if it is not the converted one."""

    def __init__(self, why: str, name: str = "") -> None:
        super().__init__(why)
        self.name = name


def text(field: str) -> Callable[[str, Settings], None]:
    """Return a function that sets ``field`` to the value as it is."""

    def take(value: str, settings: Settings) -> None:
        settings[field] = value

    return take


def number(field: str, least: int) -> Callable[[str, Settings], None]:
    """Return a function that sets ``field`` to a number of at least ``least``."""

    def take(value: str, settings: Settings) -> None:
        if not re.fullmatch(r"\d{1,12}", value) or int(value) < least:
            raise Refused(f"it must be a number from {least} on")
        settings[field] = int(value)

    return take


def flag(field: str) -> Callable[[str, Settings], None]:
    """Return a function that sets ``field`` to true or false."""

    def take(value: str, settings: Settings) -> None:
        settings[field] = boolean(value)

    return take


def boolean(value: str) -> bool:
    """Convert ``true`` or ``false``; raises Refused for any other value."""
    if value.lower() not in ("true", "false"):
        raise Refused("it must be true or false")
    return value.lower() == "true"


def choice(field: str, choices: Mapping[str, object]) -> Callable[[str, Settings], None]:
    """Return a function that sets ``field`` to the setting for one of these values."""

    def take(value: str, settings: Settings) -> None:
        if value not in choices:
            raise Refused(f"only {', '.join(choices)} can be used here")
        settings[field] = choices[value]

    return take


def names(field: str, parts: int, more: str = "") -> Callable[[str, Settings], None]:
    """Return a function that adds the names in a list to ``field``.

    Debezium allows regular expressions here; only those are accepted that are a name, or end with
    ``.*``. ``parts``: the parts of a name, two for ``schema.table``. ``more``: appended to each
    name.
    """

    def take(value: str, settings: Settings) -> None:
        found: list[str] = []
        for each in filter(None, (part.strip() for part in value.split(","))):
            plain = each.removeprefix("^").removesuffix("$").replace("\\.", ".")
            # Both ``schema\..*`` and ``schema.*`` select all tables of the schema.
            plain = plain[:-3] + ".*" if plain.endswith("..*") else plain
            if not _TABLE.fullmatch(plain) or plain.count(".") != parts - 1:
                raise Refused(
                    f"{each!r:.100} is a regular expression that cannot be used here: write "
                    f"{'.'.join(('schema', 'table', 'column')[:parts])}, where the last part may "
                    "be .*"
                )
            found.append(plain + more)
        known = settings.get(field, ())
        assert isinstance(known, tuple)
        settings[field] = (*known, *found)

    return take


def interval(value: str, settings: Settings) -> None:
    """Set the heartbeat interval; 0 stands for the default, as in Debezium."""
    number("heartbeat_ms", 0)(value, settings)
    if settings["heartbeat_ms"] == 0:
        del settings["heartbeat_ms"]
