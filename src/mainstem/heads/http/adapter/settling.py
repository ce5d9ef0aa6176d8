"""Settles deliveries of queues over HTTP: ack, nack, release, reject; extends their locks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta
from starlette.responses import Response

from mainstem.broker.door import MAX_LOCK_MS, Door, Outcome, QueueSettlements, Settlement
from mainstem.core.errors import InvalidSetting, MainstemError
from mainstem.heads.http.adapter.json_bodies import as_json, read_json
from mainstem.heads.http.adapter.queues import queue_of
from mainstem.heads.http.adapter.selection import number
from mainstem.heads.http.adapter.service import Service
from mainstem.heads.web.problem import Problem, problem_of
from mainstem.heads.web.waits import until_durable

if TYPE_CHECKING:
    from starlette.requests import Request

Action = Literal["ack", "nack", "release", "reject", "extend"]
_OUTCOMES: dict[Action, Outcome] = {
    "ack": Outcome.ACK,
    "nack": Outcome.NACK,
    "release": Outcome.RELEASE,
    "reject": Outcome.REJECT,
}


class Settling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How one delivery is to be settled."""

    delivery: str
    action: Action = "ack"
    delay_ms: Annotated[int, Meta(ge=0, le=MAX_LOCK_MS)] = 0
    """In how many ms a nacked event may be delivered again, at the earliest."""
    reason: Annotated[str, Meta(max_length=10_000)] = ""
    """Why the event failed; stored in the headers of its dead letter."""


class Settlings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How several deliveries are to be settled."""

    settlements: Annotated[list[Settling], Meta(min_length=1, max_length=10_000)]


class Leased(NamedTuple):
    """The fields of a delivery's id, which the lease has returned as text."""

    owner: str
    position: tuple[int, int]
    lease: int


async def settle_one(service: Service, request: "Request") -> Response:
    """Settle the delivery in a request's path."""
    queue = queue_of(request)
    said = Settling(
        request.path_params["delivery"],
        _action(request.path_params["action"]),
        number(request, "delay_ms", 0, MAX_LOCK_MS),
        request.query_params.get("reason", "")[:10_000],
    )
    refused = await _settle(service, service.door(request.scope), queue, [said])
    for error in refused.values():
        raise error
    return Response(status_code=204)


async def settle_many(service: Service, request: "Request") -> Response:
    """Settle several deliveries in one append; answer with the refused ones and the errors."""
    queue = queue_of(request)
    door = service.door(request.scope)
    said = (await read_json(request, Settlings)).settlements
    refused = await _settle(service, door, queue, said)
    shown = [
        {"delivery": said[at].delivery, "problem": _problem(error)}
        for at, error in sorted(refused.items())
    ]
    return as_json({"settled": len(said) - len(refused), "refused": shown})


def delivery_named(name: str) -> Leased:
    """Parse the id of a delivery; raises InvalidSetting."""
    parts = name.split(".", 3)
    digits = [each for each in parts[:3] if each.isascii() and each.isdigit() and len(each) < 20]
    if len(parts) != 4 or len(digits) != 3:
        raise InvalidSetting(f"{name!r:.200} is no delivery: send back what the lease named")
    partition, offset, number_ = map(int, digits)
    return Leased(parts[3], (partition, offset), number_)


async def _settle(
    service: Service, door: Door, queue: tuple[str, str], said: Sequence[Settling]
) -> dict[int, MainstemError]:
    """Settle deliveries; return the errors of those that were refused, by index in ``said``."""
    leased = [delivery_named(each.delivery) for each in said]
    refused = _extend(door, queue, said, leased)
    by_owner: dict[str, list[int]] = {}
    for at, each in enumerate(leased):
        if said[at].action != "extend":
            by_owner.setdefault(each.owner, []).append(at)
    if not by_owner:
        return refused
    told = [
        QueueSettlements(
            *queue,
            owner,
            [
                Settlement(
                    *leased[at].position,
                    _OUTCOMES[said[at].action],
                    leased[at].lease,
                    said[at].delay_ms,
                    said[at].reason,
                )
                for at in places
            ],
        )
        for owner, places in by_owner.items()
    ]
    settled = door.queues.settle_all(told)
    for done, places in zip(settled, by_owner.values(), strict=True):
        # The refusals are complete only when the settlements are durable.
        await until_durable(service.context, done.durable)
        refused |= {places[index]: error for index, error in done.refused.items()}
    return refused


def _extend(
    door: Door, queue: tuple[str, str], said: Sequence[Settling], leased: Sequence[Leased]
) -> dict[int, MainstemError]:
    refused: dict[int, MainstemError] = {}
    for at, each in enumerate(leased):
        if said[at].action == "extend":
            one = Settlement(*each.position, Outcome.RENEW, each.lease)
            for error in door.queues.renew(*queue, each.owner, [one]).values():
                refused[at] = error
    return refused


def _problem(error: MainstemError) -> Problem:
    _, body, _ = problem_of(error)
    return msgspec.json.decode(body, type=Problem)


def _action(said: str) -> Action:
    if said == "extend":
        return "extend"
    for each in _OUTCOMES:
        if each == said:
            return each
    raise InvalidSetting(f"{said!r:.50} is none of ack, nack, release, reject, extend")
