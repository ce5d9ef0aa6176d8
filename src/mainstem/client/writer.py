"""What embedded and connected writers share: the name that is fenced, and the one partition.

How this works: a writer is a transactional producer, so that Kafka's own mechanism fences it. Its
transactional id names topic, partition and writer; opening a writer bumps the epoch of that id, and
every append is a transaction, which is refused in an older epoch.
"""

from mainstem.core.errors import InvalidName, InvalidSetting, UnknownPartition
from mainstem.core.names import check_group

TRANSACTION_TIMEOUT_MS = 60_000
"""A writer that dies within an append holds readers back for so long at most."""


def transactional_id(topic: str, partition: int, name: str) -> str:
    """Return the transactional id of a writer; no topic's name holds a colon."""
    return f"mainstem-writer:{topic}:{partition}:{name}"


def check_writer(name: str) -> None:
    """Refuse what is no name of a writer."""
    if not isinstance(name, str):
        raise InvalidName("writer", name, "it is no text")
    check_group(name, "writer")


def only_partition(topic: str, count: int, partition: int | None) -> int:
    """Return the partition to write to; refuse to choose one of several."""
    if partition is None:
        if count > 1:
            raise InvalidSetting(
                f"a writer appends in one order, and topic {topic!r} has {count} partitions, which "
                "have none among them: give partition=, or create the topic with partitions=1"
            )
        return 0
    if not 0 <= partition < count:
        raise UnknownPartition(topic, partition, count)
    return partition
