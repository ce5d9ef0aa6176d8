"""The partitions of a log, found by id."""

from mainstem.core.errors import Closed, UnknownPartition
from mainstem.log.disk_partition import DiskPartition
from mainstem.log.memory import MemoryPartition
from mainstem.log.port import PartitionId

Partition = DiskPartition | MemoryPartition


class PartitionMap(dict[PartitionId, Partition]):
    """The log's partitions by id; read and changed with the log's lock held."""

    is_closed = False

    def find(self, partition: PartitionId) -> Partition:
        """Return a partition; raises UnknownPartition."""
        found = self.get(partition)
        if found is None:
            self.check_open()
            raise UnknownPartition(partition.topic_id, partition.number)
        return found

    def check_open(self) -> None:
        """Raise Closed if the log was closed."""
        if self.is_closed:
            raise Closed("the log has been closed")
