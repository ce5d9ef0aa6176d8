"""The metrics that the heads of brokerless messaging have in common."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from mainstem.heads.metric import Metric, Sample, counter


class CommonMetrics(NamedTuple):
    """The metrics of one head that the other has, too."""

    published: Metric
    missed: Metric
    requests: Metric
    replayed: Metric
    collected: Metric
    lost: Metric
    pushed: Metric


class Counted(Protocol):
    """A part of a head that has some of its common metrics."""

    def samples(self, metrics: CommonMetrics) -> Iterator[tuple[Metric, Sample]]:
        """Yield the part's metrics with their values."""


def common_metrics(head: str, *, unsent: str) -> CommonMetrics:
    """Return the common metrics of a head; ``unsent``: why an answer cannot be sent."""

    def count(name: str, about: str, *labels: str) -> Metric:
        return counter(f"mainstem_{head}_{name}_total", about, *labels)

    return CommonMetrics(
        published=count("published", "Messages sent by PUB, per topic.", "topic"),
        missed=count(
            "missed_offsets",
            "Offsets that retention deleted before their events could be published.",
            "topic",
        ),
        requests=count(
            "requests",
            f"Requests by outcome: answered, unsent ({unsent}), or the class of failure.",
            "outcome",
        ),
        replayed=count("replayed_messages", "Messages sent upon requests."),
        collected=count("collected", "Messages appended from PULL and SUB sockets.", "topic"),
        lost=count("lost", "Messages from PULL and SUB sockets that their topic refused.", "topic"),
        pushed=count("pushed", "Events of a queue passed to PUSH.", "topic", "queue"),
    )
