"""The trends of StatsD metrics: the values of each in the last intervals."""

from collections import deque
from collections.abc import Iterator, Sequence

import msgspec

from mainstem.core.names import matches
from mainstem.heads.statsd.aggregates import OWN, Aggregate

POINTS = 30
_BARS = "▁▂▃▄▅▆▇█"


class Trend:
    """A time series: its last aggregate, and the number shown for each of its last intervals."""

    def __init__(self) -> None:
        self.last: Aggregate | None = None
        self.points: deque[tuple[int, float]] = deque(maxlen=POINTS)
        """The end of an interval, and the number that is shown of it."""

    def add(self, found: Aggregate) -> None:
        """Add an aggregate; of several servers' for one interval, a table shows the last one."""
        self.last = found
        self.points.append((found.end_ms, shown_number(found)))


class Trends:
    """The time series whose names match a pattern, and what was lost in the same time."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = patterns
        self._series: dict[tuple[str, str, tuple[str, ...]], Trend] = {}
        self._own: dict[str, float] = {}
        self.unreadable = 0
        """Number of events that are not aggregates."""

    def add(self, value: bytes | None) -> Aggregate | None:
        """Add the value of an event of the aggregates topic; return its aggregate if it is shown.

        Returns None if no pattern matches its name, or the value is no aggregate.
        """
        try:
            found = _decode(value or b"")
        except msgspec.MsgspecError:
            self.unreadable += 1
            return None
        if found.name.startswith(OWN):
            name = found.name.removeprefix(OWN)
            self._own[name] = self._own.get(name, 0) + (found.count or 0)
        if not self._is_shown(found.name):
            return None
        series = (found.name, found.type, found.tags)
        self._series.setdefault(series, Trend()).add(found)
        return found

    def rows(self) -> Iterator[dict[str, object]]:
        """Yield a table row for each series, in the order of names."""
        times = sorted({at for each in self._series.values() for at, _ in each.points})[-POINTS:]
        for _, trend in sorted(self._series.items()):
            if trend.last is not None:
                points = dict(trend.points)
                yield {
                    "metric": trend.last.name,
                    "tags": ",".join(trend.last.tags) or None,
                    "type": trend.last.type,
                    "last": _text(trend.last),
                    "trend": sparkline([points.get(at) for at in times]),
                }

    def records(self) -> Iterator[dict[str, object]]:
        """Yield a record with all fields and points for each series, in the order of names."""
        for _, trend in sorted(self._series.items()):
            if trend.last is not None:
                points = [{"end_ms": at, "value": value} for at, value in trend.points]
                yield {**row_of(trend.last), "points": points}

    def losses(self) -> str:
        """Return a sentence on what arrived and what was lost; "" if no server has counted."""
        if not self._own:
            return ""
        came, dropped = self._own.get("packets", 0), self._own.get("kernel_drops", 0)
        parts = [f"{came:,.0f} packets arrived"]
        if came + dropped:
            parts.append(f"{dropped:,.0f} were dropped ({dropped / (came + dropped):.2%})")
        for name, words in _LOSSES.items():
            if self._own.get(name):
                parts.append(f"{self._own[name]:,.0f} {words}")
        return "; ".join(parts)

    def _is_shown(self, name: str) -> bool:
        if not self._patterns:
            return not name.startswith(OWN)
        return any(matches(each, name) for each in self._patterns)


_LOSSES = {
    "bad_lines": "lines were not metrics",
    "lost_events": "events could not be stored",
    "left_out": "values were not aggregated",
}
_decode = msgspec.json.Decoder(Aggregate).decode


def row_of(found: Aggregate) -> dict[str, object]:
    """Return an aggregate as a row with all fields, for JSON."""
    fields = msgspec.to_builtins(found)
    name, kind, tags = fields.pop("name"), fields.pop("type"), fields.pop("tags", [])
    return {"metric": name, "type": kind, "tags": tags, **fields}


def shown_number(found: Aggregate) -> float:
    """Return the number that a trend shows: a rate, a gauge's value, a mean, a set's members."""
    match found.type:
        case "counter":
            number = found.rate
        case "gauge":
            number = found.value
        case "set":
            number = found.count
        case _:
            number = found.mean
    return number or 0.0


def _text(found: Aggregate) -> str:
    number = f"{shown_number(found):,.6g}"
    match found.type:
        case "counter":
            return f"{number}/s"
        case "gauge" | "set":
            return number
        case _:
            highest = list((found.percentiles or {}).items())[-1:]
            return ", ".join(
                [f"mean {number}", *(f"{name} {value:,.6g}" for name, value in highest)]
            )


def sparkline(values: Sequence[float | None]) -> str:
    """Draw numbers as bars between the least and the greatest; None is a gap."""
    known = [each for each in values if each is not None]
    if not known:
        return ""
    # Halved, because the difference of the largest numbers is infinite.
    least, span = min(known) / 2, max(known) / 2 - min(known) / 2
    top = len(_BARS) - 1
    return "".join(
        " " if each is None else _BARS[round((each / 2 - least) / span * top) if span else 0]
        for each in values
    )
