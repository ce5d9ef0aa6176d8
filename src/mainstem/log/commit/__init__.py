"""What makes an append durable: the write-ahead log, the group commit, checkpoints."""
