"""Detects that events were deleted before a query read them; says at which offset to continue."""

import logging
from collections.abc import Mapping

from mainstem.core.errors import MainstemError
from mainstem.pipelines.format.offsets import Offsets
from mainstem.remote.admin import Bounds, Described, Place

ADVICE = (
    "if that is to be accepted, set failOnDataLoss to false and start the query again: it goes on "
    "with what there is; otherwise start it with a new checkpoint"
)
"""Advice in messages of plain Spark queries; pipelines replace it with their own."""
_log = logging.getLogger("mainstem.spark")


class DataLoss(MainstemError):
    """Raised when events were deleted before the query read them."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}; {ADVICE}")


class Losses:
    """Handles data loss: raises DataLoss, or with ``failOnDataLoss=false`` logs each loss once."""

    def __init__(self, *, fail: bool) -> None:
        self._fail = fail
        self._told: set[str] = set()

    def tell(self, what: str) -> None:
        """Raise DataLoss with the text ``what``, or log it as a warning."""
        if self._fail:
            raise DataLoss(what)
        if what not in self._told:
            self._told.add(what)
            _log.warning("%s; the query continues with the events that are left", what)

    def resumed(
        self, kept: Offsets, topics: Mapping[str, Described], bounds: Mapping[Place, Bounds]
    ) -> dict[Place, int]:
        """Return the offset at which to continue in every existing partition; reports data loss.

        ``kept`` has the offsets of the checkpoint.
        """
        for topic in kept.ids:
            if topic not in topics:
                self.tell(f"topic {topic!r} is gone, and may have held events not read yet")
        return {
            place: self._resumed(place, kept, topics, limits) for place, limits in bounds.items()
        }

    def _resumed(
        self, place: Place, kept: Offsets, topics: Mapping[str, Described], bounds: Bounds
    ) -> int:
        topic, partition = place
        if topic not in kept.ids:
            return bounds.start
        if topics[topic].id != kept.ids[topic]:
            self.tell(
                f"topic {topic!r} was deleted and made again: what the query had read is gone"
            )
            return bounds.start
        # A partition added since then is read from its first event.
        offset = kept.places.get(place, 0)
        where = f"partition {partition} of topic {topic!r}"
        if offset < bounds.start:
            self.tell(
                f"{bounds.start - offset} offsets of {where} are gone (retention passed): the "
                f"query continues at offset {offset}, and the first one kept is {bounds.start}"
            )
            return bounds.start
        if offset > bounds.tail:
            self.tell(
                f"{where} ends at offset {bounds.tail}, before {offset}, up to which the query "
                "has read it: its end was lost"
            )
            return bounds.tail
        return offset
