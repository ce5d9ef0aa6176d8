"""DeleteTopics, versions 1 to 6: deletes topics by name or, since version 6, by id."""

from functools import partial

from mainstem.core.errors import MainstemError
from mainstem.heads.kafka.adapter.durable_replies import Results
from mainstem.heads.kafka.adapter.errors import code_of
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.service import Asked, Reply, Service
from mainstem.heads.kafka.adapter.topics import NAMED_TWICE, id_of, named_once
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.fields import NO_ID
from mainstem.kafka_protocol.messages import topics as messages


@serves(messages.DELETE_TOPICS, 1, 6)
def answer(asked: Asked, request: messages.DeleteTopicsRequest, reply: Reply) -> None:
    """Delete topics independently of each other; answered when each is durable or refused."""
    service = asked.service
    results = Results[messages.DeletedTopic](service)
    found: list[messages.DeletedTopic] = []
    for each in [*request.topics, *(messages.DeleteTopic(name) for name in request.topic_names)]:
        if (each.name is None) == (each.topic_id == NO_ID):
            message = "name a topic by its name or by its id"
            results.add(
                messages.DeletedTopic(each.name, each.topic_id, Code.INVALID_REQUEST, message)
            )
        else:
            found.append(_found(service, each))
    once, twice = named_once(found, lambda each: (each.name, each.topic_id))
    for name, topic_id in twice:
        results.add(messages.DeletedTopic(name, topic_id, Code.INVALID_REQUEST, NAMED_TWICE))
    for known in once:
        _delete(service, known, results)
    results.then(lambda deleted: reply(messages.DeleteTopicsResponse(responses=deleted)))


def _found(service: Service, asked: messages.DeleteTopic) -> messages.DeletedTopic:
    """Return the entry of a topic in the response, with its name and id, or an error code."""
    if asked.name is None:
        topic = service.broker.topic_by_id(asked.topic_id.hex())
        if topic is None:
            return messages.DeletedTopic(None, asked.topic_id, Code.UNKNOWN_TOPIC_ID)
        return messages.DeletedTopic(topic.name, asked.topic_id)
    try:
        return messages.DeletedTopic(asked.name, id_of(service.broker.topic(asked.name)))
    except MainstemError as error:
        return messages.DeletedTopic(asked.name, NO_ID, code_of(error), str(error))


def _delete(
    service: Service, known: messages.DeletedTopic, results: Results[messages.DeletedTopic]
) -> None:
    if known.name is None or known.error_code:
        results.add(known)
        return

    def refused(error: MainstemError) -> messages.DeletedTopic:
        return messages.DeletedTopic(known.name, known.topic_id, code_of(error), str(error))

    results.attempt(partial(service.broker.delete_topic, known.name), known, refused)
