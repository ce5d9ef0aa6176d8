"""Operations on exchanges: permissions, and the thread that they run in."""

import asyncio
from collections.abc import Callable

import msgspec
import pytest
from tests.broker.brokers import Clock
from tests.heads.contexts import context_on

from mainstem.auth import Action, Auth, Peer, Principal, Resource, deny_all
from mainstem.auth import ResourceKind as Kind
from mainstem.broker.broker import Broker
from mainstem.core.errors import Denied
from mainstem.heads.admin_operations import Administration
from mainstem.heads.amqp091.adapter.exchange_operations import ExchangeOperations
from mainstem.heads.amqp091.adapter.service import Service
from mainstem.heads.amqp091.methods import ExchangeDeclare
from mainstem.heads.amqp091.settings import AmqpSettings
from mainstem.log.memory import MemoryLog

PEER = Peer("127.0.0.1:5", Principal("ops"))
BINDING: dict[str, object] = {"exchange": "prices", "destination": "spare", "kind": "exchange"}

Needs = list[tuple[Action, Resource]]
needed: dict[str, tuple[str, dict[str, object], Needs]] = {
    "show": (
        "exchanges/show",
        {"exchange": "prices"},
        [(Action.DESCRIBE, Resource(Kind.EXCHANGE, "prices"))],
    ),
    "bind": (
        "exchanges/bind",
        BINDING,
        [
            (Action.READ, Resource(Kind.EXCHANGE, "prices")),
            (Action.ALTER, Resource(Kind.EXCHANGE, "spare")),
        ],
    ),
    "unbind in a virtual host": (
        "exchanges/unbind",
        BINDING | {"vhost": "shop", "kind": "queue"},
        [
            (Action.READ, Resource(Kind.EXCHANGE, "shop._.prices")),
            (Action.ALTER, Resource(Kind.GROUP, "shop._.spare")),
        ],
    ),
}


def call(
    name: str, given: dict[str, object], authorize: Callable[[Principal, Action, Resource], None]
) -> object:
    """Call an operation of a head with two exchanges in each of two virtual hosts."""

    async def scenario() -> object:
        clock = Clock()
        context = context_on(Broker(MemoryLog(), clock), clock, auth=Auth(authorize=authorize))
        service = Service(context, AmqpSettings(), clock)
        for vhost in ("/", "shop"):
            for exchange in ("prices", "spare"):
                service.topology.declare_exchange(
                    vhost, ExchangeDeclare(exchange=exchange, type="fanout")
                )
        context.administration.offer_all(ExchangeOperations(service))
        return await asyncio.to_thread(answer, context.administration, name, given)

    return asyncio.run(scenario())


def answer(administration: Administration, name: str, given: dict[str, object]) -> object:
    operation = administration.find(name)
    assert operation is not None
    return msgspec.to_builtins(operation.run(PEER, given, text=False))


@pytest.mark.parametrize(("name", "given", "needs"), needed.values(), ids=needed.keys())
def test_an_operation_needs_its_permissions(
    name: str, given: dict[str, object], needs: Needs
) -> None:
    asked: Needs = []

    def authorize(principal: Principal, action: Action, resource: Resource) -> None:
        assert principal == PEER.principal
        asked.append((action, resource))
        if len(asked) == len(needs):
            deny_all(principal, action, resource)

    with pytest.raises(Denied):
        call(name, given, authorize)

    assert asked == needs


def test_exchanges_that_may_not_be_described_are_not_listed() -> None:
    def authorize(principal: Principal, action: Action, resource: Resource) -> None:
        if resource.name != "shop._.prices":
            deny_all(principal, action, resource)

    found = call("exchanges", {}, authorize)

    assert isinstance(found, list)
    assert [(each["vhost"], each["name"]) for each in found] == [("shop", "prices")]
