"""Default settings of consumer groups and share groups."""

from typing import Annotated

import msgspec
from msgspec import Meta

SessionTimeoutMs = Annotated[int, Meta(ge=1_000, le=1_800_000)]
HeartbeatMs = Annotated[int, Meta(ge=100, le=600_000)]
LockMs = Annotated[int, Meta(ge=1_000, le=3_600_000)]
DeliveryLimit = Annotated[int, Meta(ge=2, le=1_000)]
LockLimit = Annotated[int, Meta(ge=100, le=100_000)]


class GroupDefaults(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Defaults of the numeric group settings; field names have ``_`` instead of dots."""

    consumer_session_timeout_ms: Annotated[
        SessionTimeoutMs,
        "Time without a heartbeat after which a member of a consumer group is removed.",
    ] = 45_000
    consumer_heartbeat_interval_ms: Annotated[
        HeartbeatMs, "Time between heartbeats of a member of a consumer group."
    ] = 1_000
    share_session_timeout_ms: Annotated[
        SessionTimeoutMs,
        "Time without a heartbeat after which a member of a share group is removed.",
    ] = 45_000
    share_heartbeat_interval_ms: Annotated[
        HeartbeatMs, "Time between heartbeats of a member of a share group."
    ] = 5_000
    share_record_lock_duration_ms: Annotated[
        LockMs,
        "Time for which an event is locked for a member of a share group before "
        "it is delivered again.",
    ] = 30_000
    share_delivery_count_limit: Annotated[
        DeliveryLimit, "Number of deliveries after which an event becomes a dead letter."
    ] = 5
    share_partition_max_record_locks: Annotated[
        LockLimit, "Number of unsettled events of a partition beyond which no more are delivered."
    ] = 2_000
