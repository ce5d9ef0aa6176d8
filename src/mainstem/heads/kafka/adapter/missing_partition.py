"""Whether a partition exists, as an error code."""

from mainstem.core.errors import MainstemError
from mainstem.heads.kafka.adapter.errors import code_of
from mainstem.heads.kafka.adapter.service import Service


def missing_partition(service: Service, topic: str, number: int) -> int:
    """Return 0 for an existing partition, else the error code."""
    try:
        service.broker.bounds(topic, number)
    except MainstemError as error:
        return code_of(error)
    return 0
