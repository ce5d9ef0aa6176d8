"""The log: durable partitions of record batches; reading, recovery, retention, compaction."""
