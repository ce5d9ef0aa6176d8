"""Topic ids, which later versions of many requests use instead of names."""

from mainstem.broker.door import Topic
from mainstem.core.errors import MainstemError
from mainstem.heads.kafka.adapter.service import Service
from mainstem.kafka_protocol.fields import NO_ID


def name_of(service: Service, topic_id: bytes) -> str | None:
    """Return the name of the topic with this id, None if there is none.

    Whoever asks is told what it may not do by whatever is done with the topic then.
    """
    return service.topic_name(topic_id)


def id_of(topic: Topic) -> bytes:
    """Return the id of a topic as bytes; internal topics may have none."""
    return bytes.fromhex(topic.id) if topic.id else NO_ID


def id_or_none(service: Service, topic: str) -> bytes:
    """Return the id of a topic by its name, NO_ID if there is none."""
    try:
        return id_of(service.broker.topic(topic))
    except MainstemError:
        return NO_ID
