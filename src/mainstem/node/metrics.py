"""Every metric there is, declared once: the reference page and ``/metrics`` follow this list.

Those that begin with ``kafka_`` have the names and labels of the exporter that most dashboards for
Kafka are made for; those that begin with ``process_`` have the usual ones.
"""

from mainstem.heads import HEADS
from mainstem.heads.metric import Metric, counter, gauge, histogram

BUILD = gauge("mainstem_build_info", "Always 1; the labels say what runs.", "version")
READY = gauge("mainstem_ready", "1 while the server can be used, as /readyz says.")
STOPPED = gauge(
    "mainstem_log_stopped", "1 once the disk has failed and nothing more is acknowledged."
)
FULL = gauge("mainstem_log_full", "1 while the disk has no space left and events are refused.")

CONNECTIONS = gauge("mainstem_connections", "Connections open now.", "head")
ACCEPTED = counter("mainstem_connections_accepted_total", "Connections begun.", "head")
REFUSED = counter(
    "mainstem_connections_refused_total", "Connections closed at once, over the limit.", "head"
)
CUT_OFF = counter(
    "mainstem_connections_cut_off_total",
    "Connections that we ended: the peer broke the protocol, or could not be served.",
    "head",
)
RECEIVED = counter("mainstem_received_bytes_total", "Bytes read from peers.", "head")
SENT = counter("mainstem_sent_bytes_total", "Bytes sent to peers.", "head")

SYNC_SECONDS = histogram(
    "mainstem_log_fsync_seconds",
    "How long the disk took for each group commit; the count is the number of commits.",
)
GROUP_SIZES = histogram("mainstem_log_commit_appends", "How many appends shared a group commit.")

TOPIC_BYTES = gauge("mainstem_topic_size_bytes", "Bytes that a topic holds.", "topic")
DROPPED = counter(
    "mainstem_topic_dropped_events_total",
    "Events that overload=drop-oldest deleted before a group had read them.",
    "topic",
)
TURNED_AWAY = counter(
    "mainstem_topic_refused_events_total", "Events refused because of max_backlog.", "topic"
)
HELD = counter(
    "mainstem_topic_held_requests_total",
    "Times that a producer was held because of max_backlog.",
    "topic",
)
HELD_SECONDS = counter(
    "mainstem_topic_held_seconds_total", "How long producers were held.", "topic"
)
PARTITIONS = gauge("kafka_topic_partitions", "Partitions of a topic.", "topic")
TAIL = gauge(
    "kafka_topic_partition_current_offset",
    "The offset that the next event readers see will have.",
    "topic",
    "partition",
)
START = gauge(
    "kafka_topic_partition_oldest_offset", "The first offset that is kept.", "topic", "partition"
)

MEMBERS = gauge("kafka_consumergroup_members", "Live members of a group.", "consumergroup")
CURSOR = gauge(
    "kafka_consumergroup_current_offset",
    "The next offset that a group will read.",
    "consumergroup",
    "topic",
    "partition",
)
LAG = gauge(
    "kafka_consumergroup_lag",
    "Events that a group has not read.",
    "consumergroup",
    "topic",
    "partition",
)
LAG_SECONDS = gauge(
    "mainstem_consumergroup_lag_seconds",
    "Time since the timestamp of the oldest event that a group has not read; 0 if there is none.",
    "consumergroup",
)
QUEUE_BACKLOG = gauge(
    "mainstem_queue_backlog",
    "Events of a topic that a queue or share group has not settled, those that are out included.",
    "topic",
    "queue",
)
QUEUE_OUT = gauge(
    "mainstem_queue_out",
    "Events that are out with consumers of a queue or share group.",
    "topic",
    "queue",
)
QUEUE_AGAIN = counter(
    "mainstem_queue_redelivered_total",
    "Deliveries of events that had been delivered before.",
    "topic",
    "queue",
)
QUEUE_DEAD = counter(
    "mainstem_queue_dead_total", "Events that became dead letters.", "topic", "queue"
)
LEFT_OUT = gauge(
    "mainstem_metrics_left_out",
    "Topics, groups and queues that are not in these metrics, because there are too many.",
    "kind",
)

CPU = counter("process_cpu_seconds_total", "Processor time used.")
RESIDENT = gauge("process_resident_memory_bytes", "Memory held.")
VIRTUAL = gauge("process_virtual_memory_bytes", "Address space taken.")
OPEN_FILES = gauge("process_open_fds", "File descriptors open.")
MAX_FILES = gauge("process_max_fds", "File descriptors that may be open.")
STARTED = gauge("process_start_time_seconds", "When the process started, since 1970.")

METRICS = tuple(each for each in list(globals().values()) if isinstance(each, Metric)) + tuple(
    each for head in HEADS for each in head.metrics
)
"""All of them: the node's in the order of this file, then those of each head."""
