"""Detects that the disk is full, by failed appends, and later that it has space again."""

import logging

from mainstem.core.errors import StorageFailed, StorageFull
from mainstem.log.files.files import Files, refusal

_logger = logging.getLogger("mainstem.log")

_PROBE = "space.probe"
_PROBE_BYTES = 1024 * 1024


class DiskSpace:
    """Logs one message when the disk becomes full, and one when it has space again."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._refused = False
        """Whether an append was refused since the last check."""
        self.place = "the data directory"
        self.full: str | None = None
        """The message of the failed append while the disk is full; None while there is space."""

    def refusal(self, error: OSError, what: str) -> StorageFull | StorageFailed:
        """Return the error to raise for a failed append; notes if the disk is full."""
        found = refusal(error, what)
        if isinstance(found, StorageFull):
            self._refused = True
            if self.full is None:
                self.full = f"the disk of {self.place} has {found}"
                _logger.error("events are refused: %s", self.full)
        return found

    def look(self) -> None:
        """Check whether there is space again, unless an append was refused since the last check."""
        if self.full is None:
            return
        refused, self._refused = self._refused, False
        if refused:
            return
        try:
            # The file system's free space does not consider quotas, so allocate some.
            self._files.open(_PROBE, create=True).allocate(0, _PROBE_BYTES)
        except OSError:
            return
        finally:
            try:
                self._files.remove(_PROBE)
            except OSError as error:
                _logger.warning("cannot remove %s of %s: %s", _PROBE, self.place, error)
        self.full = None
        _logger.warning("events are accepted again: the disk of %s has space", self.place)
