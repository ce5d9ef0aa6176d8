"""The metrics of the STOMP head."""

from collections import Counter
from collections.abc import Iterator

from mainstem.heads.metric import Metric, Sample, counter, gauge

FRAMES = counter("mainstem_stomp_frames_total", "Frames of STOMP clients.", "command")
MESSAGES = counter("mainstem_stomp_messages_total", "MESSAGE frames sent to clients.")
ERRORS = counter(
    "mainstem_stomp_errors_total",
    "ERROR frames sent to clients, each of which ends its connection.",
    "message",
)
MISSED = counter(
    "mainstem_stomp_missed_events_total",
    "Offsets that retention deleted before they were sent to subscriptions of /topic.",
)
SUBSCRIPTIONS = gauge("mainstem_stomp_subscriptions", "Subscriptions open now.")

METRICS = (FRAMES, MESSAGES, ERRORS, MISSED, SUBSCRIPTIONS)

_COMMANDS = (
    "CONNECT",
    "SEND",
    "SUBSCRIBE",
    "UNSUBSCRIBE",
    "ACK",
    "NACK",
    "BEGIN",
    "COMMIT",
    "ABORT",
    "DISCONNECT",
)


class Counts:
    """Counters since the head started."""

    def __init__(self) -> None:
        # All start at zero, so that Prometheus can compute rates from the first increment on.
        self.frames: Counter[str] = Counter(dict.fromkeys(_COMMANDS, 0))
        self.errors: Counter[str] = Counter({"Malformed frame": 0})
        self.messages = self.missed = self.subscriptions = 0

    def samples(self) -> Iterator[tuple[Metric, Sample]]:
        """Yield the metrics with their values; may be called from any thread."""
        for command, count in list(self.frames.items()):
            yield FRAMES, ((command,), count)
        for message, count in list(self.errors.items()):
            yield ERRORS, ((message,), count)
        yield MESSAGES, ((), self.messages)
        yield MISSED, ((), self.missed)
        yield SUBSCRIPTIONS, ((), self.subscriptions)
