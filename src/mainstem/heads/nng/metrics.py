"""The metrics of the nng head."""

from mainstem.heads.metric import counter

PUBLISHED = counter("mainstem_nng_published_total", "Messages sent by PUB, per topic.", "topic")
MISSED = counter(
    "mainstem_nng_missed_offsets_total",
    "Offsets that retention deleted before their events could be published.",
    "topic",
)
DROPPED = counter(
    "mainstem_nng_dropped_total",
    "Messages that PUB dropped for slow subscribers, each counted; a lower bound, as nng tells "
    "only what it has sent.",
)
REQUESTS = counter(
    "mainstem_nng_requests_total",
    "Requests by outcome: answered, unsent (the peer has gone), or the failure.",
    "outcome",
)
REPLAYED = counter("mainstem_nng_replayed_messages_total", "Messages sent upon requests.")
COLLECTED = counter(
    "mainstem_nng_collected_total", "Messages appended from PULL and SUB sockets.", "topic"
)
LOST = counter(
    "mainstem_nng_lost_total",
    "Messages from PULL and SUB sockets that their topic refused.",
    "topic",
)
PUSHED = counter("mainstem_nng_pushed_total", "Events of a queue handed to PUSH.", "topic", "queue")

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
    PUBLISHED,
    MISSED,
    DROPPED,
    REQUESTS,
    REPLAYED,
    COLLECTED,
    LOST,
    PUSHED,
    SUBSCRIBER_SENT,
    SUBSCRIBER_MISSED,
)
