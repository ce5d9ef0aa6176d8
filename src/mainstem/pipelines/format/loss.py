"""Where a query goes on, when what it has not read yet may be gone."""

import logging
from collections.abc import Mapping

from mainstem.core.errors import MainstemError
from mainstem.pipelines.format.offsets import Offsets
from mainstem.remote.admin import Bounds, Described, Place

ADVICE = (
    "if that is to be accepted, set failOnDataLoss to false and start the query again: it goes on "
    "with what there is; otherwise start it with a new checkpoint"
)
"""For queries of one's own; pipelines put their own in its place."""
_log = logging.getLogger("mainstem.spark")


class DataLoss(MainstemError):
    """Events that a query should have read are not there any more."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}; {ADVICE}")


class Losses:
    """Raises DataLoss for what is gone; if loss is accepted, warns, once for each."""

    def __init__(self, *, fail: bool) -> None:
        self._fail = fail
        self._told: set[str] = set()

    def tell(self, what: str) -> None:
        """Raise, or warn."""
        if self._fail:
            raise DataLoss(what)
        if what not in self._told:
            self._told.add(what)
            _log.warning("%s; the query goes on with what there is", what)

    def resumed(
        self, kept: Offsets, topics: Mapping[str, Described], bounds: Mapping[Place, Bounds]
    ) -> dict[Place, int]:
        """Return where to go on in every partition that there is now."""
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
                f"query goes on at offset {offset}, and the first one kept is {bounds.start}"
            )
            return bounds.start
        if offset > bounds.tail:
            self.tell(
                f"{where} ends at offset {bounds.tail}, before {offset}, up to which the query "
                "has read it: its end was lost"
            )
            return bounds.tail
        return offset
