"""The metrics of the nng head."""

from mainstem.heads.brokerless.metrics import common_metrics
from mainstem.heads.metric import counter

COMMON = common_metrics("nng", unsent="the peer has gone")
DROPPED = counter(
    "mainstem_nng_dropped_total",
    "Messages that PUB dropped for slow subscribers; a lower bound, as nng reports only the "
    "messages that it has sent.",
)

SUBSCRIBER_SENT = counter(
    "mainstem_nng_subscriber_sent_total",
    "Events sent to named subscribers, also those that were sent again.",
    "topic",
    "subscriber",
)
SUBSCRIBER_MISSED = counter(
    "mainstem_nng_subscriber_missed_offsets_total",
    "Offsets that retention deleted before their events could be sent to a named subscriber.",
    "topic",
    "subscriber",
)

METRICS = (
    *COMMON,
    DROPPED,
    SUBSCRIBER_SENT,
    SUBSCRIBER_MISSED,
)
