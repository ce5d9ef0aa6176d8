"""The offsets of a streaming query: one for every partition, and the id of every topic.

Spark writes them to the checkpoint as JSON. The topic ids show whether a topic was deleted and
recreated under the same name. With the option ``markEnd``, the offsets also say whether the end of
the input was read; if so, nothing more is read.
"""

from collections.abc import Iterable, Mapping

import msgspec

from mainstem.core.errors import InvalidSetting
from mainstem.remote.admin import Place

Json = dict[str, dict[str, object]]


class Offsets(msgspec.Struct, frozen=True):
    """The next offset to read in every partition, with the topic ids."""

    places: dict[Place, int]
    ids: dict[str, str]
    ended: bool = False
    """Whether the end of the input was read."""

    def json(self) -> Json:
        """Return the offsets as the JSON that Spark stores."""
        topics: dict[str, object] = {}
        for (topic, partition), offset in sorted(self.places.items()):
            offsets = topics.setdefault(topic, {})
            assert isinstance(offsets, dict)
            offsets[str(partition)] = offset
        found: Json = {"offsets": topics, "ids": dict(sorted(self.ids.items()))}
        if self.ended:
            found["ended"] = dict.fromkeys(topics, True)
        return found

    def of(self, topics: Iterable[str]) -> "Offsets":
        """Return only the offsets of the topics named."""
        wanted = set(topics)
        return Offsets(
            {place: offset for place, offset in self.places.items() if place[0] in wanted},
            {topic: each for topic, each in self.ids.items() if topic in wanted},
            self.ended,
        )


class _Kept(msgspec.Struct):
    offsets: dict[str, dict[int, int]]
    ids: dict[str, str]
    ended: dict[str, bool] = {}


def from_json(kept: Mapping[str, object]) -> Offsets:
    """Parse offsets that Spark stored; raises InvalidSetting if another source wrote them."""
    try:
        found = msgspec.convert(kept, _Kept, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidSetting(
            f"the checkpoint does not hold offsets of a mainstem source ({error}); "
            "start the query with a checkpoint of its own"
        ) from None
    places = {
        (topic, partition): offset
        for topic, offsets in found.offsets.items()
        for partition, offset in offsets.items()
    }
    return Offsets(places, found.ids, bool(found.ended))
