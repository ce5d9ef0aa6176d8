"""The routes of the management API: methods and paths, and the functions that answer them."""

from collections.abc import Iterator

import msgspec

from mainstem.heads.admin_operations import arguments_in
from mainstem.heads.amqp_management.answers import (
    bindings,
    connections,
    definitions,
    exchanges,
    health,
    messages,
    overview,
    queues,
    users,
    vhosts,
)
from mainstem.heads.amqp_management.call import Answer
from mainstem.heads.web.problem import Refused


class Route(msgspec.Struct, frozen=True):
    """A method and a path; ``{vhost}`` stands for any one segment."""

    method: str
    path: tuple[str, ...]
    answer: Answer


_ANSWERS: dict[str, Answer] = (
    overview.ROUTES
    | health.ROUTES
    | vhosts.ROUTES
    | users.ROUTES
    | (queues.ROUTES | exchanges.ROUTES | bindings.ROUTES)
    | (messages.ROUTES | connections.ROUTES | definitions.ROUTES)
)


def _routes() -> Iterator[Route]:
    for said, answer in _ANSWERS.items():
        method, _, path = said.partition(" ")
        yield Route(method, ("api", *path.split("/")), answer)


ROUTES = tuple(_routes())


def find(method: str, path: tuple[str, ...]) -> tuple[Answer, dict[str, str]]:
    """Return the function that answers a request, and the path's arguments; raises Refused."""
    method = "GET" if method == "HEAD" else method
    there = [
        (each, found) for each in ROUTES if (found := arguments_in(each.path, path)) is not None
    ]
    for route, found in sorted(there, key=lambda it: len(it[1])):
        if route.method == method:
            return route.answer, found
    shown = "/".join(path)
    if there:
        allowed = ", ".join(sorted({route.method for route, _ in there}))
        raise Refused(
            405, f"/{shown:.200} answers {allowed}, not {method}", [(b"allow", allowed.encode())]
        )
    raise Refused(404, f"/{shown:.200} is no address of the management API, or not of this server")
