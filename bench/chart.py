"""Draws docs/benchmarks/growth.svg from growth.json: rates as shares of those of a small log."""

import json
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs" / "benchmarks"
SERIES = (
    ("publish_one_share", "publish, 1 event", "#2b6cb0"),
    ("publish_hundred_share", "publish_many, 100 events", "#2f855a"),
    ("read_share", "read", "#b7791f"),
)
WIDTH, HEIGHT = 760, 330
LEFT, TOP, BOTTOM = 60, 56, 262
HIGHEST = 1.4
BAR, GAP = 24, 34

Row = dict[str, float]


def draw(rows: list[Row]) -> str:
    """Return the chart: one cluster of bars for each size of log."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        text(LEFT, 20, "Rates as shares of those with 1 topic and an empty log", size=14),
        f'<rect x="{LEFT}" y="{height(1.2):.1f}" width="{WIDTH - LEFT - 20}" '
        f'height="{height(0.8) - height(1.2):.1f}" fill="#edf2f7"/>',
    ]
    for share in (0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2):
        y = height(share)
        parts.append(line(y, "#718096" if share in (0, 1) else "#cbd5e0"))
        parts.append(text(LEFT - 8, y + 4, f"{share:.0%}", anchor="end"))
    for number, row in enumerate(rows):
        parts += cluster(LEFT + 20 + number * (3 * BAR + GAP), row)
    for number, (_, name, colour) in enumerate(SERIES):
        x = LEFT + number * 190
        parts.append(f'<rect x="{x}" y="32" width="11" height="11" fill="{colour}"/>')
        parts.append(text(x + 16, 42, name))
    parts.append(text(LEFT, HEIGHT - 12, "grey band: within 20 %"))
    return "\n".join([*parts, "</svg>\n"])


def cluster(x: float, row: Row) -> list[str]:
    parts = []
    for number, (field, _, colour) in enumerate(SERIES):
        top = height(min(row[field], HIGHEST))
        left = x + number * BAR
        parts.append(
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{BAR - 3}" '
            f'height="{BOTTOM - top:.1f}" fill="{colour}"/>'
        )
        middle = left + (BAR - 3) / 2
        parts.append(text(middle, top - 4, f"{row[field]:.0%}", anchor="middle", size=9))
    topics = f"{row['topics']:,.0f} topic{'s' if row['topics'] > 1 else ''}"
    centre = x + 1.5 * BAR
    parts.append(text(centre, BOTTOM + 16, topics, anchor="middle"))
    parts.append(text(centre, BOTTOM + 31, f"{row['gigabytes']:.0f} GB", anchor="middle"))
    return parts


def height(share: float) -> float:
    return BOTTOM - (BOTTOM - TOP) * share / HIGHEST


def line(y: float, colour: str) -> str:
    return f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{y:.1f}" y2="{y:.1f}" stroke="{colour}"/>'


def text(x: float, y: float, words: str, *, anchor: str = "start", size: int = 12) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
        f'fill="#1a202c">{words}</text>'
    )


if __name__ == "__main__":
    kept = json.loads((DOCS / "growth.json").read_text())
    (DOCS / "growth.svg").write_text(draw(kept["figures"]))
