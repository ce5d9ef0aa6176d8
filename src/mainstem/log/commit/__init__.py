"""Makes appends durable: the write-ahead log, the group commit, checkpoints."""
