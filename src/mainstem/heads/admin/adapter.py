"""The pages of the admin port: is the server alive, can it be used, and how it is doing."""

from collections.abc import Callable

from mainstem.heads.admin.session import HttpAnswer

JSON_TYPE = "application/json"
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_OVERVIEW = b"""\
/livez    200 while the server turns
/readyz   200 while it can be used, else 503 and why
/metrics  how it is doing, in the text format of Prometheus
/queues   how every queue and share group stands, as JSON
"""


class Pages:
    """Answers paths, from functions that the node gives."""

    def __init__(
        self,
        not_ready: Callable[[], str | None],
        metrics: Callable[[], str],
        queues: Callable[[], bytes] = lambda: b"[]",
    ) -> None:
        self._not_ready = not_ready
        self._metrics = metrics
        self._queues = queues

    def is_slow(self, path: str) -> bool:
        """Tell whether a page may take long, and must be made outside the event loop."""
        return path in ("/metrics", "/queues")

    def answer(self, path: str) -> HttpAnswer:
        """Return a page; from any thread."""
        match path:
            case "/livez":
                return HttpAnswer(200, b"ok\n")
            case "/readyz":
                why = self._not_ready()
                return HttpAnswer(200, b"ok\n") if why is None else _unavailable(why)
            case "/metrics":
                return HttpAnswer(200, self._metrics().encode(), METRICS_TYPE)
            case "/queues":
                return HttpAnswer(200, self._queues(), JSON_TYPE)
            case "/":
                return HttpAnswer(200, _OVERVIEW)
            case _:
                return HttpAnswer(404, b"there is no such page; there are\n" + _OVERVIEW)


def _unavailable(why: str) -> HttpAnswer:
    return HttpAnswer(503, f"{why}\n".encode())
