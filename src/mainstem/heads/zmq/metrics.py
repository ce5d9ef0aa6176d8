"""The metrics of the ZeroMQ head."""

from mainstem.heads.metric import counter, gauge

PUBLISHED = counter("mainstem_zmq_published_total", "Messages sent by PUB, per topic.", "topic")
DROPPED = counter(
    "mainstem_zmq_dropped_total",
    "Messages that PUB dropped for a subscriber at its high-water mark. libzmq drops more for the "
    "same subscriber, uncounted, until it has read half of what waits.",
    "topic",
)
MISSED = counter(
    "mainstem_zmq_missed_offsets_total",
    "Offsets that retention deleted before their events could be published.",
    "topic",
)
SUBSCRIPTIONS = gauge("mainstem_zmq_subscriptions", "Subscriptions of all SUB peers.")
REFUSED = counter(
    "mainstem_zmq_refused_subscriptions_total",
    "Subscriptions that were refused: not permitted, malformed, or over the limit.",
)
REQUESTS = counter(
    "mainstem_zmq_requests_total",
    "Requests by outcome: answered, unsent (the peer reads no answers), or the failure.",
    "outcome",
)
REPLAYED = counter("mainstem_zmq_replayed_messages_total", "Messages sent upon requests.")
COLLECTED = counter(
    "mainstem_zmq_collected_total", "Messages appended from PULL and SUB sockets.", "topic"
)
LOST = counter(
    "mainstem_zmq_lost_total",
    "Messages from PULL and SUB sockets that their topic refused.",
    "topic",
)
PUSHED = counter("mainstem_zmq_pushed_total", "Events of a queue handed to PUSH.", "topic", "queue")
LOGINS = counter(
    "mainstem_zmq_logins_total",
    "Handshakes by outcome: accepted, refused, or limited (max_connections).",
    "outcome",
)

METRICS = (
    PUBLISHED,
    DROPPED,
    MISSED,
    SUBSCRIPTIONS,
    REFUSED,
    REQUESTS,
    REPLAYED,
    COLLECTED,
    LOST,
    PUSHED,
    LOGINS,
)
