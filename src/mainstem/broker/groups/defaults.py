"""What groups of the newer protocols are set to unless something was set for the group itself."""

from typing import Annotated

import msgspec
from msgspec import Meta


class GroupDefaults(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The numbers that a group can be set to, by its setting's name with ``_`` for every dot."""

    consumer_session_timeout_ms: Annotated[
        int,
        Meta(
            ge=1_000,
            le=1_800_000,
            description="How long a member of a consumer group may be silent before it is taken "
            "out.",
        ),
    ] = 45_000
    consumer_heartbeat_interval_ms: Annotated[
        int,
        Meta(
            ge=100,
            le=600_000,
            description="How often members of a consumer group show themselves, and hear of what "
            "has changed.",
        ),
    ] = 1_000
    share_session_timeout_ms: Annotated[
        int,
        Meta(
            ge=1_000,
            le=1_800_000,
            description="How long a member of a share group may be silent before it is taken out.",
        ),
    ] = 45_000
    share_heartbeat_interval_ms: Annotated[
        int,
        Meta(
            ge=100,
            le=600_000,
            description="How often members of a share group show themselves, and hear of what has "
            "changed.",
        ),
    ] = 5_000
    share_record_lock_duration_ms: Annotated[
        int,
        Meta(
            ge=1_000,
            le=3_600_000,
            description="How long a member of a share group may hold an event before it goes to "
            "another.",
        ),
    ] = 30_000
    share_delivery_count_limit: Annotated[
        int,
        Meta(
            ge=2, le=1_000, description="After how many deliveries an event becomes a dead letter."
        ),
    ] = 5
    share_partition_max_record_locks: Annotated[
        int,
        Meta(
            ge=100,
            le=100_000,
            description="How many events of a partition may be unsettled before no more are handed "
            "out.",
        ),
    ] = 2_000
