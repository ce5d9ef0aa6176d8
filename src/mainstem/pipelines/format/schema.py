"""The columns of a topic's rows as Spark DDL, the same as those of Spark's own Kafka source."""

COLUMNS = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int, headers array<struct<key: string, value: binary>>"
)
"""``timestampType``: 0 if the producer set the timestamp, 1 if the log did."""
