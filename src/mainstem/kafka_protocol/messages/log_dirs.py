"""Log directories and the sizes of partitions."""

from typing import Annotated

from mainstem.kafka_protocol.api import api
from mainstem.kafka_protocol.fields import IGNORABLE, Since, Wire
from mainstem.kafka_protocol.messages.partitions import ByName, ByTopic
from mainstem.kafka_protocol.messages.responses import Throttled
from mainstem.kafka_protocol.wire import Array, Bool, Int16, Int32, Int64, String

LogDirsTopic = ByTopic[Int32]


class DescribeLogDirsRequest(Wire, frozen=True):
    """Ask for the log directories of partitions; null means all."""

    topics: Array[LogDirsTopic] | None = ()


class LogDirPartition(Wire, frozen=True):
    """A partition and its size."""

    partition_index: Int32 = 0
    partition_size: Int64 = 0
    offset_lag: Int64 = 0
    is_future_key: Bool = False


LogDirTopic = ByName[LogDirPartition]


class LogDir(Wire, frozen=True):
    """A directory and the partitions in it."""

    error_code: Int16 = 0
    log_dir: String = ""
    topics: Array[LogDirTopic] = ()
    total_bytes: Annotated[Int64, Since(4), IGNORABLE] = -1
    usable_bytes: Annotated[Int64, Since(4), IGNORABLE] = -1
    is_cordoned: Annotated[Bool, Since(5), IGNORABLE] = False


class DescribeLogDirsResponse(Throttled, frozen=True):
    """The directories and their partitions."""

    error_code: Annotated[Int16, Since(3), IGNORABLE] = 0
    results: Array[LogDir] = ()


DESCRIBE_LOG_DIRS = api(35, DescribeLogDirsRequest, DescribeLogDirsResponse, "1-5", "2+")
