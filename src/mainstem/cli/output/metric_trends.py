"""The trends of StatsD metrics: what their aggregates say about the last minutes."""

from collections import deque
from collections.abc import Iterator, Sequence

import msgspec

from mainstem.core.names import matches
from mainstem.heads.statsd.aggregates import OWN, Aggregate

POINTS = 30
_BARS = "▁▂▃▄▅▆▇█"


class Trend:
    """One series: its last aggregate, and a number for each of its last intervals."""

    def __init__(self) -> None:
        self.last: Aggregate | None = None
        self.points: deque[tuple[int, float]] = deque(maxlen=POINTS)
        """The end of an interval, and the number that is shown of it."""

    def add(self, found: Aggregate) -> None:
        """Add an aggregate; those of several servers in one interval are shown one by one."""
        self.last = found
        self.points.append((found.end_ms, shown_number(found)))


class Trends:
    """The series whose names match a pattern, and the losses of the same time."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = patterns
        self._series: dict[tuple[str, str, tuple[str, ...]], Trend] = {}
        self._own: dict[str, float] = {}
        self.unreadable = 0
        """Number of events that are not aggregates."""

    def add(self, value: bytes | None) -> Aggregate | None:
        """Add an event of the aggregates topic; return it if it is one that is shown."""
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
        """Yield a row for each series, sorted by name, for a table."""
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
        """Yield a row for each series, sorted by name, for programs."""
        for _, trend in sorted(self._series.items()):
            if trend.last is not None:
                points = [{"end_ms": at, "value": value} for at, value in trend.points]
                yield {**row_of(trend.last), "points": points}

    def losses(self) -> str:
        """Say what arrived and what was lost; "" if no server has counted."""
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
    """Return an aggregate as a row for programs."""
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
    # Halves, as the difference of the largest numbers is infinite.
    least, span = min(known) / 2, max(known) / 2 - min(known) / 2
    top = len(_BARS) - 1
    return "".join(
        " " if each is None else _BARS[round((each / 2 - least) / span * top) if span else 0]
        for each in values
    )
