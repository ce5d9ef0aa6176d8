"""Settings of the webhooks head: the section ``webhooks`` of a node's settings."""

from typing import Annotated

from msgspec import Meta

from mainstem.core.setting_types import MIB, Bytes, PositiveInt
from mainstem.heads.addresses import AUTO, NONE
from mainstem.heads.head import HeadSettings, MaxConnections


class WebhooksSettings(HeadSettings, frozen=True):
    """Settings of the webhooks head."""

    allow: Annotated[
        str,
        "Networks beside the public ones that endpoints may be in, separated by "
        "commas, such as 127.0.0.0/8,10.1.0.0/16; none: no others.",
    ] = NONE
    secrets: Annotated[
        str,
        "Directory of secrets: file:NAME refers to a file in it, and generated "
        "secrets are stored there; auto: webhook-secrets in the data directory.",
    ] = AUTO
    max_requests: Annotated[
        PositiveInt,
        "Maximum requests under way to all endpoints; beyond it, each endpoint "
        "still gets one at a time.",
    ] = 1_000
    max_endpoints: Annotated[PositiveInt, "Maximum endpoints."] = 10_000
    attempts_retention_ms: Annotated[
        int, Meta(ge=1000), "Milliseconds that the attempt log keeps an attempt."
    ] = 7 * 86_400_000
    attempts_retention_bytes: Annotated[int, Meta(ge=MIB), "Bytes that the attempt log keeps."] = (
        256 * MIB
    )
    max_body_bytes: Annotated[Bytes, "Maximum bytes of a received webhook."] = MIB
    max_ids: Annotated[
        PositiveInt, "Maximum ids of received webhooks that are remembered to find duplicates."
    ] = 1_000_000
    hosts: Annotated[
        str,
        "Host names that received webhooks may be addressed to beside localhost, "
        "separated by commas; * allows all.",
    ] = "localhost"
    max_connections: MaxConnections = 1_024
