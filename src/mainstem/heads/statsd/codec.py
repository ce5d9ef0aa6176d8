"""StatsD lines: ``name:value|type|@rate|#tags``, as statsd, Brubeck and DogStatsD send them.

A packet holds lines. A line holds one or more values of one metric, either each with its type
(``jobs:1|c:2|c``, statsd) or all with the same (``load:1:2:3|ms|#host:a``, DogStatsD 1.1). A line
with any error is dropped as a whole.
"""

import re
from math import isfinite
from typing import Literal

import msgspec

Type = Literal["counter", "gauge", "timer", "histogram", "distribution", "set"]

_TYPES: dict[str, Type] = {
    "c": "counter",
    "g": "gauge",
    "ms": "timer",
    "h": "histogram",
    "d": "distribution",
    "s": "set",
}
_NUMBER = re.compile(r"[+-]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][+-]?\d{1,3})?", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
MAX_NAME_BYTES = 500
MAX_TAGS = 100
MAX_TAGS_CHARACTERS = 4_000
MAX_REPEATED = 1024 * 1024
"""Maximum of the length of a line's name and tags times its number of values: each value becomes an
event, which contains them.
"""


class BadLine(Exception):
    """A line is not a valid metric, or of an unsupported kind; the text of the error says why."""


class Metric(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One value that a program sent; also the value of an event in the samples topic."""

    name: str
    type: Type
    value: float | str
    """The measured number; for a set, the member as text."""
    rate: float = 1.0
    """The sample rate: this value stands for 1/rate values."""
    tags: tuple[str, ...] = ()
    """The tags as sent (``key:value`` or a word), sorted."""
    relative: bool = False
    """For a gauge, whether the value is a change of the previous value."""
    timestamp_s: int | None = None
    """The time of the value in seconds since 1970, if the program sent one."""


def parse_packet(data: bytes) -> tuple[list[Metric], list[str]]:
    """Parse a packet; return its metrics, and an error text for each invalid line."""
    found: list[Metric] = []
    wrong: list[str] = []
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return [], ["not UTF-8"]
    for line in text.split("\n"):
        if line and line != "\r":
            try:
                found += parse_line(line.removesuffix("\r"))
            except BadLine as error:
                wrong.append(str(error))
    return found, wrong


def parse_line(line: str) -> list[Metric]:
    """Parse a line; raises BadLine if any part is invalid."""
    name, colon, rest = line.partition(":")
    if not colon or not name:
        raise BadLine("no name")
    if name.startswith("_e{") or line.startswith("_sc|"):
        raise BadLine("events and service checks are not supported")
    if len(name) > MAX_NAME_BYTES or _CONTROL.search(name):
        raise BadLine("the name is too long, or has control characters")
    values, bar, sections = rest.partition("|")
    if not bar:
        raise BadLine("no type")
    if ":" in sections and "#" not in sections and "|c:" not in sections:
        return _typed_values(name, rest)
    return _values(name, values.split(":"), sections.split("|"))


def _typed_values(name: str, rest: str) -> list[Metric]:
    """Parse values that have a type each, such as ``1|c:2|c|@0.1``."""
    found: list[Metric] = []
    for each in rest.split(":"):
        value, bar, sections = each.partition("|")
        if not bar:
            raise BadLine("no type")
        found += _values(name, [value], sections.split("|"))
    return found


def _values(name: str, values: list[str], sections: list[str]) -> list[Metric]:
    kind = _TYPES.get(sections[0])
    if kind is None:
        raise BadLine("unknown type")
    rate, timestamp_s = 1.0, None
    tags: tuple[str, ...] = ()
    for section in sections[1:]:
        if section.startswith("@"):
            rate = _number(section[1:])
            if not 0 < rate <= 1:
                raise BadLine("the sample rate must be above 0, and 1 at most")
        elif section.startswith("#"):
            tags = _tags(section[1:])
        elif section.startswith("T"):
            timestamp_s = int(_number(section[1:]))
        elif not section.startswith(("c:", "e:", "card:")):
            # These three sections are DogStatsD's, about the origin of a value.
            raise BadLine("unknown section")
    if len(values) * (len(name) + sum(map(len, tags))) > MAX_REPEATED:
        raise BadLine("too many values for such a long name and tags")
    if kind == "set":
        return [Metric(name, kind, _member(each), rate, tags) for each in values]
    return [
        Metric(
            name,
            kind,
            _number(each),
            rate,
            tags,
            relative=kind == "gauge" and each[0] in "+-",
            timestamp_s=timestamp_s,
        )
        for each in values
    ]


def _number(text: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise BadLine("not a number")
    value = float(text)
    if not isfinite(value):
        raise BadLine("not a number")
    return value


def _member(text: str) -> str:
    if not text or len(text) > MAX_NAME_BYTES:
        raise BadLine("the member of a set is empty or too long")
    return text


def _tags(text: str) -> tuple[str, ...]:
    if len(text) > MAX_TAGS_CHARACTERS:
        raise BadLine("the tags are too long")
    tags = sorted({each for each in text.split(",") if each})
    if len(tags) > MAX_TAGS or _CONTROL.search(text):
        raise BadLine("too many tags, or control characters in one")
    return tuple(tags)
