"""ApiVersions: computed from what is served, nothing more."""

from mainstem.heads.kafka.adapter.errors import Code
from mainstem.heads.kafka.adapter.service import Asked, Reply
from mainstem.heads.kafka.messages.connection import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ServedApi,
)

FIRST, LAST = 0, 4
KEY = 18


def answer(asked: Asked, request: ApiVersionsRequest, reply: Reply) -> None:
    """Tell which requests are served in which versions."""
    reply(ApiVersionsResponse(api_keys=served()))


def served() -> tuple[ServedApi, ...]:
    """Return every API that has an entry in the table, with its versions."""
    # The table imports this module.
    from mainstem.heads.kafka.adapter.table import SERVED  # noqa: PLC0415

    return tuple(ServedApi(key, each.first, each.last) for key, each in sorted(SERVED.items()))


def too_new() -> ApiVersionsResponse:
    """Answer a version that is not known: the peer reads this as version 0, and asks again."""
    return ApiVersionsResponse(Code.UNSUPPORTED_VERSION, served())
