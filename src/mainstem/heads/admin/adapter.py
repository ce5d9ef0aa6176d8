"""The pages of the admin port: liveness, readiness, metrics, queues, connections."""

import re
from collections.abc import Iterator

from mainstem.auth import CLUSTER, Action, Auth, Peer, Resource, ResourceKind
from mainstem.core.errors import MainstemError
from mainstem.core.event import Position
from mainstem.heads.admin.answer import JSON_TYPE, HttpAnswer
from mainstem.heads.admin.query import check_run
from mainstem.heads.admin.settings import MAX_EVENTS
from mainstem.heads.context import Operations
from mainstem.heads.web.login import login
from mainstem.heads.web.problem import STATUSES, Refused

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_OVERVIEW = b"""\
/livez    200 while the server runs
/readyz   200 while it is usable, else 503 and why
/metrics  metrics, in the text format of Prometheus
/queues   the state of every queue and share group, as JSON
/queues/events?topic=orders&queue=emails&limit=10&after=0:17
          the first unsettled events of a queue (after that one), as JSON
/connections  the connected clients of every protocol, as JSON
/api/v1/  the JSON API; /api/v1/openapi.json describes it
"""
_AFTER = re.compile(r"(\d{1,10}):(\d{1,19})", re.ASCII)
_GUARDED = frozenset(("/metrics", "/queues", "/queues/events", "/connections"))
"""Pages that need a permission; all peers may read liveness and readiness."""
_PATHS = _GUARDED | {"/", "/livez", "/readyz"}


class Pages:
    """Makes the pages from what the node reports (``Operations``)."""

    def __init__(self, operations: Operations, run_id: str = "", auth: Auth | None = None) -> None:
        self._auth = auth or Auth()
        self._operations = operations
        self._run_id = run_id
        """Id of this run of the server; a request with another ``run`` is refused."""

    def has(self, path: str) -> bool:
        """Tell whether a page exists at this path."""
        return path in _PATHS

    def is_slow(self, path: str) -> bool:
        """Tell whether a page may take long to make, so that it must be made in a thread."""
        return path in _GUARDED

    def answer(self, path: str, fields: dict[str, str]) -> HttpAnswer:
        """Make a page and return it; may be called from any thread."""
        match path:
            case "/livez":
                return HttpAnswer(200, b"ok\n")
            case "/readyz":
                why = self._operations.not_ready()
                return HttpAnswer(200, b"ok\n") if why is None else said(503, why)
            case "/metrics":
                return HttpAnswer(200, self._operations.metrics().encode(), METRICS_TYPE)
            case "/queues" | "/queues/events":
                return self._of_queues(path, fields)
            case "/connections":
                return HttpAnswer(200, self._operations.connections(), JSON_TYPE)
            case _:
                return _overview(path)

    def refusal(
        self, path: str, fields: dict[str, str], peer: Peer, authorization: bytes
    ) -> HttpAnswer | None:
        """Return the error response if a peer may not see a page, None if it may."""
        if path not in _GUARDED or self._auth.allows_all:
            return None
        try:
            peer = login(self._auth, peer, authorization)
            for action, resource in _needs(path, fields):
                self._auth.authorize(peer.principal, action, resource)
        except Refused as error:
            return said(error.status, str(error))
        except MainstemError as error:
            return _refused(error)
        return None

    def _of_queues(self, path: str, fields: dict[str, str]) -> HttpAnswer:
        try:
            check_run(fields, self._run_id)
            if path == "/queues":
                return HttpAnswer(200, self._operations.queues(), JSON_TYPE)
            asked = _named(fields, "topic"), _named(fields, "queue"), _limit(fields), _after(fields)
            return HttpAnswer(200, self._operations.peek(*asked), JSON_TYPE)
        except Refused as error:
            return said(error.status, str(error))
        except MainstemError as error:
            return _refused(error)


def _needs(path: str, fields: dict[str, str]) -> Iterator[tuple[Action, Resource]]:
    """Yield the permissions that a page needs."""
    if path != "/queues/events":
        yield Action.DESCRIBE, CLUSTER
        return
    yield Action.READ, Resource(ResourceKind.TOPIC, _named(fields, "topic"))
    yield Action.READ, Resource(ResourceKind.GROUP, _named(fields, "queue"))


def said(status: int, why: str) -> HttpAnswer:
    """Return an error response in plain text."""
    return HttpAnswer(status, f"{why}\n".encode("utf-8", "replace"))


def _overview(path: str) -> HttpAnswer:
    if path == "/":
        return HttpAnswer(200, _OVERVIEW)
    return HttpAnswer(404, b"there is no such page; there are\n" + _OVERVIEW)


def _named(fields: dict[str, str], name: str) -> str:
    if not fields.get(name):
        raise Refused(
            400,
            f"say which {name}: /queues/events?topic=orders&queue=emails, with %XX for other "
            "characters than letters and digits",
        )
    return fields[name]


def _limit(fields: dict[str, str]) -> int:
    text = fields.get("limit", "10")
    if (
        not text.isascii()
        or not text.isdigit()
        or not 1 <= int(text[:10]) <= MAX_EVENTS
        or text[10:]
    ):
        raise Refused(400, f"limit must be a whole number, 1 to {MAX_EVENTS}, not {text!r:.100}")
    return int(text)


def _after(fields: dict[str, str]) -> Position | None:
    if "after" not in fields:
        return None
    found = _AFTER.fullmatch(fields["after"])
    if found is None:
        raise Refused(
            400, f"after must be a partition and an offset, as 0:17, not {fields['after']!r:.100}"
        )
    return Position(int(found[1]), int(found[2]))


def _refused(error: MainstemError) -> HttpAnswer:
    return said(STATUSES[error.failure], str(error))
