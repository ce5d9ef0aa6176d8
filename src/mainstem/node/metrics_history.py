"""The last hour of the heads' metrics, in memory: one sample every ten seconds.

Only counts that exist anyway are sampled, as sums over labels. Values that must be computed (lag,
sizes) are not; for these, scrape ``/metrics``.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping

from mainstem.heads.head import RunningHead

EVERY_S = 10.0
SAMPLES = 360
_TRAFFIC = ("open", "accepted", "refused", "cut_off", "bytes_in", "bytes_out")


class MetricsHistory:
    """Samples the heads' metrics in the event loop; any thread may read them."""

    def __init__(self, heads: Mapping[str, RunningHead], now_ms: Callable[[], int]) -> None:
        self._heads, self._now_ms = heads, now_ms
        self._samples: deque[tuple[int, dict[str, float]]] = deque(maxlen=SAMPLES)
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Take a sample now, and one every ten seconds from then on."""
        self._samples.append((self._now_ms(), self._sample()))
        self._timer = self._loop.call_later(EVERY_S, self.start)

    def stop(self) -> None:
        """Stop taking samples."""
        if self._timer is not None:
            self._timer.cancel()

    def since(self, since_ms: int, metric: str) -> tuple[list[int], dict[str, list[float | None]]]:
        """Return the times of the samples after a time, and by metric the values at these times.

        ``metric`` is the name of the only one wanted, or "" for all.
        """
        kept = [each for each in self._samples.copy() if each[0] > since_ms]
        names = {name for _, values in kept for name in values}
        wanted = sorted(names & {metric} if metric else names)
        return [at for at, _ in kept], {
            name: [values.get(name) for _, values in kept] for name in wanted
        }

    def _sample(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for name, head in self._heads.items():
            for each in _TRAFFIC:
                found[f"{name}.{each}"] = getattr(head.traffic, each)
            for metric, (_, value) in head.samples():
                found[metric.name] = found.get(metric.name, 0) + value
        return found
