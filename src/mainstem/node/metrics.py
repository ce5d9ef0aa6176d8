"""Every metric there is, declared once: the reference page and ``/metrics`` follow this list.

Those that begin with ``kafka_`` have the names and labels of the exporter that most dashboards for
Kafka are made for; those that begin with ``process_`` have the usual ones.
"""

from mainstem.heads import HEADS
from mainstem.heads.metric import Metric

BUILD = Metric("mainstem_build_info", "gauge", "Always 1; the labels say what runs.", ("version",))
READY = Metric("mainstem_ready", "gauge", "1 while the server can be used, as /readyz says.")
STOPPED = Metric(
    "mainstem_log_stopped", "gauge", "1 once the disk has failed and nothing more is acknowledged."
)
FULL = Metric(
    "mainstem_log_full", "gauge", "1 while the disk has no space left and events are refused."
)

CONNECTIONS = Metric("mainstem_connections", "gauge", "Connections open now.", ("head",))
ACCEPTED = Metric("mainstem_connections_accepted_total", "counter", "Connections begun.", ("head",))
REFUSED = Metric(
    "mainstem_connections_refused_total",
    "counter",
    "Connections closed at once, over the limit.",
    ("head",),
)
CUT_OFF = Metric(
    "mainstem_connections_cut_off_total",
    "counter",
    "Connections that we ended: the peer broke the protocol, or could not be served.",
    ("head",),
)
RECEIVED = Metric("mainstem_received_bytes_total", "counter", "Bytes read from peers.", ("head",))
SENT = Metric("mainstem_sent_bytes_total", "counter", "Bytes sent to peers.", ("head",))

SYNC_SECONDS = Metric(
    "mainstem_log_fsync_seconds",
    "histogram",
    "How long the disk took for each group commit; the count is the number of commits.",
)
GROUP_SIZES = Metric(
    "mainstem_log_commit_appends", "histogram", "How many appends shared a group commit."
)

TOPIC_BYTES = Metric("mainstem_topic_size_bytes", "gauge", "Bytes that a topic holds.", ("topic",))
DROPPED = Metric(
    "mainstem_topic_dropped_events_total",
    "counter",
    "Events that overload=drop-oldest deleted before a group had read them.",
    ("topic",),
)
TURNED_AWAY = Metric(
    "mainstem_topic_refused_events_total",
    "counter",
    "Events refused because of max_backlog.",
    ("topic",),
)
HELD = Metric(
    "mainstem_topic_held_requests_total",
    "counter",
    "Times that a producer was held because of max_backlog.",
    ("topic",),
)
HELD_SECONDS = Metric(
    "mainstem_topic_held_seconds_total", "counter", "How long producers were held.", ("topic",)
)
PARTITIONS = Metric("kafka_topic_partitions", "gauge", "Partitions of a topic.", ("topic",))
TAIL = Metric(
    "kafka_topic_partition_current_offset",
    "gauge",
    "The offset that the next event readers see will have.",
    ("topic", "partition"),
)
START = Metric(
    "kafka_topic_partition_oldest_offset",
    "gauge",
    "The first offset that is kept.",
    ("topic", "partition"),
)

MEMBERS = Metric(
    "kafka_consumergroup_members", "gauge", "Live members of a group.", ("consumergroup",)
)
CURSOR = Metric(
    "kafka_consumergroup_current_offset",
    "gauge",
    "The next offset that a group will read.",
    ("consumergroup", "topic", "partition"),
)
LAG = Metric(
    "kafka_consumergroup_lag",
    "gauge",
    "Events that a group has not read.",
    ("consumergroup", "topic", "partition"),
)
LAG_SECONDS = Metric(
    "mainstem_consumergroup_lag_seconds",
    "gauge",
    "Time since the timestamp of the oldest event that a group has not read; 0 if there is none.",
    ("consumergroup",),
)
QUEUE_BACKLOG = Metric(
    "mainstem_queue_backlog",
    "gauge",
    "Events of a topic that a queue or share group has not settled, those that are out included.",
    ("topic", "queue"),
)
QUEUE_OUT = Metric(
    "mainstem_queue_out",
    "gauge",
    "Events that are out with consumers of a queue or share group.",
    ("topic", "queue"),
)
QUEUE_AGAIN = Metric(
    "mainstem_queue_redelivered_total",
    "counter",
    "Deliveries of events that had been delivered before.",
    ("topic", "queue"),
)
QUEUE_DEAD = Metric(
    "mainstem_queue_dead_total", "counter", "Events that became dead letters.", ("topic", "queue")
)
LEFT_OUT = Metric(
    "mainstem_metrics_left_out",
    "gauge",
    "Topics, groups and queues that are not in these metrics, because there are too many.",
    ("kind",),
)

CPU = Metric("process_cpu_seconds_total", "counter", "Processor time used.")
RESIDENT = Metric("process_resident_memory_bytes", "gauge", "Memory held.")
VIRTUAL = Metric("process_virtual_memory_bytes", "gauge", "Address space taken.")
OPEN_FILES = Metric("process_open_fds", "gauge", "File descriptors open.")
MAX_FILES = Metric("process_max_fds", "gauge", "File descriptors that may be open.")
STARTED = Metric("process_start_time_seconds", "gauge", "When the process started, since 1970.")

METRICS = tuple(each for each in list(globals().values()) if isinstance(each, Metric)) + tuple(
    each for head in HEADS for each in head.metrics
)
"""All of them: the node's in the order of this file, then those of each head."""
