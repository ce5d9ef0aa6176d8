"""Creates topics that a client names, if the head is set to do so."""

from mainstem.broker.door import AT_ONCE, TopicDone
from mainstem.core.errors import TopicExists, UnknownTopic
from mainstem.core.names import is_internal
from mainstem.heads.kafka.adapter.service import Service


def find_or_create(service: Service, name: str, *, create: bool) -> TopicDone:
    """Return a topic; an unknown one is created if auto-creation is on."""
    try:
        return TopicDone(service.broker.topic(name), AT_ONCE)
    except UnknownTopic:
        if not (create and service.auto_create) or is_internal(name):
            raise
    settings = service.defaults.altered(partitions=service.settings.auto_create_partitions)
    try:
        return service.broker.create_topic(name, settings)
    except TopicExists:
        return TopicDone(service.broker.topic(name), AT_ONCE)
