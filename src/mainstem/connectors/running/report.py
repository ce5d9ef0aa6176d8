"""The status of a running connector, for operators."""

import logging

import msgspec

from mainstem.connectors.port import Watch
from mainstem.connectors.settings import ConnectorSettings

NOT_RUNNING = "not running"
"""What a connector does that only a process of its own may run, while there is none."""
_WATCH_S = 5.0
_HEARTBEATS = 10
_logger = logging.getLogger("mainstem.connectors")


class Report(msgspec.Struct):
    """The status of a connector: phase, error, counts and lag.

    The connector's thread writes it; any thread may read it.
    """

    phase: str = "starting"
    """What it does: snapshot, following, paused, retrying, failed and so on."""
    error: str = ""
    """The last error; see ``trouble``."""
    published: int = 0
    """Events published since the server started it."""
    lag_bytes: int = 0
    """How much log the database keeps for it."""
    committed_us: int = 0
    """When the last transaction was committed whose changes were published."""
    note: str = ""
    alarm: str = ""
    """That the database keeps more log for the connector than ``alarm_slot_bytes``."""

    @property
    def trouble(self) -> str:
        """The error that stops the connector, or because of which it retries; empty if none."""
        return self.error if self.phase in ("failed", "retrying") else ""

    def watched(self, watch: Watch, settings: ConnectorSettings) -> None:
        """Store how much log the database keeps; log a warning once when that is too much."""
        self.lag_bytes = watch.lag_bytes
        if not 0 < settings.alarm_slot_bytes < watch.lag_bytes:
            self.alarm = ""
            return
        text = (
            f"the database keeps {watch.lag_bytes} bytes of its log for the connector, more than "
            f"alarm_slot_bytes ({settings.alarm_slot_bytes}): see why the connector is slow or "
            "stopped, before the database's disk is full"
        )
        if not self.alarm:
            _logger.warning("connector %s: %s", settings.name, text)
        self.alarm = text


def watch_every_s(settings: ConnectorSettings) -> float:
    """Return after how many seconds to ask the database again how much log it keeps."""
    return min(_WATCH_S, _HEARTBEATS * settings.heartbeat_ms / 1000)
