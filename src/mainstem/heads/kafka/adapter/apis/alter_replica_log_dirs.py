"""AlterReplicaLogDirs, versions 1 to 2: all partitions stay in the only directory."""

from mainstem.heads.kafka.adapter.apis.describe_log_dirs import LOG_DIR
from mainstem.heads.kafka.adapter.partitions import missing_partition
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.service import Asked, Reply
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import replicas as messages


@serves(messages.ALTER_REPLICA_LOG_DIRS, 1, 2)
def answer(asked: Asked, request: messages.AlterReplicaLogDirsRequest, reply: Reply) -> None:
    """Accept moves to the only log directory, which change nothing; refuse all others."""
    service = asked.service
    results = []
    for directory in request.dirs:
        here = directory.path == LOG_DIR
        for topic in directory.topics:
            partitions = [
                messages.MovedPartition(
                    number,
                    missing_partition(service, topic.name, number)
                    if here
                    else Code.LOG_DIR_NOT_FOUND,
                )
                for number in topic.partitions
            ]
            results.append(messages.MovedTopic(topic.name, partitions))
    reply(messages.AlterReplicaLogDirsResponse(results=results))
