"""The metrics of the ZeroMQ head."""

from mainstem.heads.brokerless.metrics import common_metrics
from mainstem.heads.metric import counter, gauge

COMMON = common_metrics("zmq", unsent="the peer reads no answers")
DROPPED = counter(
    "mainstem_zmq_dropped_total",
    "Messages that PUB dropped for a subscriber at its high-water mark. libzmq drops more for the "
    "same subscriber, uncounted, until it has read half of what waits.",
    "topic",
)
SUBSCRIPTIONS = gauge("mainstem_zmq_subscriptions", "Subscriptions of all SUB peers.")
REFUSED = counter(
    "mainstem_zmq_refused_subscriptions_total",
    "Subscriptions that were refused: not permitted, malformed, or over the limit.",
)
LOGINS = counter(
    "mainstem_zmq_logins_total",
    "Handshakes by outcome: accepted, refused, or limited (max_connections).",
    "outcome",
)

METRICS = (
    *COMMON,
    DROPPED,
    SUBSCRIPTIONS,
    REFUSED,
    LOGINS,
)
