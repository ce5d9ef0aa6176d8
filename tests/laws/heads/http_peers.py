"""What peers of the heads that speak HTTP say and hear."""

import re
from collections.abc import Callable
from typing import TypedDict

from tests.laws.heads.examples import Outcomes

from mainstem.heads.head import RunningHead
from mainstem.heads.web.limits import WebLimits


def get(path: str, *headers: str) -> bytes:
    lines = [f"GET {path} HTTP/1.1", "Host: localhost", "Connection: close", *headers, "", ""]
    return "\r\n".join(lines).encode()


def http_status(heard: bytes, _: RunningHead) -> object:
    return int(heard.split(b" ", 2)[1]) if heard else None


def http_answers(heard: bytes) -> bytes:
    """Leave out when they were made."""
    return re.sub(rb"(?i)\r\ndate: [^\r]*", b"", heard)


def http_claims(size: int) -> bytes:
    start = b"GET / HTTP/1.1\r\nHost: localhost\r\nX: "
    return start + b"x" * (size - len(start))


def http_outcomes(done: int = 200, denied: int = 403) -> Outcomes:
    return Outcomes(done, denied, unauthenticated=401)


class _Http(TypedDict):
    told: Callable[[bytes, RunningHead], object]
    answers: Callable[[bytes], object]
    limit: int
    claims: Callable[[int], bytes]


HTTP: _Http = {
    "told": http_status,
    "answers": http_answers,
    "limit": WebLimits().max_head_bytes,
    "claims": http_claims,
}
"""What is the same for every head that speaks HTTP."""
