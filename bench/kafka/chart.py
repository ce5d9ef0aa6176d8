"""The chart: what Kafka clients get from mainstem, as shares of the raw limit."""

from bench.chart import Bars, clusters
from bench.kafka.measuring import Figures
from bench.kafka.plan import WAYS

SIZE = 1000
SERIES = (
    ("produce", "disk", "#2b6cb0"),
    ("produce", "fsync", "#2f855a"),
    ("consume", "disk", "#b7791f"),
)


def draw(figures: Figures) -> str:
    """Return an SVG: a cluster for each way to produce, events of 1 KB, one partition."""
    found = []
    for way in WAYS:
        shares = []
        for what, durability, _ in SERIES:
            rows = (
                row.ratio
                for row in figures.rows
                if row.what == what
                and row.system.endswith(durability)
                and row.cell.way.name == way.name
                and (row.cell.size, row.cell.partitions) == (SIZE, 1)
            )
            shares.append(next(rows, 0.0))
        first, _, second = way.name.partition(", ")
        found.append(Bars((first, second), shares))
    names = [(f"{what}, {durability}", colour) for what, durability, colour in SERIES]
    title = "Events of 1 KB, one partition: rates as shares of the raw limit"
    return clusters(
        title, names, found, band=(0.5, 1.0), note="grey band: half the raw limit or more"
    )
