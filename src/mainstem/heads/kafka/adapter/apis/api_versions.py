"""ApiVersions, versions 0 to 4: the supported requests, from the table of APIs."""

from mainstem.heads.kafka.adapter.registry import SERVED, serves
from mainstem.heads.kafka.adapter.service import Asked, Reply
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import connection as messages

KEY = 18
_TRANSACTIONS = "transaction.version"
_NEWER_RULES = 2
"""Level of the feature ``transaction.version`` where every transaction end bumps the producer
epoch, and Produce adds partitions [KIP-890].
"""
_FROM_ZERO = 4
"""First version of ApiVersions whose clients can decode a feature range that begins at 0."""


@serves(messages.API_VERSIONS, 0, 4)
def answer(asked: Asked, request: messages.ApiVersionsRequest, reply: Reply) -> None:
    """Return the supported APIs with their versions, and the supported features."""
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
    """Return every registered API with its supported versions."""
    return tuple(
        messages.ServedApi(key, each.first, each.last) for key, each in sorted(SERVED.items())
    )


def too_new() -> messages.ApiVersionsResponse:
    """Return the response to an ApiVersions version that is too new: clients then use a lower."""
    return messages.ApiVersionsResponse(Code.UNSUPPORTED_VERSION, served())
