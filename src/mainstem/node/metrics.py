"""All metrics, declared once: the reference page and ``/metrics`` are generated from this list.

Names that begin with ``kafka_`` are those of kafka_exporter, which most dashboards use; those that
begin with ``process_`` are Prometheus' standard ones.
"""

from mainstem.heads import HEADS
from mainstem.heads.metric import Metric, counter, gauge, histogram

BUILD = gauge("mainstem_build_info", "Always 1; the label is the version.", "version")
READY = gauge("mainstem_ready", "1 while the server is usable, that is, while /readyz answers 200.")
STOPPED = gauge(
    "mainstem_log_stopped", "1 after a disk failure: the server acknowledges nothing more."
)
FULL = gauge("mainstem_log_full", "1 while the disk is full and events are refused.")

CONNECTIONS = gauge("mainstem_connections", "Open connections.", "head")
ACCEPTED = counter("mainstem_connections_accepted_total", "Accepted connections.", "head")
REFUSED = counter(
    "mainstem_connections_refused_total", "Connections closed at once, over the limit.", "head"
)
CUT_OFF = counter(
    "mainstem_connections_cut_off_total",
    "Connections that the server closed because of a protocol violation or an error.",
    "head",
)
RECEIVED = counter("mainstem_received_bytes_total", "Bytes read from peers.", "head")
SENT = counter("mainstem_sent_bytes_total", "Bytes sent to peers.", "head")

SYNC_SECONDS = histogram(
    "mainstem_log_fsync_seconds",
    "Duration of the sync of each group commit; the count is the number of commits.",
)
GROUP_SIZES = histogram("mainstem_log_commit_appends", "Number of appends in a group commit.")

TOPIC_BYTES = gauge("mainstem_topic_size_bytes", "Stored bytes of a topic.", "topic")
DROPPED = counter(
    "mainstem_topic_dropped_events_total",
    "Events that the overload policy drop=oldest deleted before a group read them.",
    "topic",
)
TURNED_AWAY = counter(
    "mainstem_topic_refused_events_total", "Events refused because of max_backlog.", "topic"
)
HELD = counter(
    "mainstem_topic_held_requests_total",
    "Times that a producer had to wait because of max_backlog.",
    "topic",
)
HELD_SECONDS = counter(
    "mainstem_topic_held_seconds_total", "Time that producers had to wait.", "topic"
)
PARTITIONS = gauge("kafka_topic_partitions", "Partitions of a topic.", "topic")
TAIL = gauge(
    "kafka_topic_partition_current_offset",
    "The high watermark: the next offset that becomes visible.",
    "topic",
    "partition",
)
START = gauge(
    "kafka_topic_partition_oldest_offset", "The first offset still stored.", "topic", "partition"
)

MEMBERS = gauge("kafka_consumergroup_members", "Members of a group.", "consumergroup")
CURSOR = gauge(
    "kafka_consumergroup_current_offset",
    "The committed offset of a group.",
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
    "Age of the oldest event that a group has not read, by its timestamp; 0 if all are read.",
    "consumergroup",
)
QUEUE_BACKLOG = gauge(
    "mainstem_queue_backlog",
    "Unsettled events of a queue or share group, including those that are delivered now.",
    "topic",
    "queue",
)
QUEUE_OUT = gauge(
    "mainstem_queue_out",
    "Events of a queue or share group that are delivered and not settled.",
    "topic",
    "queue",
)
QUEUE_AGAIN = counter(
    "mainstem_queue_redelivered_total",
    "Redeliveries: deliveries of events that were delivered before.",
    "topic",
    "queue",
)
QUEUE_DEAD = counter(
    "mainstem_queue_dead_total", "Events that became dead letters.", "topic", "queue"
)
TIMER_FAILURES = counter(
    "mainstem_timer_failures_total",
    "Errors in a timer of the broker: a bug, which the server's log describes. Other timers "
    "continue.",
    "timer",
)
DELAYED = gauge("mainstem_delayed_events", "Delayed events that are stored and not yet published.")
DELAYED_NEXT = gauge(
    "mainstem_delayed_next_due_timestamp_seconds",
    "When the next delayed event is due, in seconds since 1970; 0 if nothing is delayed.",
)
DELAYED_DROPPED = counter(
    "mainstem_delayed_dropped_events_total",
    "Delayed events that were dropped when due: their topic is deleted, or refuses them.",
)
DELAYED_FAILED = counter(
    "mainstem_delayed_failed_events_total",
    "Delayed events that could not be routed when due, because of a bug, which the log describes. "
    "They stay stored, and are tried again when the server starts.",
)
CONNECTOR_STATE = gauge(
    "mainstem_connector_state",
    "1 while a connector works, 0 if it is paused, -0.5 while its database cannot be reached or "
    "no process runs it, -1 if it has stopped with an error, which mainstem connector show "
    "explains.",
    "connector",
)
CONNECTOR_EVENTS = counter(
    "mainstem_connector_events_total", "Events that a connector has published.", "connector"
)
CONNECTOR_LAG_BYTES = gauge(
    "mainstem_connector_lag_bytes",
    "Bytes of its log that the database keeps for a connector; an alarm before its disk is full.",
    "connector",
)
CONNECTOR_ALARM = gauge(
    "mainstem_connector_lag_alarm",
    "1 while the database keeps more log for a connector than its alarm_slot_bytes.",
    "connector",
)
CONNECTOR_COMMIT_AGE = gauge(
    "mainstem_connector_last_commit_age_seconds",
    "Time since the commit of the last transaction that a connector has received.",
    "connector",
)
LEFT_OUT = gauge(
    "mainstem_metrics_left_out",
    "Topics, groups and queues that are left out of these metrics because there are too many.",
    "kind",
)

CPU = counter("process_cpu_seconds_total", "CPU time used.")
RESIDENT = gauge("process_resident_memory_bytes", "Resident memory.")
VIRTUAL = gauge("process_virtual_memory_bytes", "Virtual memory.")
OPEN_FILES = gauge("process_open_fds", "Open file descriptors.")
MAX_FILES = gauge("process_max_fds", "Limit of open file descriptors.")
STARTED = gauge("process_start_time_seconds", "Start time of the process, in seconds since 1970.")

METRICS = tuple(each for each in list(globals().values()) if isinstance(each, Metric)) + tuple(
    each for head in HEADS for each in head.metrics
)
"""All metrics: the node's in the order of this file, then those of each head."""
