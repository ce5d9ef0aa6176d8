"""The sync and the async API, and every implementation of them, have the same members."""

import inspect
import types
import typing
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import get_args, get_origin

import pytest

from mainstem.client import stem as api
from mainstem.client.aio import stem as aio
from mainstem.client.aio.administration import ThreadedGroups, ThreadedQueues, ThreadedTopics
from mainstem.client.aio.connected_queue import AsyncConnectedDelivery, AsyncConnectedQueue
from mainstem.client.aio.connected_stem import AsyncConnectedStem
from mainstem.client.aio.connected_subscription import AsyncConnectedSubscription
from mainstem.client.aio.embedded_queue import AsyncEmbeddedDelivery, AsyncEmbeddedQueue
from mainstem.client.aio.embedded_stem import AsyncEmbeddedStem
from mainstem.client.aio.embedded_subscription import AsyncEmbeddedSubscription
from mainstem.client.aio.writer import ThreadedWriter
from mainstem.client.connected.delivery import ConnectedDelivery
from mainstem.client.connected.groups import ConnectedGroups
from mainstem.client.connected.queue import ConnectedQueue
from mainstem.client.connected.queues import ConnectedQueues
from mainstem.client.connected.stem import ConnectedStem
from mainstem.client.connected.subscription import ConnectedSubscription
from mainstem.client.connected.topics import ConnectedTopics
from mainstem.client.embedded.groups import EmbeddedGroups
from mainstem.client.embedded.queue import EmbeddedDelivery, EmbeddedQueue
from mainstem.client.embedded.queues import EmbeddedQueues
from mainstem.client.embedded.stem import EmbeddedStem
from mainstem.client.embedded.subscription import EmbeddedSubscription
from mainstem.client.embedded.topics import EmbeddedTopics
from mainstem.client.values import Value
from mainstem.client.writer import LogWriter
from mainstem.core.event import Event

TWINS: dict[type, type] = {
    api.Stem: aio.AsyncStem,
    api.Topics: aio.AsyncTopics,
    api.Groups: aio.AsyncGroups,
    api.Queues: aio.AsyncQueues,
    api.Subscription: aio.AsyncSubscription,
    api.Queue: aio.AsyncQueue,
    api.Delivery: aio.AsyncDelivery,
    api.Writer: aio.AsyncWriter,
}
IMPLEMENTATIONS: dict[type, tuple[type, ...]] = {
    api.Stem: (EmbeddedStem, ConnectedStem),
    api.Topics: (EmbeddedTopics, ConnectedTopics),
    api.Groups: (EmbeddedGroups, ConnectedGroups),
    api.Queues: (EmbeddedQueues, ConnectedQueues),
    api.Subscription: (EmbeddedSubscription, ConnectedSubscription),
    api.Queue: (EmbeddedQueue, ConnectedQueue),
    api.Delivery: (EmbeddedDelivery, ConnectedDelivery),
    api.Writer: (LogWriter,),
    aio.AsyncStem: (AsyncEmbeddedStem, AsyncConnectedStem),
    aio.AsyncTopics: (ThreadedTopics,),
    aio.AsyncGroups: (ThreadedGroups,),
    aio.AsyncQueues: (ThreadedQueues,),
    aio.AsyncSubscription: (AsyncEmbeddedSubscription, AsyncConnectedSubscription),
    aio.AsyncQueue: (AsyncEmbeddedQueue, AsyncConnectedQueue),
    aio.AsyncDelivery: (AsyncEmbeddedDelivery, AsyncConnectedDelivery),
    aio.AsyncWriter: (ThreadedWriter,),
}
PAIRS = [(protocol, each) for protocol, found in IMPLEMENTATIONS.items() for each in found]

SPECIAL = {
    "__iter__": "__aiter__",
    "__next__": "__anext__",
    "__enter__": "__aenter__",
    "__exit__": "__aexit__",
}
NOT_AWAITED = {"subscribe", "queue", "writer", "renew", "__aiter__"}
"""What the async API does without waiting."""
ONLY_ASYNC: dict[type, set[str]] = {aio.AsyncStem: {"blocking"}}
SET_BY_INIT = {"topics", "groups", "queues"}
"""Attributes of the async stems that their protocol declares as properties."""
OWN: dict[type, set[str]] = {
    EmbeddedStem: {"config", "path", "recovery", "delay", "publish_delayed"}
    # For the async stem, which drives the same parts.
    | {"bulk", "check_open", "create_unknown", "forget", "join_queue", "reaper", "register"}
    | {"close_now", "open_queue", "open_subscription", "try_publish", "with_settings"},
    ConnectedStem: {"address", "check_open", "delay", "send"}
    | {"close_now", "open_queue", "open_subscription"},
    EmbeddedQueues: {"open"},
    ConnectedQueues: {"close", "open"},
    EmbeddedSubscription: {"close_now", "stem_closes"},
    ConnectedSubscription: {"close_now", "stem_closes"},
    AsyncEmbeddedSubscription: {"stem_closes"},
    EmbeddedQueue: {"consumer"},
    AsyncEmbeddedQueue: {"consumer"},
    ConnectedQueue: {"begin", "close_for", "settle"},
    ConnectedDelivery: {"given", "is_of", "leave"},
    AsyncConnectedDelivery: {"blocking"},
    LogWriter: {"close_for", "forget"},
}
"""Public members that are not in the API: what only this place has, or its own package uses."""


def members(kind: type) -> dict[str, object]:
    """Return what users may call or read, by name."""
    special = {*SPECIAL, *SPECIAL.values()}
    return {
        name: inspect.getattr_static(kind, name)
        for name in dir(kind)
        if not name.startswith("_") or name in special
    }


def signature(member: object) -> inspect.Signature:
    return inspect.signature(typing.cast(types.FunctionType, member), eval_str=True)


def as_async(kind: object) -> object:
    """Return the annotation that the async twin has."""
    if isinstance(kind, type) and kind in TWINS:
        return TWINS[kind]
    if get_origin(kind) is Iterator:
        return AsyncIterator[tuple(map(as_async, get_args(kind)))]  # type: ignore[misc]
    if kind == Iterable[Value | Event]:
        return kind | AsyncIterable[Value | Event]
    if get_args(kind) and get_origin(kind) not in (typing.Literal, typing.Unpack, None):
        arguments = tuple(map(as_async, get_args(kind)))
        if isinstance(kind, types.UnionType) or get_origin(kind) is typing.Union:
            return typing.Union[arguments]  # noqa: UP007 - as many as there are
        return get_origin(kind)[arguments]  # type: ignore[index]
    return kind


def shapes(parameters: typing.Iterable[inspect.Parameter]) -> list[tuple[object, ...]]:
    return [(each.name, each.kind, each.default, each.annotation) for each in parameters]


@pytest.mark.parametrize(("blocking", "twin"), TWINS.items(), ids=lambda each: each.__name__)
def test_the_async_api_has_the_members_of_the_blocking_one(blocking: type, twin: type) -> None:
    ours, theirs = members(blocking), members(twin)

    assert {SPECIAL.get(name, name) for name in ours} == (
        theirs.keys() - ONLY_ASYNC.get(twin, set())
    )
    for name, member in ours.items():
        other = theirs[SPECIAL.get(name, name)]
        assert isinstance(member, property) == isinstance(other, property), name
        if isinstance(member, property):
            assert isinstance(other, property)
            assert as_async(signature(member.fget).return_annotation) == (
                signature(other.fget).return_annotation
            ), name
            continue
        one, two = signature(member), signature(other)
        expected = [
            each.replace(annotation=as_async(each.annotation)) for each in one.parameters.values()
        ]
        assert shapes(expected) == shapes(two.parameters.values()), name
        assert as_async(one.return_annotation) == two.return_annotation, name
        is_awaited = SPECIAL.get(name, name) not in NOT_AWAITED
        assert inspect.iscoroutinefunction(other) == is_awaited, name


@pytest.mark.parametrize(
    ("protocol", "implementation"), PAIRS, ids=[each.__name__ for _, each in PAIRS]
)
def test_implementations_have_the_members_of_their_protocol(
    protocol: type, implementation: type
) -> None:
    declared, found = members(protocol), members(implementation)

    missing = declared.keys() - found.keys()
    assert missing <= (SET_BY_INIT if protocol is aio.AsyncStem else set())
    assert found.keys() - declared.keys() == OWN.get(implementation, set())
    for name in declared.keys() - missing:
        member, other = declared[name], found[name]
        if isinstance(member, property):
            continue
        # What they return may be narrower, which is left to the type checker.
        one, two = signature(member).parameters, signature(other).parameters
        assert shapes(one.values()) == shapes(two.values()), name
        assert inspect.iscoroutinefunction(member) == inspect.iscoroutinefunction(other), name


def the_type_checker_compares_them(
    embedded: EmbeddedStem,
    connected: ConnectedStem,
    async_embedded: AsyncEmbeddedStem,
    async_connected: AsyncConnectedStem,
) -> tuple[tuple[api.Stem, ...], tuple[aio.AsyncStem, ...]]:
    """Say to mypy that these are the same."""
    return (embedded, connected), (async_embedded, async_connected)
