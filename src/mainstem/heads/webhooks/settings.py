"""Settings of the webhooks head: the section ``webhooks`` of a node's settings."""

from typing import Annotated

from msgspec import Meta

from mainstem.heads.head import HeadSettings, MaxConnections

NONE, AUTO = "none", "auto"


class WebhooksSettings(HeadSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the webhooks head."""

    allow: Annotated[
        str,
        Meta(
            description="Networks beside the public ones that endpoints may be in, separated by "
            "commas, such as 127.0.0.0/8,10.1.0.0/16; none: no others."
        ),
    ] = NONE
    secrets: Annotated[
        str,
        Meta(
            description="Directory of secrets: file:NAME refers to a file in it, and generated "
            "secrets are stored there; auto: webhook-secrets in the data directory."
        ),
    ] = AUTO
    max_requests: Annotated[
        int,
        Meta(
            ge=1,
            description="Maximum requests under way to all endpoints; beyond it, each endpoint "
            "still gets one at a time.",
        ),
    ] = 1_000
    max_endpoints: Annotated[int, Meta(ge=1, description="Maximum endpoints.")] = 10_000
    attempts_retention_ms: Annotated[
        int,
        Meta(ge=1000, description="Milliseconds that the attempt log keeps an attempt."),
    ] = 7 * 86_400_000
    attempts_retention_bytes: Annotated[
        int, Meta(ge=1024 * 1024, description="Bytes that the attempt log keeps.")
    ] = 256 * 1024 * 1024
    max_body_bytes: Annotated[
        int, Meta(ge=1024, description="Maximum bytes of a received webhook.")
    ] = 1024 * 1024
    max_ids: Annotated[
        int,
        Meta(
            ge=1,
            description="Maximum ids of received webhooks that are remembered to find duplicates.",
        ),
    ] = 1_000_000
    hosts: Annotated[
        str,
        Meta(
            description="Host names that received webhooks may be addressed to beside localhost, "
            "separated by commas; * allows all."
        ),
    ] = "localhost"
    max_connections: MaxConnections = 1_024
