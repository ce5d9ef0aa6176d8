"""ApiVersions, versions 0 to 4: the supported requests, from the table of APIs."""

from mainstem.heads.kafka.adapter.registry import SERVED, serves
from mainstem.heads.kafka.adapter.service import Asked, Reply
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import connection as messages

KEY = 18
_TRANSACTIONS = "transaction.version"
_NEWER_RULES = 2
"""Transactions V2: every transaction end bumps the epoch; Produce adds partitions [KIP-890]."""
_FROM_ZERO = 4
"""The first version whose clients can decode a feature that begins at 0."""


@serves(messages.API_VERSIONS, 0, 4)
def answer(asked: Asked, request: messages.ApiVersionsRequest, reply: Reply) -> None:
    """Return the served APIs with their versions, and the supported features."""
    can = asked.header.api_version >= _FROM_ZERO
    reply(
        messages.ApiVersionsResponse(
            api_keys=served(),
            supported_features=(messages.SupportedFeature(_TRANSACTIONS, 0, _NEWER_RULES),)
            if can
            else (),
            finalized_features_epoch=1,
            finalized_features=(
                messages.FinalizedFeature(_TRANSACTIONS, _NEWER_RULES, _NEWER_RULES),
            ),
        )
    )


def served() -> tuple[messages.ServedApi, ...]:
    """Return every API that has an entry in the table, with its versions."""
    return tuple(
        messages.ServedApi(key, each.first, each.last) for key, each in sorted(SERVED.items())
    )


def too_new() -> messages.ApiVersionsResponse:
    """Return the response to an unknown version; clients then retry with a lower one."""
    return messages.ApiVersionsResponse(Code.UNSUPPORTED_VERSION, served())
