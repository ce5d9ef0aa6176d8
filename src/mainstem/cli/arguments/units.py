"""Parses and formats sizes, durations and times."""

import re
from datetime import UTC, datetime, timedelta
from math import isnan

import click

_SIZES = {"": 1, "b": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_SIZES |= {f"{unit}ib": size for unit, size in _SIZES.items() if unit not in ("", "b")}
_SIZES |= {"kb": 1000, "mb": 1000**2, "gb": 1000**3, "tb": 1000**4}
_DURATIONS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
LARGEST = 2**63 - 1
LATEST_MS = 253_402_300_799_999
"""The last millisecond of the year 9999."""
_NUMBER = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*")


class _Seconds(click.FloatRange):
    """The type of options that are a number of seconds to wait."""

    def convert(
        self, value: float, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Convert the text to a number; refuses nan, as comparisons with it are always false."""
        seconds = float(super().convert(value, param, ctx))
        if isnan(seconds):
            self.fail(f"{value} is not a number of seconds", param, ctx)
        return seconds


PARTITION = click.IntRange(0, 2**31 - 1)
SECONDS = _Seconds(0, 1_000_000_000)


def parse_bytes(text: str) -> int:
    """Parse a size: 1048576, 64MiB, 64M (the same), 64MB (decimal) or 1.5G; return bytes."""
    match = _NUMBER.fullmatch(text)
    if not match or match[2].lower() not in _SIZES:
        raise ValueError(f"{text!r:.100} is not a size; write bytes, or such as 64KiB, 64MiB, 10GB")
    return _scaled(match, _SIZES, text) if match[2] else _whole(match[1], text)


def parse_ms(text: str, *, bare: bool = False) -> int:
    """Parse 250ms, 90s, 15m, 12h, 7d or 2w; return ms. A number without unit is ms if ``bare``."""
    match = _NUMBER.fullmatch(text)
    if match and not match[2] and (bare or float(match[1]) == 0):
        return _whole(match[1], text)
    if not match or match[2].lower() not in _DURATIONS:
        raise ValueError(
            f"{text!r:.100} is not a duration; write a number and a unit: 250ms, 90s, 15m, 12h, "
            "7d, 2w"
        )
    return _scaled(match, _DURATIONS, text)


def parse_time(text: str, now: datetime | None = None) -> datetime:
    """Parse ms since 1970, an ISO date or date-time (local without zone), or -1h (one hour ago)."""
    if text.isascii() and text.isdecimal():
        return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=whole(text, LATEST_MS))
    if text.startswith("-"):
        ago_ms = parse_ms(text[1:])
        try:
            return (now or datetime.now(UTC)) - timedelta(milliseconds=ago_ms)
        except OverflowError:
            raise ValueError(f"{text!r:.100} is before the year 1") from None
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise ValueError(
            f"{text!r:.100} is not a time; write ms since 1970, 2026-11-15T08:00:00Z, or -1h (ago)"
        ) from None


def human_bytes(size: int) -> str:
    """Format a size in bytes with three digits and a binary unit."""
    if size < 1024:
        return f"{size} B"
    amount = float(size)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        amount /= 1024
        if amount < 1023.5 or unit == "TiB":
            break
    return f"{amount:.3g} {unit}" if amount < 1000 else f"{amount:.0f} {unit}"


def human_ms(duration_ms: int) -> str:
    """Format a duration in ms exactly, in the largest unit of which it is a multiple."""
    for unit in ("d", "h", "m", "s"):
        if duration_ms and duration_ms % _DURATIONS[unit] == 0:
            return f"{duration_ms // _DURATIONS[unit]}{unit}"
    return f"{duration_ms}ms"


def _whole(number: str, text: str) -> int:
    if not number.isdecimal():
        raise ValueError(f"{text!r:.100} is not a whole number")
    return whole(number)


def _scaled(match: re.Match[str], units: dict[str, int], text: str) -> int:
    amount = float(match[1]) * units[match[2].lower()]
    if amount > LARGEST:
        raise ValueError(f"{text!r:.100} is too large")
    return round(amount)


def whole(digits: str, most: int = LARGEST) -> int:
    """Parse decimal digits of any length; raises ValueError if the number is over ``most``."""
    plain = digits.lstrip("0") or "0"
    if len(plain) > len(str(most)) or int(plain) > most:
        raise ValueError(
            f"{digits[:40]}{'…' * (len(digits) > 40)} is too large; {most} is the most"
        )
    return int(plain)
