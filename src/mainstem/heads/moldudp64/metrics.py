"""The metrics of the MoldUDP64 head."""

from mainstem.heads.metric import counter, gauge

MESSAGES = counter(
    "mainstem_moldudp64_messages_total", "Messages sent by multicast, once per session.", "session"
)
PACKETS = counter(
    "mainstem_moldudp64_packets_total",
    "Packets sent by multicast to each group, heartbeats included.",
    "session",
)
NEXT = gauge(
    "mainstem_moldudp64_next_sequence", "Sequence number of a session's next message.", "session"
)
FAILED = gauge(
    "mainstem_moldudp64_failed", "1 if a feed has stopped because of an error.", "session"
)
TOO_LARGE = counter(
    "mainstem_moldudp64_too_large_total",
    "Events left out of a feed, because they do not fit into a UDP packet.",
    "session",
)
MISSED = counter(
    "mainstem_moldudp64_missed_offsets_total",
    "Offsets that retention deleted before their events could be sent.",
    "session",
)
REQUESTS = counter(
    "mainstem_moldudp64_requests_total",
    "Requests by outcome: answered, not_yet (no such message so far), deleted (by retention), "
    "unknown_session, limited (too many), malformed, unsent, or the class of failure.",
    "outcome",
)
REPLAYED = counter("mainstem_moldudp64_replayed_messages_total", "Messages sent upon requests.")
KERNEL_DROPS = counter(
    "mainstem_moldudp64_kernel_drops_total",
    "Requests that the kernel dropped because the server was too slow.",
)

METRICS = (MESSAGES, PACKETS, NEXT, FAILED, TOO_LARGE, MISSED, REQUESTS, REPLAYED, KERNEL_DROPS)
