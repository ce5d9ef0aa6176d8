"""DeleteGroups, versions 0 to 2: deletes groups without members, also share groups."""

from functools import partial

from mainstem.broker.door import Durable
from mainstem.core.errors import MainstemError, UnknownGroup
from mainstem.heads.kafka.adapter.durable_replies import Results
from mainstem.heads.kafka.adapter.errors import code_in
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.request_limits import limited
from mainstem.heads.kafka.adapter.service import Asked, Reply, Service
from mainstem.kafka_protocol.messages import groups as messages


@serves(messages.DELETE_GROUPS, 0, 2)
def answer(asked: Asked, request: messages.DeleteGroupsRequest, reply: Reply) -> None:
    """Delete groups without members; answered when the deletions are durable."""
    results = Results[messages.DeletedGroup](asked.service)
    for name in dict.fromkeys(limited(asked, request.groups_names)):
        delete_it = partial(_delete, asked.service, name)
        results.attempt(delete_it, messages.DeletedGroup(name), partial(_not_deleted, asked, name))
    results.then(lambda deleted: reply(messages.DeleteGroupsResponse(results=deleted)))


def _not_deleted(asked: Asked, name: str, error: MainstemError) -> messages.DeletedGroup:
    return messages.DeletedGroup(name, code_in(asked.header, error))


def _delete(service: Service, name: str) -> Durable:
    """Delete the consumer group and the share group of this name; return the ``Durable``.

    Kafka's tools show them as one group.
    """
    broker = service.broker
    try:
        durable = broker.classic.delete(name)
    except UnknownGroup:
        return broker.share.delete(name)
    try:
        # Both deletions share a commit, and this one is the later.
        return broker.share.delete(name)
    except UnknownGroup:
        return durable
