"""Charts as SVG: clusters of bars that show shares, and bars that show multiples.

python -m bench.chart     draws docs/benchmarks/growth.svg again
"""

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).parent.parent / "docs" / "benchmarks"
GROWTH = (
    ("publish_one_share", "publish, 1 event", "#2b6cb0"),
    ("publish_hundred_share", "publish_many, 100 events", "#2f855a"),
    ("read_share", "read", "#b7791f"),
)
WIDTH, HEIGHT = 760, 330
LEFT, TOP, BOTTOM = 60, 56, 262
HIGHEST = 1.4
BAR, WIDEST = 24, 160
"""A bar, and what a cluster with its words takes at most."""

THIN, BETWEEN = 9, 6
"""A bar of multiples, and the room below each row of them."""
WORDS, ALONG = 370, 480
"""What the words of such a row take, and the axis after them."""
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200)

Row = dict[str, float]


class Bars(NamedTuple):
    """A cluster: the two lines below it, and its shares."""

    words: tuple[str, str]
    shares: Sequence[float]


def clusters(
    title: str,
    series: Sequence[tuple[str, str]],
    bars: Sequence[Bars],
    *,
    band: tuple[float, float],
    note: str,
) -> str:
    """Return a chart: bars of shares with the names and colours of ``series``, and a grey band."""
    low, high = band
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        text(LEFT, 20, title, size=14),
        f'<rect x="{LEFT}" y="{height(high):.1f}" width="{WIDTH - LEFT - 20}" '
        f'height="{height(low) - height(high):.1f}" fill="#edf2f7"/>',
    ]
    for share in (0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2):
        y = height(share)
        parts.append(line(y, "#718096" if share in (0, 1) else "#cbd5e0"))
        parts.append(text(LEFT - 8, y + 4, f"{share:.0%}", anchor="end"))
    step = min(WIDEST, (WIDTH - LEFT - 20) / len(bars))
    for number, each in enumerate(bars):
        parts += cluster(LEFT + (number + 0.5) * step, series, each)
    for number, (name, colour) in enumerate(series):
        x = LEFT + number * 190
        parts.append(f'<rect x="{x}" y="32" width="11" height="11" fill="{colour}"/>')
        parts.append(text(x + 16, 42, name))
    parts.append(text(LEFT, HEIGHT - 12, note))
    return "\n".join([*parts, "</svg>\n"])


def cluster(centre: float, series: Sequence[tuple[str, str]], bars: Bars) -> list[str]:
    parts = []
    x = centre - len(series) * BAR / 2
    for number, ((_, colour), share) in enumerate(zip(series, bars.shares, strict=True)):
        top = height(min(share, HIGHEST))
        left = x + number * BAR
        parts.append(
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{BAR - 3}" '
            f'height="{BOTTOM - top:.1f}" fill="{colour}"/>'
        )
        middle = left + (BAR - 3) / 2
        parts.append(text(middle, top - 4, f"{share:.0%}", anchor="middle", size=9))
    for number, words in enumerate(bars.words):
        parts.append(text(centre, BOTTOM + 16 + 15 * number, words, anchor="middle", size=10))
    return parts


class Multiples(NamedTuple):
    """A row: what it is about, and a multiple for each series, if there is one."""

    words: str
    values: Sequence[float | None]


def multiples(
    title: str,
    series: Sequence[tuple[str, str]],
    groups: Sequence[tuple[str, Sequence[Multiples]]],
    *,
    note: str,
) -> str:
    """Return a chart: bars from 1 to the left or right, on a logarithmic axis, in groups."""
    found = [value for _, rows in groups for row in rows for value in row.values if value]
    low = max([tick for tick in TICKS if tick <= min(*found, 0.5)] or TICKS[:1])
    high = min([tick for tick in TICKS if tick >= max(*found, 2)] or TICKS[-1:])
    axis = _Axis(low, high)
    body: list[str] = []
    y = 74.0
    for name, rows in groups:
        body.append(text(12, y + 12, name, bold=True))
        y += 20
        for row in rows:
            body += _bars(row, series, axis, y)
            y += THIN * len(series) + BETWEEN
        y += 8
    width, bottom = WORDS + ALONG + 50, y
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {bottom + 34:.0f}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{bottom + 34:.0f}" fill="white"/>',
        text(12, 20, title, size=14),
    ]
    for number, (name, colour) in enumerate(series):
        x = 12.0 + number * 190
        parts.append(f'<rect x="{x}" y="32" width="11" height="11" fill="{colour}"/>')
        parts.append(text(x + 16, 42, name))
    for tick in (tick for tick in TICKS if low <= tick <= high):
        x = axis.place(tick)
        colour = "#2d3748" if tick == 1 else "#e2e8f0"
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="66" y2="{bottom:.1f}" stroke="{colour}"/>'
        )
        parts.append(text(x, 62, f"{tick:g}", anchor="middle", size=10))
    return "\n".join([*parts, *body, text(12, bottom + 20, note), "</svg>\n"])


class _Axis(NamedTuple):
    low: float
    high: float

    def place(self, value: float) -> float:
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return WORDS + ALONG * min(max(share, 0), 1)


def _bars(
    row: Multiples, series: Sequence[tuple[str, str]], axis: _Axis, top: float
) -> Iterator[str]:
    middle = top + THIN * len(series) / 2 + 4
    yield text(WORDS - 10, middle, row.words, anchor="end", size=11)
    one = axis.place(1)
    for number, ((_, colour), value) in enumerate(zip(series, row.values, strict=True)):
        if not value:
            continue
        y, end = top + number * THIN, axis.place(value)
        left, right = min(one, end), max(one, end)
        yield (
            f'<rect x="{left:.1f}" y="{y:.1f}" width="{max(right - left, 1):.1f}" '
            f'height="{THIN - 1}" fill="{colour}"/>'
        )
        said = f"{value:.0f}" if value >= 10 else f"{value:.2g}" if value < 1 else f"{value:.1f}"
        if value >= 1:
            yield text(right + 3, y + 8, said, size=9)
        else:
            yield text(left - 3, y + 8, said, anchor="end", size=9)


def growth(rows: list[Row]) -> str:
    """Return the chart of rates as shares of those of a small log, a cluster for each size."""
    bars = [
        Bars(
            (
                f"{row['topics']:,.0f} topic{'s' if row['topics'] > 1 else ''}",
                f"{row['gigabytes']:.0f} GB",
            ),
            [row[field] for field, _, _ in GROWTH],
        )
        for row in rows
    ]
    return clusters(
        "Rates as shares of those with 1 topic and an empty log",
        [(name, colour) for _, name, colour in GROWTH],
        bars,
        band=(0.8, 1.2),
        note="grey band: within 20 %",
    )


def height(share: float) -> float:
    return BOTTOM - (BOTTOM - TOP) * share / HIGHEST


def line(y: float, colour: str) -> str:
    return f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{y:.1f}" y2="{y:.1f}" stroke="{colour}"/>'


def text(
    x: float,
    y: float,
    words: str,
    *,
    anchor: str = "start",
    size: int = 12,
    bold: bool = False,
) -> str:
    weight = ' font-weight="bold"' * bold
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"{weight} '
        f'fill="#1a202c">{words}</text>'
    )


if __name__ == "__main__":
    kept = json.loads((DOCS / "growth.json").read_text())
    (DOCS / "growth.svg").write_text(growth(kept["figures"]))
